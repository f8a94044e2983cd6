/* The option tables of the sections `parallel` and `train`. */
#include "train/ct_strategies.h"

#include "base/ct_err.h"

#define WORD(word, help)      #word
#define NEXT_WORD(word, help) "|" #word
#define HELP(word, help)      #word ": " help
#define NEXT_HELP(word, help) "; " #word ": " help

const ct_opt_t ct_parallel_rows[] = {
    CT_OPT_CHOICE(ct_parallel_opts_t, mode, "ddp", CT_WAYS(WORD, NEXT_WORD),
                  CT_WAYS(HELP, NEXT_HELP)),
    CT_OPT_DOUBLE_OR(ct_parallel_opts_t, bucket_mb, "0", 0, 4096, "auto",
                     "MB of gradients sent at once; 0: what suits the device; auto: what suits the "
                     "messages, a few of which are timed first"),
    CT_OPT_CHOICE(ct_parallel_opts_t, allreduce, "hierarchical", "hierarchical|flat|auto",
                  "over MPI sums are made in a node's memory first, then between nodes, or by all "
                  "ranks at once; auto: whichever is faster by a few that are timed first"),
    CT_OPT_INT(ct_parallel_opts_t, shards, "0", 0, 65536,
               "logical shards of a batch, a power of two: the same bits at every rank count that "
               "divides it; 0: off"),
    CT_OPT_INT(ct_parallel_opts_t, zero, "0", 0, 1,
               "1: each rank has a slice of the optimizer's states (ZeRO-1)"),
    CT_OPT_CHOICE(ct_parallel_opts_t, grad_dtype, "float32", "float32|bf16",
                  "type in which gradients travel between nodes"),
    CT_OPT_INT(ct_parallel_opts_t, verify_every, "0", 0, 1e18,
               "steps after which all ranks compare their parameters; 0: at the start only"),
    CT_OPT_BOOL(ct_parallel_opts_t, share_gpu, "false",
                "several ranks may use one GPU; their gradients travel through the host's memory"),
    CT_OPT_END};

const ct_opt_t ct_train_rows[] = {
    CT_OPT_INT(ct_train_opts_t, epochs, "10", 1, 1e9, "passes over the training data"),
    CT_OPT_INT(ct_train_opts_t, steps, "0", 0, 1e18, "stop after so many steps; 0: epochs decide"),
    CT_OPT_CHOICE(
        ct_train_opts_t, amp, "off", "off|bf16|fp16",
        "mixed precision: activations of this type, float32 weights; fp16 scales the loss"),
    CT_OPT_TEXT(
        ct_train_opts_t, sync_bn, "off",
        "statistics of batchnorms over: off (each rank its own), world, node, or groups of so "
        "many ranks"),
    CT_OPT_INT(ct_train_opts_t, accumulate, "1", 1, 32768,
               "pieces that a rank's part of data.batch is cut into, done one after another"),
    CT_OPT_DOUBLE(ct_train_opts_t, clip_norm, "0", 0, 1e30,
                  "largest norm of the whole gradient; 0: not clipped"),
    CT_OPT_TEXT(ct_train_opts_t, clip_norm_type, "2", "p of that norm, or inf"),
    CT_OPT_DOUBLE(ct_train_opts_t, clip_value, "0", 0, 1e30,
                  "largest absolute value of a gradient's elements; 0: not clipped"),
    CT_OPT_TEXTS(ct_train_opts_t, freeze, "[]",
                 "patterns of parameters that stay as they are: conv1.*, layer1"),
    CT_OPT_BOOL(ct_train_opts_t, freeze_bn, "false",
                "batchnorms of the frozen part (of the whole model, if freeze is empty) use their "
                "running statistics and keep them"),
    CT_OPT_BOOL(ct_train_opts_t, qat, "false",
                "quantization-aware: weights and activations are rounded as `quantize` does it, "
                "and gradients go straight through (devices cpu and ref)"),
    CT_OPT_DOUBLE(ct_train_opts_t, ema, "0", 0, 0.9999999,
                  "decay of an exponential moving average of the weights, which is what is "
                  "evaluated, and the model of the checkpoints: 0.999; 0: none"),
    CT_OPT_NODE(ct_train_opts_t, early_stop,
                "map of metric (top1, top5, loss, mae; default top1) and patience (default 5): "
                "training ends after so many evaluations without a better one"),
    CT_OPT_END};

static const ct_opt_t early_stop_rows[] = {
    CT_OPT_CHOICE(ct_early_stop_t, metric, "top1", "off|" CT_SCORE_KINDS, "what must get better"),
    CT_OPT_INT(ct_early_stop_t, patience, "5", 1, 1e9, "evaluations without a better one"),
    CT_OPT_END};

int ct_early_stop_read(const ct_train_opts_t *o, const char *where, ct_early_stop_t *out)
{
  int rc = CT_OK;
  *out = (ct_early_stop_t){0};
  if (!o->early_stop) return CT_OK;
  CT_TRY(ct_opt_defaults(early_stop_rows, out));
  CT_TRY(ct_opt_read(early_stop_rows, out, o->early_stop, where, "train.early_stop", NULL));
out:
  return rc;
}
