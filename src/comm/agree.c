/* The control plane. Each agreement on a code, a hash or a few numbers is one small all-reduce;
 * only if it detects a failure, the failing rank's text is broadcast too. The step status is a
 * larger message of the same kind, so that each training step needs only one. */
#include "comm/ct_agree.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_mem.h"
#include "comm/ct_mpi.h"

static const char comparison[] = "a comparison between ranks",
                  from_zero[] = "a broadcast from rank 0";

static void allreduce(const ct_topo_t *t, const char *what, void *io, int count, MPI_Datatype type,
                      MPI_Op op)
{
  if (t->size == 1) return;
  ct_heartbeat_enter(what, -1);
  ct_mpi_allreduce(t, t->world, io, count, type, op);
}

static void bcast(const ct_topo_t *t, const char *what, void *data, size_t bytes, int root)
{
  if (t->size == 1) return;
  ct_heartbeat_enter(what, -1);
  ct_mpi_bcast(t, t->world, data, bytes, root);
}

/* Broadcasts the error record of rank \a culprit, which failed with \a code. */
static int share_error(const ct_topo_t *t, int code, int culprit)
{
  ct_err_info_t info = {0};
  if (t->rank == culprit) {
    if (ct_err_last()->code != code)
      ct_err_set(code, __FILE__, __LINE__, "%s", ct_err_meaning(code));
    info = *ct_err_last();
    if (info.rank < 0) info.rank = culprit;
  }
  bcast(t, "broadcast of an error", &info, sizeof info, culprit);
  ct_err_put(&info);
  return code;
}

int ct_agree(const ct_topo_t *t, int rc)
{
  struct {
    int code, rank;
  } worst = {rc, t->rank};
  allreduce(t, "agreement on an error code", &worst, 1, MPI_2INT, MPI_MINLOC);
  return worst.code == CT_OK ? CT_OK : share_error(t, worst.code, worst.rank);
}

/* Names the first rank that differs. The lowest rank whose value differs from rank 0's sets the
 * error; the other ranks only receive it. */
static int name_the_first(const ct_topo_t *t, const char *what, uint64_t value)
{
  uint64_t of_zero = value;
  bcast(t, comparison, &of_zero, sizeof of_zero, 0);
  int first = value != of_zero ? t->rank : t->size;
  allreduce(t, comparison, &first, 1, MPI_INT, MPI_MIN);
  if (t->rank == first)
    ct_err_set(CT_ERR_DIFFER, __FILE__, __LINE__,
               "%s differs between ranks: %016" PRIx64 " on rank 0, %016" PRIx64 " on rank %d",
               what, of_zero, value, t->rank);
  return share_error(t, CT_ERR_DIFFER, first);
}

int ct_agree_same(const ct_topo_t *t, const char *what, uint64_t value)
{
  /* max(~x) is ~min(x): one all-reduce yields both the minimum and the maximum. */
  uint64_t ends[2] = {value, ~value};
  allreduce(t, comparison, ends, 2, MPI_UINT64_T, MPI_MAX);
  return ends[0] == ~ends[1] ? CT_OK : name_the_first(t, what, value);
}

int ct_agree_bytes(const ct_topo_t *t, int rc, void **data, size_t *bytes)
{
  void *mine = NULL;
  if (t->rank != 0) {
    *data = NULL;
    rc = CT_OK;
  }
  CT_TRY_ALL(t, rc);
  uint64_t n = *bytes;
  bcast(t, from_zero, &n, sizeof n, 0);
  if (t->rank != 0) mine = ct_mem_alloc(n + 1, "a broadcast from rank 0");
  CT_TRY_ALL(t, t->rank == 0 || mine ? CT_OK : CT_ERR_NOMEM);
  if (t->rank != 0) {
    *data = mine;
    *bytes = n;
    mine = NULL;
  }
  bcast(t, from_zero, *data, n, 0);
out:
  ct_mem_free(mine);
  return rc;
}

void ct_agree_node(const ct_topo_t *t, void *data, size_t bytes)
{
  if (t->local_size > 1) ct_mpi_bcast(t, t->node, data, bytes, 0);
}

void ct_agree_sum(const ct_topo_t *t, int64_t *count, int64_t n)
{
  enum { AT_ONCE = 1 << 20 }; /* MPI counts are ints, and some libraries buffer a whole message */
  for (int64_t i = 0; i < n; i += AT_ONCE)
    allreduce(t, "a sum of counts", count + i, (int)(n - i < AT_ONCE ? n - i : AT_ONCE),
              MPI_INT64_T, MPI_SUM);
}

int ct_agree_doubles(const ct_topo_t *t, double *io, int n, int max)
{
  allreduce(t, "a sum of a few numbers", io, n, MPI_DOUBLE, max ? MPI_MAX : MPI_SUM);
  return CT_OK;
}

void ct_agree_gather(const ct_topo_t *t, const void *mine, int bytes, void *all)
{
  if (t->size == 1) {
    memcpy(all, mine, (size_t)bytes);
    return;
  }
  MPI_Request request;
  ct_heartbeat_enter("a gather on rank 0", -1);
  CT_MPI(t, MPI_Igather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, t->world, &request));
  ct_mpi_wait(t, &request);
}

enum { PART = 1 << 16, PARTS_TAG = 79 };

static void send_part(const ct_topo_t *t, const void *data, size_t bytes)
{
  MPI_Request request;
  CT_MPI(t, MPI_Isend(data, (int)bytes, MPI_BYTE, 0, PARTS_TAG, t->world, &request));
  ct_mpi_wait(t, &request);
}

static void take_part(const ct_topo_t *t, int from, void *data, size_t bytes)
{
  MPI_Request request;
  CT_MPI(t, MPI_Irecv(data, (int)bytes, MPI_BYTE, from, PARTS_TAG, t->world, &request));
  ct_mpi_wait(t, &request);
}

static size_t part_of(size_t left)
{
  return left < PART ? left : PART;
}

static void send_all(const ct_topo_t *t, const char *mine, size_t bytes)
{
  uint64_t n = bytes;
  send_part(t, &n, sizeof n);
  for (size_t at = 0; at < bytes; at += PART)
    send_part(t, mine + at, part_of(bytes - at));
}

static void take_all(const ct_topo_t *t, int from, ct_agree_part_t take, void *ctx)
{
  char part[PART];
  uint64_t n;
  take_part(t, from, &n, sizeof n);
  for (size_t at = 0; at < n; at += PART) {
    take_part(t, from, part, part_of(n - at));
    take(ctx, from, part, part_of(n - at));
  }
}

void ct_agree_each(const ct_topo_t *t, const void *mine, size_t bytes, ct_agree_part_t take,
                   void *ctx)
{
  if (t->size > 1) ct_heartbeat_enter("a gather on rank 0", -1);
  if (t->rank == 0) take(ctx, 0, mine, bytes);
  for (int r = 1; t->rank == 0 && r < t->size; r++)
    take_all(t, r, take, ctx);
  if (t->rank > 0) send_all(t, mine, bytes);
}

static int64_t max_int(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static double max_real(double a, double b)
{
  return a > b ? a : b;
}

static void merge_times(const ct_step_status_t *a, ct_step_status_t *b)
{
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    b->time_sum.s[k] += a->time_sum.s[k];
    b->time_max.s[k] = max_real(a->time_max.s[k], b->time_max.s[k]);
  }
  b->busy_max = max_real(a->busy_max, b->busy_max);
  b->work_max = max_real(a->work_max, b->work_max);
}

static void merge_losses(const ct_step_status_t *a, ct_step_status_t *b)
{
  for (int k = 0; k < CT_STEP_LOSSES; k++) {
    b->loss[k].sum += a->loss[k].sum;
    b->loss[k].weight += a->loss[k].weight;
    b->loss[k].abs_error += a->loss[k].abs_error;
    b->loss[k].samples += a->loss[k].samples;
    b->loss[k].top1 += a->loss[k].top1;
    b->loss[k].top5 += a->loss[k].top5;
  }
}

/* Merges two step statuses; an MPI_User_function. */
static void agree_merge(void *in, void *io, int *n, MPI_Datatype *type)
{
  (void)type;
  const ct_step_status_t *a = in;
  ct_step_status_t *b = io;
  for (int i = 0; i < *n; i++, a++, b++) {
    if (a->err < b->err || (a->err == b->err && a->err_rank < b->err_rank)) {
      b->err = a->err;
      b->err_rank = a->err_rank;
    }
    b->stop = max_int(a->stop, b->stop);
    b->loss_sum += a->loss_sum;
    b->loss_weight += a->loss_weight;
    b->abs_error += a->abs_error;
    b->samples += a->samples;
    b->top1 += a->top1;
    b->top5 += a->top5;
    b->skipped += a->skipped;
    merge_losses(a, b);
    merge_times(a, b);
  }
}

void ct__step_status_open(ct_topo_t *t)
{
  CT_MPI(t, MPI_Type_contiguous((int)sizeof(ct_step_status_t), MPI_BYTE, &t->step_type));
  CT_MPI(t, MPI_Type_commit(&t->step_type));
  CT_MPI(t, MPI_Op_create(agree_merge, 1, &t->step_op));
}

void ct__step_status_close(ct_topo_t *t)
{
  if (t->step_op != MPI_OP_NULL) MPI_Op_free(&t->step_op);
  if (t->step_type != MPI_DATATYPE_NULL) MPI_Type_free(&t->step_type);
}

int ct_step_agree(const ct_topo_t *t, ct_step_status_t *io)
{
  io->err_rank = t->rank;
  allreduce(t, "the step status", io, 1, t->step_type, t->step_op);
  return io->err == CT_OK ? CT_OK : share_error(t, (int)io->err, (int)io->err_rank);
}
