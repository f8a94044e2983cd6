/* The lists of tensors of a .pt2 archive and its program, for src/pt2/. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/pth/pth.h"

enum { MOST_PROGRAM = 128 << 20 /* bytes */ };

/* A tensor among those that are sorted by their memory. */
typedef struct sorted {
  const ct__pth_tensor_t *t;
  int index;
} sorted_t;

static int sort_memory(const ct__pth_tensor_t *s, const ct__pth_tensor_t *t)
{
  if (s->storage != t->storage) return s->storage < t->storage ? -1 : 1;
  if (s->offset != t->offset) return s->offset < t->offset ? -1 : 1;
  if (s->type != t->type) return s->type < t->type ? -1 : 1;
  if (s->ndim != t->ndim) return s->ndim < t->ndim ? -1 : 1;
  for (int d = 0; d < 2 * s->ndim; d++) /* dims, then strides */
    if (s->dim[d] != t->dim[d]) return s->dim[d] < t->dim[d] ? -1 : 1;
  return 0;
}

static int sort_tensors(const void *a, const void *b)
{
  const sorted_t *s = a, *t = b;
  int order = sort_memory(s->t, t->t);
  return order ? order : s->index - t->index;
}

/* Finds the tensors that have the same memory: w->first. */
static int find_tied(ct_weights_t *w)
{
  int rc = CT_OK;
  sorted_t *list = ct_mem_array(w->n + 1, sizeof *list, "a list of tensors");
  w->first = ct_mem_array(w->n + 1, sizeof *w->first, "a list of tensors");
  if (!list || !w->first) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < w->n; i++)
    list[i] = (sorted_t){&w->tensor[i], i};
  qsort(list, (size_t)w->n, sizeof *list, sort_tensors);
  for (int64_t k = 0; k < w->n; k++) {
    int same = k > 0 && sort_memory(list[k].t, list[k - 1].t) == 0;
    w->first[list[k].index] = same ? w->first[list[k - 1].index] : list[k].index;
  }
out:
  ct_mem_free(list);
  return rc;
}

int ct_pt2_list_open(const char *path, ct_pt2_list_t which, ct_weights_t **out)
{
  int rc = CT_OK;
  ct_weights_t *w = NULL;
  *out = NULL;
  CT_TRY(ct__pth_open_path(path, &w));
  CT_TRY(ct__pth_open_format(w, which));
  if (!w->json)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: has weights without a program: expected a file of torch.export.save()", path);
  CT_TRY(ct__pt2_take_all(w));
  CT_TRY(find_tied(w));
  CT_TRY(ct__pth_open_end(w));
  *out = w;
  w = NULL;
out:
  ct_weights_pth.close(w);
  return rc;
}

int ct_pt2_list_program(const ct_weights_t *w, char **text, int64_t *bytes)
{
  int rc = CT_OK;
  const ct_zip_record_t *r = NULL;
  for (int64_t i = 0; i < w->zip.n; i++) {
    const char *name = strchr(w->zip.record[i].name, '/');
    size_t n = name ? strlen(name) : 0;
    if (n < 14 || strncmp(name, "/models/", 8) != 0 || strcmp(name + n - 5, ".json") != 0) continue;
    if (r)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: has several programs, '%s' and '%s': save one by torch.export.save()", w->path,
              r->name, w->zip.record[i].name);
    r = &w->zip.record[i];
  }
  if (!r)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: has no program 'models/model.json': save it by torch.export.save() of PyTorch "
            "2.9 or later",
            w->path);
  CT_TRY(ct__pth_record(w, r, MOST_PROGRAM, text));
  *bytes = r->bytes;
out:
  return rc;
}

int ct_pt2_list_first(const ct_weights_t *w, int i)
{
  return w->first[i];
}
