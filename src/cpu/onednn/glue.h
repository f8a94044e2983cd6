/** \file onednn/glue.h  oneDNN behind small functions: the only place that
 * includes dnnl.h, and where the difference between the C interfaces of oneDNN 2 and 3 ends.
 * Module-internal.
 *
 * A product (convolution, inner product) is between x, w and y in all its passes, and a reorder
 * goes from x to y; so five roles name every argument, gradients included.  Data are float32, or
 * activations and copies of weights bfloat16. */
#ifndef CT_DNNL_GLUE_H
#define CT_DNNL_GLUE_H
#include "backend/ct_op.h"

typedef struct cpu__dnnl cpu__dnnl_t; /**< engine and stream */
typedef struct cpu__md cpu__md_t;     /**< a memory descriptor: dims and how they lie in memory */
typedef struct cpu__prim cpu__prim_t; /**< a primitive: first chosen, then built, then run */

/** What an argument is to a primitive.  In CT_BWD_DATA x is dx and y is dy; in CT_BWD_PARAM w is
 * dw, the bias its gradient, and y is dy. */
typedef enum { CPU__X, CPU__W, CPU__BIAS, CPU__Y, CPU__SCRATCH, CPU__ROLES } cpu__role_t;

int cpu__dnnl_open(cpu__dnnl_t **out);
/** NULL is fine. */
void cpu__dnnl_close(cpu__dnnl_t *dnnl);
/** "2.6.3" into buf (returned). */
const char *cpu__dnnl_version(char *buf, size_t cap);
/** Its first number. */
int cpu__dnnl_major(void);
/** What the processor has and ONEDNN_MAX_CPU_ISA allows: 1 for AVX-512 (core), AVX2. */
int cpu__dnnl_has_avx512(void);
int cpu__dnnl_has_avx2(void);
/** 1 for products of bfloat16: with vectors, with tiles. */
int cpu__dnnl_has_bf16(void);
int cpu__dnnl_has_amx(void);
/** 1 for exact products of bytes (VNNI): without, pairs of products are cut off at 16 bits. */
int cpu__dnnl_has_int8(void);

/** Formats of a descriptor besides those of ct_layout_t, whose values are accepted as well. */
enum {
  CPU__ANY = -1,     /**< for the primitive to choose */
  CPU__O8 = 100,     /**< weights of a convolution, output channels, or (5 dims) groups, in blocks
                     of 8 innermost */
  CPU__O16 = 101,    /**< in blocks of 16 */
  CPU__I8O8 = 102,   /**< blocks of 8 input channels, within those of 8 output channels innermost */
  CPU__I16O16 = 103, /**< the same of 16 */
  /** A matrix: panels of 16 rows, [rows / 16][columns][16]; the columns too are padded to 16. */
  CPU__PANELS16 = 110
};

/** Local.  A new descriptor of float32, freed by cpu__md_free().  CT_PLAIN is row-major for any
 * number of dims; the other layouts are for 4 or 5 dims. */
int cpu__md_new(int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  The same of CT_F32, CT_BF16, CT_U8 or CT_I8. */
int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  An owned copy. */
int cpu__md_copy(const cpu__md_t *md, cpu__md_t **out);
/** Local.  The same dims, row-major. */
int cpu__md_plain(const cpu__md_t *md, cpu__md_t **out);
/** NULL is fine. */
void cpu__md_free(cpu__md_t *md);
int cpu__md_same(const cpu__md_t *a, const cpu__md_t *b);
/** Padding included. */
size_t cpu__md_bytes(const cpu__md_t *md);
/** Equal for equal descriptors on every rank. */
uint64_t cpu__md_hash(const cpu__md_t *md);

/** One pass of a convolution (x, y, w with 4 or 5 dims, w with one more if it has groups) or of an
 * inner product (2 dims). */
typedef struct cpu__product {
  int pass;                 /**< one of CT_FWD, CT_BWD_DATA, CT_BWD_PARAM */
  const ct_op_desc_t *desc; /**< kind, window, bias; its relu is the caller's business */
  const cpu__md_t *x, *w, *y;
  const cpu__prim_t *forward; /**< backward: a forward primitive of the same product */
} cpu__product_t;

/** The dim of y that has a bias each: channels, or the last. */
const int64_t *cpu__product_outputs(const ct_op_desc_t *d);
/** Local.  Chooses the implementation; cheap.  *out is NULL with CT_OK if oneDNN has none. */
int cpu__prim_product(cpu__dnnl_t *dnnl, const cpu__product_t *p, cpu__prim_t **out);
/** A forward convolution (x and y CT_NHWC) or inner product (2 dims) of uint8 with int8:
 * y = scale[c] * (sum of w (x - x_zero)) + bias[c] + sum * (what y holds), cut off at 0 and `most`.
 * Its bias is float32, as cpu__int8_bias() says. */
typedef struct cpu__int8 {
  const ct_op_desc_t *desc; /**< kind, window, types of x and y; the rest is said here */
  const float *scale;       /**< one for each output channel; copied */
  int x_zero;
  float sum;  /**< 0: y is overwritten */
  float most; /**< 0: not cut off; infinity: at 0 only */
} cpu__int8_t;
/** Local.  Chooses the implementation.  *out is NULL with CT_OK if oneDNN has none. */
int cpu__prim_int8(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t **out);
/** What is to stand in the memory of the bias. */
float cpu__int8_bias(float bias, float scale);
/** Local.  Always built already. */
int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out);
/** Local.  Generates the code for the threads that OpenMP would use now. */
int cpu__prim_build(cpu__dnnl_t *dnnl, cpu__prim_t *prim);
/** NULL is fine. */
void cpu__prim_free(cpu__prim_t *prim);
/** Borrowed: what the primitive takes in this role; NULL if it has none. */
const cpu__md_t *cpu__prim_md(const cpu__prim_t *prim, cpu__role_t role);
/** Bytes that it wants as CPU__SCRATCH. */
size_t cpu__prim_scratch(const cpu__prim_t *prim);
/** oneDNN's name of the implementation: "jit:avx512_core"; static. */
const char *cpu__prim_name(const cpu__prim_t *prim);
/** Hot.  at[role] is the memory of each argument that the primitive has; the rest is not looked at.
 * Complete on return. */
int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES]);

#endif
