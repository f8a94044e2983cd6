/* The communicator over MPI: exact sums, transfers in flight, races, fallbacks, faults. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm.h"
#include "tests/harness/ct_test_mpi.h"
#include "tests/mpi/comm_rig.h"

/* ---- tests ---- */

static const int64_t counts[] = {0, 1, 2, 3, 15, 16, 17, 63, 65, 1000, 4099, 65537, BIG};
enum { COUNTS = sizeof counts / sizeof *counts };

static void sums_are_exact(void)
{
  static const int offsets[] = {0, 1, 7, 16};
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_INT((uintptr_t)memory % 64, 0);
  for (int i = 0; i < COUNTS * 4; i++) {
    int64_t n = counts[i / 4], wrong = 0;
    float *buffers[] = {memory + offsets[i % 4], outside + offsets[i % 4]};
    for (int b = 0; b < 2; b++) {
      int ticket;
      float *buf = buffers[b];
      memory[0] = outside[0] = buf[n] = -1; /* around it nothing changes */
      fill(buf, n, i);
      CT_ASSERT_OK(ops->reduce(comm, NULL, buf, n, CT_REDUCE_ALL, &ticket));
      CT_ASSERT_OK(finish(ticket));
      wrong += wrong_sums(buf, 0, n, i) + (buf[n] != -1) +
               (offsets[i % 4] && buf[-offsets[i % 4]] != -1);
    }
    CT_ASSERT_INT(wrong, 0);
  }
  close_comm();
}

static void alloc_gives_zeroes(void)
{
  CT_ASSERT_OK(open_plain());
  for (int k = 0; k < 3; k++) {
    size_t bytes = 1 + 100001 * (size_t)k, dirty = 0;
    void *p;
    CT_ASSERT_OK(ops->alloc(comm, bytes, &p));
    CT_ASSERT_INT((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < bytes; i++)
      dirty += ((char *)p)[i] != 0;
    CT_ASSERT_INT(dirty, 0);
    memset(p, 1 + t->rank, bytes);
    int changed = 0;
    ct_agree(t, CT_OK); /* all have written theirs */
    for (size_t i = 0; i < bytes; i++)
      changed += ((char *)p)[i] != 1 + t->rank;
    CT_ASSERT_INT(changed, 0);
  }
  close_comm();
}

/* Several blocks, transfers of all of them mixed, ended in an order that each rank chooses
 * itself. */
static void many_in_flight(void)
{
  enum { TRANSFERS = 256, SIZE = 1500 };
  int ticket[TRANSFERS], order[TRANSFERS];
  CT_ASSERT_OK(open_plain());
  for (int round = 0; round < 4; round++) {
    for (int k = 0; k < TRANSFERS; k++) {
      float *buf =
          (random_of_all((uint64_t)(round * TRANSFERS + k)) % 4 ? memory : outside) + k * SIZE;
      fill(memory + k * SIZE, SIZE, k + round);
      fill(outside + k * SIZE, SIZE, k + round);
      CT_ASSERT_OK(ops->reduce(comm, NULL, buf, SIZE - k % 3, CT_REDUCE_ALL, &ticket[k]));
      if (random_of_rank((uint64_t)k) % 3 == 0) CT_ASSERT_OK(ops->progress(comm));
      pause_a_while(random_of_rank((uint64_t)(k + 1000 * round)), 8);
      order[k] = k;
    }
    for (int k = TRANSFERS - 1; k > 0; k--) {
      int other = (int)(random_of_rank((uint64_t)(k + 77 * round)) % (uint64_t)(k + 1)),
          old = order[k];
      order[k] = order[other];
      order[other] = old;
    }
    int64_t wrong = 0;
    for (int i = 0; i < TRANSFERS; i++) {
      int k = order[i];
      float *buf =
          (random_of_all((uint64_t)(round * TRANSFERS + k)) % 4 ? memory : outside) + k * SIZE;
      CT_ASSERT_OK(finish(ticket[k]));
      wrong += wrong_sums(buf, 0, SIZE - k % 3, k + round);
      memset(buf, 0xff, SIZE * sizeof *buf);
    }
    CT_ASSERT_INT(wrong, 0);
  }
  close_comm();
}

/* The end of a transfer only puts the sum into a queue: the next transfer, which may go through the
 * same memory, must not be there before. */
static void a_sum_is_not_overtaken(void)
{
  enum { N = 3000 };
  int ticket[2];
  CT_ASSERT_OK(open_plain());
  float *buffers[] = {outside, outside + N};
  for (int b = 0; b < 2; b++) {
    fill(buffers[b], N, b);
    CT_ASSERT_OK(ops->reduce(comm, NULL, buffers[b], N, CT_REDUCE_ALL, &ticket[b]));
    CT_ASSERT_OK(ops->end(comm, ticket[b], queue));
  }
  CT_ASSERT_OK(be->queue->sync(queue));
  for (int b = 0; b < 2; b++)
    CT_ASSERT_INT(wrong_sums(buffers[b], 0, N, b), 0);
  close_comm();
}

/* Steps as a trainer makes them: one buffer in buckets, filled again right after the last end()
 * while slower ranks may still be at the step before.  Some rank is slow in each. */
static void steps_do_not_race(void)
{
  enum { STEPS = 300, BUCKETS = 5, BUCKET = 700 };
  int64_t wrong = 0;
  CT_ASSERT_OK(open_plain());
  for (int step = 0; step < STEPS; step++) {
    int ticket[BUCKETS];
    int64_t n = 1 + (int64_t)(random_of_all((uint64_t)step) % BUCKET);
    for (int b = 0; b < BUCKETS; b++) {
      float *buf = memory + b * BUCKET;
      memset(buf, 0xff, BUCKET * sizeof *buf); /* gradients are written more than once */
      fill(buf, n, step + b);
      ops->reduce(comm, NULL, buf, n, CT_REDUCE_ALL, &ticket[b]);
      pause_a_while(random_of_rank((uint64_t)(step * BUCKETS + b)), 8);
      if (random_of_rank((uint64_t)(step * BUCKETS + b)) & 1) ops->progress(comm);
    }
    for (int b = 0; b < BUCKETS; b++) {
      finish(ticket[b]);
      wrong += wrong_sums(memory + b * BUCKET, 0, n, step + b);
      memset(memory + b * BUCKET, 0xff, BUCKET * sizeof *memory);
    }
  }
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

/* The same with one transfer that takes its time: a peer that says too early that it is through is
 * caught in the act. */
static void big_steps_do_not_race(void)
{
  int64_t wrong = 0;
  CT_ASSERT_OK(open_plain());
  for (int step = 0; step < 40; step++) {
    int ticket;
    fill(memory, BIG, step);
    ops->reduce(comm, NULL, memory, BIG, CT_REDUCE_ALL, &ticket);
    pause_a_while(random_of_rank((uint64_t)step), 8);
    finish(ticket);
    wrong += wrong_sums(memory, 0, BIG, step);
    memset(memory, 0xff, BIG * sizeof *memory);
  }
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

/* Numbers whose sum depends on the order: every round must bring the same bits, on every rank. */
static void the_order_is_fixed(void)
{
  enum { N = 9001, ROUNDS = 30 };
  uint64_t first[2] = {0, 0};
  CT_ASSERT_OK(open_plain());
  for (int round = 0; round < ROUNDS; round++) {
    float *buffers[] = {memory, outside};
    for (int b = 0; b < 2; b++) {
      int ticket;
      for (uint32_t i = 0; i < N; i++)
        buffers[b][i] = (float)(int64_t)random_of_rank(i) * 1e-9f;
      pause_a_while(8 * random_of_rank((uint64_t)(round * 2 + b)), 8);
      CT_ASSERT_OK(ops->reduce(comm, NULL, buffers[b], N, CT_REDUCE_ALL, &ticket));
      CT_ASSERT_OK(finish(ticket));
      uint64_t hash = ct_hash(buffers[b], N * sizeof(float), 0);
      if (round == 0) first[b] = hash;
      CU_ASSERT(hash == first[b]);
      CT_ASSERT_OK(ct_agree_same(t, "the sum", hash));
    }
  }
  close_comm();
}

/* Inside a node: ((rank 0 + rank 1) + rank 2) + … */
static void the_order_is_that_of_the_ranks(void)
{
  enum { N = 3000 };
  if (t->nodes > 1) {
    ct_test_skip("needs one node");
    return;
  }
  int ticket, wrong = 0;
  CT_ASSERT_OK(open_plain());
  for (uint32_t i = 0; i < N; i++)
    memory[i] = ct_rng_normal(5, CT_RNG_TEST, (uint32_t)t->rank, i);
  CT_ASSERT_OK(ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket));
  CT_ASSERT_OK(finish(ticket));
  for (uint32_t i = 0; i < N; i++) {
    float sum = ct_rng_normal(5, CT_RNG_TEST, 0, i);
    for (uint32_t r = 1; r < (uint32_t)t->size; r++)
      sum += ct_rng_normal(5, CT_RNG_TEST, r, i);
    wrong += memory[i] != sum;
  }
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

/* As the ranks' sums are made along a binary tree over their numbers. */
static float tree_sum(uint32_t from, uint32_t to, uint32_t width, uint32_t i)
{
  if (width == 1) return ct_rng_normal(5, CT_RNG_TEST, from, i);
  uint32_t middle = from + width / 2;
  float low = tree_sum(from, to < middle ? to : middle, width / 2, i);
  return middle < to ? low + tree_sum(middle, to, width / 2, i) : low;
}

/* Between nodes, on a number of ranks that is no power of two: a tree too.  What is too small to be
 * cut among the ranks goes by MPI. */
static void odd_ranks_have_a_tree(void)
{
  uint32_t size = (uint32_t)t->size, width = 4;
  if (is_nccl() || t->nodes == 1 || (size & (size - 1)) == 0) {
    ct_test_skip("needs 3 nodes, or 6");
    return;
  }
  int ticket, wrong = 0;
  while (width < size)
    width *= 2;
  CT_ASSERT_OK(open_plain());
  for (uint32_t i = 0; i < BIG; i++)
    outside[i] = ct_rng_normal(5, CT_RNG_TEST, (uint32_t)t->rank, i);
  CT_ASSERT_OK(ops->reduce(comm, NULL, outside, BIG, CT_REDUCE_ALL, &ticket));
  CT_ASSERT_OK(finish(ticket));
  for (uint32_t i = 0; i < BIG; i++)
    wrong += outside[i] != tree_sum(0, size, width, i);
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

static void tickets_run_out(void)
{
  int ticket[CT_COMM_TICKETS], one_more;
  CT_ASSERT_OK(open_plain());
  for (int i = 0; i < CT_COMM_TICKETS; i++) {
    memory[i] = 1;
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory + i, 1, CT_REDUCE_ALL, &ticket[i]));
  }
  CT_ASSERT_FAILS(ops->reduce(comm, NULL, memory, 1, CT_REDUCE_ALL, &one_more), CT_ERR_ARG,
                  "1024 transfers");
  for (int i = 0; i < CT_COMM_TICKETS; i++) {
    CT_ASSERT_OK(finish(ticket[i]));
    CT_ASSERT_NEAR(memory[i], t->size, 0);
  }
  CT_ASSERT_FAILS(finish(ticket[0]), CT_ERR_ARG, "not open");
  CT_ASSERT_FAILS(finish(-1), CT_ERR_ARG, "not open");
  CT_ASSERT_FAILS(finish(CT_COMM_TICKETS), CT_ERR_ARG, "not open");
  close_comm();
}

static void a_step_allocates_nothing(void)
{
  int ticket[2];
  CT_ASSERT_OK(open_plain());
  int64_t calls = 0;
  for (int step = 0; step < 2; step++) { /* the first may */
    calls = ct_mem_calls();
    ops->reduce(comm, NULL, memory, BIG, CT_REDUCE_ALL, &ticket[0]);
    ops->reduce(comm, NULL, outside, BIG, CT_REDUCE_ALL, &ticket[1]);
    ops->progress(comm);
    finish(ticket[1]);
    finish(ticket[0]);
  }
  CT_ASSERT_INT(ct_mem_calls(), calls);
  close_comm();
}

static void close_completes_and_frees(void)
{
  int64_t live = ct_mem_live();
  int ticket;
  CT_ASSERT_OK(open_plain());
  fill(outside, 5000, 3);
  CT_ASSERT_OK(ops->reduce(comm, NULL, memory, BIG, CT_REDUCE_ALL, &ticket));
  CT_ASSERT_OK(ops->reduce(comm, NULL, outside, 5000, CT_REDUCE_ALL, &ticket));
  float *kept = outside;
  ops->close(comm);
  CT_ASSERT_INT(wrong_sums(kept, 0, 5000, 3), 0);
  be->mem->free(dev, CT_MEM_DEVICE, kept);
  ops->close(NULL);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void broadcasts(void)
{
  CT_ASSERT_OK(open_plain());
  for (int root = 0; root < t->size; root++)
    for (int64_t n = 0; n < 100000; n = 3 * n + 1) {
      for (int64_t i = 0; i < n; i++)
        memory[i] = element(t->rank, i, n);
      CT_ASSERT_OK(ops->bcast(comm, queue, memory, (size_t)n * sizeof *memory, root));
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; i++)
        wrong += memory[i] != element(root, i, n);
      CT_ASSERT_INT(wrong, 0);
    }
  if (is_fake())
    CT_ASSERT_FAILS(ops->bcast(comm, broken_queue(), memory, 4, 0), CT_ERR_DEVICE,
                    "the queue broke");
  close_comm();
}

/* Ranks that are behind broadcast while others have begun the transfers before it, or not. */
static void broadcast_amid_transfers(void)
{
  enum { N = 20000 };
  CT_ASSERT_OK(open_plain());
  float *word = outside + BIG;
  for (int round = 0; round < 30; round++) {
    int ticket[2];
    fill(memory, N, round);
    fill(outside, N, round);
    pause_a_while(8 * random_of_rank((uint64_t)round), 8);
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket[0]));
    CT_ASSERT_OK(ops->reduce(comm, NULL, outside, N, CT_REDUCE_ALL, &ticket[1]));
    word[3] = (float)(round * t->rank);
    CT_ASSERT_OK(ops->bcast(comm, queue, word, 4 * sizeof *word, t->size - 1));
    CT_ASSERT_INT((int)word[3], round * (t->size - 1));
    CT_ASSERT_OK(finish(ticket[1]));
    CT_ASSERT_OK(finish(ticket[0]));
    CT_ASSERT_INT(wrong_sums(memory, 0, N, round) + wrong_sums(outside, 0, N, round), 0);
  }
  close_comm();
}

/* ---- faults ---- */

static void an_event_fails(void)
{
  if (!is_fake()) {
    ct_test_skip("needs the fake device");
    return;
  }
  CT_ASSERT_OK(open_plain());
  for (int bad = 0; bad < t->size; bad++) {
    int rc = t->rank == bad ? CT_ERR_DEVICE : CT_OK;
    int ticket;
    fill(memory, 5000, bad);
    CT_ASSERT_INT(ops->reduce(comm, event_with(rc), memory, 5000, CT_REDUCE_ALL, &ticket), rc);
    CT_ASSERT_OK(finish(ticket));
    CT_ASSERT_INT(wrong_sums(memory, 0, 5000, bad), 0); /* nobody was left waiting */
  }
  close_comm();
}

static void wrong_backend(void)
{
  if (ops != &ct_comm_mpi) {
    ct_test_skip("any backend is fine");
    return;
  }
  ct_backend_t device = *be;
  device.host_memory = 0;
  device.name = "gpu";
  ct_comm_t *c;
  CT_ASSERT_FAILS(ops->open(t, &device, NULL, &(ct_comm_opts_t){0}, &c), CT_ERR_UNSUP,
                  "backend 'gpu'");
  CU_ASSERT(c == NULL);
}

static void no_memory(void)
{
  int64_t live = ct_mem_live();
  for (int nth = 1; nth <= 12; nth++) {
    ct_comm_t *c;
    void *p;
    if (t->rank == t->size - 1) ct_mem_fail_at(nth);
    int rc = ops->open(t, be, dev, &(ct_comm_opts_t){0}, &c);
    if (rc == CT_OK) {
      rc = ops->alloc(c, 1 << 16, &p);
      CU_ASSERT(rc == CT_OK || p == NULL);
    } else {
      CT_ASSERT_INT(rc, CT_ERR_NOMEM);
      CU_ASSERT(c == NULL);
    }
    ct_mem_fail_at(0);
    CT_ASSERT_OK(ct_agree_same(t, "the code", (uint64_t)rc));
    ops->close(c);
  }
  CT_ASSERT_INT(ct_mem_live(), live);
}

/* One rank has no room in the window: all go over MPI together.  First pass of the point: the
 * counters; the next: the memory itself. */
static void no_shared_memory(void)
{
  if (is_nccl()) {
    ct_test_skip("no window");
    return;
  }
  for (int pass = 1; pass <= 2; pass++) {
    char faults[64];
    int ticket;
    snprintf(faults, sizeof faults, "comm.window@%d:%d", t->size - 1, pass);
    setenv("CTRAIN_FAULTS", faults, 1);
    ct_fault_setup(t->rank);
    CT_ASSERT_OK(open_plain());
    fill(memory, BIG, pass);
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory, BIG, CT_REDUCE_ALL, &ticket));
    CT_ASSERT_OK(finish(ticket));
    CT_ASSERT_INT(wrong_sums(memory, 0, BIG, pass), 0);
    close_comm();
  }
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(t->rank);
}

/* The last rank gives up instead of sending its part: those who wait for it on its node are
 * told. */
static void a_rank_gives_up(void)
{
  if (t->size == 1 || t->nodes > 1) {
    ct_test_skip("needs several ranks on one node");
    return;
  }
  CT_ASSERT_OK(open_plain());
  int ticket;
  if (t->rank < t->size - 1) {
    int rc = ops->reduce(comm, NULL, memory, 100, CT_REDUCE_ALL, &ticket);
    /* it may have given up before this rank got here */
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_COMM);
    CT_ASSERT_FAILS(rc == CT_OK ? finish(ticket) : rc, CT_ERR_COMM, "aborted during a transfer");
  }
  abandon_comm();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(sums_are_exact),
                                    CT_TEST(alloc_gives_zeroes),
                                    CT_TEST(many_in_flight),
                                    CT_TEST(a_sum_is_not_overtaken),
                                    CT_TEST(steps_do_not_race),
                                    CT_TEST(big_steps_do_not_race),
                                    CT_TEST(the_order_is_fixed),
                                    CT_TEST(the_order_is_that_of_the_ranks),
                                    CT_TEST(odd_ranks_have_a_tree),
                                    CT_TEST(tickets_run_out),
                                    CT_TEST(a_step_allocates_nothing),
                                    CT_TEST(close_completes_and_frees),
                                    CT_TEST(broadcasts),
                                    CT_TEST(broadcast_amid_transfers),
                                    CT_TEST(an_event_fails),
                                    CT_TEST(wrong_backend),
                                    CT_TEST(no_memory),
                                    CT_TEST(no_shared_memory),
                                    CT_TEST(a_rank_gives_up),
                                    CT_TEST_END};
  return rig_main("comm", tests, argc, argv);
}
