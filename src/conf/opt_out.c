/* Output of option tables: the values of a section as a tree, and its rows as help. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "conf/opt.h"

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

/* Returns a node with the number, or with the word that a negative number encodes. */
static ct_yaml_t *number_node(const ct_opt_t *row, const void *from)
{
  int len, is_int = row->type == CT_OPT_T_INT;
  char text[40];
  double value = is_int ? (double)*(const int64_t *)from : *(const double *)from;
  const char *word =
      row->choices && value < 0 ? ct__opt_choice(row->choices, (int)-value - 1, &len) : NULL;
  if (!word)
    return is_int ? int_node(row->key, *(const int64_t *)from) : double_node(row->key, value);
  snprintf(text, sizeof text, "%.*s", len, word);
  return ct_yaml_new(CT_YAML_SCALAR, row->key, text);
}

/* Quotes text that YAML would read as another type. */
static ct_yaml_t *text_node(const char *key, const char *text)
{
  double number;
  ct_yaml_t *n = ct_yaml_new(CT_YAML_SCALAR, key, text ? text : "");
  if (n)
    n->quoted = ct__opt_is_null(n->text) || ct__opt_bool(n->text) >= 0 ||
                ct_text_double(n->text, &number) == CT_OK;
  return n;
}

/* Appends an item; returns 0 if out of memory. */
static int add_item(ct_yaml_t *list, ct_yaml_t *item)
{
  if (item) ct_yaml_append(list, item);
  return item != NULL;
}

/* Escapes the path: variables are not expanded again when the dump is read. */
static ct_yaml_t *path_node(const ct_opt_t *row, const char *key, const char *path)
{
  ct_str_t text = {0};
  ct_yaml_t *n = NULL;
  if (!path || ct__opt_is_word(row, path)) return text_node(key, path);
  if (ct_path_escape(path, &text) == CT_OK) n = text_node(key, text.data ? text.data : "");
  ct_str_clear(&text);
  return n;
}

static ct_yaml_t *list_node(const ct_opt_t *row, const void *from)
{
  int ok = 1;
  ct_yaml_t *list = ct_yaml_new(CT_YAML_LIST, row->key, NULL);
  if (!list) return NULL;
  if (row->type == CT_OPT_T_TEXTS || row->type == CT_OPT_T_PATHS) {
    const ct_opt_texts_t *t = from;
    int is_text = row->type == CT_OPT_T_TEXTS;
    for (int i = 0; ok && i < t->n; i++)
      ok = add_item(list, is_text ? text_node(NULL, t->v[i]) : path_node(row, NULL, t->v[i]));
  } else if (row->type == CT_OPT_T_DOUBLES) {
    const ct_opt_doubles_t *d = from;
    for (int i = 0; ok && i < d->n; i++)
      ok = add_item(list, double_node(NULL, d->v[i]));
  } else {
    for (int i = 0; ok && i < ct__opt_numbers(row); i++)
      ok = add_item(list, int_node(NULL, ((const int64_t *)from)[i]));
  }
  if (ok) return list;
  ct_yaml_free(list);
  return NULL;
}

static ct_yaml_t *files_node(const ct_opt_t *row, const ct_opt_files_t *f)
{
  int ok = 1;
  ct_yaml_t *map = ct_yaml_new(CT_YAML_MAP, row->key, NULL);
  for (int i = 0; map && ok && i < f->n; i++) {
    ct_yaml_t *list = ct_yaml_new(CT_YAML_LIST, f->name[i], NULL);
    for (int k = 0; list && ok && k < f->paths[i].n; k++)
      ok = add_item(list, path_node(row, NULL, f->paths[i].v[k]));
    ok = add_item(map, list) && ok;
  }
  if (ok) return map;
  ct_yaml_free(map);
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
  case CT_OPT_T_DOUBLE:
    return number_node(row, from);
  case CT_OPT_T_BOOL:
    return ct_yaml_new(CT_YAML_SCALAR, row->key, *(const int *)from ? "true" : "false");
  case CT_OPT_T_TEXT:
  case CT_OPT_T_NAME:
    return text_node(row->key, *(char *const *)from);
  case CT_OPT_T_PATH:
    return path_node(row, row->key, *(char *const *)from);
  case CT_OPT_T_CHOICE:
    return choice_node(row, *(const int *)from);
  case CT_OPT_T_FILES:
    return files_node(row, from);
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
    const void *from = ct__opt_slot(row, values);
    if (row->type == CT_OPT_T_NODE && !*(ct_yaml_t *const *)from) continue;
    if (row->type == CT_OPT_T_FILES && ((const ct_opt_files_t *)from)->n == 0) continue;
    if (!add_item(map, dump_row(row, from))) {
      ct_yaml_free(map);
      map = NULL;
    }
  }
  return map;
}

/* ---- help ---- */

int ct_opt_help(const ct_opt_t *rows, const char *section, ct_str_t *out)
{
  int rc = CT_OK;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    char left[400], range[80];
    int is_number = row->type == CT_OPT_T_INT || row->type == CT_OPT_T_DOUBLE;
    int words = is_number && row->choices;
    snprintf(left, sizeof left, "%s%s%s: %s%s%s", section ? section : "",
             section && *section ? "." : "", row->key,
             row->type == CT_OPT_T_CHOICE ? row->choices : ct__opt_types[row->type].help,
             words ? "|" : "", words ? row->choices : "");
    /* if the key is too long for its column, its help is on the next line */
    if (strlen(left) > 34)
      CT_TRY(ct_str_add(out, "  %s\n  %-34s  %s", left, "", row->help));
    else
      CT_TRY(ct_str_add(out, "  %-34s  %s", left, row->help));
    if (ct__opt_has_range(row))
      CT_TRY(ct_str_add(out, "; %s", ct__opt_range(row, range, sizeof range)));
    if (!row->def) CT_TRY(ct_str_add(out, " (required)"));
    if (row->def && row->def[0]) CT_TRY(ct_str_add(out, " (default %s)", row->def));
    CT_TRY(ct_str_add(out, "\n"));
  }
out:
  return rc;
}
