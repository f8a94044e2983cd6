/** \file ct_pt2.h  Reads the graph of a .pt2 file, which torch.export.save() writes.  Layer 3.
 *
 * ct_pt2_open() gives the program as plain data: values, and nodes that make values of other
 * values, in an order in which they can run.  It reads the JSON text models/model.json, whose
 * layout is that of torch/_export/serde/schema.py, major version 8, and simplifies the program:
 *  - Subgraphs of torch.no_grad() and torch.autocast() become part of the graph.  The results of
 *    no_grad() pass through nodes aten.detach.default.
 *  - No node changes a value.  Nodes that do (aten.relu_, aten.copy_) become the nodes that make a
 *    new value (aten.relu), and later nodes use the new value.  A change of a part of a value
 *    becomes aten.slice_scatter or aten.select_scatter; views that are made before the change and
 *    used after it are made again.
 *  - Nodes that return their argument (aten.contiguous, a slice that is everything) have no users:
 *    those use the argument.  So aten.view is to be read as aten.reshape.
 *  - Whole numbers that PyTorch computes from shapes are resolved.
 *  - Arguments that the file leaves out have the values of PyTorch's schemas.
 *  - Complex values of complex64 are real ones with one dim more, the last one, of 2: real and
 *    imaginary part.  Their ops become ops of real tensors; the ops of torch.fft have the arguments
 *    that complex_fft.c lists, and an op that cannot become real is called "complex aten.tanh".
 *  - Values that depend neither on an input nor on a parameter are computed (kind CT_PT2_FOLDED).
 *    One whose shape contains N is computed with 1 in place of it, and aten.expand.default follows.
 *  - Nodes without effect on the outputs are marked (live == 0).
 *
 * The batch size is the symbol N: a dim is n or n * N.  All functions are local.  Errors name the
 * file, and the op and the user's module where there is one; CT_ERR_FORMAT: the file is damaged or
 * of another version; CT_ERR_UNSUP: the file is correct, but the program cannot be represented. */
#ifndef CT_PT2_H
#define CT_PT2_H
#include "weights/ct_elem.h"

/** A dim, or a whole number as an argument: n, or n * N if \a batch is 1. */
typedef struct ct_pt2_dim {
  int64_t n;
  int batch;
} ct_pt2_dim_t;

typedef enum {
  CT_PT2_NODE,      /**< made by a node */
  CT_PT2_INPUT,     /**< of the user */
  CT_PT2_PARAMETER, /**< trained */
  CT_PT2_BUFFER,    /**< of a module, such as running statistics */
  CT_PT2_CONSTANT,  /**< a tensor in the user's code, stored in the file */
  CT_PT2_FOLDED     /**< computed by ct_pt2_open() */
} ct_pt2_kind_t;

/** What a value depends on; bits.  A use of its shape alone does not count. */
enum {
  CT_PT2_ON_INPUT = 1,
  CT_PT2_ON_PARAMETER = 2,
  CT_PT2_ON_BUFFER = 4,
  CT_PT2_ON_RANDOM = 8 /**< random numbers, except those of dropout */
};

/** A tensor. */
typedef struct ct_pt2_value {
  const char *name;  /**< unique: letters, digits, '_'; with '.' if it is not in the file */
  const char *state; /**< CT_PT2_PARAMETER, _BUFFER, _CONSTANT: name in the state dict or of the
                          constant; _FOLDED: "folded.0", unique among all of these; else NULL */
  ct_pt2_kind_t kind;
  ct_elem_t type; /**< CT_ELEMS: a type that only PyTorch has, such as complex128 */
  int ndim;
  const ct_pt2_dim_t *dim; /**< [ndim] */
  int node;                /**< index of the node that makes it; -1: none */
  int persistent;          /**< a buffer: it is in the state dict */
  int trained;             /**< a parameter: requires_grad; the frozen ones are of this kind, too */
  int tied;    /**< a parameter or buffer: index of the first value with the same memory (tied
                     weights have several names); its own index: none before it; else -1 */
  int becomes; /**< index of the value that an input, parameter, buffer or constant is after a
                     step, because a node changes it; -1: it stays.  Batch norm's statistics are
                     not marked: aten.batch_norm changes them */
  int pairs;   /**< 1: complex64 in the file */
  unsigned on; /**< CT_PT2_ON_... */
  int uses;    /**< number of arguments of live nodes, and outputs, that are this value; a use of
                     its shape alone does not count */
} ct_pt2_value_t;

typedef enum {
  CT_PT2_NONE,
  CT_PT2_TENSOR,  /**< tensor[0] */
  CT_PT2_TENSORS, /**< tensor[n]; -1 for None */
  CT_PT2_INT,     /**< dim[0] */
  CT_PT2_INTS,    /**< dim[n] */
  CT_PT2_BOOL,    /**< dim[0]: 0 or 1 */
  CT_PT2_BOOLS,   /**< dim[n] */
  CT_PT2_FLOAT,   /**< number[0] */
  CT_PT2_FLOATS,  /**< number[n] */
  CT_PT2_COMPLEX, /**< number[2] */
  CT_PT2_STRING,  /**< text */
  CT_PT2_TYPE,    /**< dim[0].n: ct_elem_t */
  CT_PT2_FORMAT,  /**< a memory format; dim[0].n: torch's number (1: contiguous, 4: preserve) */
  CT_PT2_LAYOUT,  /**< dim[0].n: torch's number (7: strided) */
  CT_PT2_DEVICE,  /**< text: "cpu" */
  CT_PT2_OTHER    /**< any other kind, or a number that is not n or n * N; text: what it is */
} ct_pt2_arg_kind_t;

/** An argument of a node.  Pointers that its kind does not name are NULL. */
typedef struct ct_pt2_arg {
  const char *name; /**< of the op's schema: "stride" */
  ct_pt2_arg_kind_t kind;
  int n;             /**< number of elements of the list below; 1 for kinds without a list */
  const int *tensor; /**< indices of values */
  const ct_pt2_dim_t *dim;
  const double *number; /**< may be infinite or NaN */
  const char *text;
} ct_pt2_arg_t;

/** A call of an op. */
typedef struct ct_pt2_node {
  const char *op;     /**< "aten.conv2d.default", without "torch.ops." */
  const char *module; /**< the user's module: "encoder.layers.0.self_attn"; "": the whole model */
  const char *type;   /**< its class: "torch.nn.modules.conv.Conv2d"; "": unknown */
  int args;
  const ct_pt2_arg_t *arg; /**< [args]: all arguments of PyTorch's schema, in its order, if the op
                                is known (known == 1); else those in the file */
  int known;
  int outs;
  const int *out; /**< [outs]: values; -1: not a tensor.  Ops such as split have one per part */
  int live;       /**< 0: has no effect on the outputs (assertions, shapes, unused results) */
} ct_pt2_node_t;

/** An output of the user's forward(). */
typedef struct ct_pt2_output {
  const char *name; /**< keys and indices: "logits", "0", "aux.1"; "": the model returns a tensor */
  int value;        /**< -1: not a tensor (None, a number) */
} ct_pt2_output_t;

typedef struct ct_pt2 {
  const char *path;
  const char *torch; /**< PyTorch's version: "2.15.0" */
  int values;
  const ct_pt2_value_t *value; /**< [values]: those of the signature in its order, then others */
  int nodes;
  const ct_pt2_node_t *node; /**< [nodes] */
  int inputs;
  const int *input; /**< [inputs]: values of kind CT_PT2_INPUT, in the order of forward() */
  int states;
  const int *state; /**< [states]: parameters and buffers in the order of the signature */
  int outputs;
  const ct_pt2_output_t *output; /**< [outputs] */
  int dynamic;   /**< 1: there is a symbol N.  0: all shapes are fixed, and nothing says which dims
                      are the batch */
  int64_t batch; /**< N at export; 0 if unknown, or if not dynamic */
  int autocast;  /**< 1: parts of the program run in torch.autocast() */
} ct_pt2_t;

/** Reads, simplifies and checks a program.  CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_UNSUP; *out is NULL
 * after an error; freed by ct_pt2_close(). */
int ct_pt2_open(const char *path, ct_pt2_t **out);
/** Frees \a g, which may be NULL. */
void ct_pt2_close(ct_pt2_t *g);

/** Records an error of a node: "net.pt2: aten.conv2d.default in module 'features.0': TEXT"; returns
 * \a code. */
int ct_pt2_refuse(const ct_pt2_t *g, const ct_pt2_node_t *node, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/** Writes a shape, "12N x 7", to buf (returned). */
const char *ct_pt2_shape(const ct_pt2_value_t *v, char *buf, size_t cap);
/** Returns 1 if the op's name without its overload is \a name: "aten.conv2d". */
int ct_pt2_is(const ct_pt2_node_t *node, const char *name);

/* ---- arguments ---- */

/** Returns an argument by name; NULL: the op has none of that name. */
const ct_pt2_arg_t *ct_pt2_arg(const ct_pt2_node_t *node, const char *name);
/** Each of these reads an argument of one kind.  CT_ERR_UNSUP names op, module, argument and what
 * was expected; *out is then 0, -1 or NULL. */
/** A tensor; *out is -1 for None, if \a may_be_none is 1. */
int ct_pt2_tensor(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int may_be_none,
                  int *out);
/** A list of tensors; single ones may be None (-1). */
int ct_pt2_tensors(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *n,
                   const int **out);
/** A whole number without N. */
int ct_pt2_int(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int64_t *out);
/** Exactly \a n whole numbers without N; a single one in the file stands for all, as in PyTorch. */
int ct_pt2_ints(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int n,
                int64_t *out);
/** A list of whole numbers of any length; a single number is a list of one, None is *n = 0 and *out
 * NULL. */
int ct_pt2_dims(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *n,
                const ct_pt2_dim_t **out);
/** A number: float, int without N or bool. */
int ct_pt2_number(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, double *out);
int ct_pt2_bool(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *out);
/** A text; NULL for None. */
int ct_pt2_text(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, const char **out);
/** Returns 1 if the argument is missing or None. */
int ct_pt2_is_none(const ct_pt2_node_t *node, const char *name);

/* ---- numbers of tensors ---- */

/** Returns the number of elements of a value without N in its shape; -1 otherwise. */
int64_t ct_pt2_count(const ct_pt2_value_t *v);
/** Reads all elements of a parameter, buffer, constant or folded value (not of a node or input) as
 * float32 or float64.  CT_ERR_IO; CT_ERR_FORMAT: the file does not have it, or it is damaged or of
 * a type without numbers. */
int ct_pt2_floats(const ct_pt2_t *g, int value, float *to);
int ct_pt2_doubles(const ct_pt2_t *g, int value, double *to);

#endif
