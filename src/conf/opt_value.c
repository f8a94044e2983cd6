/* Reads one value of an option from a node of the tree, and writes the messages for values that are
 * refused. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "conf/opt.h"

/* ---- words ---- */

int ct__opt_is_null(const char *text)
{
  return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

/* 1, 0, or -1 if the word is not a bool. */
int ct__opt_bool(const char *text)
{
  static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
  for (int i = 0; i < 6; i++)
    if (strcasecmp(text, words[i]) == 0) return i % 2;
  return -1;
}

/* Start of the i-th word of "auto|cpu|ref" and its length, or NULL. */
const char *ct__opt_choice(const char *choices, int i, int *len)
{
  for (const char *p = choices; i >= 0; i--) {
    *len = (int)strcspn(p, "|");
    if (i == 0) return p;
    if (!p[*len]) break;
    p += *len + 1;
  }
  return NULL;
}

/* Returns the index of a text among the words of a row's choices; -1: not one of them. */
static int opt_value_word_of(const ct_opt_t *row, const char *text)
{
  int len = 0;
  const char *word;
  for (int i = 0; row->choices && (word = ct__opt_choice(row->choices, i, &len)); i++)
    if (strlen(text) == (size_t)len && strncmp(word, text, (size_t)len) == 0) return i;
  return -1;
}

int ct__opt_is_word(const ct_opt_t *row, const char *text)
{
  return opt_value_word_of(row, text) >= 0;
}

int ct__opt_has_range(const ct_opt_t *row)
{
  return row->min != 0 || row->max != 0;
}

/* A bound of 1e18 or more means no bound. */
static int in_range(const ct_opt_t *row, double v)
{
  return !ct__opt_has_range(row) ||
         ((v >= row->min || row->min <= -1e18) && (v <= row->max || row->max >= 1e18));
}

/* "between 0 and 1", "at least 1" */
const char *ct__opt_range(const ct_opt_t *row, char *buf, size_t cap)
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

/* "file:line: section.key: text". */
int ct__opt_fail(const ct__opt_location_t *at, const ct_yaml_t *n, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int rc = ct_err_vset(CT_ERR_USAGE, __FILE__, __LINE__, fmt, args);
  va_end(args);
  int has_section = at->section && at->section[0];
  ct_err_prefix(rc, "%s%s%s%s", has_section ? at->section : "", has_section && at->key ? "." : "",
                at->key ? at->key : "", has_section || at->key ? ": " : "");
  return ct_err_location(rc, n ? ct_yaml_file(n, at->where) : at->where, n ? n->line : 1);
}

int ct__opt_wrong_type(const ct__opt_location_t *at, const ct_yaml_t *n, const char *expected)
{
  if (n->kind == CT_YAML_LIST) return ct__opt_fail(at, n, "expected %s, found a list", expected);
  if (n->kind == CT_YAML_MAP) return ct__opt_fail(at, n, "expected %s, found a map", expected);
  if (n->quoted)
    return ct__opt_fail(at, n, "expected %s, found the text \"%.100s\"", expected, n->text);
  if (!n->text[0]) return ct__opt_fail(at, n, "expected %s, found nothing", expected);
  return ct__opt_fail(at, n, "expected %s, found '%.100s'", expected, n->text);
}

static int out_of_range(const ct__opt_location_t *at, const ct_yaml_t *n)
{
  char range[80];
  return ct__opt_fail(at, n, "must be %s, not %.40s", ct__opt_range(at->row, range, sizeof range),
                      n->text);
}

/* ---- one value ---- */

int ct__opt_is_plain(const ct_yaml_t *n)
{
  return n->kind == CT_YAML_SCALAR && !n->quoted;
}

static int take_int(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int64_t value;
  double number;
  char expected[64] = "an integer";
  int word = ct__opt_is_plain(n) ? opt_value_word_of(at->row, n->text) : -1;
  if (word >= 0) {
    *(int64_t *)out = -1 - word;
    return CT_OK;
  }
  if (at->row->choices) snprintf(expected, sizeof expected, "an integer or %s", at->row->choices);
  if (!ct__opt_is_plain(n) || ct_text_double(n->text, &number) != CT_OK)
    return ct__opt_wrong_type(at, n, expected);
  if (ct_text_int(n->text, &value) != CT_OK)
    return in_range(at->row, number) ? ct__opt_wrong_type(at, n, expected) : out_of_range(at, n);
  if (!in_range(at->row, (double)value)) return out_of_range(at, n);
  *(int64_t *)out = value;
  return CT_OK;
}

/* Refuses numbers that become 0 or infinity in float32, the type in which most numbers are used. */
static int take_double(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  double value;
  char expected[64] = "a number";
  int word = ct__opt_is_plain(n) ? opt_value_word_of(at->row, n->text) : -1;
  if (word >= 0) {
    *(double *)out = -1 - word;
    return CT_OK;
  }
  if (at->row->choices) snprintf(expected, sizeof expected, "a number or %s", at->row->choices);
  if (!ct__opt_is_plain(n) || ct_text_double(n->text, &value) != CT_OK)
    return ct__opt_wrong_type(at, n, expected);
  if (!in_range(at->row, value)) return out_of_range(at, n);
  if (value != 0 && !(fabs(value) >= FLT_MIN && fabs(value) <= FLT_MAX))
    return ct__opt_fail(at, n, "must be 0 or, but for its sign, between %.3g and %.3g, not %.40s",
                        (double)FLT_MIN, (double)FLT_MAX, n->text);
  *(double *)out = value;
  return CT_OK;
}

static int take_bool(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int value = ct__opt_is_plain(n) ? ct__opt_bool(n->text) : -1;
  if (value < 0) return ct__opt_wrong_type(at, n, "true or false");
  *(int *)out = value;
  return CT_OK;
}

/* If true and false are among the choices, their synonyms (yes, no, on, off) are accepted. */
static const char *choice_text(const ct_yaml_t *n, const char *choices)
{
  int value = ct__opt_is_plain(n) ? ct__opt_bool(n->text) : -1;
  int has = strstr(choices, "true") && strstr(choices, "false");
  if (n->kind != CT_YAML_SCALAR) return "";
  return has && value >= 0 ? value ? "true" : "false" : n->text;
}

static int take_choice(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int len;
  const char *text = choice_text(n, at->row->choices);
  const char *p;
  char expected[400] = "one of ";
  size_t used = strlen(expected);
  for (int i = 0; (p = ct__opt_choice(at->row->choices, i, &len)); i++) {
    if (strlen(text) == (size_t)len && strncmp(text, p, (size_t)len) == 0) {
      *(int *)out = i;
      return CT_OK;
    }
    if (used < sizeof expected)
      used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%.*s", i ? ", " : "",
                               len, p);
  }
  return ct__opt_wrong_type(at, n, expected);
}

static const char *opt_value_text_of(const ct_yaml_t *n)
{
  return ct__opt_is_plain(n) && ct__opt_is_null(n->text) ? "" : n->text;
}

static void clear_text(void *text)
{
  ct_mem_free(*(char **)text);
}

static int opt_value_take_text(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  if (n->kind != CT_YAML_SCALAR) return ct__opt_wrong_type(at, n, "text");
  char *text = ct_mem_strdup(opt_value_text_of(n));
  if (!text) return CT_ERR_NOMEM;
  clear_text(out);
  *(char **)out = text;
  return CT_OK;
}

static int take_name(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  static const char what[] = "a plain name: not empty, '.' or '..', without '/' and control "
                             "characters, of up to 255 bytes";
  if (n->kind != CT_YAML_SCALAR || !ct_text_is_name(opt_value_text_of(n)))
    return ct__opt_wrong_type(at, n, what);
  return opt_value_take_text(at, n, out);
}

/* Expands the variables in a text; *path is the result. */
static int expand_path(const ct__opt_location_t *at, const ct_yaml_t *n, char **path)
{
  char plain[CT_PATH_MAX];
  if (ct__opt_is_word(at->row, *path)) return CT_OK;
  int rc = ct_path_expand(*path, plain, sizeof plain);
  if (rc != CT_OK) return rc == CT_ERR_NOMEM ? rc : ct__opt_fail(at, n, "%s", ct_err_last()->text);
  ct_mem_free(*path);
  *path = ct_mem_strdup(plain);
  return *path ? CT_OK : CT_ERR_NOMEM;
}

static int take_path(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int rc = opt_value_take_text(at, n, out);
  return rc == CT_OK ? expand_path(at, n, out) : rc;
}

static void clear_texts(void *texts)
{
  ct_opt_texts_t *t = texts;
  for (int i = 0; i < t->n; i++)
    ct_mem_free(t->v[i]);
  ct_mem_free(t->v);
  *t = (ct_opt_texts_t){0};
}

/* Returns the first item of a value and sets the number of items: that of a list, 1 for a scalar, 0
 * for an empty value or null. */
static const ct_yaml_t *items_of(const ct_yaml_t *n, int *count)
{
  if (n->kind == CT_YAML_LIST) {
    *count = ct_yaml_count(n);
    return n->child;
  }
  *count = !(ct__opt_is_plain(n) && ct__opt_is_null(n->text));
  return n;
}

static int take_texts(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
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
      rc = ct__opt_wrong_type(at, item, "text or a list of texts");
      goto out;
    }
    t.v[t.n] = ct_mem_strdup(opt_value_text_of(item));
    if (!t.v[t.n++]) CT_TRY(CT_ERR_NOMEM);
  }
  clear_texts(out);
  *(ct_opt_texts_t *)out = t;
  t = (ct_opt_texts_t){0};
out:
  clear_texts(&t);
  return rc;
}

static int take_paths(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int rc = take_texts(at, n, out);
  ct_opt_texts_t *t = out;
  for (int i = 0; rc == CT_OK && i < t->n; i++)
    rc = expand_path(at, n, &t->v[i]);
  return rc;
}

static void clear_files(void *files)
{
  ct_opt_files_t *f = files;
  for (int i = 0; i < f->n; i++) {
    ct_mem_free(f->name[i]);
    clear_texts(&f->paths[i]);
  }
  ct_mem_free(f->name);
  ct_mem_free(f->paths);
  *f = (ct_opt_files_t){0};
}

static int is_word_of_files(const char *name)
{
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return *name && strlen(name) < CT_OPT_FILES_NAME && name[strspn(name, allowed)] == '\0';
}

static int take_files(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int rc = CT_OK;
  int count = n->kind == CT_YAML_MAP ? ct_yaml_count(n) : 0;
  ct_opt_files_t f = {0};
  if (n->kind != CT_YAML_MAP && !(ct__opt_is_plain(n) && ct__opt_is_null(n->text)))
    return ct__opt_wrong_type(at, n, "a map of names to files, such as {noisy: noisy-*.h5}");
  if (count > 0) {
    f.name = ct_mem_array(count, sizeof *f.name, "names of files");
    f.paths = ct_mem_array(count, sizeof *f.paths, "names of files");
    if (!f.name || !f.paths) CT_TRY(CT_ERR_NOMEM);
  }
  for (const ct_yaml_t *v = count > 0 ? n->child : NULL; v; v = v->next) {
    if (!is_word_of_files(v->key))
      CT_TRY(ct__opt_fail(
          at, v, "'%s' is not a valid name: expected letters, digits, '_' and '-', fewer than %d",
          v->key, CT_OPT_FILES_NAME));
    f.name[f.n] = ct_mem_strdup(v->key);
    if (!f.name[f.n++]) CT_TRY(CT_ERR_NOMEM);
    CT_TRY(take_paths(at, v, &f.paths[f.n - 1]));
    if (f.paths[f.n - 1].n == 0)
      CT_TRY(ct__opt_fail(at, v, "'%s': expected at least one file", v->key));
  }
  clear_files(out);
  *(ct_opt_files_t *)out = f;
  f = (ct_opt_files_t){0};
out:
  clear_files(&f);
  return rc;
}

static void clear_doubles(void *doubles)
{
  ct_mem_free(((ct_opt_doubles_t *)doubles)->v);
}

static int take_doubles(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
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

int ct__opt_numbers(const ct_opt_t *row)
{
  return row->type == CT_OPT_T_SINGLE ? 1 : row->type == CT_OPT_T_PAIR ? 2 : 3;
}

static int take_ints(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  int rc = CT_OK, is_list = n->kind == CT_YAML_LIST, count = ct__opt_numbers(at->row);
  static const char *const want[] = {"an integer", "an integer or a list of two",
                                     "an integer or a list of three"};
  int64_t v[3];
  if (n->kind == CT_YAML_MAP || (is_list && ct_yaml_count(n) != count))
    return ct__opt_wrong_type(at, n, want[count - 1]);
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

static int take_node(const ct__opt_location_t *at, const ct_yaml_t *n, void *out)
{
  (void)at;
  ct_yaml_t *copy = NULL;
  if (!ct__opt_is_plain(n) || !ct__opt_is_null(n->text)) {
    copy = ct_yaml_copy(n);
    if (!copy) return CT_ERR_NOMEM;
  }
  clear_node(out);
  *(ct_yaml_t **)out = copy;
  return CT_OK;
}

/* ---- ct__opt_types ---- */

const ct__opt_type_t ct__opt_types[] = {
    [CT_OPT_T_INT] = {"INTEGER", sizeof(int64_t), take_int, NULL},
    [CT_OPT_T_DOUBLE] = {"NUMBER", sizeof(double), take_double, NULL},
    [CT_OPT_T_BOOL] = {"true|false", sizeof(int), take_bool, NULL},
    [CT_OPT_T_TEXT] = {"TEXT", sizeof(char *), opt_value_take_text, clear_text},
    [CT_OPT_T_NAME] = {"NAME", sizeof(char *), take_name, clear_text},
    [CT_OPT_T_CHOICE] = {NULL, sizeof(int), take_choice, NULL}, /* the help lists the words */
    [CT_OPT_T_TEXTS] = {"TEXT or LIST", sizeof(ct_opt_texts_t), take_texts, clear_texts},
    [CT_OPT_T_DOUBLES] = {"NUMBER or LIST", sizeof(ct_opt_doubles_t), take_doubles, clear_doubles},
    [CT_OPT_T_SINGLE] = {"INTEGER", sizeof(int64_t), take_ints, NULL},
    [CT_OPT_T_PAIR] = {"INTEGER or PAIR", 2 * sizeof(int64_t), take_ints, NULL},
    [CT_OPT_T_TRIPLE] = {"INTEGER or TRIPLE", 3 * sizeof(int64_t), take_ints, NULL},
    [CT_OPT_T_PATH] = {"PATH", sizeof(char *), take_path, clear_text},
    [CT_OPT_T_PATHS] = {"PATH or LIST", sizeof(ct_opt_texts_t), take_paths, clear_texts},
    [CT_OPT_T_FILES] = {"MAP OF FILES", sizeof(ct_opt_files_t), take_files, clear_files},
    [CT_OPT_T_NODE] = {"VALUE", sizeof(ct_yaml_t *), take_node, clear_node}};
