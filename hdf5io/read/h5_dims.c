/* Interprets the dims of a sample: by the user's option, else the array's attribute, else a
 * guess. */
#include "hdf5io/read/h5_dims.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "hdf5io/h5_glue.h"

static int find_order(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec)
{
  char word[32] = "";
  s->channels_last = spec->layout == 2;
  s->seen = CT__H5_SEEN_BY_OPTION;
  if (spec->layout) return CT_OK;
  s->seen = CT__H5_SEEN_BY_DIMS;
  s->channels_last = 0;
  if (s->ndim < 4) return CT_OK;
  if (ct__h5_has_attr(array, "layout")) {
    s->seen = CT__H5_SEEN_BY_ATTRIBUTE;
    if (!ct__h5_attr_text(array, "layout", word, sizeof word))
      ct__h5_attr_kind(array, "layout", word, sizeof word);
    s->channels_last = strcmp(word, "NHWC") == 0 || strcmp(word, "NDHWC") == 0;
    if (s->channels_last || strcmp(word, "NCHW") == 0 || strcmp(word, "NCDHW") == 0) return CT_OK;
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "%s: attribute 'layout' of array '%s' is '%s', expected NCHW or NHWC",
                      s->path, spec->input, word);
  }
  s->channels_last = ct_reader_guess_last(s->dims + 1, s->ndim - 1);
  return CT_OK;
}

static void set_dims(ct_shape_t *x, int n, const int64_t *sample)
{
  x->layout = CT_PLAIN;
  x->ndim = n + 1;
  for (int i = 0; i < CT_MAX_DIMS; i++)
    x->dim[i] = i > 0 && i <= n ? sample[i - 1] : 1;
}

/* N: one feature; N D: features; N H W: one channel; N C H W and N C D H W, or channels last. */
static void see_dims(const ct__h5_shard_t *s, int last, ct_shape_t *x)
{
  int n = s->ndim - 1;
  int64_t sample[CT__H5_MOST_DIMS] = {1, 1, 1, 1, 1};
  for (int i = 0; i < n; i++)
    sample[(i + last) % n] = s->dims[i + 1];
  if (n == 2) {
    sample[2] = sample[1];
    sample[1] = sample[0];
    sample[0] = 1;
    n = 3;
  }
  set_dims(x, n > 0 ? n : 1, sample);
}

/* Applies a shape given by the user, which may be any with the same number of elements. The
 * elements keep their stored order, unless the shape equals the dims with channels last, or the
 * user or the file states that channels are last. */
static int see_as(ct__h5_shard_t *s, const ct_reader_spec_t *spec)
{
  char is[64], given[64];
  ct_shape_t x = s->x, other = s->x;
  int is_said = s->channels_last && s->seen != CT__H5_SEEN_BY_DIMS;
  set_dims(&x, spec->shape_dims, spec->shape);
  if (ct_shape_sample(&x) != ct_shape_sample(&s->x))
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                      "%s: samples of array '%s' are %s, which cannot be seen as %s (data.shape): "
                      "expected as many elements",
                      s->path, spec->input, ct_shape_text(&s->x, is, sizeof is),
                      ct_shape_text(&x, given, sizeof given));
  if (ct_shape_same(&x, &s->x)) return CT_OK;
  if (s->ndim >= 4) see_dims(s, !s->channels_last, &other);
  int is_other = s->seen == CT__H5_SEEN_BY_DIMS && s->ndim >= 4 && ct_shape_same(&x, &other);
  s->channels_last = is_other ? !s->channels_last : is_said;
  s->seen = CT__H5_SEEN_BY_SHAPE;
  s->x = x;
  return CT_OK;
}

int ct__h5_see(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  CT_TRY(find_order(s, array, spec));
  see_dims(s, s->channels_last && s->ndim >= 4, &s->x);
  if (spec->shape) CT_TRY(see_as(s, spec));
  if (s->x.ndim < 4) s->channels_last = 0;
  if (s->ndim < 4 && s->seen != CT__H5_SEEN_BY_SHAPE) s->channels_last = 0;
  s->doubtful =
      s->seen == CT__H5_SEEN_BY_DIMS && ct_reader_guess_doubtful(s->dims + 1, s->ndim - 1);
out:
  return rc;
}

/* Writes dims as text, such as "24x20x5". */
static void dims_text(const int64_t *dim, int n, char *buf, size_t cap)
{
  size_t length = 0;
  *buf = 0;
  for (int i = 0; i < n && length < cap; i++)
    length +=
        (size_t)snprintf(buf + length, cap - length, "%s%lld", i ? "x" : "", (long long)dim[i]);
}

const char *ct__h5_see_text(const ct__h5_shard_t *s, char *buf, size_t cap)
{
  static const char *const by[] = {[CT__H5_SEEN_BY_DIMS] = "data.layout: auto",
                                   [CT__H5_SEEN_BY_ATTRIBUTE] = "attribute layout",
                                   [CT__H5_SEEN_BY_SHAPE] = "data.shape"};
  char stored[100], seen[100];
  const ct_shape_t *x = &s->x;
  const char *why = by[s->seen];
  *buf = 0;
  if (s->encoding || s->ndim < 2 || (s->ndim < 3 && s->seen != CT__H5_SEEN_BY_SHAPE)) return buf;
  if (s->seen == CT__H5_SEEN_BY_OPTION)
    why = s->channels_last ? "data.layout: nhwc" : "data.layout: nchw";
  dims_text(s->dims + 1, s->ndim - 1, stored, sizeof stored);
  dims_text(x->dim + 2, x->ndim - 2, seen, sizeof seen);
  if (x->ndim < 3)
    snprintf(buf, cap, "samples %s read as %lld numbers (%s)", stored, (long long)x->dim[1], why);
  else
    snprintf(buf, cap, "samples %s read as %lld channel%s of %s (%s)", stored, (long long)x->dim[1],
             x->dim[1] == 1 ? "" : "s", seen, why);
  return buf;
}
