/* torch.nn.GroupNorm, and torch.nn.InstanceNorm1d to 3d without running statistics, which have one
 * group per channel.  Each sample is normalised separately, so the result does not depend on ranks
 * or batch size. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t num_groups;
  double eps;
  int affine;
} groupnorm_t;

#define EPS           CT_OPT_DOUBLE(groupnorm_t, eps, "1e-5", 1e-12, 1, "added to the variance")
#define AFFINE(usual) CT_OPT_BOOL(groupnorm_t, affine, usual, "trained scale and shift per channel")

static const ct_opt_t group_rows[] = {CT_OPT_INT(groupnorm_t, num_groups, NULL, 1, 1 << 24,
                                                 "number of groups; must divide the channels"),
                                      EPS, AFFINE("true"), CT_OPT_END};
static const ct_opt_t instance_rows[] = {EPS, AFFINE("false"), CT_OPT_END};

/* Checks that samples are in dim 0: each of its indices is normalised on its own. */
static int check_samples(const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim < 2)
    CT_FAIL(CT_ERR_SHAPE, "needs N x C x ..., but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
  CT_TRY(ct__layer_no_batch(in, ~1u, "a normalisation"));
out:
  return rc;
}

static int infer_group(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const groupnorm_t *o = opts;
  CT_TRY(check_samples(in));
  if (in->dim[1] % o->num_groups)
    CT_FAIL(CT_ERR_SHAPE, "num_groups %" PRId64 " must divide its %" PRId64 " channels",
            o->num_groups, in->dim[1]);
  *out = *in;
out:
  return rc;
}

static int infer_instance(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char shape[80];
  (void)opts;
  CT_TRY(check_samples(in));
  if (ct_shape_sample(in) == in->dim[1])
    CT_FAIL(CT_ERR_SHAPE, "needs more than one value of each channel, but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
  *out = *in;
out:
  return rc;
}

static int groupnorm_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const groupnorm_t *o = opts;
  ct_shape_t per_channel = ct_shape(1, in->dim[1]);
  if (!o->affine) return 0;
  spec[0] = (ct_param_spec_t){.suffix = "weight", .shape = per_channel, .init = CT_INIT_ONE};
  spec[1] = (ct_param_spec_t){.suffix = "bias", .shape = per_channel, .init = CT_INIT_ZERO};
  return 2;
}

static void group(const void *opts, ct_op_desc_t *d)
{
  const groupnorm_t *o = opts;
  d->u.gnorm.groups = (int)o->num_groups;
  d->u.gnorm.affine = o->affine;
  d->u.gnorm.eps = o->eps;
}

static void instance(const void *opts, ct_op_desc_t *d)
{
  group(opts, d);
  d->u.gnorm.groups = (int)d->x.dim[1];
}

#define KIND(word, text, rows, shape, what)                                   \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                     \
                                           .help = text,                      \
                                           .opts_bytes = sizeof(groupnorm_t), \
                                           .opts = rows,                      \
                                           .inputs = 1,                       \
                                           .general = 1,                      \
                                           .infer = shape,                    \
                                           .params = groupnorm_params,        \
                                           .op = CT_OP_GNORM,                 \
                                           .attributes = what};

KIND(groupnorm, "normalisation of each sample over groups of channels and space", group_rows,
     infer_group, group)
KIND(instancenorm, "normalisation of each channel of each sample over space", instance_rows,
     infer_instance, instance)
