/* The nodes of a tree of YAML values. */
#include "conf/yaml_parts.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- nodes ---- */

ct_yaml_t *ct_yaml_new(ct_yaml_kind_t kind, const char *key, const char *text)
{
  ct_yaml_t *n = ct_mem_alloc(sizeof *n, "a configuration value");
  if (!n) return NULL;
  n->kind = text ? CT_YAML_SCALAR : kind;
  if (n->kind == CT_YAML_SCALAR) n->text = ct_mem_strdup(text ? text : "");
  if (key) n->key = ct_mem_strdup(key);
  if ((n->kind == CT_YAML_SCALAR && !n->text) || (key && !n->key)) {
    ct_yaml_free(n);
    return NULL;
  }
  return n;
}

void ct_yaml_free(ct_yaml_t *n)
{
  if (!n) return;
  for (ct_yaml_t *c = n->child, *next; c; c = next) {
    next = c->next;
    ct_yaml_free(c);
  }
  ct_mem_free(n->key);
  ct_mem_free(n->text);
  ct_mem_free(n->file);
  ct_mem_free(n);
}

ct_yaml_t *ct_yaml_find(const ct_yaml_t *map, const char *key)
{
  ct_yaml_t *c = map && map->kind == CT_YAML_MAP ? map->child : NULL;
  while (c && strcmp(c->key, key) != 0)
    c = c->next;
  return c;
}

int ct_yaml_count(const ct_yaml_t *n)
{
  int count = 0;
  for (const ct_yaml_t *c = n->child; c; c = c->next)
    count++;
  return count;
}

void ct_yaml_append(ct_yaml_t *parent, ct_yaml_t *child)
{
  if (parent->last)
    parent->last->next = child;
  else
    parent->child = child;
  parent->last = child;
}

void ct_yaml_unlink(ct_yaml_t *parent, ct_yaml_t *child)
{
  ct_yaml_t *before = NULL;
  for (ct_yaml_t *c = parent->child; c != child; c = c->next)
    before = c;
  if (before)
    before->next = child->next;
  else
    parent->child = child->next;
  if (parent->last == child) parent->last = before;
  child->next = NULL;
}

const char *ct_yaml_file(const ct_yaml_t *n, const char *where)
{
  return n->file ? n->file : where;
}

ct_yaml_t *ct_yaml_copy(const ct_yaml_t *n)
{
  ct_yaml_t *copy = ct_yaml_new(n->kind, n->key, n->text);
  if (!copy) return NULL;
  if (n->file) {
    copy->file = ct_mem_strdup(n->file);
    if (!copy->file) {
      ct_yaml_free(copy);
      return NULL;
    }
  }
  copy->quoted = n->quoted;
  copy->line = n->line;
  copy->used = n->used;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    ct_yaml_t *child = ct_yaml_copy(c);
    if (!child) {
      ct_yaml_free(copy);
      return NULL;
    }
    ct_yaml_append(copy, child);
  }
  return copy;
}

int ct__yaml_is_nothing(const ct_yaml_t *n)
{
  return n->kind == CT_YAML_SCALAR && !n->quoted && !n->text[0];
}
