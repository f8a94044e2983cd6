/** \file gemm/gemm_amx.h  GEMM of bf16 with float32 accumulation on AMX.  Module-internal.
 *
 * Operands that tile/amx.h cannot read directly are packed into a workspace, and float32 operands
 * are rounded to bf16 there.  Each element is summed in the order of k, so the result does not
 * depend on the blocks or the number of threads. */
#ifndef CT_CPU_GEMM_AMX_H
#define CT_CPU_GEMM_AMX_H
#include "cpu/kern/op.h"

/** k that is packed at a time, if c can be added to. */
enum { CPU__AMX_CHUNK = 2048 };

/** An operand.  Its rows in memory are `ld` elements apart. */
typedef struct cpu__amx_side {
  const void *at;
  int64_t ld;
  int floats; /**< 1: float32, only for b; else bf16 */
  int turned; /**< 1: the rows in memory are the columns of the matrix */
  int padded; /**< 1, only for a: its rows go on with zeros up to whole CPU__AMX_K */
} cpu__amx_side_t;

/** The GEMM c = a * b; a is m x k, b is k x n. */
typedef struct cpu__amx_gemm {
  int64_t m, n, k;
  cpu__amx_side_t a, b;
  const void *packed; /**< NULL, or b as cpu__amx_gemm_pack() left it */
  void *c;            /**< m x n, rows `c_row` elements apart */
  int64_t c_row;
  int c_floats;      /**< 1: float32, else bf16 */
  int add;           /**< 1: accumulates into c, which is float32 */
  const float *bias; /**< NULL, or n values that are added to each row */
  float *sums;       /**< NULL, or m values, if a is turned: set to the sums of its rows, or, with
                          `add`, these are added */
  int relu;          /**< 1: ReLU of the result; keeps NaN */
} cpu__amx_gemm_t;

/** Returns the size in bytes of the workspace: m, n and k, and which operands are turned or
 * float32, matter.  \a threads: those that compute the GEMM. */
size_t cpu__amx_gemm_scratch(const cpu__amx_gemm_t *g, int threads);
/** Hot.  Computes the GEMM: inside a parallel region on the calling thread, else on all threads of
 * the device.  \a scratch is aligned to 64 bytes. */
void cpu__amx_gemm(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *scratch);

/** Hot.  Packs b, for several GEMMs whose k is at most CPU__AMX_CHUNK.  cpu__amx_gemm_packed()
 * returns the size in bytes. */
void cpu__amx_gemm_pack(const ct_dev_t *dev, const cpu__amx_gemm_t *g, void *packed);
size_t cpu__amx_gemm_packed(const cpu__amx_gemm_t *g);

/** Returns the GEMM of a pass of a dense layer, without addresses; forward: a is x, b is w [out,
 * in]; backward to data: a is dy, b is w; backward to parameters: a is dy, b is x.  x, y, dx and dy
 * are bf16, w and dw float32, all plain. */
cpu__amx_gemm_t cpu__amx_dense(int pass, int64_t rows, int64_t in, int64_t out);

#endif
