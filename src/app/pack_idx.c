/* IDX, the format of MNIST (LeCun, Cortes, Burges): 0 0 type dims, the dims as big-endian 32-bit
 * numbers, the elements. */
#include <inttypes.h>
#include <string.h>

#include "app/pack.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct idx {
  char *data;
  const uint8_t *element; /**< the first one, in data */
  int dims;
  int64_t dim[4];
} idx_t;

typedef struct pair {
  idx_t images, labels;
  size_t sample_bytes;
  ct_pack_walk_t walk;
} pair_t;

static int64_t big_endian(const uint8_t *p)
{
  return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

static int read_idx(const char *path, int min_dims, int max_dims, idx_t *out)
{
  int rc = CT_OK;
  size_t bytes;
  CT_TRY(ct_pack_read_file(path, &out->data, &bytes));
  const uint8_t *head = (const uint8_t *)out->data;
  if (bytes < 8 || head[0] || head[1]) CT_FAIL(CT_ERR_FORMAT, "%s: is not an IDX file", path);
  if (head[2] != 0x08)
    CT_FAIL(CT_ERR_FORMAT, "%s: holds elements of IDX type 0x%02x, expected 0x08 (bytes)", path,
            head[2]);
  out->dims = head[3];
  size_t begin = 4 + 4 * (size_t)out->dims;
  if (out->dims < min_dims || out->dims > max_dims || bytes < begin)
    CT_FAIL(CT_ERR_FORMAT, "%s: has %d dims, expected %d to %d", path, out->dims, min_dims,
            max_dims);
  double elements = 1;
  for (int i = 0; i < out->dims; i++) {
    out->dim[i] = big_endian(head + 4 + 4 * i);
    elements *= (double)out->dim[i];
  }
  if (elements != (double)(bytes - begin))
    CT_FAIL(CT_ERR_FORMAT, "%s: its header says %.0f elements, but there are %zu", path, elements,
            bytes - begin);
  out->element = head + begin;
out:
  return rc;
}

/* Without a dim of channels there is one. */
static ct_shape_t sample_shape(const idx_t *images)
{
  ct_shape_t x = images->dims == 2 ? ct_shape(2, 1, images->dim[1])
                 : images->dims == 3
                     ? ct_shape(4, 1, 1, images->dim[1], images->dim[2])
                     : ct_shape(4, 1, images->dim[1], images->dim[2], images->dim[3]);
  x.dtype = CT_U8;
  return x;
}

static int next_rows(void *state, int n, void *x, void *y)
{
  pair_t *p = state;
  char *to = x;
  for (int i = 0; i < n; i++, to += p->sample_bytes) {
    int64_t row = ct_pack_walk_next(&p->walk);
    memcpy(to, p->images.element + (size_t)row * p->sample_bytes, p->sample_bytes);
    ((int32_t *)y)[i] = p->labels.element[row];
  }
  return CT_OK;
}

static void close_pair(void *state)
{
  pair_t *p = state;
  if (!p) return;
  ct_mem_free(p->images.data);
  ct_mem_free(p->labels.data);
  ct_mem_free(p);
}

int ct_pack_open_idx(const char *images, const char *labels, const ct_pack_rows_t *rows,
                     ct_pack_input_t *out)
{
  int rc = CT_OK;
  pair_t *p = ct_mem_alloc(sizeof *p, "IDX files");
  *out = (ct_pack_input_t){.close = close_pair};
  if (!p) return CT_ERR_NOMEM;
  CT_TRY(read_idx(images, 2, 4, &p->images));
  CT_TRY(read_idx(labels, 1, 1, &p->labels));
  if (p->images.dim[0] != p->labels.dim[0])
    CT_FAIL(CT_ERR_FORMAT, "%s has %" PRId64 " samples, but %s has %" PRId64 " labels", images,
            p->images.dim[0], labels, p->labels.dim[0]);
  for (int64_t i = 0; i < p->labels.dim[0]; i++)
    if (p->labels.element[i] >= out->classes) out->classes = p->labels.element[i] + 1;
  CT_TRY(ct_pack_walk_begin(&p->walk, images, p->images.dim[0], rows));
  out->src.samples = p->walk.end - p->walk.at;
  out->src.x = sample_shape(&p->images);
  p->sample_bytes = (size_t)ct_shape_sample(&out->src.x);
  out->src.state = p;
  out->src.next = next_rows;
  out->src.inputs[0] = images;
  out->src.inputs[1] = labels;
  p = NULL;
out:
  close_pair(p);
  return rc;
}
