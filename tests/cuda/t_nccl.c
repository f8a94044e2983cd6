/* The communicator over a fake NCCL: repeated steps, and failures, which end all ranks in time with
 * one message.  Waits have CT_TEST_TIMEOUT seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/mpi/comm_rig.h"

enum { N = 5000 };

static void set_failure(const char *function, int rank, const char *how)
{
  static int uses;
  char text[200];
  snprintf(text, sizeof text, "%s:%0*d:%d%s", function, ++uses, 1, rank, how); /* never the same */
  setenv("CTRAIN_FAKE_NCCL_FAIL", text, 1);
}

/* ---- repeated steps ---- */

/* A step as a trainer makes it: gradients from the host, two buckets, a group's sum. */
static int step(ct_group_t *g, const float *from, const double *row_from)
{
  int rc = CT_OK, ticket[2];
  ct_event_t *ev = NULL;
  CT_TRY(be->mem->copy(queue, memory, from, 2 * N * sizeof *memory));
  CT_TRY(be->mem->copy(queue, row, row_from, 8 * sizeof *row));
  CT_TRY(be->queue->mark(queue, &ev));
  CT_TRY(ops->reduce(comm, ev, memory + N, N, CT_REDUCE_ALL, &ticket[0]));
  CT_TRY(ops->group_sum(g, queue, row, 8));
  CT_TRY(be->queue->mark(queue, &ev));
  CT_TRY(ops->reduce(comm, ev, memory, N, CT_REDUCE_ALL, &ticket[1]));
  CT_TRY(ops->end(comm, ticket[0], queue));
  CT_TRY(ops->end(comm, ticket[1], queue));
out:
  be->queue->unmark(ev);
  return rc;
}

/* Ends the recording, and launches it as a graph. */
static int replay(void)
{
  int rc = CT_OK, same;
  CT_TRY(be->queue->end(queue, &same));
  if (!same) CT_TRY(be->queue->capture(queue));
  CT_TRY(be->queue->start(queue, 1));
out:
  return rc;
}

static void steps_are_repeated(void)
{
  ct_group_t *g;
  void *p = NULL, *q = NULL;
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_INT(ops->repeatable, 1);
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  CT_ASSERT_OK(be->mem->alloc(dev, CT_MEM_STAGING, 2 * N * sizeof(float), &p));
  CT_ASSERT_OK(be->mem->alloc(dev, CT_MEM_STAGING, 8 * sizeof(double), &q));
  float *from = p;
  double *row_from = q;
  for (int round = 0; round < 6; round++) {
    int whole = round % 3 != 2;
    fill(from, 2 * N, round);
    for (int i = 0; i < 8; i++)
      row_from[i] = round + i;
    CT_ASSERT_OK(be->queue->begin(queue, 0));
    CT_ASSERT_OK(step(g, from, row_from));
    CT_ASSERT_OK(whole ? replay() : be->queue->start(queue, 0));
    CT_ASSERT_OK(be->queue->sync(queue));
    CT_ASSERT_INT(wrong_sums(memory, 0, 2 * N, round), 0);
    CT_ASSERT_NEAR(row[7], (round + 7) * t->size, 0);
  }
  be->mem->free(dev, CT_MEM_STAGING, p);
  be->mem->free(dev, CT_MEM_STAGING, q);
  close_comm();
}

/* ---- failures ---- */

/* Every call once.  Local failures stop a rank; the others are stopped by what it tells them. */
static int use_all(void)
{
  int rc = CT_OK, ticket;
  int64_t bytes[8] = {80, 80, 80, 80, 80, 80, 80, 80};
  ct_group_t *g;
  CT_TRY(open_plain());
  CT_TRY(ops->group(comm, 0, &g));
  CT_TRY(ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket));
  CT_TRY(finish(ticket));
  CT_TRY(ops->reduce(comm, NULL, memory, N, CT_REDUCE_SLICE, &ticket));
  CT_TRY(finish(ticket));
  CT_TRY(ops->group_sum(g, queue, row, 10));
  CT_TRY(be->queue->sync(queue));
  CT_TRY(ops->gather(comm, queue, memory, N));
  CT_TRY(be->queue->sync(queue));
  CT_TRY(ops->bcast(comm, queue, memory, 1000, 0));
  CT_TRY(ops->scatter(comm, queue, memory, outside, bytes));
  CT_TRY(ops->collect(comm, queue, outside, memory, bytes));
  CT_TRY(ops->reduce_root(comm, queue, memory, N));
out:
  return ct_agree(t, rc);
}

static const struct {
  const char *function;
  int root; /* only rank 0 calls it */
  const char *how, *says;
} failures[] = {
    {"ncclGetUniqueId", 1, "", "in ncclGetUniqueId: unhandled system error: an injected failure"},
    {"ncclCommInitRankConfig", 0, "", "in ncclCommInitRankConfig: unhandled system error"},
    {"ncclCommInitRankConfig", 0, ":hang", "in ncclCommInitRankConfig: it has not finished in 1 s"},
    {"ncclCommInitRankConfig", 0, ":async", "in ncclCommInitRankConfig: remote process exited"},
    {"ncclCommRegister", 0, "", "in ncclCommRegister of 2.458 MB: unhandled system error"},
    {"ncclCommRegister", 0, ":hang", "in ncclCommRegister of 2.458 MB: it has not finished in 1 s"},
    {"ncclCommSplit", 0, "", "in ncclCommSplit: unhandled system error"},
    {"ncclCommSplit", 0, ":hang", "in ncclCommSplit: it has not finished in 1 s"},
    {"ncclAllReduce", 0, "", "in ncclAllReduce of 0.020 MB: unhandled system error"},
    {"ncclAllReduce", 0, ":hang", "in ncclAllReduce of 0.020 MB: it has not finished in 1 s"},
    {"ncclAllReduce", 0, ":async", "in ncclAllReduce of 0.020 MB: remote process exited"},
    {"ncclReduceScatter", 0, "", "in ncclReduceScatter of 0.020 MB: unhandled system error"},
    {"ncclGroupStart", 0, "", "in ncclGroupStart: unhandled system error"},
    {"ncclGroupEnd", 0, ":hang", "in ncclReduceScatter of 0.020 MB: it has not finished"},
    {"ncclGroupEnd", 0, "", "in ncclReduceScatter of 0.020 MB: unhandled system error"},
    {"ncclAllGather", 0, ":hang", "in ncclAllGather of 0.020 MB: it has not finished"},
    {"ncclBroadcast", 0, "", ": unhandled system error"},
    {"ncclSend", 1, ":hang", ": it has not finished"},
    {"ncclRecv", 1, "", "in ncclRecv of 0.000 MB: unhandled system error"},
    {"ncclReduce", 0, "", ": unhandled system error"},
};

/* All ranks end at about the same time, well before each would by itself have given up all its
 * waits. */
static void failures_end_all_ranks(void)
{
  char rank_text[96];
  if (t->size == 1) {
    ct_test_skip("needs several ranks");
    return;
  }
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
    int bad = failures[i].root ? 0 : t->size - 1;
    double begin = ct_clock();
    set_failure(failures[i].function, bad, failures[i].how);
    int rc = use_all();
    if (rc != CT_ERR_COMM) printf("# %s%s\n", failures[i].function, failures[i].how);
    CT_ASSERT_INT(rc, CT_ERR_COMM);
    CT_ASSERT_HAS(ct_err_last()->text, failures[i].says);
    snprintf(rank_text, sizeof rank_text, "rank %d (%s)", bad, t->host);
    if (strcmp(failures[i].how, ":hang") != 0) CT_ASSERT_HAS(ct_err_last()->text, rank_text);
    CU_ASSERT(ct_clock() - begin < 15);
    unsetenv("CTRAIN_FAKE_NCCL_FAIL");
    close_comm();
    comm = NULL;
  }
}

/* The third step fails, in which ranks may have begun; what is done with its graph does no harm. */
static void a_repeated_step_fails(void)
{
  ct_group_t *g;
  int ticket, same, rc = CT_OK;
  if (t->size == 1) {
    ct_test_skip("needs several ranks");
    return;
  }
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  for (int round = 0; round < 2; round++) {
    CT_ASSERT_OK(be->queue->begin(queue, 1));
    CT_ASSERT_OK(step(g, outside, row + 8));
    CT_ASSERT_OK(replay());
    CT_ASSERT_OK(be->queue->sync(queue));
  }
  set_failure("ncclAllReduce", 0, "");
  CT_ASSERT_OK(be->queue->begin(queue, 2)); /* another graph, while which is made it fails */
  CT_ASSERT_OK(step(g, outside, row + 8));
  CT_ASSERT_OK(be->queue->end(queue, &same));
  CT_ASSERT_INT(same, 0);
  rc = be->queue->capture(queue);
  if (t->rank == 0) CT_ASSERT_FAILS(rc, CT_ERR_COMM, "NCCL failed on rank 0");
  be->queue->start(queue, 0);
  be->queue->begin(queue, 1);
  be->queue->start(queue, 1);
  ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket);
  CT_ASSERT_FAILS(finish(ticket), CT_ERR_COMM, "NCCL failed on rank 0"); /* by now all know */
  unsetenv("CTRAIN_FAKE_NCCL_FAIL");
  (void)be->queue->sync(queue); /* work in it may still use the memory that is freed next */
  close_comm();
}

/* An abort waits for the end of a capture, and is not forgotten if nothing else is called. */
static void a_capture_fails_and_no_more(void)
{
  if (t->size == 1) {
    ct_test_skip("needs several ranks");
    return;
  }
  for (int abandons = 0; abandons < 2; abandons++) {
    ct_group_t *g;
    CT_ASSERT_OK(open_plain());
    CT_ASSERT_OK(ops->group(comm, 0, &g));
    set_failure("ncclAllReduce", 0, "");
    CT_ASSERT_OK(be->queue->begin(queue, 0));
    CT_ASSERT_OK(step(g, outside, row + 8));
    int same, rc = be->queue->end(queue, &same);
    if (rc == CT_OK) rc = be->queue->capture(queue);
    if (t->rank == 0) CT_ASSERT_FAILS(rc, CT_ERR_COMM, "NCCL failed on rank 0");
    unsetenv("CTRAIN_FAKE_NCCL_FAIL");
    if (abandons)
      abandon_comm();
    else
      close_comm();
  }
}

static void a_failure_is_remembered(void)
{
  int ticket;
  if (t->size == 1) {
    ct_test_skip("needs several ranks");
    return;
  }
  CT_ASSERT_OK(open_plain());
  set_failure("ncclAllReduce", 0, "");
  int rc = ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket);
  if (t->rank == 0) CT_ASSERT_INT(rc, CT_ERR_COMM); /* others hear of it now or later */
  CT_ASSERT_FAILS(finish(ticket), CT_ERR_COMM, "NCCL failed on rank 0");
  unsetenv("CTRAIN_FAKE_NCCL_FAIL");
  ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "something else");
  CT_ASSERT_FAILS(ops->progress(comm), CT_ERR_COMM, "NCCL failed on rank 0");
  CT_ASSERT_FAILS(ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket), CT_ERR_COMM,
                  "NCCL failed on rank 0");
  CT_ASSERT_FAILS(ops->end(comm, ticket, queue), CT_ERR_COMM, "NCCL failed on rank 0");
  CT_ASSERT_FAILS(ops->bcast(comm, queue, memory, 8, 0), CT_ERR_COMM, "NCCL failed on rank 0");
  close_comm();
  CT_ASSERT_OK(use_all()); /* another one is fine */
  close_comm();
}

/* NCCL's own memory is faster, no more; but what one rank registers all must register. */
static void memory_need_not_be_nccls(void)
{
  set_failure("ncclMemAlloc", t->size - 1, "");
  CT_ASSERT_OK(use_all());
  unsetenv("CTRAIN_FAKE_NCCL_FAIL");
  close_comm();
}

static void two_ranks_of_one_gpu(void)
{
  int64_t live = ct_mem_live();
  if (t->size == 1) {
    ct_test_skip("needs several ranks");
    return;
  }
  share_host(1);
  ct_comm_t *c;
  CT_ASSERT_FAILS(ops->open(t, be, dev, &(ct_comm_opts_t){0}, &c), CT_ERR_COMM,
                  "Duplicate GPU detected : rank 0 and rank 1");
  CU_ASSERT_PTR_NULL(c);
  CT_ASSERT_INT(ct_mem_live(), live);
  share_host(0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(steps_are_repeated),      CT_TEST(failures_end_all_ranks),
      CT_TEST(a_repeated_step_fails),   CT_TEST(a_capture_fails_and_no_more),
      CT_TEST(a_failure_is_remembered), CT_TEST(memory_need_not_be_nccls),
      CT_TEST(two_ranks_of_one_gpu),    CT_TEST_END};
  return rig_main("nccl", tests, argc, argv);
}
