/* A csv file of paths, and a label or targets for each. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"
#include "pack/list.h"

typedef struct reading {
  const char *path;
  int64_t line;
  ct__pack_list_t *l;
  int64_t *label; /**< words, as places in the texts */
  int64_t label_cap;
  int all_numbers; /**< all labels are class numbers */
} reading_t;

/* The field at *p, which is ended there and unquoted ("a ""b"""); *p is what follows, NULL at the
 * end of the line. */
static char *take_field(char **p)
{
  char *from = *p, *to = from, *field = from;
  int quoted = *from == '"';
  if (quoted) from++;
  for (; *from; from++) {
    if (quoted && *from == '"') {
      if (from[1] == '"')
        from++;
      else {
        quoted = 0;
        continue;
      }
    } else if (!quoted && (*from == ',' || *from == '\t'))
      break;
    *to++ = *from;
  }
  *p = *from ? from + 1 : NULL;
  *to = '\0';
  return field;
}

static int take_label(reading_t *r, char *field)
{
  int rc = CT_OK;
  int64_t number;
  field += strspn(field, " ");
  if (!*field)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": the label is missing: expected path,label", r->path,
            r->line);
  if (ct_text_int(field, &number) != CT_OK || number < 0 || number >= INT32_MAX) r->all_numbers = 0;
  CT_TRY(ct_mem_grow((void **)&r->label, &r->label_cap, r->l->n + 1, sizeof *r->label));
  CT_TRY(ct__pack_list_add_text(r->l, field, &r->label[r->l->n]));
out:
  return rc;
}

static int take_targets(reading_t *r, char **rest)
{
  int rc = CT_OK;
  int64_t first = r->l->n * r->l->targets;
  CT_TRY(ct_mem_grow((void **)&r->l->target, &r->l->target_cap, first + r->l->targets,
                     sizeof *r->l->target));
  for (int64_t i = 0; i < r->l->targets; i++) {
    const char *field = *rest ? take_field(rest) : "";
    double value;
    field += strspn(field, " ");
    if (ct_text_double(field, &value) != CT_OK || !isfinite((float)value))
      CT_FAIL(CT_ERR_FORMAT,
              "%s:%" PRId64 ": '%.40s' is no target: expected a path and %" PRId64 " numbers",
              r->path, r->line, field, r->l->targets);
    r->l->target[first + i] = (float)value;
  }
out:
  return rc;
}

static int is_header(const reading_t *r, const char *name)
{
  char path[CT_PATH_MAX];
  const char *root = ct__pack_list_text(r->l, r->l->root);
  return r->line == 1 && ct_path_join(path, sizeof path, root, name) == CT_OK &&
         !ct_file_exists(path);
}

static int take_line(reading_t *r, char *line)
{
  int rc = CT_OK;
  char *rest = line;
  const char *name = take_field(&rest);
  if (is_header(r, name)) return CT_OK;
  if (!rest)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": found one column, expected path,%s", r->path, r->line,
            r->l->targets ? "targets" : "label");
  if (r->l->targets)
    CT_TRY(take_targets(r, &rest));
  else
    CT_TRY(take_label(r, take_field(&rest)));
  if (rest)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": more columns than a path and its %s: '%.40s'", r->path,
            r->line, r->l->targets ? "targets" : "label", rest);
  CT_TRY(ct__pack_list_add_file(r->l, name, 0));
out:
  return rc;
}

static int give_labels(const reading_t *r)
{
  if (!r->all_numbers) return ct__pack_list_classify(r->l, r->label);
  for (int64_t i = 0; i < r->l->n; i++) {
    int64_t number = 0;
    ct_text_int(ct__pack_list_text(r->l, r->label[i]), &number);
    r->l->entry[i].label = (int32_t)number;
    if (number >= r->l->classes) r->l->classes = number + 1;
  }
  return CT_OK;
}

int ct__pack_list_csv(const char *path, const char *root, int64_t targets, ct__pack_list_t *l)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes;
  reading_t r = {.path = path, .l = l, .all_numbers = 1};
  l->targets = targets;
  CT_TRY(ct__pack_list_add_text(l, root, &l->root));
  CT_TRY(ct_pack_read_file(path, &text, &bytes));
  if (strlen(text) != bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains zero bytes: is it a csv file?", path);
  char *next = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
  for (char *line = next; *line; line = next) {
    size_t n = strcspn(line, "\r\n");
    next = line + n + (line[n] == '\r');
    next += *next == '\n'; /* LF, CR LF or CR */
    line[n] = '\0';
    r.line++;
    if (line[strspn(line, " \t")]) CT_TRY(take_line(&r, line));
  }
  if (l->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: there is no sample in it", path);
  if (!targets) CT_TRY(give_labels(&r));
out:
  ct_mem_free(text);
  ct_mem_free(r.label);
  return rc;
}
