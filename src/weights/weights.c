/* Weight files of any format: finds the format of a file, and reads tensors as float32. */
#include "weights/ct_weights.h"

#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "ckpt/ct_ckpt.h"
#include "weights/ct_names.h"
#include "weights/hf/ct_hf.h"

enum { PIECE = 1 << 18 }; /* elements converted at a time */

/* Resolves a path, and finds the format of the file. */
static int weights_find(const ct_weights_ops_t *const formats[], const char *path, char **meant,
                        const ct_weights_ops_t **ops)
{
  int rc = CT_OK, n = 0, which = 0;
  char followed[CT_PATH_MAX], inside[CT_PATH_MAX];
  const ct_format_t *format[CT_FORMATS];
  *meant = NULL;
  for (; formats[n] && n < CT_FORMATS; n++)
    format[n] = &formats[n]->format;
  CT_TRY(ct_weights_foreign(path));
  if (ct_file_is_dir(path) && ct_hf_find(path, inside, sizeof inside)) path = inside;
  CT_TRY(ct_ckpt_follow(path, followed, sizeof followed));
  CT_TRY(ct_format_find(format, n, followed, &which));
  *meant = ct_mem_strdup(followed);
  CT_TRY(*meant ? CT_OK : CT_ERR_NOMEM);
  *ops = formats[which];
out:
  return rc;
}

int ct_weights_open(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out)
{
  int rc = CT_OK;
  const ct_weights_ops_t *ops = NULL;
  *out = (ct_weights_file_t){0};
  CT_TRY(weights_find(formats, path, &out->path, &ops));
  if (ct_file_is_dir(path)) {
    out->dir = ct_mem_strdup(path);
    CT_TRY(out->dir ? CT_OK : CT_ERR_NOMEM);
  }
  CT_TRY(ops->open(out->path, key, &out->w));
  out->ops = ops;
out:
  if (rc != CT_OK) ct_weights_close(out);
  return rc;
}

/* ---- dicts of a file ---- */

int ct_weights_parts(const ct_weights_ops_t *const formats[], const char *path,
                     ct_weights_parts_t *out)
{
  int rc = CT_OK;
  char *meant = NULL;
  const ct_weights_ops_t *ops = NULL;
  *out = (ct_weights_parts_t){0};
  CT_TRY(weights_find(formats, path, &meant, &ops));
  if (ops->parts) CT_TRY(ops->parts(meant, out));
out:
  ct_mem_free(meant);
  return rc;
}

int ct_weights_peek(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out)
{
  int rc = CT_OK;
  ct_weights_parts_t parts = {0};
  int given = key && *key;
  if (!given) CT_TRY(ct_weights_parts(formats, path, &parts));
  CT_TRY(ct_weights_open(formats, path, parts.n ? parts.v[0].key : key, out));
out:
  return rc;
}

int ct_weights_likeliest(const ct_weights_parts_t *list)
{
  int best = -1, equals = 0;
  for (int i = 0; i < list->n; i++) {
    const ct_weights_part_t *p = &list->v[i], *b = best < 0 ? NULL : &list->v[best];
    if (b && (p->rank > b->rank || (p->rank == b->rank && p->tensors < b->tensors))) continue;
    equals = b && p->rank == b->rank && p->tensors == b->tensors;
    best = i;
  }
  return equals ? -1 : best;
}

int ct_weights_parts_text(const ct_weights_parts_t *list, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < list->n; i++)
    CT_TRY(ct_names_list(out, i, list->v[i].key));
  CT_TRY(ct_names_list_end(out, list->all));
out:
  return rc;
}

void ct_weights_close(ct_weights_file_t *f)
{
  if (f->ops) f->ops->close(f->w);
  ct_mem_free(f->path);
  ct_mem_free(f->dir);
  *f = (ct_weights_file_t){0};
}

int ct_weights_model(const ct_weights_file_t *f, ct_str_t *out)
{
  char path[CT_PATH_MAX];
  const char *text = f->ops->text(f->w, "model");
  if (text) return ct_str_add(out, "%s", text);
  if (!f->dir || ct_path_join(path, sizeof path, f->dir, CT_HF_CONFIG) != CT_OK) return CT_OK;
  return ct_file_exists(path) ? ct_hf_model(f->dir, out) : CT_OK;
}

int ct_weights_config(const ct_weights_file_t *f, ct_str_t *out)
{
  int rc = CT_OK;
  ct_str_t model = {0};
  const char *own = f->ops->text(f->w, "config");
  if (own) return ct_str_add(out, "%s", own);
  CT_TRY(ct_weights_model(f, &model));
  if (model.len) CT_TRY(ct_str_add(out, "model: %s", model.data));
out:
  ct_str_clear(&model);
  return rc;
}

int ct_weights_conv1d(const ct_weights_file_t *f)
{
  const char *order = f->ops->text(f->w, "conv1d");
  return order ? strcmp(order, "in,out") == 0 : f->ops->conv1d;
}

int ct_weights_floats(const ct_weights_file_t *f, int i, float *to)
{
  int rc = CT_OK, parts;
  ct_tensor_t t;
  char *piece = NULL;
  f->ops->tensor(f->w, i, &t);
  const ct_elem_t type = ct_elem_part(t.type, &parts);
  if (!ct_elem_has_numbers(type))
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type %s, which is not taken as numbers", f->path, t.name,
            ct_elem_name(t.type));
  if (type == CT_ELEM_F32) return f->ops->read(f->w, i, 0, t.count, to);
  piece = ct_mem_array(t.count < PIECE ? t.count : PIECE, sizeof(double), "weights of a file");
  CT_TRY(piece ? CT_OK : CT_ERR_NOMEM);
  for (int64_t first = 0, n; first < t.count; first += n) {
    n = t.count - first < PIECE ? t.count - first : PIECE;
    CT_TRY(f->ops->read(f->w, i, first, n, piece));
    ct_elem_floats(type, piece, n, to + first);
    ct_heartbeat_progress();
  }
out:
  ct_mem_free(piece);
  return rc;
}
