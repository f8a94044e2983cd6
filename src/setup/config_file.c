/* Reads a configuration file into a tree: merges included files, and makes paths relative to the
 * directory of their file.  Only rank 0 does this; it broadcasts the result as one text. */
#include "setup/config_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

enum { MAX_INCLUDES = 16 }; /* maximum depth of nested includes */

/* ---- paths ---- */

int ct__config_below(const ct_opt_t *row, const char *dir, const char *path, char *buf, size_t cap)
{
  static const char magic[] = "*?[";
  char quoted[2 * CT_PATH_MAX];
  size_t n = 0;
  int is_pattern = row->type != CT_OPT_T_PATH && (strpbrk(dir, magic) || strpbrk(path, magic));
  for (const char *p = dir; *p && n + 2 < sizeof quoted; p++) {
    if (is_pattern && (strchr(magic, *p) || *p == '\\')) quoted[n++] = '\\';
    quoted[n++] = *p;
  }
  quoted[n] = '\0';
  return ct_path_join(buf, cap, quoted, path);
}

static int is_word(const ct_opt_t *row, const char *text)
{
  return row->choices && strcmp(row->choices, text) == 0; /* PATH rows have at most one choice */
}

/* Prepends the directory \a arg to a relative path. */
static int place(const ct_opt_t *row, ct_yaml_t *n, void *arg)
{
  int rc = CT_OK;
  char plain[CT_PATH_MAX], full[CT_PATH_MAX];
  ct_str_t text = {0};
  if (!n->text[0] || (!n->quoted && (strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0)))
    return CT_OK;
  if (is_word(row, n->text)) return CT_OK;
  rc = ct_path_expand(n->text, plain, sizeof plain);
  if (rc != CT_OK) return rc == CT_ERR_NOMEM ? rc : CT_OK; /* the key's reader reports the error */
  if (plain[0] == '/') return CT_OK;
  CT_TRY(ct__config_below(row, arg, plain, full, sizeof full));
  CT_TRY(ct_path_escape(full, &text));
  ct_mem_free(n->text);
  n->text = ct_mem_strdup(text.data);
  if (!n->text) rc = CT_ERR_NOMEM;
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- files ---- */

static int directory_of(const char *path, char *dir, size_t cap)
{
  int rc = CT_OK;
  char real[CT_PATH_MAX];
  if (!realpath(path, real))
    CT_FAIL(CT_ERR_IO, "%s: its directory cannot be found: %s", path, strerror(errno));
  CT_TRY(ct_path_dir(dir, cap, real));
out:
  return rc;
}

static int config_file_load(const char *path, int depth, ct_yaml_t **out);

/* Records the file in the node and all its children. */
static int set_file(ct_yaml_t *n, const char *file)
{
  int rc = CT_OK;
  if (!n->file) { /* otherwise a nested include has recorded its file */
    n->file = ct_mem_strdup(file);
    if (!n->file) return CT_ERR_NOMEM;
  }
  for (ct_yaml_t *c = n->child; c && rc == CT_OK; c = c->next)
    rc = set_file(c, file);
  return rc;
}

/* Merges an included file into \a tree; its values override those of earlier includes. */
static int include_file(const char *path, const char *dir, const ct_yaml_t *n, int depth,
                        ct_yaml_t *tree)
{
  int rc = CT_OK;
  char plain[CT_PATH_MAX], full[CT_PATH_MAX];
  ct_yaml_t *included = NULL;
  if (n->kind != CT_YAML_SCALAR || !n->text[0])
    CT_FAIL(CT_ERR_USAGE, "expected the name of a file, or a list of them");
  if (depth == MAX_INCLUDES)
    CT_FAIL(CT_ERR_USAGE, "more than %d files include each other, or one itself", MAX_INCLUDES);
  CT_TRY(ct_path_expand(n->text, plain, sizeof plain));
  CT_TRY(ct_path_join(full, sizeof full, dir, plain));
  rc = config_file_load(full, depth + 1, &included);
  if (rc == CT_ERR_USAGE) return rc; /* the message already names file and line */
  CT_TRY(rc);
  CT_TRY(set_file(included, full));
  ct_yaml_merge(tree, included);
  included = NULL;
out:
  ct_yaml_free(included);
  if (rc == CT_OK || rc == CT_ERR_NOMEM) return rc;
  ct_err_prefix(rc, "include: ");
  return ct_err_location(rc, path, n->line);
}

/* Removes `include` from *root and merges *root over the included files. */
static int take_includes(const char *path, const char *dir, int depth, ct_yaml_t **root)
{
  int rc = CT_OK;
  ct_yaml_t *tree = NULL, *list = ct_yaml_find(*root, "include");
  if (!list) return CT_OK;
  ct_yaml_unlink(*root, list);
  tree = ct_yaml_new(CT_YAML_MAP, NULL, NULL);
  if (!tree) CT_TRY(CT_ERR_NOMEM);
  if (list->kind != CT_YAML_LIST) CT_TRY(include_file(path, dir, list, depth, tree));
  for (ct_yaml_t *n = list->kind == CT_YAML_LIST ? list->child : NULL; n; n = n->next)
    CT_TRY(include_file(path, dir, n, depth, tree));
  ct_yaml_merge(tree, *root);
  *root = tree;
  tree = NULL;
out:
  ct_yaml_free(tree);
  ct_yaml_free(list);
  return rc;
}

/* Removes top-level keys x-NAME, which only hold YAML anchors. */
static void drop_extensions(ct_yaml_t *root)
{
  for (ct_yaml_t *n = root->child, *next; n; n = next) {
    next = n->next;
    if (strncmp(n->key, "x-", 2) != 0) continue;
    ct_yaml_unlink(root, n);
    ct_yaml_free(n);
  }
}

static int config_file_load(const char *path, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  char *text = NULL, dir[CT_PATH_MAX];
  size_t bytes;
  ct_yaml_t *root = NULL;
  CT_TRY(ct_file_regular(path)); /* refuses pipes: relative paths need a directory */
  CT_TRY(ct_file_read(path, &text, &bytes));
  CT_TRY(ct__config_tree_of(text, bytes, path, &root));
  CT_TRY(directory_of(path, dir, sizeof dir));
  drop_extensions(root);
  CT_TRY(ct__config_each_path(place, root, dir));
  CT_TRY(take_includes(path, dir, depth, &root));
  *out = root;
  root = NULL;
out:
  ct_yaml_free(root);
  ct_mem_free(text);
  return rc;
}

/* Sets \a file to \a path, or to its config.yaml if \a path is a run directory. */
static int file_meant(const char *path, char *file, size_t cap)
{
  int rc = CT_OK;
  ct_heartbeat_file(path);
  int is_dir = ct_file_is_dir(path);
  ct_heartbeat_file(NULL);
  if (!is_dir) return ct_text_format(file, cap, "%s", path);
  CT_TRY(ct_path_join(file, cap, path, "config.yaml"));
  if (!ct_file_exists(file))
    CT_FAIL(CT_ERR_IO,
            "%s: is a directory without config.yaml, expected a file or a run's directory", path);
out:
  return rc;
}

int ct_config_read(ct_config_t *c, const char *path, const char *const *set, int sets)
{
  int rc = CT_OK;
  char file[CT_PATH_MAX];
  ct_yaml_t *root = NULL;
  memset(c, 0, sizeof *c);
  CT_TRY(file_meant(path, file, sizeof file));
  CT_TRY(config_file_load(file, 0, &root));
  CT_TRY(ct__config_take(c, root, file, set, sets));
  if (c->data.batch_per_rank == CT_BATCH_AUTO && ct_yaml_find(ct_yaml_find(root, "data"), "batch"))
    CT_FAIL(CT_ERR_USAGE, "%s: data.batch and data.batch_per_rank: auto are both given: remove one",
            file);
out:
  if (rc != CT_OK) ct_config_clear(c);
  ct_yaml_free(root);
  return rc;
}
