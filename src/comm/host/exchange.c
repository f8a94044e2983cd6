/* Exchange of one chunk: split into slices, all-to-all, sum, all-gather. */
#include "comm/host/exchange.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_mpi.h"

struct ct__exchange {
  const ct_topo_t *t; /* borrowed */
  ct_dtype_t wire;
  MPI_Datatype type; /* MPI type of the wire format */
  float *buf;        /* the chunk */
  int n, ranks, me;
  void *received;   /* owned; this rank's slice from every rank, concatenated */
  uint16_t *packed; /* owned; bfloat16: the whole chunk */
  int *count;       /* owned; per rank: size of its slice */
  int *at;          /* owned; per rank: start of its slice */
  int *own;         /* owned; per rank: size of its summand of this rank's slice */
  int *own_at;      /* owned; per rank: start of that summand */
};

/* ---- creation and destruction ---- */

int ct__exchange_open(const ct_topo_t *t, ct_dtype_t wire, int64_t capacity, ct__exchange_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  int64_t floats = capacity + t->size; /* all slices are counted as long as the longest */
  ct__exchange_t *x = ct_mem_alloc(sizeof *x, "an exchange");
  if (!x) return CT_ERR_NOMEM;
  x->t = t;
  x->wire = wire;
  x->type = wire == CT_BF16 ? MPI_UINT16_T : MPI_FLOAT;
  x->received = ct_mem_array(floats, ct_dtype_size(wire), "what ranks exchange");
  if (wire == CT_BF16) x->packed = ct_mem_array(capacity, sizeof *x->packed, "what ranks exchange");
  x->count = ct_mem_array(4 * (int64_t)t->size, sizeof *x->count, "what ranks exchange");
  if (!x->received || (wire == CT_BF16 && !x->packed) || !x->count)
    CT_FAIL(CT_ERR_NOMEM, "out of memory for what ranks exchange");
  x->at = x->count + t->size;
  x->own = x->at + t->size;
  x->own_at = x->own + t->size;
  *out = x;
  x = NULL;
out:
  ct__exchange_close(x);
  return rc;
}

void ct__exchange_close(ct__exchange_t *x)
{
  if (!x) return;
  ct_mem_free(x->received);
  ct_mem_free(x->packed);
  ct_mem_free(x->count);
  ct_mem_free(x);
}

/* ---- bfloat16 ---- */

static void exchange_pack(uint16_t *to, const float *from, int n)
{
  for (int i = 0; i < n; i++)
    to[i] = ct_bf16_of(from[i]);
}

/* ---- arithmetic ---- */

static void sum_in_bf16(ct__exchange_t *x, float *sum, int n)
{
  const uint16_t *summand = x->received;
  for (int i = 0; i < n; i++)
    sum[i] = ct_bf16_float(summand[i]);
  for (int r = 1; r < x->ranks; r++) {
    summand += n;
    for (int i = 0; i < n; i++)
      sum[i] += ct_bf16_float(summand[i]);
  }
}

/* Sums in place along a binary tree: neighbours first, then neighbouring pairs, and so on. */
static void sum_along_tree(ct__exchange_t *x, float *sum, int n)
{
  float *summand = x->received;
  for (int step = 1; step < x->ranks; step *= 2)
    for (int r = 0; r + step < x->ranks; r += 2 * step) {
      float *a = summand + (int64_t)r * n;
      const float *b = a + (int64_t)step * n;
#pragma omp simd
      for (int i = 0; i < n; i++)
        a[i] += b[i];
    }
  memcpy(sum, summand, (size_t)n * sizeof *sum);
}

/* ---- phases of the exchange ---- */

static void exchange_cut(ct__exchange_t *x)
{
  int step = (x->n + x->ranks - 1) / x->ranks;
  for (int r = 0; r < x->ranks; r++) {
    int64_t from = (int64_t)r * step;
    x->at[r] = from < x->n ? (int)from : x->n;
    x->count[r] = x->n - x->at[r] < step ? x->n - x->at[r] : step;
  }
  for (int r = 0; r < x->ranks; r++) {
    x->own[r] = x->count[x->me];
    x->own_at[r] = r * x->count[x->me];
  }
}

void ct__exchange_begin(ct__exchange_t *x, MPI_Comm comm, float *buf, int64_t n,
                        MPI_Request *request)
{
  x->buf = buf;
  x->n = (int)n;
  CT_MPI(x->t, MPI_Comm_size(comm, &x->ranks));
  CT_MPI(x->t, MPI_Comm_rank(comm, &x->me));
  exchange_cut(x);
  if (x->wire == CT_BF16) exchange_pack(x->packed, buf, x->n);
  const void *from = x->wire == CT_BF16 ? (void *)x->packed : buf;
  CT_MPI(x->t, MPI_Ialltoallv(from, x->count, x->at, x->type, x->received, x->own, x->own_at,
                              x->type, comm, request));
}

void ct__exchange_turn(ct__exchange_t *x, MPI_Comm comm, MPI_Request *request)
{
  int at = x->at[x->me], n = x->count[x->me];
  if (x->wire == CT_BF16) {
    sum_in_bf16(x, x->buf + at, n);
    exchange_pack(x->packed + at, x->buf + at, n);
  } else {
    sum_along_tree(x, x->buf + at, n);
  }
  void *to = x->wire == CT_BF16 ? (void *)x->packed : x->buf;
  CT_MPI(x->t, MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, x->count, x->at, x->type,
                               comm, request));
}

void ct__exchange_finish(ct__exchange_t *x)
{
  if (x->wire != CT_BF16) return;
  for (int i = 0; i < x->n; i++)
    x->buf[i] = ct_bf16_float(x->packed[i]);
}
