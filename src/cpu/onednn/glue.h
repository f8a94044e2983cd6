/** \file onednn/glue.h  A thin wrapper around oneDNN.  Only this folder includes dnnl.h, and only
 * it knows the differences between the C interfaces of oneDNN 2 and 3.  In a build without oneDNN,
 * without.c implements memory formats and reorders, and no layer has a primitive.  Module-internal.
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
/** Frees the engine and stream; \a dnnl may be NULL. */
void cpu__dnnl_close(cpu__dnnl_t *dnnl);
/** Writes "oneDNN 2.6.3", or "no oneDNN", into buf; returns buf. */
const char *cpu__dnnl_version(char *buf, size_t cap);
/** Returns the major version; 0: the build is without oneDNN. */
int cpu__dnnl_major(void);
/** Return 1 if the processor has AVX-512 (core) or AVX2, respectively, and ONEDNN_MAX_CPU_ISA
 * allows its use. */
int cpu__dnnl_has_avx512(void);
int cpu__dnnl_has_avx2(void);
/** Returns 1 if the processor has bf16 dot products: AVX512_BF16 or AMX. */
int cpu__dnnl_has_bf16(void);
int cpu__dnnl_has_amx(void);
/** Returns 1 if the processor has exact int8 dot products (VNNI).  Without VNNI the sum of two
 * products saturates at 16 bits. */
int cpu__dnnl_has_int8(void);

/** Memory formats, in addition to the values of ct_layout_t. */
enum {
  CPU__ANY = -1,     /**< chosen by the primitive */
  CPU__O8 = 100,     /**< convolution weights; innermost are blocks of 8 output channels, or of 8
                          groups if the weights have 5 dims */
  CPU__O16 = 101,    /**< CPU__O8 with blocks of 16 */
  CPU__I8O8 = 102,   /**< blocks of 8 input channels within blocks of 8 output channels, output
                          channels innermost */
  CPU__I16O16 = 103, /**< CPU__I8O8 with blocks of 16 */
  /** A matrix in panels of 16 rows, [rows / 16][columns][16]; columns are also padded to 16. */
  CPU__PANELS16 = 110
};

/** Local.  Creates a float32 descriptor, freed by cpu__md_free().  CT_PLAIN is row-major for any
 * number of dims; the other layouts need 4 or 5 dims. */
int cpu__md_new(int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  Creates a descriptor like cpu__md_new(), of type CT_F32, CT_BF16, CT_U8 or CT_I8. */
int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out);
/** Local.  Copies a descriptor; the caller frees *out. */
int cpu__md_copy(const cpu__md_t *md, cpu__md_t **out);
/** Local.  Creates a row-major descriptor with the dims of \a md. */
int cpu__md_plain(const cpu__md_t *md, cpu__md_t **out);
/** Frees a descriptor; \a md may be NULL. */
void cpu__md_free(cpu__md_t *md);
/** Returns 1 if a and b have the same dims and format. */
int cpu__md_same(const cpu__md_t *a, const cpu__md_t *b);
/** Returns the size in bytes, including padding. */
size_t cpu__md_bytes(const cpu__md_t *md);
/** Returns a hash, which is identical for equal descriptors on all ranks. */
uint64_t cpu__md_hash(const cpu__md_t *md);

/** One pass of a convolution (x, y and w have 4 or 5 dims; w has one dim more if there are several
 * groups) or of an inner product (2 dims). */
typedef struct cpu__prim_spec {
  int pass;                 /**< one of CT_FWD, CT_BWD_DATA, CT_BWD_PARAM */
  const ct_op_desc_t *desc; /**< kind, window, bias; the caller applies its relu */
  const cpu__md_t *x, *w, *y;
  const cpu__prim_t *forward; /**< backward: the forward primitive */
} cpu__prim_spec_t;

/** Returns the address of the size of the dim of y that the bias belongs to: the channels, or the
 * last dim. */
const int64_t *cpu__outputs_of(const ct_op_desc_t *d);
/** Local.  Creates a primitive descriptor; cheap.  *out is NULL with CT_OK if oneDNN has no
 * implementation. */
int cpu__prim_layer(cpu__dnnl_t *dnnl, const cpu__prim_spec_t *p, cpu__prim_t **out);
/** A forward convolution (x and y CT_NHWC) or inner product (2 dims) of uint8 x and int8 w:
 *
 *     y = scale[c] * Σ w * (x - x_zero) + bias[c] + `sum` * (previous y)
 *
 * The result is clamped to [0, `most`] unless `most` is 0.  The bias in memory is float32,
 * converted by cpu__int8_bias(). */
typedef struct cpu__int8 {
  const ct_op_desc_t *desc; /**< kind, window, types of x and y; other fields are ignored */
  const float *scale;       /**< one per output channel; copied */
  int x_zero;
  float sum;  /**< factor of the previous y; 0: the previous y is ignored */
  float most; /**< maximum of the result; 0: no clamping; infinity: clamps only at 0 */
} cpu__int8_t;
/** Local.  Creates a primitive descriptor.  *out is NULL with CT_OK if oneDNN has no
 * implementation. */
int cpu__prim_int8(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t **out);
/** Returns the value to store for a bias; it differs between oneDNN 2 and 3. */
float cpu__int8_bias(float bias, float scale);
/** Local.  Creates and builds a reorder. */
int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out);
/** Local.  Builds the primitive: generates code for the current number of OpenMP threads. */
int cpu__prim_build(cpu__dnnl_t *dnnl, cpu__prim_t *prim);
/** Frees a primitive; \a prim may be NULL. */
void cpu__prim_free(cpu__prim_t *prim);
/** Returns the memory descriptor (borrowed) of the argument in this role; NULL: the primitive has
 * no argument in this role. */
const cpu__md_t *cpu__prim_md(const cpu__prim_t *prim, cpu__role_t role);
/** Returns the size of CPU__SCRATCH in bytes. */
size_t cpu__prim_scratch(const cpu__prim_t *prim);
/** Returns oneDNN's name of the implementation, a static string: "jit:avx512_core". */
const char *cpu__prim_name(const cpu__prim_t *prim);
/** Hot.  Runs the primitive; synchronous.  at[role]: memory of each argument of the primitive;
 * other entries are ignored. */
int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES]);

#endif
