/** \file onednn/glue.h  A thin wrapper around oneDNN.  Only this folder includes dnnl.h, and only
 * it knows the differences between the C interfaces of oneDNN 2 and 3.  Module-internal.
 *
 * A convolution or inner product has the arguments x, w and y in all its passes, and a reorder goes
 * from x to y.  So five roles name every argument, gradients included.  Data are float32, or bf16
 * for activations and copies of weights. */
#ifndef CT_DNNL_GLUE_H
#define CT_DNNL_GLUE_H
#include "backend/ct_op.h"

typedef struct cpu__dnnl cpu__dnnl_t; /**< oneDNN engine and stream */
typedef struct cpu__md cpu__md_t;     /**< a memory descriptor: dims and memory format */
typedef struct cpu__prim cpu__prim_t; /**< a primitive: first created as a descriptor, then built,
                                           then run */

/** Role of an argument of a primitive.  In CT_BWD_DATA x is dx and y is dy; in CT_BWD_PARAM w is
 * dw, the bias is its gradient, and y is dy. */
typedef enum { CPU__X, CPU__W, CPU__BIAS, CPU__Y, CPU__SCRATCH, CPU__ROLES } cpu__role_t;

/** Local.  Creates the engine and stream; freed by cpu__dnnl_close(). */
int cpu__dnnl_open(cpu__dnnl_t **out);
/** NULL is allowed. */
void cpu__dnnl_close(cpu__dnnl_t *dnnl);
/** Writes the version, "2.6.3", into buf; returns buf. */
const char *cpu__dnnl_version(char *buf, size_t cap);
/** The major version. */
int cpu__dnnl_major(void);
/** 1 if the processor has AVX-512 (core) or AVX2 and ONEDNN_MAX_CPU_ISA allows it. */
int cpu__dnnl_has_avx512(void);
int cpu__dnnl_has_avx2(void);
/** 1 if it has bf16 dot products: AVX512_BF16, or AMX. */
int cpu__dnnl_has_bf16(void);
int cpu__dnnl_has_amx(void);
/** 1 if it has exact int8 dot products (VNNI).  Without VNNI the sum of two products saturates at
 * 16 bits. */
int cpu__dnnl_has_int8(void);

/** Memory formats, in addition to the values of ct_layout_t. */
enum {
  CPU__ANY = -1,     /**< chosen by the primitive */
  CPU__O8 = 100,     /**< convolution weights with blocks of 8 innermost, of output channels or (5
                          dims) of groups */
  CPU__O16 = 101,    /**< the same with blocks of 16 */
  CPU__I8O8 = 102,   /**< blocks of 8 input channels within blocks of 8 output channels, output
                          channels innermost */
  CPU__I16O16 = 103, /**< the same with 16 */
  /** A matrix in panels of 16 rows, [rows / 16][columns][16]; columns are also padded to 16. */
  CPU__PANELS16 = 110
};

/** Local.  Creates a float32 descriptor, freed by cpu__md_free().  CT_PLAIN is row-major for any
 * number of dims; the other layouts need 4 or 5 dims. */
int cpu__md_new(int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  The same for CT_F32, CT_BF16, CT_U8 or CT_I8. */
int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  An owned copy. */
int cpu__md_copy(const cpu__md_t *md, cpu__md_t **out);
/** Local.  A row-major descriptor with the same dims. */
int cpu__md_plain(const cpu__md_t *md, cpu__md_t **out);
/** NULL is allowed. */
void cpu__md_free(cpu__md_t *md);
/** 1 if both have the same dims and format. */
int cpu__md_same(const cpu__md_t *a, const cpu__md_t *b);
/** Size in bytes, including padding. */
size_t cpu__md_bytes(const cpu__md_t *md);
/** Identical for equal descriptors on all ranks. */
uint64_t cpu__md_hash(const cpu__md_t *md);

/** One pass of a convolution (x, y, w with 4 or 5 dims; w with one more if it has groups) or of an
 * inner product (2 dims). */
typedef struct cpu__prim_spec {
  int pass;                 /**< one of CT_FWD, CT_BWD_DATA, CT_BWD_PARAM */
  const ct_op_desc_t *desc; /**< kind, window, bias; the caller applies its relu */
  const cpu__md_t *x, *w, *y;
  const cpu__prim_t *forward; /**< backward: the forward primitive */
} cpu__prim_spec_t;

/** The dim of y that the bias is indexed by: channels, or the last. */
const int64_t *cpu__outputs_of(const ct_op_desc_t *d);
/** Local.  Creates a primitive descriptor; cheap.  *out is NULL with CT_OK if oneDNN has no
 * implementation. */
int cpu__prim_layer(cpu__dnnl_t *dnnl, const cpu__prim_spec_t *p, cpu__prim_t **out);
/** A forward convolution (x and y CT_NHWC) or inner product (2 dims) of uint8 x and int8 w: y =
 * scale[c] * (sum of w (x - x_zero)) + bias[c] + sum * y, clamped to [0, most].  The bias in memory
 * is float32, converted by cpu__int8_bias(). */
typedef struct cpu__int8 {
  const ct_op_desc_t *desc; /**< kind, window, types of x and y; other fields are ignored */
  const float *scale;       /**< one per output channel; copied */
  int x_zero;
  float sum;  /**< factor of the previous y; 0: y is overwritten */
  float most; /**< 0: no clamping; infinity: clamps only at 0 */
} cpu__int8_t;
/** Local.  Creates a primitive descriptor.  *out is NULL with CT_OK if oneDNN has no
 * implementation. */
int cpu__prim_int8(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t **out);
/** The value to store for a bias, which differs between oneDNN 2 and 3. */
float cpu__int8_bias(float bias, float scale);
/** Local.  Creates and builds a reorder. */
int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out);
/** Local.  Generates the code, for the current number of OpenMP threads. */
int cpu__prim_build(cpu__dnnl_t *dnnl, cpu__prim_t *prim);
/** NULL is allowed. */
void cpu__prim_free(cpu__prim_t *prim);
/** Borrowed: the descriptor of the argument in this role; NULL: no such argument. */
const cpu__md_t *cpu__prim_md(const cpu__prim_t *prim, cpu__role_t role);
/** Size of CPU__SCRATCH in bytes. */
size_t cpu__prim_scratch(const cpu__prim_t *prim);
/** oneDNN's name of the implementation: "jit:avx512_core"; static. */
const char *cpu__prim_name(const cpu__prim_t *prim);
/** Hot.  at[role]: memory of each argument of the primitive; other entries are ignored.
 * Synchronous. */
int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES]);

#endif
