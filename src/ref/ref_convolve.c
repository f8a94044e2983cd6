/* A convolution whose weight and bias are inputs: ref_conv.c, with the inputs as parameters and
 * their gradients as those of parameters. */
#include "ref/ref.h"

/* Returns a gradient's memory, or scratch if it is not wanted. */
static void *or_scratch(void *gradient, void *scratch)
{
  return gradient ? gradient : scratch;
}

static size_t conv_scratch(const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_with_params(d);
  ct_op_info_t info = ct_op_info_of(&conv, "reference");
  ct__ref_conv.needs(&conv, &info);
  return info.scratch;
}

static int convolve_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK;
  ct_op_desc_t conv = ct_op_with_params(d);
  ct_op_args_t args = *a;
  char *spare = (char *)a->scratch + conv_scratch(d);

  args.w[0] = (void *)(uintptr_t)a->x2;
  args.w[1] = (void *)(uintptr_t)a->x3;
  args.pass = CT_FWD;
  if (a->pass & CT_FWD) return ct__ref_conv.run(&conv, &args);
  args.pass = CT_BWD_DATA;
  if (a->dx) CT_TRY(ct__ref_conv.run(&conv, &args));
  args.pass = CT_BWD_PARAM;
  args.dw[0] = or_scratch(a->dx2, spare);
  args.dw[1] = or_scratch(a->dx3, spare);
  if (a->dx2 || a->dx3) CT_TRY(ct__ref_conv.run(&conv, &args));
out:
  return rc;
}

static void convolve_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->scratch = conv_scratch(d) + (size_t)ct_shape_count(&d->x2) * sizeof(float);
}

const ct__ref_kind_t ct__ref_convolve = {.run = convolve_run, .needs = convolve_needs};
