/** \file ct_import.h  Translates a program of torch.export into `model.layers`.  Layer 4.
 *
 * ct_import_open() reads a .pt2 file (ct_pt2.h) and writes each op of PyTorch as one layer or
 * several.  A layer has the path of the user's module as its name, and its parameters have the
 * names of the state dict, so the weights of the file are found by name.  Tensors of the user's
 * code, and those computed from them, become layers of the kind `constant`.
 *
 * All functions are local.  Texts live as long as the handle. */
#ifndef CT_IMPORT_H
#define CT_IMPORT_H
#include <stdint.h>

#include "base/ct_types.h"

typedef struct ct_import ct_import_t;

/** Reads and translates a file.  CT_ERR_IO; CT_ERR_FORMAT: not a .pt2 file of a known version, or
 * damaged; CT_ERR_UNSUP: the message lists the ops that have no layer, each with the path of a
 * module that uses it, or says how to export the model instead.  *out is NULL after an error; freed
 * by ct_import_close(). */
int ct_import_open(const char *path, ct_import_t **out);
/** Frees \a im, which may be NULL. */
void ct_import_close(ct_import_t *im);

/** Returns the layers as YAML, the list that is the value of `model.layers`. */
const char *ct_import_layers(const ct_import_t *im);

/** An input of the user's forward(). */
typedef struct ct_import_input {
  const char *name; /**< of the argument: "x"; "extra.mask" for parts of a dict or list */
  const char *from; /**< its name in the layers: "input" for the first, then "input.mask": letters,
                         digits, '_' and '-' after the dot */
  ct_shape_t shape; /**< one sample: dim[0] = 1, batch = 1 */
  int integer;      /**< 1: whole numbers or bool: indices or a mask */
  int used;         /**< 0: no layer reads it */
} ct_import_input_t;
int ct_import_inputs(const ct_import_t *im);
const ct_import_input_t *ct_import_input(const ct_import_t *im, int i);

/** An output of the user's forward(), in its order. */
typedef struct ct_import_output {
  const char *name;  /**< key or index: "logits", "0"; "": the model returns one tensor */
  const char *layer; /**< the layer whose output it is */
  ct_shape_t shape;  /**< one sample; batch: its dims that grow with the batch */
} ct_import_output_t;
int ct_import_outputs(const ct_import_t *im);
const ct_import_output_t *ct_import_output(const ct_import_t *im, int i);

/** A tensor of a layer of the kind `constant`: it is not in the state dict of the file. */
typedef struct ct_import_constant {
  const char *name; /**< of the layer, and so of its only parameter */
  ct_shape_t shape; /**< batch = 0 */
} ct_import_constant_t;
int ct_import_constants(const ct_import_t *im);
const ct_import_constant_t *ct_import_constant(const ct_import_t *im, int i);
/** Reads the elements of constant \a i as float32.  CT_ERR_IO, CT_ERR_FORMAT. */
int ct_import_read(const ct_import_t *im, int i, float *to);

/** A parameter or buffer of the state dict that needs attention. */
typedef enum {
  CT_IMPORT_FROZEN, /**< a parameter that the user does not train: requires_grad is False */
  CT_IMPORT_UNUSED, /**< no layer has it, but it is in the state dict: unused parameters, buffers
                         that only constants were computed from, num_batches_tracked */
  CT_IMPORT_TIED    /**< another name of the memory of an earlier parameter: `with` is used instead
                         of it */
} ct_import_state_kind_t;
typedef struct ct_import_state {
  ct_import_state_kind_t kind;
  const char *name; /**< in the state dict */
  const char *with; /**< CT_IMPORT_TIED: the name that the layers use; else NULL */
  ct_shape_t shape; /**< batch = 0 */
  int complex;      /**< 1: of complex64; the last dim of its shape, of 2, is real and imaginary */
} ct_import_state_t;
int ct_import_states(const ct_import_t *im);
const ct_import_state_t *ct_import_state(const ct_import_t *im, int i);

/** Facts for reports. */
typedef struct ct_import_facts {
  const char *torch; /**< version of PyTorch that wrote the file */
  int ops;           /**< ops of the program that affect its outputs */
  int folded;        /**< tensors computed while reading: kinds FOLDED of ct_pt2.h that are used */
  int layers;        /**< layers made */
  int composed;      /**< ops that became more than one layer */
  int64_t batch;     /**< size of the batch at export; 0: unknown */
  int autocast;      /**< 1: parts of the program ran under autocast, which is ignored: the
                          precision is train.precision */
  int narrowed;      /**< number of float64 parameters, which are computed as float32 */
} ct_import_facts_t;
const ct_import_facts_t *ct_import_facts(const ct_import_t *im);

#endif
