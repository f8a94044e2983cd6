/** \file ct_layer.h  Layer kinds: options -> shapes, parameters, one op.  Layer 2, pure.
 *
 * A kind is one file and one line in layers.c.  It never sees memory, a device or a rank. */
#ifndef CT_LAYER_H
#define CT_LAYER_H
#include "backend/ct_op.h"
#include "conf/ct_opt.h"

#define CT_LAYER_PARAMS 4

/** How a parameter begins (the values are drawn by ct_rng; see ct_graph.h). */
typedef enum {
  CT_INIT_ZERO,
  CT_INIT_ONE,
  CT_INIT_UNIFORM,     /**< in [-scale, scale) */
  CT_INIT_NORMAL,      /**< mean 0, standard deviation scale */
  CT_INIT_TRUNC_NORMAL /**< the same, but in [-2, 2], as torch.nn.init.trunc_normal_ */
} ct_init_t;

typedef struct ct_param_spec {
  const char *suffix; /**< static: "weight", "bias", "running_mean", "running_var" */
  ct_shape_t shape;   /**< plain float32, PyTorch's: OIHW; Linear out x in */
  ct_init_t init;
  double scale;
  int buffer; /**< 1: not trained (running statistics) */
} ct_param_spec_t;

typedef struct ct_layer_ops {
  const char *kind; /**< word in the model: "conv2d" */
  const char *help; /**< one line */
  size_t opts_bytes;
  const ct_opt_t *opts; /**< the one list of options */
  int inputs;           /**< 1 or 2 */
  ct_op_kind_t op;      /**< the one op of the layer */
  /** Output shape; CT_ERR_SHAPE says what does not fit.  in[0..inputs).  NULL: that of the input.
   */
  int (*infer)(const void *opts, const ct_shape_t *in, ct_shape_t *out);
  /** Parameters in state-dict order, the op's w[] order; returns how many (0 … CT_LAYER_PARAMS).
   * NULL: there are none. */
  int (*params)(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS]);
  /** Begins the name of a parameter instead of the layer's name; "": nothing does.  NULL, or
   * returns NULL: the layer's name. */
  const char *(*prefix)(const void *opts, int slot);
  /** What the op, which has its kind and shapes, is told besides; passes and training are the
   * plan's to set.  NULL: nothing. */
  void (*attributes)(const void *opts, ct_op_desc_t *d);
} ct_layer_ops_t;

/** All kinds, NULL-terminated; layers.c. */
extern const ct_layer_ops_t *const ct_layer_kinds[];
/** By word; NULL if there is none. */
const ct_layer_ops_t *ct_layer_find(const char *kind);

#endif
