/* IDX, the format of MNIST (LeCun, Cortes, Burges): 0 0 type dims, the dims as big-endian 32-bit
 * numbers, the elements. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/ct_pack_in.h"

typedef struct idx {
  char *data;
  const uint8_t *element; /**< the first element, in data */
  int dims;
  int64_t dim[4];
} idx_t;

typedef struct pair {
  idx_t images, labels;
  size_t sample_bytes;
  const char *input[3];
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

/* Without a channel dim there is one channel. */
static ct_shape_t sample_shape(const idx_t *images)
{
  ct_shape_t x = images->dims == 2 ? ct_shape(2, 1, images->dim[1])
                 : images->dims == 3
                     ? ct_shape(4, 1, 1, images->dim[1], images->dim[2])
                     : ct_shape(4, 1, images->dim[1], images->dim[2], images->dim[3]);
  x.dtype = CT_U8;
  return x;
}

static int read_row(void *state, int64_t index, ct_pack_sample_t *to)
{
  const pair_t *p = state;
  memcpy(to->x, p->images.element + (size_t)index * p->sample_bytes, p->sample_bytes);
  return CT_OK;
}

static int32_t idx_label_of(void *state, int64_t index)
{
  const pair_t *p = state;
  return p->labels.element[index];
}

static void idx_place_of(void *state, int64_t index, char *buf, size_t cap)
{
  const pair_t *p = state;
  ct_text_fit(buf, cap, "%s, image %" PRId64, p->input[0], index);
}

static void close_pair(void *state)
{
  pair_t *p = state;
  if (!p) return;
  ct_mem_free(p->images.data);
  ct_mem_free(p->labels.data);
  ct_mem_free(p);
}

static void fill_source(pair_t *p, ct_pack_source_t *out)
{
  *out = (ct_pack_source_t){.x = sample_shape(&p->images),
                            .samples = p->images.dim[0],
                            .identity =
                                ct_pack_identity(p->input[1], ct_pack_identity(p->input[0], 0)),
                            .inputs = p->input,
                            .state = p,
                            .label = idx_label_of,
                            .read = read_row,
                            .place = idx_place_of,
                            .close = close_pair};
  p->sample_bytes = (size_t)ct_shape_sample(&out->x);
  for (int64_t i = 0; i < out->samples; i++)
    if (p->labels.element[i] >= out->classes) out->classes = p->labels.element[i] + 1;
}

int ct_pack_open_idx(const char *images, const char *labels, ct_pack_source_t *out)
{
  int rc = CT_OK;
  pair_t *p = ct_mem_alloc(sizeof *p, "IDX files");
  *out = (ct_pack_source_t){0};
  if (!p) return CT_ERR_NOMEM;
  p->input[0] = images;
  p->input[1] = labels;
  CT_TRY(read_idx(images, 2, 4, &p->images));
  CT_TRY(read_idx(labels, 1, 1, &p->labels));
  if (p->images.dim[0] != p->labels.dim[0])
    CT_FAIL(CT_ERR_FORMAT, "%s has %" PRId64 " samples, but %s has %" PRId64 " labels", images,
            p->images.dim[0], labels, p->labels.dim[0]);
  if (p->images.dim[0] < 1) CT_FAIL(CT_ERR_FORMAT, "%s: contains no samples", images);
  fill_source(p, out);
  p = NULL;
out:
  close_pair(p);
  return rc;
}
