/* csv files as a source of samples: numbers, one sample a line.  The whole file is checked before
 * the first shard is written, since errors may be anywhere in a large file. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/cells.h"
#include "pack/ct_pack_in.h"
#include "pack/labels.h"

typedef struct csv {
  const char *path;
  char *text;       /**< the text; lines end in NUL */
  const char **row; /**< the lines that are samples */
  int64_t rows, cap;
  int64_t columns;
  int64_t label;   /**< column of the label; -1: targets instead */
  int64_t targets; /**< number of last columns */
  int is_u8;       /**< every value of a sample is an integer in 0 … 255 */
  char separator;
  int64_t names; /**< columns that the header names; 0: no header, or a comment */
  ct__pack_labels_t labels;
  const char **class_name; /**< [labels.class_names] */
  const char *input[2];
} csv_t;

enum { CELL = 512 /* bytes of a number or label */ };

/* Reads a cell of a line, of the given column. */
static int take_cell(const csv_t *c, int64_t line, int64_t column, const char **p, char *buf,
                     size_t cap)
{
  const char *from = *p;
  if (ct__cells_take(p, c->separator, buf, cap)) return CT_OK;
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s:%" PRId64 ": column %" PRId64
                    ": '%.20s' has a quote that does not end in its line, or is too long",
                    c->path, line, column, from);
}

/* ---- reading and checking ---- */

/* Returns 1 if a column is part of the sample, neither label nor target. */
static int is_input(const csv_t *c, int64_t column)
{
  return column != c->label && column < c->columns - c->targets;
}

static int csv_check_label(csv_t *c, int64_t line, char *cell)
{
  char where[CT_PATH_MAX];
  ct_text_fit(where, sizeof where, "%s:%" PRId64 ": column %" PRId64, c->path, line, c->label);
  return ct__pack_labels_add(&c->labels, cell, where);
}

/* \a rest begins with the offending cell. */
static int check_number(csv_t *c, int64_t line, int64_t column, const char *cell, const char *rest)
{
  int rc = CT_OK;
  char *end;
  double value;
  if (!ct__cells_number(cell, &value)) {
    int is_huge = strtod(cell, &end) != 0 && end != cell && !*end && !strpbrk(cell, "xX");
    if (is_huge)
      CT_FAIL(CT_ERR_FORMAT,
              "%s:%" PRId64 ": column %" PRId64
              " is not finite: '%.20s', expected numbers that float32 can hold",
              c->path, line, column, cell);
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": column %" PRId64 ": '%.20s' is not a number%s", c->path,
            line, column, rest, ct__cells_hint(cell));
  }
  if (is_input(c, column) && (value != floor(value) || value < 0 || value > 255)) c->is_u8 = 0;
out:
  return rc;
}

static int check_line(csv_t *c, int64_t line, const char *text)
{
  int rc = CT_OK;
  char cell[CELL];
  int64_t column = 0;
  for (const char *p = text, *from; p; column++) {
    from = p;
    CT_TRY(take_cell(c, line, column, &p, cell, sizeof cell));
    if (column == c->label)
      CT_TRY(csv_check_label(c, line, cell));
    else
      CT_TRY(check_number(c, line, column, cell, from));
  }
  if (column != c->columns)
    CT_FAIL(CT_ERR_FORMAT,
            "%s:%" PRId64 ": found %" PRId64 " numbers, expected %" PRId64
            " (those of a sample, and its %s)",
            c->path, line, column, c->columns, c->targets ? "targets" : "label");
out:
  return rc;
}

/* Takes the separator and the number of columns from the first row.  \a label -1: the last
 * column.. */
static int first_row(csv_t *c, const ct_shape_t *shape, int64_t label, const char *line)
{
  int rc = CT_OK;
  c->separator = ct__cells_separator(line);
  int64_t found = ct__cells_count(line, c->separator);
  c->columns = shape->ndim ? ct_shape_sample(shape) + (c->targets ? c->targets : 1) : found;
  if (found < 0) return CT_OK; /* check_line() reports the error */
  if (c->names && c->names != found)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: its header names %" PRId64 " columns, but the first row has %" PRId64, c->path,
            c->names, found);
  if (c->targets) {
    c->label = -1;
    if (c->columns <= c->targets)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: has %" PRId64 " columns, and the last %" PRId64 " of them should be targets",
              c->path, c->columns, c->targets);
    return CT_OK;
  }
  c->label = label < 0 ? c->columns - 1 : label;
  if (c->columns < 2 || c->label >= c->columns)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: has %" PRId64 " columns, and the label should be number %" PRId64
            " (counted from 0)",
            c->path, c->columns, c->label);
out:
  return rc;
}

static const char *name_of_end(const char *end)
{
  return end[0] == '\n' ? "LF" : end[1] ? "CR LF" : "CR";
}

/* Terminates the line with NUL and finds the next one.  *ends is the line ending of the file, that
 * of its first line: with two kinds in a file, or a carriage return within a line, rows are
 * ambiguous. */
static int end_line(const csv_t *c, int64_t number, char *line, const char **ends, char **next)
{
  int rc = CT_OK;
  char *at = line + strcspn(line, "\r\n");
  const char *end = !*at ? "" : *at == '\n' ? "\n" : at[1] == '\n' ? "\r\n" : "\r";
  if (!*ends) *ends = end;
  if (*end && strcmp(end, *ends) != 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s:%" PRId64
            ": ends in %s, but the lines before it in %s: expected one kind of line end",
            c->path, number, name_of_end(end), name_of_end(*ends));
  *at = '\0';
  *next = at + strlen(end);
out:
  return rc;
}

/* Returns 1 if this line, the first that is not empty, is a header. */
static int take_header(csv_t *c, ct_pack_header_t header, const char *line)
{
  if (header == CT_PACK_HEADER_NO) return 0;
  if (header == CT_PACK_HEADER_AUTO && !ct__cells_is_header(line)) return 0;
  char separator = ct__cells_separator(line);
  if (*line != '#') c->names = ct__cells_count(line, separator); /* otherwise it may be any text */
  ct_log(CT_LOG_INFO, "%s: the first line is a header: %.60s", c->path, line);
  return 1;
}

static int csv_read_rows(csv_t *c, const ct_shape_t *shape, int64_t label, ct_pack_header_t header)
{
  int rc = CT_OK, lines = 0;
  int64_t number = 0;
  const char *ends = NULL;
  char *next = c->text;
  if (strncmp(next, "\xEF\xBB\xBF", 3) == 0)
    next += 3; /* the byte order mark that some programs write */
  for (char *line; *next;) {
    line = next;
    CT_TRY(end_line(c, ++number, line, &ends, &next));
    if (!line[strspn(line, " \t")]) continue;
    if (lines++ == 0 && take_header(c, header, line)) continue;
    if (c->rows == 0) CT_TRY(first_row(c, shape, label, line));
    CT_TRY(check_line(c, number, line));
    CT_TRY(ct_mem_grow((void **)&c->row, &c->cap, c->rows + 1, sizeof *c->row));
    c->row[c->rows++] = line;
  }
out:
  return rc;
}

/* ---- the source ---- */

static int read_row(void *state, int64_t index, ct_pack_sample_t *to)
{
  const csv_t *c = state;
  uint8_t *u8 = to->x;
  float *f32 = to->x, *target = to->targets;
  char cell[CELL];
  double value;
  int64_t column = 0;
  for (const char *p = c->row[index]; p && ct__cells_take(&p, c->separator, cell, sizeof cell);
       column++) {
    if (column == c->label || !ct__cells_number(cell, &value)) continue;
    if (!is_input(c, column))
      *target++ = (float)value;
    else if (c->is_u8)
      *u8++ = (uint8_t)value;
    else
      *f32++ = (float)value;
  }
  return CT_OK;
}

static int32_t csv_label_of(void *state, int64_t index)
{
  return ((const csv_t *)state)->labels.number[index];
}

static void csv_place_of(void *state, int64_t index, char *buf, size_t cap)
{
  const csv_t *c = state;
  ct_text_fit(buf, cap, "%s, row %" PRId64, c->path, index);
}

static void close_csv(void *state)
{
  csv_t *c = state;
  if (!c) return;
  ct_mem_free(c->row);
  ct_mem_free(c->text);
  ct_mem_free(c->class_name);
  ct__pack_labels_clear(&c->labels);
  ct_mem_free(c);
}

static void fill_source(csv_t *c, const ct_shape_t *shape, ct_pack_source_t *out)
{
  *out = (ct_pack_source_t){.x = *shape,
                            .samples = c->rows,
                            .targets = c->targets,
                            .classes = c->labels.classes,
                            .class_names = c->class_name,
                            .identity = ct_pack_identity(c->path, 0),
                            .inputs = c->input,
                            .state = c,
                            .label = c->targets ? NULL : csv_label_of,
                            .read = read_row,
                            .place = csv_place_of,
                            .close = close_csv};
  if (!shape->ndim) out->x = ct_shape(2, 1, c->columns - (c->targets ? c->targets : 1));
  out->x.dtype = c->is_u8 ? CT_U8 : CT_F32;
}

static int finish_labels(csv_t *c)
{
  int rc = CT_OK;
  ct__pack_labels_t *l = &c->labels;
  CT_TRY(ct__pack_labels_finish(l, c->path));
  if (!l->class_names) return CT_OK;
  c->class_name = ct_mem_array(l->class_names, sizeof *c->class_name, "names of classes");
  if (!c->class_name) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < l->class_names; i++)
    c->class_name[i] = l->text + l->class_name[i];
out:
  return rc;
}

int ct_pack_open_csv(const char *path, const ct_pack_csv_t *o, ct_pack_source_t *out)
{
  int rc = CT_OK;
  size_t bytes;
  csv_t *c = ct_mem_alloc(sizeof *c, "csv file");
  *out = (ct_pack_source_t){0};
  if (!c) return CT_ERR_NOMEM;
  *c = (csv_t){.path = path, .targets = o->targets, .is_u8 = 1, .input = {path}};
  CT_TRY(ct_pack_read_file(path, &c->text, &bytes));
  if (strlen(c->text) != bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains zero bytes: is it a csv file?", path);
  CT_TRY(csv_read_rows(c, &o->shape, o->label, o->header));
  if (c->rows == 0) CT_FAIL(CT_ERR_FORMAT, "%s: contains no samples", path);
  if (!c->targets) CT_TRY(finish_labels(c));
  fill_source(c, &o->shape, out);
  c = NULL;
out:
  close_csv(c);
  return rc;
}
