/* A pooling over the steps of sequences that a mask marks as valid. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

enum { VALID_MEAN, VALID_MAX, VALID_LAST };

typedef struct {
  int mode;
  char *mask;
} pool_steps_t;

static const ct_opt_t pool_steps_rows[] = {
    CT_OPT_CHOICE(pool_steps_t, mode, "mean", "mean|max|last",
                  "mean or maximum of the valid steps, or the last of them"),
    CT_OPT_TEXT(pool_steps_t, mask, "",
                "a value N x T, such as input.mask: 1 for valid steps, which are neighbours, 0 for "
                "others; empty: all are valid"),
    CT_OPT_END};

/* Pools as if all steps were valid. */
static int pool_all(const ct_shape_t *in, int mode, const char *name, const char *from,
                    ct_str_t *out)
{
  static const char *const how[] = {"mean: {dims: [1], keepdim: no}", "amax: {dims: [1]}"};
  if (mode == VALID_LAST)
    return ct_str_add(out, "- {select: {index: %" PRId64 "}, name: %s, from: %s}\n", in->dim[1] - 1,
                      name, from);
  return ct_str_add(out, "- {%s, name: %s, from: %s}\n", how[mode], name, from);
}

/* The weights of the steps, N x T: all valid ones have the same share; or the last one, which is
 * not followed by a valid one, has all. */
static int add_weights(int mode, const char *mask, const char *name, ct_str_t *out)
{
  int rc = CT_OK;
  if (mode == VALID_MEAN) {
    CT_TRY(
        ct_str_add(out, "- {sum: {dims: [1], keepdim: yes}, name: %s.n, from: %s}\n", name, mask));
    CT_TRY(ct_str_add(out, "- {div: {}, name: %s.w, from: [%s, %s.n]}\n", name, mask, name));
  } else {
    CT_TRY(ct_str_add(out, "- {pad: {pad: [-1, 1]}, name: %s.next, from: %s}\n", name, mask));
    CT_TRY(ct_str_add(out, "- {gt: {}, name: %s.w, from: [%s, %s.next]}\n", name, mask, name));
  }
out:
  return rc;
}

static int pool_steps_expands(const void *opts, const ct_shape_t *in, const char *name,
                              const char *from, const char *const *names, ct_str_t *out)
{
  int rc = CT_OK;
  const pool_steps_t *o = opts;
  const char *mask = o->mask;
  char shape[80];
  (void)names;
  if (in->ndim != 3 || in->batch != 1)
    CT_FAIL(CT_ERR_SHAPE, "needs N x T x features, but its input is %s",
            ct__layer_shape_text(in, shape, sizeof shape));
  if (!mask[0]) return pool_all(in, o->mode, name, from, out);
  if (o->mode != VALID_MAX) CT_TRY(add_weights(o->mode, mask, name, out));
  CT_TRY(ct_str_add(out, "- {reshape: {shape: [N, %" PRId64 ", 1]}, name: %s.of, from: %s%s}\n",
                    in->dim[1], name, o->mode == VALID_MAX ? mask : name,
                    o->mode == VALID_MAX ? "" : ".w"));
  if (o->mode == VALID_MAX) {
    CT_TRY(ct_str_add(out, "- {eq: {value: 0}, name: %s.out}\n", name));
    CT_TRY(ct_str_add(out, "- {where: {value: -inf}, name: %s.in, from: [%s.out, %s]}\n", name,
                      name, from));
    CT_TRY(ct_str_add(out, "- {amax: {dims: [1]}, name: %s}\n", name));
  } else {
    CT_TRY(ct_str_add(out, "- {mul: {}, name: %s.in, from: [%s, %s.of]}\n", name, from, name));
    CT_TRY(ct_str_add(out, "- {sum: {dims: [1]}, name: %s}\n", name));
  }
out:
  return rc;
}

const ct_layer_ops_t ct__layer_pool_steps = {
    .kind = "pool_steps",
    .help = "one value per feature from the valid steps of a sequence N x T x features",
    .opts_bytes = sizeof(pool_steps_t),
    .opts = pool_steps_rows,
    .inputs = 1,
    .general = 1,
    .expands = pool_steps_expands,
    .op = CT_OP_REDUCE,
};
