/* A build without oneDNN has the memory formats of oneDNN: drawn tensors have the same size and the
 * same bytes in both. */
#include <stdlib.h>
#include <string.h>

#define cpu__dnnl_open       own_dnnl_open
#define cpu__dnnl_close      own_dnnl_close
#define cpu__dnnl_version    own_dnnl_version
#define cpu__dnnl_major      own_dnnl_major
#define cpu__dnnl_has_avx512 own_dnnl_has_avx512
#define cpu__dnnl_has_avx2   own_dnnl_has_avx2
#define cpu__dnnl_has_bf16   own_dnnl_has_bf16
#define cpu__dnnl_has_amx    own_dnnl_has_amx
#define cpu__dnnl_has_int8   own_dnnl_has_int8
#define cpu__md_typed        own_md_typed
#define cpu__md_new          own_md_new
#define cpu__md_copy         own_md_copy
#define cpu__md_plain        own_md_plain
#define cpu__md_free         own_md_free
#define cpu__md_same         own_md_same
#define cpu__md_bytes        own_md_bytes
#define cpu__md_hash         own_md_hash
#define cpu__outputs_of      own_outputs_of
#define cpu__prim_layer      own_prim_layer
#define cpu__prim_int8       own_prim_int8
#define cpu__int8_bias       own_int8_bias
#define cpu__prim_reorder    own_prim_reorder
#define cpu__prim_build      own_prim_build
#define cpu__prim_free       own_prim_free
#define cpu__prim_md         own_prim_md
#define cpu__prim_scratch    own_prim_scratch
#define cpu__prim_name       own_prim_name
#define cpu__prim_run        own_prim_run
#include "cpu/onednn/without.c"
#undef cpu__dnnl_open
#undef cpu__dnnl_close
#undef cpu__md_typed
#undef cpu__md_free
#undef cpu__md_bytes
#undef cpu__prim_reorder
#undef cpu__prim_free
#undef cpu__prim_scratch
#undef cpu__prim_run

#include "base/ct_rng.h"
#include "tests/harness/ct_test.h"

/* oneDNN's, of glue.c; glue.h has declared the others */
int cpu__dnnl_open(cpu__dnnl_t **out);
void cpu__dnnl_close(cpu__dnnl_t *dnnl);
int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out);
void cpu__md_free(cpu__md_t *md);
size_t cpu__md_bytes(const cpu__md_t *md);
int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out);
void cpu__prim_free(cpu__prim_t *prim);
size_t cpu__prim_scratch(const cpu__prim_t *prim);
int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES]);

enum { DRAWS = 300, FORMATS = 10, MOST = 1 << 18 };

/* A drawn tensor, in two formats. */
typedef struct drawn {
  ct_dtype_t dtype;
  int ndim, from, to;
  int64_t dims[MAX_DIMS];
} drawn_t;

static drawn_t draw(uint32_t i)
{
  static const int formats[FORMATS] = {CT_PLAIN, CT_NHWC,   CT_C8,       CT_C16,   CPU__O8,
                                       CPU__O16, CPU__I8O8, CPU__I16O16, CT_PLAIN, CT_PLAIN};
  uint32_t r[8];
  drawn_t d;
  ct_rng_block(7, CT_RNG_TEST, i, 0, r);
  ct_rng_block(7, CT_RNG_TEST, i, 1, r + 4);
  d.dtype = r[0] % 4 ? CT_F32 : CT_BF16;
  d.ndim = 4 + (int)(r[1] % 2);
  d.from = formats[r[2] % FORMATS];
  d.to = formats[r[3] % FORMATS];
  for (int k = 0; k < d.ndim; k++)
    d.dims[k] = 1 + (r[4 + k % 4] >> k) % (k < 2 ? 40 : k < 4 ? 5 : 3);
  return d;
}

static void bytes_are_those_of_onednn(void)
{
  static float plain[MOST], theirs[2][MOST], ours[2][MOST];
  cpu__dnnl_t *dnnl;
  CU_ASSERT_FATAL(cpu__dnnl_open(&dnnl) == CT_OK);
  for (uint32_t i = 0; i < DRAWS; i++) {
    drawn_t d = draw(i);
    const int format[3] = {CT_PLAIN, d.from, d.to};
    cpu__md_t *a[3], *b[3];
    for (int k = 0; k < 3; k++) {
      CU_ASSERT_FATAL(cpu__md_typed(d.dtype, d.ndim, d.dims, format[k], &a[k]) == CT_OK);
      CU_ASSERT_FATAL(own_md_typed(d.dtype, d.ndim, d.dims, format[k], &b[k]) == CT_OK);
      CU_ASSERT_EQUAL(cpu__md_bytes(a[k]), own_md_bytes(b[k]));
      CU_ASSERT_FATAL(own_md_bytes(b[k]) <= sizeof plain);
    }
    int same = own_md_same(b[1], b[2]);
    CU_ASSERT(same || d.from != d.to);
    for (size_t k = 0; k < own_md_bytes(b[0]) / 2; k++)
      ((uint16_t *)(void *)plain)[k] = (uint16_t)(0x3c00 + k % 1021);
    for (int k = 0; k < 2; k++) {
      cpu__prim_t *p, *q;
      static float work[MOST];
      memset(theirs[k], 0x55, sizeof theirs[k]);
      memset(ours[k], 0x55, sizeof ours[k]);
      CU_ASSERT_FATAL(cpu__prim_reorder(dnnl, a[k], a[k + 1], &p) == CT_OK);
      CU_ASSERT_FATAL(own_prim_reorder(NULL, b[k], b[k + 1], &q) == CT_OK);
      CU_ASSERT_FATAL(cpu__prim_scratch(p) <= sizeof work);
      void *at[CPU__ROLES] = {
          [CPU__X] = k ? theirs[0] : plain, [CPU__Y] = theirs[k], [CPU__SCRATCH] = work};
      void *own[CPU__ROLES] = {[CPU__X] = k ? ours[0] : plain, [CPU__Y] = ours[k]};
      CU_ASSERT(cpu__prim_run(dnnl, p, at) == CT_OK);
      CU_ASSERT(own_prim_run(NULL, q, own) == CT_OK);
      CU_ASSERT(memcmp(theirs[k], ours[k], sizeof ours[k]) == 0);
      cpu__prim_free(p);
      own_prim_free(q);
    }
    CU_ASSERT(!same || memcmp(ours[0], ours[1], sizeof ours[0]) == 0);
    for (int k = 0; k < 3; k++) {
      cpu__md_free(a[k]);
      own_md_free(b[k]);
    }
  }
  cpu__dnnl_close(dnnl);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(bytes_are_those_of_onednn), CT_TEST_END};
  return ct_test_main("formats", tests, argc, argv);
}
