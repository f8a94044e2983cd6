/* Losses. Labels are checked on the GPU; the next wait reports an invalid label. */
#include "cuda/gpu.h"
#include "cuda/kernels/loss.h"

static int takes_labels(const ct_loss_spec_t *o)
{
  return o->kind == CT_LOSS_CROSS_ENTROPY || o->one_hot;
}

static int loss_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_dev_t *dev = op->dev;
  void *bad = NULL;
  if (!dev->bad_label && !dev->card) {
    CT_TRY(gpu__mem_ops.alloc(dev, CT_MEM_STAGING, sizeof *dev->bad_label, &bad));
    dev->bad_label = bad;
  }
  int64_t rows = gpu__loss_rows(op->desc.x.dim[0], ct_op_pixels(&op->desc));
  info->scratch = (size_t)rows * sizeof(gpu__loss_row_t);
out:
  return rc;
}

static int loss_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  const ct_loss_spec_t *o = &d->u.loss;
  gpu__loss_of_t of = {.spec = *o,
                       .samples = d->x.dim[0],
                       .outputs = ct_shape_sample(&d->x) / ct_op_pixels(d),
                       .pixels = ct_op_pixels(d),
                       .share = ct_op_loss_share(d),
                       .x = a->x};
  if (takes_labels(o)) of.labels = a->labels;
  if (takes_labels(o) && a->labels2 && a->mix) {
    of.labels2 = a->labels2;
    of.mix = a->mix;
  }
  if (o->sample_weighted) of.sample_weight = a->sample_weight;
  if (!takes_labels(o)) of.targets = a->targets;
  if (o->kind == CT_LOSS_CROSS_ENTROPY && o->weighted) of.class_weight = a->class_weight;
  if (a->pass & CT_FWD) GPU_TRY(gpu__loss(&of, a->scratch, a->loss, op->dev->bad_label, s));
  if (a->pass & CT_BWD_DATA) GPU_TRY(gpu__loss_backward(&of, gpu__step_params(a), at, a->dx, s));
out:
  return rc;
}

int gpu__check_labels(ct_dev_t *dev)
{
  gpu__bad_label_t *bad = dev->bad_label;
  if (!bad || !bad->found) return CT_OK;
  bad->found = 0;
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "label %d of sample %lld of the batch is not in 0 to %lld", (int)bad->label,
                    (long long)bad->sample, (long long)bad->outputs - 1);
}

const gpu__kind_t gpu__kind_loss = {
    .size = sizeof(ct_op_t), .nhwc = -1, .prepare = loss_prepare, .run = loss_run};
