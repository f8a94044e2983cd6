/* loss.place_weights: the cosine of the latitude, or an array of a file. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "hdf5io/ct_h5.h"
#include "setup/ct_builtin.h"
#include "setup/ct_setup.h"
#include "weights/ct_weights.h"

/* Returns the shape of the weights: of an output without the samples, of classes without these. */
static ct_shape_t shape_of_places(const ct_op_desc_t *d)
{
  ct_shape_t s = {0};
  int last = d->u.loss.classes_last;
  int first = ct_loss_by_class(d->u.loss.kind) && !last ? 2 : 1;
  for (int i = first; i < d->x.ndim - last; i++)
    s.dim[s.ndim++] = d->x.dim[i];
  return s;
}

/* ---- latitude ---- */

/* Rows are the dim before the last one, from pole to pole. */
static int by_latitude(const ct_shape_t *s, int64_t count, float *out)
{
  int rc = CT_OK;
  double sum = 0;
  if (s->ndim < 2)
    CT_FAIL(CT_ERR_USAGE,
            "loss.place_weights is latitude, which is of outputs N x C x ... x latitude "
            "x longitude");
  int64_t columns = s->dim[s->ndim - 1], rows = s->dim[s->ndim - 2];
  for (int64_t i = 0; i < rows; i++)
    sum += cos(M_PI * (((double)i + 0.5) / (double)rows - 0.5));
  for (int64_t i = 0; i < count; i++) {
    double row = (double)(i / columns % rows);
    out[i] = (float)(cos(M_PI * ((row + 0.5) / (double)rows - 0.5)) * (double)rows / sum);
  }
out:
  return rc;
}

/* ---- an array of a file ---- */

static int find_tensor(const ct_weights_file_t *f, const char *name, ct_tensor_t *out)
{
  for (int i = 0; i < f->ops->count(f->w); i++) {
    f->ops->tensor(f->w, i, out);
    if (strcmp(out->name + (out->name[0] == '/'), name + (name[0] == '/')) == 0) return i;
  }
  return -1;
}

/* Returns 1 if the dims of an array, the last ones first, are those of the places or 1. */
static int fits(const ct_tensor_t *t, const ct_shape_t *s)
{
  for (int i = 1; i <= t->ndim; i++) {
    int64_t want = i <= s->ndim ? s->dim[s->ndim - i] : 1;
    if (t->dim[t->ndim - i] != want && t->dim[t->ndim - i] != 1) return 0;
  }
  return 1;
}

/* Returns the element of an array for place i, as NumPy broadcasts. */
static int64_t broadcast(const ct_tensor_t *t, const ct_shape_t *s, int64_t i)
{
  int64_t at = 0, step = 1;
  for (int k = 1; k <= s->ndim && k <= t->ndim; k++) {
    int64_t dim = t->dim[t->ndim - k];
    if (dim > 1) at += i % s->dim[s->ndim - k] * step;
    step *= dim;
    i /= s->dim[s->ndim - k];
  }
  return at;
}

static int check_weights(const char *where, int64_t n, const float *w)
{
  int rc = CT_OK;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!(w[i] >= 0 && w[i] < 1e30F))
      CT_FAIL(CT_ERR_USAGE, "loss.place_weights: %s: element %lld is %g, expected 0 to 1e30", where,
              (long long)i, (double)w[i]);
    sum += w[i];
  }
  if (sum == 0) CT_FAIL(CT_ERR_USAGE, "loss.place_weights: %s: all elements are 0", where);
out:
  return rc;
}

/* where: FILE:/NAME. */
static int from_file(const char *where, const ct_shape_t *s, int64_t count, float *out)
{
  int rc = CT_OK;
  const char *name = strrchr(where, ':');
  const ct_weights_ops_t *const formats[] = {&ct_weights_any_hdf5, NULL};
  ct_weights_file_t f = {0};
  ct_str_t path = {0};
  ct_tensor_t t;
  float *values = NULL;
  char shape[80];
  if (!name || name == where || !name[1])
    CT_FAIL(CT_ERR_USAGE, "loss.place_weights: '%s' is neither latitude nor FILE.h5:/NAME", where);
  CT_TRY(ct_str_add(&path, "%.*s", (int)(name - where), where));
  CT_TRY(ct_weights_open(formats, path.data, NULL, &f));
  int i = find_tensor(&f, name + 1, &t);
  if (i < 0) CT_FAIL(CT_ERR_USAGE, "loss.place_weights: %s has no array '%s'", path.data, name + 1);
  if (!fits(&t, s))
    CT_FAIL(CT_ERR_USAGE,
            "loss.place_weights: %s does not have the shape of the places, %s, nor dims of 1 there",
            where, ct_shape_text(s, shape, sizeof shape));
  values = ct_mem_array(t.count, sizeof *values, "the weights of the places");
  CT_TRY(values ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_weights_floats(&f, i, values));
  CT_TRY(check_weights(where, t.count, values));
  for (int64_t k = 0; k < count; k++)
    out[k] = values[broadcast(&t, s, k)];
out:
  ct_mem_free(values);
  ct_weights_close(&f);
  ct_str_clear(&path);
  return rc;
}

/* ---- all losses ---- */

/* Writes the weights of loss k, and counts them; out NULL: counts alone. */
static int make_weights(const ct_setup_t *s, int k, int output, float *out, int64_t *count)
{
  int rc = CT_OK;
  const ct_loss_opts_t *o = &s->cfg.losses.of[k];
  const ct_layer_t *layer = &s->graph->layer[ct_graph_output(s->graph, output)];
  const ct_shape_t *x = &layer->out;
  ct_loss_spec_t spec;
  CT_TRY(ct_loss_spec(o, 1, &spec));
  spec.classes_last =
      ct_loss_classes_last(o, layer, (s->data.info.samples ? &s->data : &s->val)->pixels);
  const ct_op_desc_t d = ct_loss_desc(&spec, x);
  const ct_shape_t places = shape_of_places(&d);
  *count = spec.place_weighted ? ct_op_places(&d) : 0;
  if (!*count || !out) return CT_OK;
  if (strcmp(o->place_weights, "latitude") == 0) return by_latitude(&places, *count, out);
  CT_TRY(from_file(o->place_weights, &places, *count, out));
out:
  return rc;
}

static int make_all(const ct_setup_t *s, const int output[], float *out, int64_t *sum)
{
  int rc = CT_OK;
  *sum = 0;
  for (int k = 0; k < s->cfg.losses.n; k++) {
    int64_t count;
    CT_TRY(make_weights(s, k, output[k], out ? out + *sum : NULL, &count));
    *sum += count;
  }
out:
  return rc;
}

int ct_setup_place_weights(ct_setup_t *s)
{
  int rc = CT_OK, output[CT_OUTPUTS], predicts = !s->data.info.samples && s->val.info.unlabelled;
  int64_t count = 0;
  void *data = NULL;
  CT_TRY(ct_losses_outputs(&s->cfg.losses, s->graph, output));
  CT_TRY(make_all(s, output, NULL, &count));
  if (!count || predicts) return CT_OK;
  size_t bytes = (size_t)count * sizeof(float);
  if (s->topo->rank == 0) {
    data = ct_mem_alloc(bytes, "the weights of the places");
    rc = data ? make_all(s, output, data, &count) : CT_ERR_NOMEM;
    if (rc != CT_OK) ct_err_prefix(rc, "%s: ", s->cfg.where);
  }
  rc = ct_agree_bytes(s->topo, rc, &data, &bytes);
  s->place_weight = data;
out:
  return rc;
}
