/* csv files as a source of samples: numbers, one line a sample.  Everything is checked before the
 * first shard is written, since a row in the middle of a large file is where errors are. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/ct_pack_in.h"

typedef struct csv {
  const char *path;
  char *text;       /**< lines end in NUL */
  const char **row; /**< lines with numbers */
  int64_t rows, cap;
  int64_t columns;
  int64_t label;   /**< its column; -1: there are targets instead */
  int64_t targets; /**< so many last columns */
  int is_u8;       /**< every value of a sample is an integer in 0 … 255 */
  int64_t classes;
  const char *input[2];
} csv_t;

/* The number at *p and the separator behind it; 0 if there is none.  A line ends in NUL. */
static int take_number(const char **p, double *value)
{
  char *end;
  *value = strtod(*p, &end);
  if (end == *p || !strchr(" \t,;", *end)) return 0; /* "info" begins like a number, with inf */
  end += strspn(end, " \t");
  if (*end == ',' || *end == ';') end++;
  *p = end;
  return 1;
}

/* Numbers at the beginning of a line; *p is what follows them. */
static int64_t count_numbers(const char **p)
{
  int64_t n = 0;
  double value;
  while (take_number(p, &value))
    n++;
  return n;
}

static int is_header(const char *line)
{
  return count_numbers(&line) == 0;
}

/* ---- reading and checking ---- */

static int check_label(csv_t *c, int64_t line, double value)
{
  int rc = CT_OK;
  if (value != floor(value) || value < 0 || value >= INT32_MAX)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": column %" PRId64 ": the label %g is not a class number",
            c->path, line, c->label, value);
  if ((int64_t)value >= c->classes) c->classes = (int64_t)value + 1;
out:
  return rc;
}

/* Of a column: a number of the sample, neither label nor target. */
static int is_input(const csv_t *c, int64_t column)
{
  return column != c->label && column < c->columns - c->targets;
}

static int check_line(csv_t *c, int64_t line, const char *text)
{
  int rc = CT_OK;
  double value;
  int64_t column = 0;
  for (; take_number(&text, &value); column++) {
    if (!isfinite((float)value))
      CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": column %" PRId64 " is not finite", c->path, line,
              column);
    if (column == c->label)
      CT_TRY(check_label(c, line, value));
    else if (is_input(c, column) && (value != floor(value) || value < 0 || value > 255))
      c->is_u8 = 0;
  }
  if (*text)
    CT_FAIL(CT_ERR_FORMAT, "%s:%" PRId64 ": column %" PRId64 ": '%.20s' is not a number", c->path,
            line, column, text);
  if (column != c->columns)
    CT_FAIL(CT_ERR_FORMAT,
            "%s:%" PRId64 ": found %" PRId64 " numbers, expected %" PRId64
            " (those of a sample, and its %s)",
            c->path, line, column, c->columns, c->targets ? "targets" : "label");
out:
  return rc;
}

/* The first line with numbers says how many columns there are.  \a label: -1: the last. */
static int first_row(csv_t *c, const ct_shape_t *shape, int64_t label, const char *line)
{
  int rc = CT_OK;
  int64_t found = count_numbers(&line);
  if (*line) return CT_OK; /* no number: check_line() says which */
  c->columns = shape->ndim ? ct_shape_sample(shape) + (c->targets ? c->targets : 1) : found;
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

/* Ends the line in NUL and finds the next one.  *ends, the file's kind of line end, is that of its
 * first line: with two kinds in a file, or a carriage return inside of a line, nobody knows what a
 * row is. */
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

static int read_rows(csv_t *c, const ct_shape_t *shape, int64_t label)
{
  int rc = CT_OK;
  int64_t number = 0;
  const char *ends = NULL;
  char *next = c->text;
  if (strncmp(next, "\xEF\xBB\xBF", 3) == 0)
    next += 3; /* the mark that some programs put before UTF-8 */
  for (char *line; *next;) {
    line = next;
    CT_TRY(end_line(c, ++number, line, &ends, &next));
    if (!line[strspn(line, " \t")]) continue;
    if (number == 1 && is_header(line)) continue;
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
  const char *text = c->row[index];
  double value;
  for (int64_t column = 0; take_number(&text, &value); column++) {
    if (column == c->label) continue;
    if (!is_input(c, column))
      *target++ = (float)value;
    else if (c->is_u8)
      *u8++ = (uint8_t)value;
    else
      *f32++ = (float)value;
  }
  return CT_OK;
}

static int32_t label_of(void *state, int64_t index)
{
  const csv_t *c = state;
  const char *text = c->row[index];
  double value = 0;
  for (int64_t column = 0; column <= c->label; column++)
    take_number(&text, &value);
  return (int32_t)value;
}

static void place_of(void *state, int64_t index, char *buf, size_t cap)
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
  ct_mem_free(c);
}

static void fill_source(csv_t *c, const ct_shape_t *shape, ct_pack_source_t *out)
{
  *out = (ct_pack_source_t){.x = *shape,
                            .samples = c->rows,
                            .targets = c->targets,
                            .classes = c->classes,
                            .identity = ct_pack_identity(c->path, 0),
                            .inputs = c->input,
                            .state = c,
                            .label = c->targets ? NULL : label_of,
                            .read = read_row,
                            .place = place_of,
                            .close = close_csv};
  if (!shape->ndim) out->x = ct_shape(2, 1, c->columns - (c->targets ? c->targets : 1));
  out->x.dtype = c->is_u8 ? CT_U8 : CT_F32;
}

int ct_pack_open_csv(const char *path, const ct_shape_t *shape, int64_t label, int64_t targets,
                     ct_pack_source_t *out)
{
  int rc = CT_OK;
  size_t bytes;
  csv_t *c = ct_mem_alloc(sizeof *c, "csv file");
  *out = (ct_pack_source_t){0};
  if (!c) return CT_ERR_NOMEM;
  *c = (csv_t){.path = path, .targets = targets, .is_u8 = 1, .input = {path}};
  CT_TRY(ct_pack_read_file(path, &c->text, &bytes));
  if (strlen(c->text) != bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: contains zero bytes: is it a csv file?", path);
  CT_TRY(read_rows(c, shape, label));
  if (c->rows == 0) CT_FAIL(CT_ERR_FORMAT, "%s: there is no sample in it", path);
  fill_source(c, shape, out);
  c = NULL;
out:
  close_csv(c);
  return rc;
}
