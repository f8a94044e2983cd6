/* Matrix products by oneDNN's sgemm.  Where all threads cut a long k apart, the last bits of the
 * result depend on how many they are. */
#include "cpu/onednn/gemm.h"
#include "base/ct_err.h"
#include <dnnl.h>
#include <omp.h>

/* Multiply-adds below which waiting for other threads takes longer than the product. */
#define SMALL 1e6

static double work(const cpu__gemm_t *g)
{
  return (double)g->m * (double)g->n * (double)g->k;
}

static int run(const cpu__gemm_t *g)
{
  int threads = omp_get_max_threads(), alone = work(g) < SMALL;
  if (alone) omp_set_num_threads(1);
  dnnl_status_t s = dnnl_sgemm(g->op_a, g->op_b, g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b,
                               g->ldb, g->beta, g->c, g->ldc);
  if (alone) omp_set_num_threads(threads);
  if (s == dnnl_success) return CT_OK;
  return ct_err_set(s == dnnl_out_of_memory ? CT_ERR_NOMEM : CT_ERR_DEVICE, __FILE__, __LINE__,
                    "oneDNN: a matrix product failed with status %d", (int)s);
}

const cpu__gemm_way_t cpu__gemm_onednn = {.name = "oneDNN", .cost = work, .run = run};
