/* Reads whole records, and elements of a tensor in row-major order from its strided storage.
 *
 * A contiguous tensor is read directly. For others, the whole span in memory is read at once and
 * buffered until another tensor is requested; if the span is much larger than the tensor, each
 * contiguous run is read separately. */
#include <libdeflate.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "weights/pth/pth.h"

static const int64_t HELD_ANYWAY = 64 << 20; /* spans up to this many bytes are always buffered */
enum { HELD_TIMES = 4 }; /* larger ones if at most this multiple of the tensor's size */

int ct__pth_record(const ct_weights_t *w, const ct_zip_record_t *r, int64_t most, char **out)
{
  int rc = CT_OK;
  char *text = NULL;
  if (r->packed)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is compressed, which torch.save never does", w->path,
            r->name);
  if (r->bytes > most)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' has %lld bytes, at most %lld", w->path, r->name,
            (long long)r->bytes, (long long)most);
  text = ct_mem_alloc((size_t)r->bytes + 1, "a record");
  if (!text) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(w->fd, w->path, r->at, text, (size_t)r->bytes));
  if (r->crc && libdeflate_crc32(0, text, (size_t)r->bytes) != r->crc)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is damaged: its checksum is wrong", w->path, r->name);
  *out = text;
  text = NULL;
out:
  ct_mem_free(text);
  return rc;
}

/* ---- elements of tensors ---- */

static int64_t size_of(const ct__pth_tensor_t *t)
{
  return ct_elem_bits(t->type) / 8;
}

/* Reads bytes of a storage from offset `at` on. If all bytes of a storage are read in order, the
 * checksum is verified. */
static int read_storage(ct_weights_t *w, const ct__pth_tensor_t *t, int64_t at, int64_t bytes,
                        void *to)
{
  int rc = CT_OK;
  const ct_zip_record_t *r = &w->zip.record[t->storage];
  ct__pth_sum_t *sum = &w->sum[t->storage];
  CT_TRY(ct_file_read_at(w->fd, w->path, r->at + at, to, (size_t)bytes));
  if (!r->crc) goto out;
  if (at == 0) *sum = (ct__pth_sum_t){0};
  if (at != sum->bytes) goto out;
  sum->crc = libdeflate_crc32(sum->crc, to, (size_t)bytes);
  sum->bytes += bytes;
  if (sum->bytes == r->bytes && sum->crc != r->crc)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' is damaged: the checksum of record '%s' is wrong",
            w->path, t->name, r->name);
out:
  return rc;
}

/* Reads the span of tensor i into `held`. */
static int hold(ct_weights_t *w, int i)
{
  int rc = CT_OK;
  const ct__pth_tensor_t *t = &w->tensor[i];
  int64_t bytes = t->span * size_of(t);
  if (w->holder == i) return CT_OK;
  w->holder = -1;
  if (bytes > w->held_cap) {
    ct_mem_free(w->held);
    w->held_cap = 0;
    w->held = ct_mem_alloc((size_t)bytes, "a tensor with gaps");
    if (!w->held) CT_TRY(CT_ERR_NOMEM);
    w->held_cap = bytes;
  }
  CT_TRY(read_storage(w, t, t->offset * size_of(t), bytes, w->held));
  w->holder = i;
out:
  return rc;
}

/* Finds the number of innermost dims without gaps, and their number of elements. */
static int64_t dense_part(const ct__pth_tensor_t *t, int *outer)
{
  int64_t n = 1;
  for (*outer = t->ndim; *outer > 0; (*outer)--) {
    int d = *outer - 1;
    if (t->dim[d] != 1 && t->stride[d] != n) break;
    n *= t->dim[d];
  }
  return n;
}

/* Returns the offset of element `first` relative to the tensor's first element. */
static int64_t read_place_of(const ct__pth_tensor_t *t, int64_t first)
{
  int64_t place = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    place += first % t->dim[d] * t->stride[d];
    first /= t->dim[d];
  }
  return place;
}

/* Copies individual elements of a buffered tensor; the innermost dim is a simple loop. */
static void read_gather(const ct__pth_tensor_t *t, const unsigned char *held, int64_t first,
                        int64_t n, unsigned char *to)
{
  const int64_t size = size_of(t), inner = t->dim[t->ndim - 1], step = t->stride[t->ndim - 1];
  while (n > 0) {
    int64_t run = ct_least(n, inner - first % inner);
    const unsigned char *from = held + read_place_of(t, first) * size;
    for (int64_t k = 0; k < run; k++, from += step * size, to += size)
      memcpy(to, from, (size_t)size);
    first += run;
    n -= run;
  }
}

int ct__pth_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  int rc = CT_OK, outer;
  const ct__pth_tensor_t *t = &w->tensor[i];
  const int64_t size = size_of(t);
  unsigned char *out = to;
  if (n == 0) return CT_OK;
  if (t->contiguous) return read_storage(w, t, (t->offset + first) * size, n * size, to);
  int64_t dense = dense_part(t, &outer), run;
  int held = t->span * size <= HELD_ANYWAY || t->span <= HELD_TIMES * t->count;
  if (held) CT_TRY(hold(w, i));
  if (held && dense == 1) {
    read_gather(t, w->held, first, n, out);
    goto out;
  }
  for (; n > 0; first += run, n -= run, out += run * size) {
    int64_t place = read_place_of(t, first);
    run = ct_least(n, dense - first % dense);
    if (held)
      memcpy(out, w->held + place * size, (size_t)(run * size));
    else
      CT_TRY(read_storage(w, t, (t->offset + place) * size, run * size, out));
  }
out:
  return rc;
}
