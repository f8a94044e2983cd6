/* Option tables: a row says key, type, default, range and help of a member of a struct; reading,
 * checking, help and dump of a whole section follow from its rows. */
#include "base/ct_opt.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Where a value stands, for the beginning of a message, and the row that it is for. */
typedef struct place {
  const char *where;
  const char *section;
  const char *key;
  const ct_opt_t *row;
} place_t;

static void *slot(const ct_opt_t *row, const void *values)
{
  return (char *)(uintptr_t)values + row->offset;
}

static const ct_opt_t *find_row(const ct_opt_t *rows, const char *key)
{
  for (; rows->type != CT_OPT_T_END; rows++)
    if (strcmp(rows->key, key) == 0) return rows;
  return NULL;
}

/* ---- words ---- */

static int is_null_word(const char *text)
{
  return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

/* 1, 0, or -1 for a word that is no bool. */
static int bool_word(const char *text)
{
  static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
  for (int i = 0; i < 6; i++)
    if (strcasecmp(text, words[i]) == 0) return i % 2;
  return -1;
}

/* Start of the i-th word of "auto|cpu|ref" and its length, or NULL. */
static const char *choice_word(const char *choices, int i, int *len)
{
  for (const char *p = choices; i >= 0; i--) {
    *len = (int)strcspn(p, "|");
    if (i == 0) return p;
    if (!p[*len]) break;
    p += *len + 1;
  }
  return NULL;
}

const char *ct_opt_word(const ct_opt_t *rows, const char *key, int value)
{
  static _Thread_local char word[64];
  int len = 0;
  const ct_opt_t *row = find_row(rows, key);
  const char *p = row && row->choices ? choice_word(row->choices, value, &len) : NULL;
  snprintf(word, sizeof word, "%.*s", p ? len : 1, p ? p : "?");
  return word;
}

static int has_range(const ct_opt_t *row)
{
  return row->min != 0 || row->max != 0;
}

/* A bound of 1e18 or more is none. */
static int in_range(const ct_opt_t *row, double v)
{
  return !has_range(row) ||
         ((v >= row->min || row->min <= -1e18) && (v <= row->max || row->max >= 1e18));
}

/* "between 0 and 1", "at least 1" */
static const char *range_text(const ct_opt_t *row, char *buf, size_t cap)
{
  if (row->max >= 1e18)
    snprintf(buf, cap, "at least %.12g", row->min);
  else if (row->min <= -1e18)
    snprintf(buf, cap, "at most %.12g", row->max);
  else
    snprintf(buf, cap, "between %.12g and %.12g", row->min, row->max);
  return buf;
}

/* ---- messages ---- */

static int complain(const place_t *at, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "file:line: section.key: text". */
static int complain(const place_t *at, int line, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int rc = ct_err_vset(CT_ERR_USAGE, __FILE__, __LINE__, fmt, args);
  va_end(args);
  int has_section = at->section && at->section[0];
  ct_err_prefix(rc, "%s%s%s%s", has_section ? at->section : "", has_section && at->key ? "." : "",
                at->key ? at->key : "", has_section || at->key ? ": " : "");
  return ct_err_place(rc, at->where, line);
}

static int wrong_type(const place_t *at, const ct_yaml_t *n, const char *expected)
{
  if (n->kind == CT_YAML_LIST) return complain(at, n->line, "expected %s, found a list", expected);
  if (n->kind == CT_YAML_MAP) return complain(at, n->line, "expected %s, found a map", expected);
  if (n->quoted)
    return complain(at, n->line, "expected %s, found the text \"%.100s\"", expected, n->text);
  if (!n->text[0]) return complain(at, n->line, "expected %s, found nothing", expected);
  return complain(at, n->line, "expected %s, found '%.100s'", expected, n->text);
}

static int out_of_range(const place_t *at, const ct_yaml_t *n)
{
  char range[80];
  return complain(at, n->line, "must be %s, not %.40s", range_text(at->row, range, sizeof range),
                  n->text);
}

static int add_names(const ct_opt_t *rows, const char *const *also, const char **names, int max)
{
  int n = 0;
  for (; rows->type != CT_OPT_T_END && n < max; rows++)
    names[n++] = rows->key;
  for (; also && *also && n < max; also++)
    names[n++] = *also;
  return n;
}

static int unknown_key(const place_t *at, const ct_yaml_t *n, const ct_opt_t *rows,
                       const char *const *also)
{
  enum { MAX_NAMES = 64 };
  const char *names[MAX_NAMES];
  int count = add_names(rows, also, names, MAX_NAMES);
  const char *nearest = ct_opt_nearest(n->key, names, count);
  if (nearest) return complain(at, n->line, "unknown key; did you mean '%s'?", nearest);
  char list[400] = "";
  size_t len = 0;
  for (int i = 0; i < count && len < sizeof list; i++)
    len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", names[i]);
  return complain(at, n->line, "unknown key; the keys here are: %s", list);
}

/* ---- one value ---- */

static int is_plain(const ct_yaml_t *n)
{
  return n->kind == CT_YAML_SCALAR && !n->quoted;
}

static int take_int(const place_t *at, const ct_yaml_t *n, void *out)
{
  int64_t value;
  double number;
  if (!is_plain(n) || ct_text_double(n->text, &number) != CT_OK)
    return wrong_type(at, n, "an integer");
  if (ct_text_int(n->text, &value) != CT_OK)
    return in_range(at->row, number) ? wrong_type(at, n, "an integer") : out_of_range(at, n);
  if (!in_range(at->row, (double)value)) return out_of_range(at, n);
  *(int64_t *)out = value;
  return CT_OK;
}

/* Most numbers are used in float32: none becomes 0 or infinity there. */
static int take_double(const place_t *at, const ct_yaml_t *n, void *out)
{
  double value;
  if (!is_plain(n) || ct_text_double(n->text, &value) != CT_OK)
    return wrong_type(at, n, "a number");
  if (!in_range(at->row, value)) return out_of_range(at, n);
  if (value != 0 && !(fabs(value) >= FLT_MIN && fabs(value) <= FLT_MAX))
    return complain(at, n->line, "must be 0 or, but for its sign, between %.3g and %.3g, not %.40s",
                    (double)FLT_MIN, (double)FLT_MAX, n->text);
  *(double *)out = value;
  return CT_OK;
}

static int take_bool(const place_t *at, const ct_yaml_t *n, void *out)
{
  int value = is_plain(n) ? bool_word(n->text) : -1;
  if (value < 0) return wrong_type(at, n, "true or false");
  *(int *)out = value;
  return CT_OK;
}

/* A choice of true and false, besides others, takes their other words, too. */
static const char *choice_text(const ct_yaml_t *n, const char *choices)
{
  int value = is_plain(n) ? bool_word(n->text) : -1;
  int has = strstr(choices, "true") && strstr(choices, "false");
  if (n->kind != CT_YAML_SCALAR) return "";
  return has && value >= 0 ? value ? "true" : "false" : n->text;
}

static int take_choice(const place_t *at, const ct_yaml_t *n, void *out)
{
  int len;
  const char *text = choice_text(n, at->row->choices);
  const char *p;
  char expected[256] = "one of ";
  size_t used = strlen(expected);
  for (int i = 0; (p = choice_word(at->row->choices, i, &len)); i++) {
    if (strlen(text) == (size_t)len && strncmp(text, p, (size_t)len) == 0) {
      *(int *)out = i;
      return CT_OK;
    }
    if (used < sizeof expected)
      used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%.*s", i ? ", " : "",
                               len, p);
  }
  return wrong_type(at, n, expected);
}

static const char *text_of(const ct_yaml_t *n)
{
  return is_plain(n) && is_null_word(n->text) ? "" : n->text;
}

static void clear_text(void *text)
{
  ct_mem_free(*(char **)text);
}

static int take_text(const place_t *at, const ct_yaml_t *n, void *out)
{
  if (n->kind != CT_YAML_SCALAR) return wrong_type(at, n, "text");
  char *text = ct_mem_strdup(text_of(n));
  if (!text) return CT_ERR_NOMEM;
  clear_text(out);
  *(char **)out = text;
  return CT_OK;
}

static int take_name(const place_t *at, const ct_yaml_t *n, void *out)
{
  static const char what[] = "a plain name: not empty, '.' or '..', without '/' and control "
                             "characters, of up to 255 bytes";
  if (n->kind != CT_YAML_SCALAR || !ct_text_is_name(text_of(n))) return wrong_type(at, n, what);
  return take_text(at, n, out);
}

static void clear_texts(void *texts)
{
  ct_opt_texts_t *t = texts;
  for (int i = 0; i < t->n; i++)
    ct_mem_free(t->v[i]);
  ct_mem_free(t->v);
  *t = (ct_opt_texts_t){0};
}

/* The first item of a value and their number: of a list, of one scalar, or none (nothing, null). */
static const ct_yaml_t *items_of(const ct_yaml_t *n, int *count)
{
  if (n->kind == CT_YAML_LIST) {
    *count = ct_yaml_count(n);
    return n->child;
  }
  *count = !(is_plain(n) && is_null_word(n->text));
  return n;
}

static int take_texts(const place_t *at, const ct_yaml_t *n, void *out)
{
  int rc = CT_OK, count;
  ct_opt_texts_t t = {0};
  const ct_yaml_t *item = items_of(n, &count);
  if (count > 0) {
    t.v = ct_mem_array(count, sizeof *t.v, "a list of texts");
    if (!t.v) return CT_ERR_NOMEM;
  }
  for (; t.n < count; item = item->next) {
    if (item->kind != CT_YAML_SCALAR) {
      rc = wrong_type(at, item, "text or a list of texts");
      goto out;
    }
    t.v[t.n] = ct_mem_strdup(text_of(item));
    if (!t.v[t.n++]) CT_TRY(CT_ERR_NOMEM);
  }
  clear_texts(out);
  *(ct_opt_texts_t *)out = t;
  t = (ct_opt_texts_t){0};
out:
  clear_texts(&t);
  return rc;
}

static void clear_doubles(void *doubles)
{
  ct_mem_free(((ct_opt_doubles_t *)doubles)->v);
}

static int take_doubles(const place_t *at, const ct_yaml_t *n, void *out)
{
  int rc = CT_OK, count;
  double *v = NULL;
  const ct_yaml_t *item = items_of(n, &count);
  if (count > 0) {
    v = ct_mem_array(count, sizeof *v, "a list of numbers");
    if (!v) return CT_ERR_NOMEM;
  }
  for (int i = 0; i < count; i++, item = item->next)
    CT_TRY(take_double(at, item, &v[i]));
  clear_doubles(out);
  *(ct_opt_doubles_t *)out = (ct_opt_doubles_t){v, count};
  v = NULL;
out:
  ct_mem_free(v);
  return rc;
}

static int numbers_of(const ct_opt_t *row)
{
  return row->type == CT_OPT_T_PAIR ? 2 : 3;
}

static int take_ints(const place_t *at, const ct_yaml_t *n, void *out)
{
  int rc = CT_OK, is_list = n->kind == CT_YAML_LIST, count = numbers_of(at->row);
  int64_t v[3];
  if (n->kind == CT_YAML_MAP || (is_list && ct_yaml_count(n) != count))
    return wrong_type(at, n,
                      count == 2 ? "an integer or a list of two" : "an integer or a list of three");
  const ct_yaml_t *item = is_list ? n->child : n;
  for (int i = 0; i < count; i++, item = is_list ? item->next : n)
    CT_TRY(take_int(at, item, &v[i]));
  memcpy(out, v, (size_t)count * sizeof *v);
out:
  return rc;
}

static void clear_node(void *node)
{
  ct_yaml_free(*(ct_yaml_t **)node);
}

static int take_node(const place_t *at, const ct_yaml_t *n, void *out)
{
  (void)at;
  ct_yaml_t *copy = NULL;
  if (!is_plain(n) || !is_null_word(n->text)) {
    copy = ct_yaml_copy(n);
    if (!copy) return CT_ERR_NOMEM;
  }
  clear_node(out);
  *(ct_yaml_t **)out = copy;
  return CT_OK;
}

/* ---- types ---- */

static const struct {
  const char *help;
  size_t bytes;
  int (*take)(const place_t *at, const ct_yaml_t *n, void *to);
  void (*clear)(void *at); /* NULL: it owns nothing */
} types[] = {
    [CT_OPT_T_INT] = {"INTEGER", sizeof(int64_t), take_int, NULL},
    [CT_OPT_T_DOUBLE] = {"NUMBER", sizeof(double), take_double, NULL},
    [CT_OPT_T_BOOL] = {"true|false", sizeof(int), take_bool, NULL},
    [CT_OPT_T_TEXT] = {"TEXT", sizeof(char *), take_text, clear_text},
    [CT_OPT_T_NAME] = {"NAME", sizeof(char *), take_name, clear_text},
    [CT_OPT_T_CHOICE] = {NULL, sizeof(int), take_choice, NULL}, /* its words are the help */
    [CT_OPT_T_TEXTS] = {"TEXT or LIST", sizeof(ct_opt_texts_t), take_texts, clear_texts},
    [CT_OPT_T_DOUBLES] = {"NUMBER or LIST", sizeof(ct_opt_doubles_t), take_doubles, clear_doubles},
    [CT_OPT_T_PAIR] = {"INTEGER or PAIR", 2 * sizeof(int64_t), take_ints, NULL},
    [CT_OPT_T_TRIPLE] = {"INTEGER or TRIPLE", 3 * sizeof(int64_t), take_ints, NULL},
    [CT_OPT_T_NODE] = {"VALUE", sizeof(ct_yaml_t *), take_node, clear_node}};

/* ---- tables ---- */

static int take_default(const ct_opt_t *row, void *to)
{
  int rc = CT_OK;
  const char *def = row->def;
  ct_yaml_t *n = NULL;
  if (!def && row->type != CT_OPT_T_TEXT) return CT_OK; /* a text is never NULL */
  if (def && def[0])
    CT_TRY(ct_yaml_parse(def, strlen(def), "default", &n));
  else
    n = ct_yaml_new(CT_YAML_SCALAR, NULL, "");
  if (!n) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(
      types[row->type].take(&(place_t){.section = "default", .key = row->key, .row = row}, n, to));
out:
  ct_yaml_free(n);
  return rc;
}

int ct_opt_defaults(const ct_opt_t *rows, void *values)
{
  int rc = CT_OK;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++)
    CT_TRY(take_default(row, slot(row, values)));
out:
  return rc;
}

static int is_listed(const char *const *names, const char *key)
{
  for (; names && *names; names++)
    if (strcmp(*names, key) == 0) return 1;
  return 0;
}

/* null for a number or word is its default.  Of texts and lists it means that there are none. */
static int is_unset(const ct_opt_t *row, const ct_yaml_t *n)
{
  int has_null = types[row->type].clear != NULL;
  return !has_null && row->def && is_plain(n) && n->text[0] && is_null_word(n->text);
}

static int read_key(const ct_opt_t *rows, void *values, ct_yaml_t *n, place_t *at,
                    const char *const *also)
{
  int rc = CT_OK;
  at->key = n->key;
  const ct_opt_t *row = find_row(rows, n->key);
  if (!row) return is_listed(also, n->key) ? CT_OK : unknown_key(at, n, rows, also);
  at->row = row;
  CT_TRY(is_unset(row, n) ? take_default(row, slot(row, values))
                          : types[row->type].take(at, n, slot(row, values)));
  n->used = 1;
  if (row->type != CT_OPT_T_NODE) /* what is in a node its later reader marks */
    for (ct_yaml_t *item = n->child; item; item = item->next)
      item->used = 1;
out:
  return rc;
}

int ct_opt_read(const ct_opt_t *rows, void *values, const ct_yaml_t *map, const char *where,
                const char *section, const char *const *also)
{
  int rc = CT_OK;
  place_t at = {.where = where, .section = section};
  int nothing = !map || (is_plain(map) && is_null_word(map->text));
  if (!nothing && map->kind != CT_YAML_MAP) return wrong_type(&at, map, "keys and values");
  for (ct_yaml_t *n = nothing ? NULL : map->child; n; n = n->next)
    CT_TRY(read_key(rows, values, n, &at, also));
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    at.key = row->key;
    if (!row->def && (nothing || !ct_yaml_find(map, row->key)))
      return complain(&at, map ? map->line : 1, "missing; this key is required");
  }
  if (map) ((ct_yaml_t *)(uintptr_t)map)->used = 1;
out:
  return rc;
}

/* ---- dump ---- */

static ct_yaml_t *int_node(const char *key, int64_t value)
{
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  return ct_yaml_new(CT_YAML_SCALAR, key, text);
}

static ct_yaml_t *double_node(const char *key, double value)
{
  char text[40];
  return ct_yaml_new(CT_YAML_SCALAR, key, ct_text_number(value, text, sizeof text));
}

/* Text that YAML would take for something else is quoted. */
static ct_yaml_t *text_node(const char *key, const char *text)
{
  double number;
  ct_yaml_t *n = ct_yaml_new(CT_YAML_SCALAR, key, text ? text : "");
  if (n)
    n->quoted = is_null_word(n->text) || bool_word(n->text) >= 0 ||
                ct_text_double(n->text, &number) == CT_OK;
  return n;
}

/* Appends an item; 0 if there was no memory for it. */
static int add_item(ct_yaml_t *list, ct_yaml_t *item)
{
  if (item) ct_yaml_append(list, item);
  return item != NULL;
}

static ct_yaml_t *list_node(const ct_opt_t *row, const void *from)
{
  int ok = 1;
  ct_yaml_t *list = ct_yaml_new(CT_YAML_LIST, row->key, NULL);
  if (!list) return NULL;
  if (row->type == CT_OPT_T_TEXTS) {
    const ct_opt_texts_t *t = from;
    for (int i = 0; ok && i < t->n; i++)
      ok = add_item(list, text_node(NULL, t->v[i]));
  } else if (row->type == CT_OPT_T_DOUBLES) {
    const ct_opt_doubles_t *d = from;
    for (int i = 0; ok && i < d->n; i++)
      ok = add_item(list, double_node(NULL, d->v[i]));
  } else {
    for (int i = 0; ok && i < numbers_of(row); i++)
      ok = add_item(list, int_node(NULL, ((const int64_t *)from)[i]));
  }
  if (ok) return list;
  ct_yaml_free(list);
  return NULL;
}

static ct_yaml_t *choice_node(const ct_opt_t *row, int value)
{
  return ct_yaml_new(CT_YAML_SCALAR, row->key, ct_opt_word(row, row->key, value));
}

static ct_yaml_t *kept_node(const ct_opt_t *row, const ct_yaml_t *kept)
{
  ct_yaml_t *n = ct_yaml_copy(kept);
  if (!n) return NULL;
  ct_mem_free(n->key);
  n->key = ct_mem_strdup(row->key);
  if (n->key) return n;
  ct_yaml_free(n);
  return NULL;
}

static ct_yaml_t *dump_row(const ct_opt_t *row, const void *from)
{
  switch (row->type) {
  case CT_OPT_T_INT:
    return int_node(row->key, *(const int64_t *)from);
  case CT_OPT_T_DOUBLE:
    return double_node(row->key, *(const double *)from);
  case CT_OPT_T_BOOL:
    return ct_yaml_new(CT_YAML_SCALAR, row->key, *(const int *)from ? "true" : "false");
  case CT_OPT_T_TEXT:
  case CT_OPT_T_NAME:
    return text_node(row->key, *(char *const *)from);
  case CT_OPT_T_CHOICE:
    return choice_node(row, *(const int *)from);
  case CT_OPT_T_NODE:
    return kept_node(row, *(ct_yaml_t *const *)from);
  default:
    return list_node(row, from);
  }
}

ct_yaml_t *ct_opt_dump(const ct_opt_t *rows, const void *values, const char *key)
{
  ct_yaml_t *map = ct_yaml_new(CT_YAML_MAP, key, NULL);
  for (const ct_opt_t *row = rows; map && row->type != CT_OPT_T_END; row++) {
    const void *from = slot(row, values);
    if (row->type == CT_OPT_T_NODE && !*(ct_yaml_t *const *)from) continue;
    if (!add_item(map, dump_row(row, from))) {
      ct_yaml_free(map);
      map = NULL;
    }
  }
  return map;
}

void ct_opt_clear(const ct_opt_t *rows, void *values)
{
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    void *at = slot(row, values);
    if (types[row->type].clear) types[row->type].clear(at);
    memset(at, 0, types[row->type].bytes);
  }
}

/* ---- help ---- */

int ct_opt_help(const ct_opt_t *rows, const char *section, ct_str_t *out)
{
  int rc = CT_OK;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    char left[160], range[80];
    snprintf(left, sizeof left, "%s%s%s: %s", section ? section : "",
             section && *section ? "." : "", row->key,
             row->choices ? row->choices : types[row->type].help);
    /* a key too long for its column has its help on the next line */
    if (strlen(left) > 34)
      CT_TRY(ct_str_add(out, "  %s\n  %-34s  %s", left, "", row->help));
    else
      CT_TRY(ct_str_add(out, "  %-34s  %s", left, row->help));
    if (has_range(row)) CT_TRY(ct_str_add(out, "; %s", range_text(row, range, sizeof range)));
    if (!row->def) CT_TRY(ct_str_add(out, " (required)"));
    if (row->def && row->def[0]) CT_TRY(ct_str_add(out, " (default %s)", row->def));
    CT_TRY(ct_str_add(out, "\n"));
  }
out:
  return rc;
}
