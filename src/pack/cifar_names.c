/* The class names of CIFAR, in a file beside the data: a text file for the binary version, a pickle
 * for the Python version. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/cifar.h"
#include "pack/ct_pack_in.h"

static const struct {
  int classes;
  const char *file; /* name of the file */
  const char *key;  /* key of the names in a pickle; NULL: a text file */
} places[] = {{10, "batches.meta", "label_names"}, {10, "batches.meta.txt", NULL},
              {100, "meta", "fine_label_names"},   {100, "fine_label_names.txt", NULL},
              {20, "meta", "coarse_label_names"},  {20, "coarse_label_names.txt", NULL}};

static int is_text(const ct_pickle_t *p, int node, const char *text)
{
  return p->node[node].kind == CT_PICKLE_TEXT && strcmp(ct_pickle_text(p, node), text) == 0;
}

int ct__cifar_find(const ct_pickle_t *p, const char *key)
{
  if (p->node[p->root].kind != CT_PICKLE_DICT) return -1;
  for (int c = p->node[p->root].first; c >= 0; c = p->cell[p->cell[c].next].next)
    if (is_text(p, p->cell[c].node, key)) return p->cell[p->cell[c].next].node;
  return -1;
}

static int cifar_names_refuse(const ct__cifar_names_t *n, int classes)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: expected the names of %d classes",
                    n->path, classes);
}

static int from_lines(ct__cifar_names_t *n, int classes)
{
  int rc = CT_OK;
  size_t bytes;
  char *rest = NULL;
  CT_TRY(ct_pack_read_file(n->path, &n->text, &bytes));
  for (char *name = strtok_r(n->text, "\r\n", &rest); name; name = strtok_r(NULL, "\r\n", &rest)) {
    if (n->n == classes) CT_TRY(cifar_names_refuse(n, classes));
    n->name[n->n++] = name;
  }
  if (n->n != classes) CT_TRY(cifar_names_refuse(n, classes));
out:
  return rc;
}

/* Copies the texts of a list. */
static int copy_names(ct__cifar_names_t *n, const ct_pickle_t *p, int list)
{
  size_t bytes = 0, at = 0;
  for (int c = p->node[list].first; c >= 0; c = p->cell[c].next) {
    if (p->node[p->cell[c].node].kind != CT_PICKLE_TEXT)
      return cifar_names_refuse(n, p->node[list].count);
    bytes += strlen(ct_pickle_text(p, p->cell[c].node)) + 1;
  }
  n->text = ct_mem_alloc(bytes, "names of classes");
  if (!n->text) return CT_ERR_NOMEM;
  for (int c = p->node[list].first; c >= 0; c = p->cell[c].next) {
    const char *name = ct_pickle_text(p, p->cell[c].node);
    n->name[n->n++] = strcpy(n->text + at, name);
    at += strlen(name) + 1;
  }
  return CT_OK;
}

static int from_pickle(ct__cifar_names_t *n, const char *key, int classes)
{
  int rc = CT_OK, list;
  struct stat st;
  ct_pickle_t p = {0};
  int fd = open(n->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened", n->path);
  CT_TRY(ct_pickle_load(fd, n->path, "CIFAR's pickle", 0, st.st_size, &p, NULL));
  list = ct__cifar_find(&p, key);
  if (list < 0 || p.node[list].kind != CT_PICKLE_LIST || p.node[list].count != classes)
    CT_TRY(cifar_names_refuse(n, classes));
  CT_TRY(copy_names(n, &p, list));
out:
  if (fd >= 0) close(fd);
  ct_pickle_clear(&p);
  return rc;
}

int ct__cifar_names(const char *beside, int classes, ct__cifar_names_t *out)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  *out = (ct__cifar_names_t){0};
  CT_TRY(ct_path_dir(dir, sizeof dir, beside));
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (places[i].classes != classes) continue;
    CT_TRY(ct_path_join(out->path, sizeof out->path, dir, places[i].file));
    if (access(out->path, F_OK) != 0) continue;
    CT_TRY(ct_file_regular(out->path));
    out->name = ct_mem_array(classes, sizeof *out->name, "names of classes");
    if (!out->name) CT_TRY(CT_ERR_NOMEM);
    return places[i].key ? from_pickle(out, places[i].key, classes) : from_lines(out, classes);
  }
  out->path[0] = 0;
out:
  return rc;
}

void ct__cifar_names_clear(ct__cifar_names_t *n)
{
  ct_mem_free(n->name);
  ct_mem_free(n->text);
  *n = (ct__cifar_names_t){0};
}
