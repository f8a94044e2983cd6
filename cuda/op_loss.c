/* Losses. Labels are checked on the GPU; the next wait reports an invalid label. */
#include "cuda/gpu.h"
#include "cuda/kernels/loss.h"

static int is_whole(const ct_loss_spec_t *o)
{
  return o->kind != CT_LOSS_CROSS_ENTROPY && !ct_loss_is_point(o->kind);
}

/* Returns the number of pixels, each with a number per class. */
static int64_t pixels_of(const ct_op_desc_t *d)
{
  if (d->u.loss.classes_last) return 1;
  if (d->u.loss.kind == CT_LOSS_RELATIVE_L2) return ct_op_places(d);
  return ct_loss_by_class(d->u.loss.kind) ? ct_op_places(d) : 1;
}

/* Returns the number of rows of a sample, each with all classes. */
static int64_t rows_of(const ct_op_desc_t *d)
{
  return d->u.loss.classes_last ? ct_op_pixels(d) : 1;
}

int gpu__bad_label_open(ct_dev_t *dev)
{
  int rc = CT_OK;
  void *bad = NULL;
  if (dev->bad_label || dev->card) return CT_OK;
  CT_TRY(gpu__mem_ops.alloc(dev, CT_MEM_STAGING, sizeof *dev->bad_label, &bad));
  dev->bad_label = bad;
out:
  return rc;
}

static int loss_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  CT_TRY(gpu__bad_label_open(op->dev));
  const ct_op_desc_t *d = &op->desc;
  int64_t samples = d->x.dim[0], pixels = pixels_of(d), outputs = ct_shape_sample(&d->x) / pixels;
  info->scratch = (size_t)gpu__loss_rows(samples * rows_of(d), pixels) * sizeof(gpu__loss_row_t);
  if (is_whole(&d->u.loss))
    info->scratch = (size_t)samples * sizeof(gpu__loss_row_t) +
                    gpu__loss_samples_bytes(d->u.loss.kind, samples, outputs, pixels);
out:
  return rc;
}

static int run_whole(ct_op_t *op, const ct_op_args_t *a, const gpu__loss_of_t *of,
                     const gpu__step_params_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  gpu__loss_row_t *rows = a->scratch;
  double *table = (double *)(void *)(rows + of->samples);
  if (a->pass & CT_FWD) {
    GPU_TRY(gpu__loss_samples(of, table, rows, s));
    GPU_TRY(gpu__loss_sum_up(of, of->samples, rows, a->loss, op->dev->bad_label, s));
  }
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(gpu__loss_samples_backward(of, table, gpu__step_params(a), at, a->dx, s));
out:
  return rc;
}

gpu__loss_of_t gpu__loss_inputs(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const ct_loss_spec_t *o = &d->u.loss;
  gpu__loss_of_t of = {.spec = *o,
                       .samples = d->x.dim[0],
                       .outputs = ct_shape_sample(&d->x) / pixels_of(d) / rows_of(d),
                       .pixels = pixels_of(d),
                       .rows = rows_of(d),
                       .share = ct_op_loss_share(d),
                       .x = a->x};
  of.line = of.outputs;
  if (ct_loss_has_labels(o)) of.labels = a->labels;
  if (ct_loss_has_labels(o) && of.rows == 1 && a->labels2 && a->mix) {
    of.labels2 = a->labels2;
    of.mix = a->mix;
  }
  if (o->sample_weighted) of.sample_weight = a->sample_weight;
  if (!ct_loss_has_labels(o)) of.targets = a->targets;
  if (o->weighted) of.class_weight = a->class_weight;
  if (o->place_weighted) of.place_weight = a->place_weight;
  return of;
}

static int loss_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const ct_loss_spec_t *o = &op->desc.u.loss;
  const gpu__loss_of_t of = gpu__loss_inputs(&op->desc, a);
  if (is_whole(o)) return run_whole(op, a, &of, at, s);
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
