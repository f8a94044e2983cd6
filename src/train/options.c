/* The option tables of the sections `parallel` and `train`. */
#include "train/ct_strategies.h"

#include "base/ct_err.h"

#define WORD(word, help)      #word
#define NEXT_WORD(word, help) "|" #word
#define HELP(word, help)      #word ": " help
#define NEXT_HELP(word, help) "; " #word ": " help

const ct_opt_t ct_parallel_rows[] = {
    CT_OPT_CHOICE(ct_parallel_opts_t, mode, "ddp", CT_STRATEGIES(WORD, NEXT_WORD),
                  CT_STRATEGIES(HELP, NEXT_HELP)),
    CT_OPT_DOUBLE_OR(ct_parallel_opts_t, bucket_mb, "0", 0, 4096, "auto",
                     "MB of gradients per all-reduce; 0: default of the device; auto: derived from "
                     "the times of a few messages at the start"),
    CT_OPT_CHOICE(
        ct_parallel_opts_t, allreduce, "hierarchical", "hierarchical|flat|auto",
        "all-reduce over MPI: hierarchical: first inside each node, then between nodes; flat: over "
        "all ranks at once; auto: the faster one, by timing a few at the start"),
    CT_OPT_INT(ct_parallel_opts_t, shards, "0", 0, 65536,
               "logical shards of a batch, a power of two: results are bit-identical for every "
               "number of ranks that divides it; 0: off"),
    CT_OPT_INT(
        ct_parallel_opts_t, zero, "0", 0, 1,
        "1: optimizer states are sharded over the ranks (ZeRO-1); on a GPU in mixed precision "
        "the float32 weights are too, where ops read the reduced copy"),
    CT_OPT_CHOICE(ct_parallel_opts_t, grad_dtype, "float32", "float32|bf16",
                  "type in which gradients are sent between nodes"),
    CT_OPT_INT(
        ct_parallel_opts_t, verify_every, "0", 0, 1e18,
        "steps between checks that all ranks have identical parameters; 0: at the start only"),
    CT_OPT_BOOL(ct_parallel_opts_t, tied_rows, "true",
                "a table that is an embedding and also the weight of a later layer: its all-reduce "
                "starts when the later layer's gradient is known, and the embedding's gradient "
                "follows as the rows of a batch's tokens, if these are no more than the table has; "
                "not with accumulate and shards"),
    CT_OPT_BOOL(ct_parallel_opts_t, share_gpu, "false",
                "several ranks may use one GPU; their gradients are staged through host memory"),
    CT_OPT_END};

const ct_opt_t ct_train_rows[] = {
    CT_OPT_INT(ct_train_opts_t, epochs, "10", 1, 1e9, "passes over the training data"),
    CT_OPT_INT(ct_train_opts_t, steps, "0", 0, 1e18,
               "stop after this many steps, or after train.epochs, whichever is first; 0: after "
               "train.epochs"),
    CT_OPT_INT(ct_train_opts_t, tokens, "0", 0, 1e18,
               "windows of tokens: sets train.steps to as many as have this many tokens, rounded "
               "up, and train.epochs so that it does not end the run before; 0: off"),
    CT_OPT_DOUBLE(ct_train_opts_t, peak_tflops, "0", 0, 1e9,
                  "windows of tokens: peak TFLOP/s of the device of a rank, for the model FLOPs "
                  "utilization (MFU) of the log; 0: it is not printed"),
    CT_OPT_CHOICE(
        ct_train_opts_t, amp, "off", "off|bf16|fp16|tf32",
        "mixed precision: activations of this type, float32 weights; fp16 uses loss scaling; tf32: "
        "all float32, but GPUs round the factors of products to 10 bits"),
    CT_OPT_TEXT(ct_train_opts_t, sync_bn, "off",
                "SyncBN: batchnorm statistics over: off (each rank on its own), world, node, or "
                "groups of this many ranks"),
    CT_OPT_INT(
        ct_train_opts_t, accumulate, "1", 1, 32768,
        "gradient accumulation: micro-batches into which a rank's part of data.batch is split"),
    CT_OPT_TEXT(ct_train_opts_t, memory, "off",
                "memory that the process of a rank may use, such as 8G or 800M, or auto: its share "
                "of what is free on the node or GPU; activations that do not fit are computed "
                "again in backward, with the same results; off: no limit"),
    CT_OPT_DOUBLE(ct_train_opts_t, clip_norm, "0", 0, 1e30,
                  "maximum norm of the whole gradient; 0: not clipped"),
    CT_OPT_TEXT(ct_train_opts_t, clip_norm_type, "2", "p of the norm, or inf"),
    CT_OPT_DOUBLE(ct_train_opts_t, clip_value, "0", 0, 1e30,
                  "maximum absolute value of each gradient element; 0: not clipped"),
    CT_OPT_TEXTS(ct_train_opts_t, freeze, "[]",
                 "patterns of parameters that are not trained: conv1.*, layer1"),
    CT_OPT_BOOL(ct_train_opts_t, freeze_bn, "false",
                "batchnorms of frozen layers (all of them if freeze is empty) use their running "
                "statistics and do not update them"),
    CT_OPT_INT(ct_train_opts_t, lag, "1", 0, 1,
               "1: on a GPU the next step is enqueued before the result of a step is read, so that "
               "a stop takes effect one step later; the model is the same; 0: after it"),
    CT_OPT_INT(ct_train_opts_t, replay_every, "0", 0, 1e18,
               "every so many steps, forward and backward run twice from the same state: a "
               "difference in any bit of the gradients ends the run with an error that names rank, "
               "host, tensor and step (silent data corruption); adds 100/replay_every percent of "
               "time; 0: off"),
    CT_OPT_DOUBLE(
        ct_train_opts_t, slab_mb, "512", 0, 1e9,
        "a convolution whose output has more than this many MB per sample, in float32, is "
        "computed with its activation and pooling in slabs of depth (images: of height), so "
        "that the output is never stored as a whole; 0: never; not with qat"),
    CT_OPT_BOOL(ct_train_opts_t, qat, "false",
                "quantization-aware training: weights and activations are rounded as by "
                "`quantize`, with straight-through gradients"),
    CT_OPT_DOUBLE(ct_train_opts_t, ema, "0", 0, 0.9999999,
                  "decay of an exponential moving average of the weights, such as 0.999; "
                  "evaluation and checkpoints use the average; 0: off"),
    CT_OPT_NODE(ct_train_opts_t, early_stop,
                "map of metric (top1, top5, loss, mae; default top1) and patience (default 5): "
                "training ends after this many evaluations without improvement"),
    CT_OPT_END};

static const ct_opt_t early_stop_rows[] = {
    CT_OPT_CHOICE(ct_early_stop_t, metric, "top1", "off|" CT_SCORE_KINDS,
                  "metric that must improve"),
    CT_OPT_INT(ct_early_stop_t, patience, "5", 1, 1e9, "evaluations without improvement"),
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
