/** \file ct_train_opts.h  Sections `parallel` and `train` of the configuration.  Layer 4.  Free of
 * MPI. */
#ifndef CT_TRAIN_OPTS_H
#define CT_TRAIN_OPTS_H
#include "conf/ct_opt.h"
#include "ckpt/ct_score.h"

enum { CT_BUCKET_AUTO = -1 }; /**< `parallel.bucket_mb: auto` */

/** Choices of `parallel.allreduce`, in their order. */
typedef enum { CT_ALLREDUCE_HIERARCHICAL, CT_ALLREDUCE_FLAT, CT_ALLREDUCE_AUTO } ct_allreduce_t;

/** Options of the section `parallel`. */
typedef struct ct_parallel_opts {
  int mode;             /**< index into the list of ct_strategies.h */
  double bucket_mb;     /**< 0: default of the device; CT_BUCKET_AUTO */
  int allreduce;        /**< ct_allreduce_t */
  int64_t shards;       /**< logical shards; 0: ranks and `accumulate` decide */
  int64_t zero;         /**< 1: ZeRO-1, optimizer states are sharded over the ranks */
  int grad_dtype;       /**< float32|bf16 */
  int64_t verify_every; /**< steps; 0: never */
  int tied_rows;        /**< 1: an embedding's rows of a tied table travel by themselves */
  int share_gpu;        /**< 1: several ranks may use one device */
} ct_parallel_opts_t;
extern const ct_opt_t ct_parallel_rows[];

/** Options of the section `train`. */
typedef struct ct_train_opts {
  int64_t epochs;
  int64_t steps;        /**< maximum number of steps; 0: epochs alone limit the run */
  int64_t tokens;       /**< in place of steps: their tokens; 0: steps */
  double peak_tflops;   /**< of the device of a rank; 0: unknown */
  int amp;              /**< off|bf16|fp16|tf32 */
  char *sync_bn;        /**< off, world, node, or the number of ranks per group */
  int64_t accumulate;   /**< micro-batches per local batch */
  char *memory;         /**< off, auto, or a size; ct_step_opts_t.memory */
  double clip_norm;     /**< 0: off */
  char *clip_norm_type; /**< p of the norm, or inf */
  double clip_value;    /**< 0: off */
  ct_opt_texts_t freeze;
  int freeze_bn;
  int64_t lag;    /**< steps begun before the result of an earlier one is read; 0, 1 */
  double slab_mb; /**< output of a convolution per sample from which slabs are used; 0: never */
  int qat;        /**< quantization-aware training (int8) */
  int64_t replay_every;  /**< steps; 0: never */
  double ema;            /**< decay of the averaged weights; 0: off */
  ct_yaml_t *early_stop; /**< owned; NULL: off; parsed by ct_early_stop_read() */
} ct_train_opts_t;
extern const ct_opt_t ct_train_rows[];
/** Returns 1 if float32 products may round their factors to TF32 (train.amp: tf32). */
int ct_train_opts_tf32(const ct_train_opts_t *t);

/** `train.early_stop`: end training when the metric stops improving. */
typedef struct ct_early_stop {
  int metric;       /**< ct_score_kind_t; CT_SCORE_OFF: early stopping is off */
  int64_t patience; /**< evaluations without improvement after which training ends */
} ct_early_stop_t;
/** Local. Parses o->early_stop. CT_ERR_USAGE names the key and its line in the file \a where. */
int ct_early_stop_read(const ct_train_opts_t *o, const char *where, ct_early_stop_t *out);

#endif
