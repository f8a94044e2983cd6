/* Labels as text.  They are numbers or names, as determined by the first one, so an error can name
 * the line that does not fit, and nothing is guessed. */
#include "pack/labels.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/readers/ct_reader.h"

enum { LONGEST = 255 /* limit of a name, in bytes */ };

/* ---- one label ---- */

static char *trim(char *text)
{
  text += strspn(text, " \t\r\n\v\f");
  size_t n = strlen(text);
  while (n > 0 && isspace((unsigned char)text[n - 1]))
    n--;
  text[n] = '\0';
  return text;
}

static char *unwrap(char *text)
{
  if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3;
  text = trim(text);
  size_t n = strlen(text);
  if (n < 2 || (*text != '"' && *text != '\'') || text[n - 1] != *text) return text;
  text[n - 1] = '\0';
  return trim(text + 1);
}

/* Returns 1 for words that strtod() accepts as numbers: nan, inf, 0x10. */
static int looks_like_number(const char *text)
{
  char *end;
  strtod(text, &end);
  return end != text && !*end;
}

ct__label_kind_t ct__pack_label_kind(char **text, int64_t *number)
{
  double value;
  *number = 0;
  *text = unwrap(*text);
  if (!**text) return CT__LABEL_EMPTY;
  if (ct_text_double(*text, &value) != CT_OK)
    return looks_like_number(*text) ? CT__LABEL_OTHER_NUMBER : CT__LABEL_NAME;
  if (value != floor(value) || value >= CT_CLASSES_MAX || (value < 0 && value != CT__PACK_IGNORED))
    return CT__LABEL_OTHER_NUMBER;
  *number = (int64_t)value;
  return CT__LABEL_NUMBER;
}

/* ---- all of them ---- */

static int check_name(const char *name, const char *where)
{
  int rc = CT_OK;
  for (const char *p = name; *p; p++)
    if (iscntrl((unsigned char)*p))
      CT_FAIL(CT_ERR_FORMAT, "%s: the label has several lines, or control characters", where);
  if (strlen(name) > LONGEST)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%.40s…' is too long for a label", where, name);
out:
  return rc;
}

static int check_kind(const ct__pack_labels_t *l, ct__label_kind_t kind, const char *text,
                      const char *where)
{
  int rc = CT_OK;
  if (kind == CT__LABEL_EMPTY) CT_FAIL(CT_ERR_FORMAT, "%s: the label is missing", where);
  if (kind == CT__LABEL_OTHER_NUMBER)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the label %.40s is not a class number: expected integers from 0 to %d, or %d for "
            "a sample that loss.ignore_index leaves out, or names",
            where, text, CT_CLASSES_MAX - 1, CT__PACK_IGNORED);
  if (kind == CT__LABEL_NAME) CT_TRY(check_name(text, where));
  if (l->n > 0 && (l->name != NULL) != (kind == CT__LABEL_NAME))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the label '%.40s' is a %s, but %s is a %s: expected integers alone, or names "
            "alone",
            where, text, l->name ? "number" : "name", l->first, l->name ? "name" : "number");
out:
  return rc;
}

/* Lists are often sorted by class, so a name equal to the previous one is not stored again. */
static int labels_add_name(ct__pack_labels_t *l, const char *name)
{
  int rc = CT_OK;
  int64_t bytes = (int64_t)strlen(name) + 1;
  CT_TRY(ct_mem_grow((void **)&l->name, &l->name_cap, l->n + 1, sizeof *l->name));
  if (l->n > 0 && strcmp(l->text + l->name[l->n - 1], name) == 0) {
    l->name[l->n] = l->name[l->n - 1];
    return CT_OK;
  }
  CT_TRY(ct_mem_grow((void **)&l->text, &l->text_cap, l->text_bytes + bytes, 1));
  memcpy(l->text + l->text_bytes, name, (size_t)bytes);
  l->name[l->n] = l->text_bytes;
  l->text_bytes += bytes;
out:
  return rc;
}

int ct__pack_labels_add(ct__pack_labels_t *l, char *text, const char *where)
{
  int rc = CT_OK;
  int64_t number = 0;
  ct__label_kind_t kind = l->only_names ? CT__LABEL_NAME : ct__pack_label_kind(&text, &number);
  CT_TRY(check_kind(l, kind, text, where));
  if (l->n == 0) ct_text_fit(l->first, sizeof l->first, "'%.40s' (%s)", text, where);
  CT_TRY(ct_mem_grow((void **)&l->number, &l->cap, l->n + 1, sizeof *l->number));
  if (kind == CT__LABEL_NAME) CT_TRY(labels_add_name(l, text));
  l->number[l->n++] = (int32_t)number;
  if (kind == CT__LABEL_NUMBER && number >= l->classes) l->classes = number + 1;
out:
  return rc;
}

/* ---- names ---- */

int ct__pack_natural(const char *a, const char *b)
{
  const char *x = a, *y = b;
  while (*x && *y) {
    if (!isdigit((unsigned char)*x) || !isdigit((unsigned char)*y)) {
      if (*x != *y) return (unsigned char)*x - (unsigned char)*y;
      x++;
      y++;
      continue;
    }
    x += strspn(x, "0");
    y += strspn(y, "0");
    size_t nx = strspn(x, "0123456789"), ny = strspn(y, "0123456789");
    int order = nx != ny ? (nx < ny ? -1 : 1) : strncmp(x, y, nx);
    if (order) return order;
    x += nx;
    y += ny;
  }
  int order = (unsigned char)*x - (unsigned char)*y;
  return order ? order : strcmp(a, b); /* a01 and a1 */
}

static int labels_by_name(const void *a, const void *b)
{
  return ct__pack_natural(*(const char *const *)a, *(const char *const *)b);
}

static int number_names(ct__pack_labels_t *l)
{
  int rc = CT_OK;
  const char **name = ct_mem_array(l->n, sizeof *name, "names of classes");
  if (!name) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < l->n; i++)
    name[i] = l->text + l->name[i];
  qsort(name, (size_t)l->n, sizeof *name, labels_by_name);
  for (int64_t i = 0; i < l->n; i++)
    if (i == 0 || strcmp(name[i], name[l->classes - 1]) != 0) name[l->classes++] = name[i];
  for (int64_t i = 0; i < l->n; i++) {
    const char *own = l->text + l->name[i];
    const char **found = bsearch(&own, name, (size_t)l->classes, sizeof *name, labels_by_name);
    l->number[i] = (int32_t)(found - name);
  }
  l->class_name = ct_mem_array(l->classes, sizeof *l->class_name, "names of classes");
  if (!l->class_name) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < l->classes; i++)
    l->class_name[i] = name[i] - l->text;
  l->class_names = l->classes;
out:
  ct_mem_free(name);
  return rc;
}

int ct__pack_labels_finish(ct__pack_labels_t *l, const char *of)
{
  int rc = CT_OK;
  if (l->name) {
    CT_TRY(number_names(l));
    ct_log(CT_LOG_INFO,
           "%s: labels are names: %" PRId64 " class%s, numbered in natural order, '%.40s' 0 to "
           "'%.40s' %" PRId64,
           of, l->classes, l->classes == 1 ? "" : "es", l->text + l->class_name[0],
           l->text + l->class_name[l->classes - 1], l->classes - 1);
  } else if (l->classes == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: all labels are %d, none is the number of a class", of,
            CT__PACK_IGNORED);
out:
  return rc;
}

void ct__pack_labels_clear(ct__pack_labels_t *l)
{
  ct_mem_free(l->number);
  ct_mem_free(l->text);
  ct_mem_free(l->class_name);
  ct_mem_free(l->name);
  *l = (ct__pack_labels_t){0};
}
