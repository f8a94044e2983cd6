/* Comparison of configurations by the keys that can change the result of a run.  A hash of these
 * keys identifies the run; a resumed run logs the keys that have changed. */
#include <string.h>

#include "setup/ct_config.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"

/* Keys and sections that do not change the result: names, paths and performance settings. */
static const char *const no_effect[] = {"run.dir",
                                        "run.name",
                                        "run.log_every",
                                        "run.log_s",
                                        "run.trace",
                                        "device",
                                        "parallel.mode",
                                        "parallel.bucket_mb",
                                        "parallel.allreduce",
                                        "parallel.zero",
                                        "parallel.verify_every",
                                        "train.replay_every",
                                        "data.batch_per_rank",
                                        "data.eval_batch",
                                        "train.memory",
                                        "data.workers",
                                        "data.cache_mb",
                                        "data.readahead",
                                        "data.stage",
                                        "data.stage_keep",
                                        "data.cache_dir",
                                        "data.cache_keep",
                                        "eval.metrics",
                                        "model.class_names",
                                        "checkpoint",
                                        "log",
                                        "job",
                                        "parallel.share_gpu",
                                        "cpu",
                                        "cuda",
                                        "sim"};

/* Defaults whose notation has changed: the value in the first versions, and the value that means
 * the same now. */
static const struct {
  const char *key, *then, *now;
} former[] = {{"model.depth", "18", "0"}};

static int is_former(const char *key, const ct_yaml_t *now, const ct_yaml_t *old)
{
  if (now->kind != CT_YAML_SCALAR || old->kind != CT_YAML_SCALAR) return 0;
  for (size_t i = 0; i < sizeof former / sizeof *former; i++)
    if (strcmp(former[i].key, key) == 0 && strcmp(former[i].then, old->text) == 0 &&
        strcmp(former[i].now, now->text) == 0)
      return 1;
  return 0;
}

static int has_effect(const char *key)
{
  for (size_t i = 0; i < sizeof no_effect / sizeof *no_effect; i++)
    if (strcmp(no_effect[i], key) == 0) return 0;
  return 1;
}

static int same_text(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns the item of a list of equal numbers, else the value itself: some keys have become lists
 * or pairs since the first versions. */
static const ct_yaml_t *only_item(const ct_yaml_t *n)
{
  if (n->kind != CT_YAML_LIST || !n->child) return n;
  for (const ct_yaml_t *p = n->child->next; p; p = p->next)
    if (!same_text(p->text, n->child->text)) return n;
  return n->child;
}

/* Compares two values; quotes do not matter. */
static int same_value(const ct_yaml_t *a, const ct_yaml_t *b)
{
  if (a->kind != b->kind) a = only_item(a), b = only_item(b);
  if (a->kind != b->kind || !same_text(a->text, b->text)) return 0;
  const ct_yaml_t *p = a->child, *q = b->child;
  for (; p && q; p = p->next, q = q->next)
    if (!same_text(p->key, q->key) || !same_value(p, q)) return 0;
  return !p && !q;
}

/* A traversal of the values, which hashes them and, if an old tree is given, lists the differences.
 */
typedef struct visit {
  uint64_t hash;
  ct_str_t *told; /* list of differences; NULL: no comparison */
} visit_t;

static int visit_value(visit_t *v, const char *key, const ct_yaml_t *now, const ct_yaml_t *old)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_yaml_dump(now, 0, &text));
  v->hash = ct_hash_text(text.data, ct_hash_text(key, v->hash));
  if (!v->told || !old || same_value(now, old) || is_former(key, now, old)) goto out;
  CT_TRY(ct_str_add(v->told, "%s%s", v->told->len ? "; " : "", key));
  if (now->kind == CT_YAML_SCALAR && old->kind == CT_YAML_SCALAR)
    CT_TRY(ct_str_add(v->told, " was %s and is %s", old->text, now->text));
  else
    CT_TRY(ct_str_add(v->told, " was another"));
out:
  ct_str_clear(&text);
  return rc;
}

/* Visits the keys of the root and its sections.  A key that is not in the old tree counts as new,
 * not as changed. */
static int visit_tree(visit_t *v, const char *prefix, const ct_yaml_t *now, const ct_yaml_t *old)
{
  int rc = CT_OK;
  char key[256];
  for (const ct_yaml_t *n = now->child; n; n = n->next) {
    CT_TRY(ct_text_format(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", n->key));
    const ct_yaml_t *o = old && old->kind == CT_YAML_MAP ? ct_yaml_find(old, n->key) : NULL;
    if (!has_effect(key)) continue;
    if (n->kind == CT_YAML_MAP && !*prefix)
      CT_TRY(visit_tree(v, key, n, o));
    else
      CT_TRY(visit_value(v, key, n, o));
  }
out:
  return rc;
}

/* Removes keys that cannot change results, and sections that become empty. */
static int prune(ct_yaml_t *map, const char *prefix)
{
  int rc = CT_OK;
  char key[256];
  for (ct_yaml_t *n = map->child, *next; n; n = next) {
    next = n->next;
    CT_TRY(ct_text_format(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", n->key));
    int is_section = n->kind == CT_YAML_MAP && !*prefix;
    if (is_section && has_effect(key)) CT_TRY(prune(n, key));
    if (has_effect(key) && !(is_section && !n->child)) continue;
    ct_yaml_unlink(map, n);
    ct_yaml_free(n);
  }
out:
  return rc;
}

int ct_config_settings(const ct_config_t *c, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *all = NULL;
  CT_TRY(ct_config_tree(c, &all));
  CT_TRY(prune(all, ""));
  *out = all;
  all = NULL;
out:
  ct_yaml_free(all);
  return rc;
}

int ct_config_hash(const ct_config_t *c, uint64_t *out)
{
  int rc = CT_OK;
  ct_yaml_t *now = NULL;
  visit_t v = {0};
  CT_TRY(ct_config_tree(c, &now));
  CT_TRY(visit_tree(&v, "", now, NULL));
  *out = v.hash;
out:
  ct_yaml_free(now);
  return rc;
}

int ct_config_differences(const ct_config_t *c, const char *old, ct_str_t *out)
{
  int rc = CT_OK;
  ct_yaml_t *now = NULL, *then = NULL;
  visit_t v = {.told = out};
  CT_TRY(ct_config_tree(c, &now));
  CT_TRY(ct_yaml_parse(old, strlen(old), "configuration in the checkpoint", &then));
  CT_TRY(visit_tree(&v, "", now, then));
out:
  ct_yaml_free(now);
  ct_yaml_free(then);
  return rc;
}
