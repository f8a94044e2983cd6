/** \file import.h  A program that is being translated: declarations shared by the files of this
 * module.
 *
 * The program's nodes are translated in their order.  A rule makes layers and says which layer is
 * the output of its node.  Layers that nothing uses in the end are dropped, so a rule may replace
 * what earlier rules have made by something better.  A node that cannot be translated becomes a
 * layer of no kind with a message; the message counts if the layer is used. */
#ifndef CT__IMPORT_H
#define CT__IMPORT_H
#include "base/ct_err.h"
#include "base/ct_text.h"
#include "import/ct_import.h"
#include "model/ct_layer.h"
#include "pt2/ct_pt2.h"

/** A layer of the list. */
typedef struct ct__im_layer {
  const char *kind; /**< "": an input of the model; NULL: not translated; CT__IM_DRAW */
  const char *opts; /**< in YAML's flow style without braces */
  const char *text; /**< of an input: its name in the layers; not translated: the reason */
  ct_shape_t shape; /**< of one sample, with its batch bits; a scalar is {1} */
  const int *in;    /**< [ins]: layers */
  int ins;
  int perm[CT_MAX_DIMS]; /**< of a permute */
  int weights;
  int weight[CT_LAYER_PARAMS];         /**< values of the program, or -1 */
  const char *suffix[CT_LAYER_PARAMS]; /**< usual ends of the names of the parameters */
  int value;                           /**< parameter, buffer, constant: the value; else -1 */
  const float *data;                   /**< of a constant that was made here */
  double number;                       /**< of a draw: the share of samples that are kept */
  int node;                            /**< the node that it belongs to; -1: none */
  int live;                            /**< an output needs it */
  const char *name;
} ct__im_layer_t;

/** Memory of a translation, freed at once. */
typedef struct ct__im_block ct__im_block_t;

/** What a value is used as; bits. */
enum {
  CT__IM_LINEAR = 1,
  CT__IM_CONV = 2,
  CT__IM_EMBEDDING = 4,
  CT__IM_RNN = 8,
  CT__IM_OPERAND = 16
};

/** A kind that no list of layers has: random numbers, one per sample, that may become drop_path. */
#define CT__IM_DRAW "random numbers"

/** What is known about a value of the program. */
typedef struct ct__im_value {
  int layer;      /**< the layer whose output it is; -1: none yet */
  unsigned roles; /**< how live nodes use a parameter */
  int uniform;    /**< 1: all elements are `number`; -1: not known yet */
  double number;
} ct__im_value_t;

/** A Fourier transform along a dim (ops_fft.c). */
typedef struct ct__im_fft ct__im_fft_t;
/** ct__im_slice() of the result of a transform, by one that computes only this part; *out is -1 for
 * other layers. */
typedef int ct__im_fft_slice_t(struct ct_import *t, int x, int dim, int64_t start, int64_t end,
                               int64_t step, int *out);

typedef struct ct_import {
  ct_pt2_t *g;
  ct__im_value_t *value; /**< [g->values] */
  ct__im_layer_t *layer;
  int layers;
  int64_t layer_cap;
  int at;                        /**< index of the node that is translated; -1: none */
  ct__im_fft_slice_t *fft_slice; /**< NULL: there are no transforms */
  ct__im_fft_t *fft;             /**< the transforms so far */
  int *fft_matrix;               /**< [ffts]: the layers of their matrices */
  int ffts;
  int64_t fft_cap, fft_matrix_cap;
  ct__im_block_t *blocks;
  ct_str_t text; /**< the list as YAML */
  ct_import_input_t *input;
  ct_import_output_t *output;
  ct_import_constant_t *constant;
  int *constant_layer; /**< [constants]: their layers */
  ct_import_state_t *state;
  int constants, states;
  ct_import_facts_t facts;
} ct__im_t;

/** A rule: translates a node.  \a data: of the table's row. */
typedef int (*ct__im_rule_fn)(ct__im_t *t, const ct_pt2_node_t *n, const void *data);
typedef struct ct__im_rule {
  const char *op; /**< without its overload: "aten.relu"; NULL ends a table */
  ct__im_rule_fn fn;
  const void *data;
} ct__im_rule_t;

extern const ct__im_rule_t ct__im_elementwise[], ct__im_arithmetics[], ct__im_views[],
    ct__im_joins[], ct__im_reduces[], ct__im_convs[], ct__im_norms[], ct__im_products[],
    ct__im_attentions[], ct__im_rnns[], ct__im_indexes[], ct__im_randoms[], ct__im_ffts[];

/* ---- memory (layer.c) ---- */

/** Returns n zeroed elements that live as long as the translation.  NULL: CT_ERR_NOMEM is recorded.
 */
void *ct__im_alloc(ct__im_t *t, int64_t n, size_t size);
/** Returns formatted text; NULL: CT_ERR_NOMEM is recorded. */
const char *ct__im_format(ct__im_t *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ct__im_free(ct__im_t *t);

/* ---- layers (layer.c) ---- */

/** Appends a layer; *out: its index.  \a opts: printf-style, or NULL. */
int ct__im_add(ct__im_t *t, int *out, const char *kind, const ct_shape_t *shape, int ins,
               const int *in, const char *opts, ...) __attribute__((format(printf, 7, 8)));
/** Appends a layer with one input. */
int ct__im_one(ct__im_t *t, int *out, const char *kind, const ct_shape_t *shape, int in,
               const char *opts, ...) __attribute__((format(printf, 6, 7)));
/** Adds the next parameter of a layer: a value of the program, and the end that the kind's names
 * have. */
void ct__im_weight(ct__im_t *t, int layer, const char *suffix, int value);
/** Returns a layer by its index. */
const ct__im_layer_t *ct__im_layer(const ct__im_t *t, int layer);
/** Returns 1 if the layer is of that kind. */
int ct__im_is(const ct__im_t *t, int layer, const char *kind);
/** Writes a list, "[1, 2]", or one number if all are equal and \a one is 1. */
const char *ct__im_list(ct__im_t *t, int n, const int64_t *v, int one);

/* ---- names and the text (write.c) ---- */

/** Names the live layers. */
int ct__im_name(ct__im_t *t);
/** Writes the live layers as YAML. */
int ct__im_write(ct__im_t *t);

/* ---- values (value.c) ---- */

/** Returns 1 if the value has no elements. */
int ct__im_is_empty(const ct__im_t *t, int value);
/** Returns the shape of a value.  CT_ERR_UNSUP: more than CT_MAX_DIMS dims, or an empty one. */
int ct__im_shape(const ct__im_t *t, int value, ct_shape_t *out);
/** Returns the layer of a value; makes a layer of a parameter, buffer or constant. */
int ct__im_operand(ct__im_t *t, int value, int *layer);
/** Returns the layer of an argument that is a tensor; with \a may_be_none, -1 for None. */
int ct__im_in(ct__im_t *t, const ct_pt2_node_t *n, const char *name, int may_be_none, int *layer);
/** Makes a constant; \a data lives as long as the translation. */
int ct__im_constant(ct__im_t *t, const ct_shape_t *shape, const float *data, int *layer);
/** Reads a constant that may be expanded: *shape is the shape before that, with as many dims as the
 * value.  CT_ERR_UNSUP: not a constant. */
int ct__im_numbers(ct__im_t *t, int value, ct_shape_t *shape, const double **data);
/** Returns 1 and the number if all elements of a constant are equal. */
int ct__im_uniform(ct__im_t *t, int value, double *number);
/** Returns 1 if the value is a parameter that all its users use in that role, so that it can be a
 * parameter of a layer. */
int ct__im_owned(const ct__im_t *t, int value, unsigned role);
/** Returns the value that stands for a parameter and those tied to it. */
int ct__im_root(const ct__im_t *t, int value);
/** Sets output \a i of a node and checks its shape. */
int ct__im_set(ct__im_t *t, const ct_pt2_node_t *n, int i, int layer);
/** Sets output 0 of a node and checks its shape. */
int ct__im_done(ct__im_t *t, const ct_pt2_node_t *n, int layer);
/** Returns the shape of output 0 of a node. */
int ct__im_result(const ct__im_t *t, const ct_pt2_node_t *n, ct_shape_t *out);
/** Records CT_ERR_UNSUP: the reason why the node is not translated; returns it. */
int ct__im_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Returns an argument that is a dim of a tensor of \a ndim dims, counted from the front. */
int ct__im_dim(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int ndim, int *out);
/** Returns an argument that is a list of such dims as bits; None and an empty list are all dims. */
int ct__im_dim_bits(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int ndim,
                    unsigned *bits);
/** Returns 1 if the value of an argument is not used by a live node or output. */
int ct__im_unused(const ct__im_t *t, int value);

/* ---- shapes and views (view.c) ---- */

/** Returns 1 if dims and batch bits are equal. */
int ct__im_same(const ct_shape_t *a, const ct_shape_t *b);
/** Writes a shape as a list, "[N, 4, 12N]". */
const char *ct__im_dims(ct__im_t *t, const ct_shape_t *s);
/** Makes a view, or returns the layer itself or an earlier one if nothing changes. */
int ct__im_reshape(ct__im_t *t, int x, const ct_shape_t *shape, int *out);
int ct__im_permute(ct__im_t *t, int x, const int *dims, int *out);
/** Takes elements start, start + step, … below \a end of a dim; both count from 0. */
int ct__im_slice(ct__im_t *t, int x, int dim, int64_t start, int64_t end, int64_t step, int *out);
int ct__im_expand(ct__im_t *t, int x, const ct_shape_t *shape, int *out);
/** Returns what a layer was expanded from, if this dim was not changed by it; else the layer. */
int ct__im_before_expand(ct__im_t *t, int x, int dim);
/** Takes the elements of a dim by their indices, which count from 0. */
int ct__im_take(ct__im_t *t, int x, int dim, int64_t n, const int64_t *index, int *out);
/** Concatenates along a dim. */
int ct__im_concat(ct__im_t *t, int n, const int *x, int dim, int *out);
/** Returns a shape without the dims of \a bits, or with 1 in place of them. */
ct_shape_t ct__im_reduced(const ct_shape_t *s, unsigned bits, int keep);
/** Returns the shape of a + b of PyTorch's broadcasting; 0: they do not fit. */
int ct__im_broadcast(const ct_shape_t *a, const ct_shape_t *b, ct_shape_t *out);
/** Returns a shape with one dim changed. */
ct_shape_t ct__im_with(const ct_shape_t *s, int dim, int64_t n);

/** A layer that was brought into a form that a kind takes, and how to undo this. */
typedef struct ct__im_form {
  ct_shape_t before; /**< shape before */
  int perm[CT_MAX_DIMS];
  ct_shape_t moved; /**< shape after the batch was moved to the front */
} ct__im_form_t;
/** Brings a tensor into the form N x features, or N x steps x features, if the kind takes no other.
 */
int ct__im_rows(ct__im_t *t, int *x, const char *kind, ct__im_form_t *form);
/** Undoes ct__im_rows(); the last dim may have another size now. */
int ct__im_unrows(ct__im_t *t, int *x, const ct__im_form_t *form);
/** Moves the batch to dim 0, if the kind takes no other; and back. */
int ct__im_front(ct__im_t *t, int *x, const char *kind, ct__im_form_t *form);
int ct__im_back(ct__im_t *t, int *x, const ct__im_form_t *form);

/* ---- arithmetic for rules that compose layers (ops_arithmetic.c) ---- */

/** x op y with broadcasting. */
int ct__im_binary(ct__im_t *t, const char *kind, int x, int y, int *out);
/** Rounds towards zero. */
int ct__im_truncate(ct__im_t *t, int x, int *out);
/** x op number. */
int ct__im_scalar(ct__im_t *t, const char *kind, int x, double number, int *out);

/** a b with broadcasting of the dims before the last two; \a across: b is transposed. */
int ct__im_matmul(ct__im_t *t, int a, int b, int across, int *out);

/* ---- the passes (translate.c) ---- */

/** Translates all live nodes. */
int ct__im_translate(ct__im_t *t);
/** Marks the layers that the outputs need. */
void ct__im_mark(ct__im_t *t);
/** CT_ERR_UNSUP with a list of the ops that are needed and not translated; CT_OK if there are none.
 */
int ct__im_check(const ct__im_t *t);
/** Translates a node that has draws among its inputs: *done is 1 if it is part of a drop path; else
 * the draws have become random layers. */
int ct__im_match_drop_path(ct__im_t *t, const ct_pt2_node_t *n, int *done);
/** Makes a draw for each sample: of share \a keep, or uniform in [0, 1) if it is negative. */
int ct__im_draw(ct__im_t *t, const ct_shape_t *shape, double keep, int *out);
/** Makes tokens of x + places if x is a class token and an image's pixels; else *out is -1. */
int ct__im_match_tokens(ct__im_t *t, int x, int places, int *out);
/** Tries to make an attention layer of the output projection of an attention: \a n, a linear;
 * *done is 1 if it did. */
int ct__im_match_attention(ct__im_t *t, const ct_pt2_node_t *n, int *done);

#endif
