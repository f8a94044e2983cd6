/* Resolves options to a parallel strategy: converts words to numbers and rejects combinations that
 * are not supported, before anything is allocated. Each strategy's file checks the combinations of
 * that strategy. */
#include "train/ct_step_opts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"

#define ROW(word, help) &ct_strategy_##word,
static const ct_strategy_t *const strategies[] = {
    CT_STRATEGIES(ROW, ROW)}; /* in the order of the choices */

/* off, world, node, or a number of ranks. */
static int read_sync_bn(const char *text, int ranks, int *out)
{
  int rc = CT_OK;
  int64_t n = 0;
  if (strcmp(text, "off") == 0) {
    *out = 0;
  } else if (strcmp(text, "world") == 0) {
    *out = ranks;
  } else if (strcmp(text, "node") == 0) {
    *out = CT_SYNC_NODE;
  } else {
    if (ct_text_int(text, &n) != CT_OK || n < 1)
      CT_FAIL(CT_ERR_USAGE,
              "train.sync_bn is '%s', expected off, world, node or the number of ranks of a group",
              text);
    *out = n < ranks ? (int)n : ranks;
  }
out:
  return rc;
}

static int read_memory(const char *text, size_t *out)
{
  int rc = CT_OK;
  *out = 0;
  if (!*text || strcmp(text, "off") == 0) return CT_OK; /* null is the default */
  *out = CT_MEMORY_AUTO;
  if (strcmp(text, "auto") == 0) return CT_OK;
  if (ct_text_size(text, out) != CT_OK)
    CT_FAIL(CT_ERR_USAGE, "train.memory is '%s', expected off, auto or a size such as 8G or 800M",
            text);
out:
  return rc;
}

static int read_norm_type(const char *text, double *out)
{
  int rc = CT_OK;
  if (strcmp(text, "inf") == 0) {
    *out = INFINITY;
  } else if (ct_text_double(text, out) != CT_OK || *out <= 0) {
    CT_FAIL(CT_ERR_USAGE, "train.clip_norm_type is '%s', expected a number above 0, or inf", text);
  }
out:
  return rc;
}

/* Logical shards guarantee bit-identical results for every number of ranks that divides them.
 * Rejects options that would break this. */
static int check_shards(const ct_parallel_opts_t *p, const ct_train_opts_t *t, int ranks)
{
  int rc = CT_OK;
  int64_t v = p->shards;
  if (v & (v - 1))
    CT_FAIL(CT_ERR_USAGE,
            "parallel.shards is %" PRId64
            ", expected a power of two: only then each rank count that "
            "divides it adds up the gradients in the same order",
            v);
  if (v % ranks)
    CT_FAIL(CT_ERR_USAGE, "parallel.shards is %" PRId64 ", which %d ranks cannot share evenly", v,
            ranks);
  if (t->accumulate > 1)
    CT_FAIL(CT_ERR_USAGE, "parallel.shards and train.accumulate both split the batch into "
                          "micro-batches: give one of them");
  if (strcmp(t->sync_bn, "off") != 0)
    CT_FAIL(CT_ERR_USAGE, "train.sync_bn needs all samples at the same time, but shards "
                          "(parallel.shards) may run one "
                          "after another: switch one of them off");
  if (p->grad_dtype)
    CT_FAIL(
        CT_ERR_USAGE,
        "parallel.grad_dtype: bf16 rounds what travels, so the result depends on the ranks: not "
        "with parallel.shards");
  if (p->zero)
    CT_FAIL(CT_ERR_USAGE,
            "parallel.zero adds up norms in an order that depends on the ranks: not with "
            "parallel.shards");
out:
  return rc;
}

/* The choices of train.amp. */
enum { AMP_OFF, AMP_BF16, AMP_FP16, AMP_TF32 };

int ct_train_opts_tf32(const ct_train_opts_t *t)
{
  return t->amp == AMP_TF32;
}

int ct_step_opts_make(const ct_parallel_opts_t *p, const ct_train_opts_t *t, int ranks,
                      ct_step_opts_t *out)
{
  static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16, CT_F32}; /* as AMP_… */
  int rc = CT_OK;
  *out = (ct_step_opts_t){.compute = types[t->amp],
                          .micro_batches = (int)t->accumulate,
                          .clip_norm = t->clip_norm,
                          .clip_value = t->clip_value,
                          .zero = (int)p->zero,
                          .slab_mb = t->qat ? 0 : t->slab_mb,
                          .late_rows = p->tied_rows,
                          .ema = t->ema,
                          .lag = (int)t->lag,
                          .replay_every = t->replay_every,
                          .qat = t->qat != 0,
                          .strategy = strategies[p->mode]};
  if (out->strategy->one_rank && ranks > 1)
    CT_FAIL(CT_ERR_USAGE,
            "parallel.mode is %s, but there are %d ranks: set it to ddp, or start one",
            out->strategy->name, ranks);
  if (out->strategy->check) CT_TRY(out->strategy->check(p, t));
  if (t->qat && out->strategy->rank0_deals)
    CT_FAIL(CT_ERR_USAGE,
            "train.qat rounds the weights of each rank, but with parallel.mode %s they "
            "come from rank 0 within the step: set it to ddp",
            out->strategy->name);
  if (t->replay_every && out->strategy->rank0_deals)
    CT_FAIL(CT_ERR_USAGE,
            "train.replay_every runs forward and backward twice on each rank, but with "
            "parallel.mode %s rank 0 computes the loss between them: set it to ddp",
            out->strategy->name);
  if (p->shards) {
    CT_TRY(check_shards(p, t, ranks));
    out->micro_batches = (int)p->shards / ranks;
    out->fixed_order = 1;
  }
  if (t->clip_norm > 0 && t->clip_value > 0)
    CT_FAIL(CT_ERR_USAGE, "train.clip_norm and train.clip_value are both given: choose one");
  CT_TRY(read_sync_bn(t->sync_bn, ranks, &out->sync_bn));
  CT_TRY(read_norm_type(t->clip_norm_type, &out->clip_p));
  CT_TRY(read_memory(t->memory, &out->memory));
out:
  return rc;
}
