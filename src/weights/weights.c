/* Weight files of any format: which one a file has, and its tensors as float32. */
#include "weights/ct_weights.h"

#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "ckpt/ct_ckpt.h"

enum { PIECE = 1 << 18 }; /* elements that are converted at a time */

int ct_weights_open(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out)
{
  int rc = CT_OK, n = 0, found = 0;
  char meant[CT_PATH_MAX];
  const ct_format_t *format[CT_FORMATS];
  *out = (ct_weights_file_t){0};
  for (; formats[n] && n < CT_FORMATS; n++)
    format[n] = &formats[n]->format;
  CT_TRY(ct_ckpt_follow(path, meant, sizeof meant));
  CT_TRY(ct_format_find(format, n, meant, &found));
  out->path = ct_mem_strdup(meant);
  CT_TRY(out->path ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(formats[found]->open(meant, key, &out->w));
  out->ops = formats[found];
out:
  if (rc != CT_OK) ct_weights_close(out);
  return rc;
}

void ct_weights_close(ct_weights_file_t *f)
{
  if (f->ops) f->ops->close(f->w);
  ct_mem_free(f->path);
  *f = (ct_weights_file_t){0};
}

int ct_weights_floats(const ct_weights_file_t *f, int i, float *to)
{
  int rc = CT_OK;
  ct_tensor_t t;
  char *piece = NULL;
  f->ops->tensor(f->w, i, &t);
  if (!ct_elem_has_numbers(t.type))
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type %s, which is not taken as numbers", f->path, t.name,
            ct_elem_name(t.type));
  if (t.type == CT_ELEM_F32) return f->ops->read(f->w, i, 0, t.count, to);
  piece = ct_mem_array(t.count < PIECE ? t.count : PIECE, sizeof(double), "weights of a file");
  CT_TRY(piece ? CT_OK : CT_ERR_NOMEM);
  for (int64_t first = 0, n; first < t.count; first += n) {
    n = t.count - first < PIECE ? t.count - first : PIECE;
    CT_TRY(f->ops->read(f->w, i, first, n, piece));
    ct_elem_floats(t.type, piece, n, to + first);
    ct_beat_progress();
  }
out:
  ct_mem_free(piece);
  return rc;
}
