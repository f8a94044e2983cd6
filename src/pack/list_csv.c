/* Reads a csv file of paths with a label or targets for each. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "pack/cells.h"
#include "pack/ct_pack_in.h"
#include "pack/labels.h"
#include "pack/list.h"

typedef struct reading {
  const char *path;
  int64_t line;
  ct__pack_list_t *l;
  ct_pack_header_t header;
  char separator; /**< '\0': no row was read yet */
  ct__pack_labels_t labels;
} reading_t;

enum { CELL = CT_PATH_MAX /* limit of a path, number or label, in bytes */ };

static int bad_line(const reading_t *r, const char *why, const char *at)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s:%" PRId64 ": %s: '%.40s'", r->path,
                    r->line, why, at);
}

static int take_cell(const reading_t *r, const char **p, char *cell)
{
  const char *from = *p ? *p : "";
  if (*p && ct__cells_take(p, r->separator, cell, CELL)) return CT_OK;
  *cell = '\0';
  return *p ? bad_line(r, "has a quote that does not end in its line, or is too long", from)
            : CT_OK;
}

static int take_label(reading_t *r, const char **p)
{
  int rc = CT_OK;
  char cell[CELL], where[CT_PATH_MAX];
  CT_TRY(take_cell(r, p, cell));
  ct_text_fit(where, sizeof where, "%s:%" PRId64, r->path, r->line);
  CT_TRY(ct__pack_labels_add(&r->labels, cell, where));
out:
  return rc;
}

static int take_targets(reading_t *r, const char **p)
{
  int rc = CT_OK;
  char cell[CELL];
  double value;
  int64_t first = r->l->n * r->l->targets;
  CT_TRY(ct_mem_grow((void **)&r->l->target, &r->l->target_cap, first + r->l->targets,
                     sizeof *r->l->target));
  for (int64_t i = 0; i < r->l->targets; i++) {
    CT_TRY(take_cell(r, p, cell));
    if (!ct__cells_number(cell, &value))
      CT_FAIL(CT_ERR_FORMAT,
              "%s:%" PRId64 ": '%.40s' is not a target: expected a path and %" PRId64 " numbers%s",
              r->path, r->line, cell, r->l->targets, ct__cells_hint(cell));
    r->l->target[first + i] = (float)value;
  }
out:
  return rc;
}

/* Paths may contain blanks, so blanks are not separators here. */
static char separator_of(const char *line)
{
  char separator = ct__cells_separator(line);
  return separator == ' ' ? ',' : separator;
}

/* Returns 1 for column names: neither a number nor the name of an image, and no such file
 * exists. */
static int names_columns(const reading_t *r, const char *line)
{
  char name[CELL], path[CT_PATH_MAX];
  const char *root = ct__pack_list_text(r->l, r->l->root);
  if (!ct__cells_is_header(line) || !ct__cells_take(&line, separator_of(line), name, sizeof name) ||
      ct__pack_is_image(name))
    return 0;
  return ct_path_join(path, sizeof path, root, name) == CT_OK && !ct_file_exists(path);
}

static int take_header(reading_t *r, const char *line)
{
  if (r->header == CT_PACK_HEADER_NO) return 0;
  if (r->header == CT_PACK_HEADER_AUTO && !names_columns(r, line)) return 0;
  ct_log(CT_LOG_INFO, "%s: the first line is a header: %.60s", r->path, line);
  return 1;
}

static int take_line(reading_t *r, const char *line)
{
  int rc = CT_OK;
  char name[CELL];
  const char *p = line;
  if (!r->separator) r->separator = separator_of(line);
  CT_TRY(take_cell(r, &p, name));
  if (!p)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": found one column, expected path,%s", r->path, r->line,
            r->l->targets ? "targets" : "label");
  if (!*name) CT_TRY(bad_line(r, "the path is missing", line));
  CT_TRY(r->l->targets ? take_targets(r, &p) : take_label(r, &p));
  if (p)
    CT_TRY(bad_line(r,
                    r->l->targets ? "more columns than a path and its targets"
                                  : "more columns than a path and its label",
                    p));
  CT_TRY(ct__pack_list_add_file(r->l, name, 0));
out:
  return rc;
}

static int read_lines(reading_t *r, char *next)
{
  int rc = CT_OK, lines = 0;
  if (strncmp(next, "\xEF\xBB\xBF", 3) == 0) next += 3;
  for (char *line = next; *line; line = next) {
    size_t n = strcspn(line, "\r\n");
    next = line + n + (line[n] == '\r');
    next += *next == '\n'; /* LF, CR LF or CR */
    line[n] = '\0';
    r->line++;
    if (!line[strspn(line, " \t")]) continue;
    if (lines++ == 0 && take_header(r, line)) continue;
    CT_TRY(take_line(r, line));
  }
  if (r->l->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: contains no samples", r->path);
out:
  return rc;
}

int ct__pack_list_csv(const ct_pack_images_t *o, ct__pack_list_t *l)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes;
  reading_t r = {.path = o->list, .l = l, .header = o->header};
  l->targets = o->targets;
  CT_TRY(ct__pack_list_add_text(l, o->root, &l->root));
  CT_TRY(ct_pack_read_file(o->list, &text, &bytes));
  if (strlen(text) != bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains zero bytes: is it a csv file?", o->list);
  CT_TRY(read_lines(&r, text));
  if (!l->targets) CT_TRY(ct__pack_labels_finish(&r.labels, o->list));
  if (!l->targets) CT_TRY(ct__pack_list_label(l, &r.labels));
out:
  ct_mem_free(text);
  ct__pack_labels_clear(&r.labels);
  return rc;
}
