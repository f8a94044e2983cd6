/* The communicator over MPI, its other calls: groups, fixed trees, bfloat16, slices, rows. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm.h"
#include "tests/harness/ct_test_mpi.h"
#include "tests/mpi/comm_rig.h"

static int reduce(float *buf, int64_t n, ct_reduce_t how)
{
  int rc = CT_OK, ticket;
  CT_TRY(ops->reduce(comm, NULL, buf, n, how, &ticket));
  CT_TRY(finish(ticket));
out:
  return rc;
}

/* ---- groups ---- */

/* Over row[0..n). */
static int sum_in_group(ct_group_t *g, int64_t n)
{
  int rc = CT_OK;
  CT_TRY(ops->group_sum(g, queue, row, n));
  CT_TRY(be->queue->sync(queue));
out:
  return rc;
}

static double term(int rank, int64_t i)
{
  return (double)ct_rng_normal(6, CT_RNG_TEST, (uint32_t)rank, (uint64_t)i);
}

static double rank_order_sum(int color(int rank), int64_t i)
{
  double sum = 0;
  int first = 1;
  for (int r = 0; r < t->size; r++) {
    if (color(r) != color(t->rank)) continue;
    sum = first ? term(r, i) : sum + term(r, i);
    first = 0;
  }
  return sum;
}

static int all_one(int rank)
{
  (void)rank;
  return 3;
}
static int each_alone(int rank)
{
  return rank;
}
static int pairs(int rank)
{
  return rank / 2;
}
static int odd_and_even(int rank)
{
  return rank % 2;
}

static void groups_sum(void)
{
  static int (*const colors[])(int) = {all_one, each_alone, pairs, odd_and_even};
  static const int64_t counts[] = {0, 1, 3, 65, 129, 4097, 4112, MOST};
  static double sums[MOST];
  CT_ASSERT_OK(open_plain());
  for (int k = 0; k < 4; k++) {
    ct_group_t *g;
    CT_ASSERT_OK(ops->group(comm, colors[k](t->rank), &g));
    for (int i = 0; i < 8; i++) {
      int64_t n = counts[i], wrong = 0;
      for (int64_t j = 0; j < MOST; j++)
        row[j] = term(t->rank, j);
      CT_ASSERT_OK(sum_in_group(g, n));
      for (int64_t j = 0; j < n; j++)
        sums[j] = rank_order_sum(colors[k], j);
      CT_ASSERT_DOUBLES(row, sums, n, t->nodes == 1 ? 0 : 1e-14);
      for (int64_t j = n; j < MOST; j++)
        wrong += row[j] != term(t->rank, j);
      CT_ASSERT_INT(wrong, 0);
    }
  }
  close_comm();
}

static void groups_have_the_same_bits(void)
{
  CT_ASSERT_OK(open_plain());
  ct_group_t *g;
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  uint64_t first = 0;
  for (int round = 0; round < 20; round++) {
    for (int64_t j = 0; j < 501; j++)
      row[j] = term(t->rank, j) * 1e-3;
    pause_a_while(random_of_rank((uint64_t)round), 4);
    CT_ASSERT_OK(sum_in_group(g, 501));
    uint64_t hash = ct_hash(row, 501 * sizeof *row, 0);
    if (round == 0) first = hash;
    CU_ASSERT(hash == first);
    CT_ASSERT_OK(ct_agree_same(t, "the sum", hash));
  }
  close_comm();
}

/* Some ranks end transfers before the group's sum, some after, some are late. */
static void groups_amid_transfers(void)
{
  enum { N = 20000, ROUNDS = 30 };
  ct_group_t *all, *pair;
  int64_t wrong = 0;
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_OK(ops->group(comm, 0, &all));
  CT_ASSERT_OK(ops->group(comm, pairs(t->rank), &pair));
  int members = t->rank / 2 * 2 + 1 < t->size ? 2 : 1;
  for (int round = 0; round < ROUNDS; round++) {
    int ticket[3], late = (int)(random_of_rank((uint64_t)round) % 3);
    fill(memory, N, round);
    fill(outside, N, round);
    fill(memory + N, N, round);
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory, N, CT_REDUCE_ALL, &ticket[0]));
    CT_ASSERT_OK(ops->reduce(comm, NULL, outside, N, CT_REDUCE_ALL, &ticket[1]));
    pause_a_while(random_of_rank((uint64_t)round + 1000), 4);
    if (late == 0) CT_ASSERT_OK(finish(ticket[1]));
    row[0] = row[64] = 1;
    CT_ASSERT_OK(sum_in_group(all, 65));
    wrong += (int)row[0] != t->size || (int)row[64] != t->size;
    if (late == 1) CT_ASSERT_OK(finish(ticket[1]));
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory + N, N, CT_REDUCE_ALL, &ticket[2]));
    row[0] = 1;
    CT_ASSERT_OK(sum_in_group(pair, 1));
    wrong += (int)row[0] != members;
    if (late == 2) CT_ASSERT_OK(finish(ticket[1]));
    CT_ASSERT_OK(finish(ticket[2]));
    CT_ASSERT_OK(finish(ticket[0]));
    wrong += wrong_sums(memory, 0, N, round) + wrong_sums(outside, 0, N, round);
    for (int64_t i = 0; i < N; i++)
      wrong += memory[N + i] != memory[i];
  }
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

static void a_queue_fails_in_a_group(void)
{
  if (!is_fake()) {
    ct_test_skip("needs the fake device");
    return;
  }
  ct_group_t *g;
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  for (int bad = 0; bad < t->size; bad++) {
    int rc = t->rank == bad ? CT_ERR_DEVICE : CT_OK;
    row[0] = 1;
    CT_ASSERT_INT(ops->group_sum(g, queue_with(rc), row, 1), rc);
    CT_ASSERT_NEAR(row[0], t->size, 0); /* nobody was left waiting */
  }
  close_comm();
}

static void bad_groups(void)
{
  ct_group_t *g;
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_FAILS(ops->group(comm, t->rank == t->size - 1 ? -1 : 0, &g), CT_ERR_ARG,
                  "the number -1");
  CU_ASSERT_PTR_NULL(g);
  for (int nth = 1; nth <= 3; nth++) {
    if (t->rank == t->size - 1) ct_mem_fail_at(nth);
    int rc = ops->group(comm, 0, &g);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    CT_ASSERT_OK(ct_agree_same(t, "the code", (uint64_t)rc));
  }
  close_comm();
}

static void a_rank_gives_up_on_its_group(void)
{
  if (t->size == 1 || t->nodes > 1) {
    ct_test_skip("needs several ranks on one node");
    return;
  }
  ct_group_t *g;
  CT_ASSERT_OK(open_plain());
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  if (t->rank < t->size - 1)
    CT_ASSERT_FAILS(sum_in_group(g, 10), CT_ERR_COMM, "aborted during a transfer");
  abandon_comm();
}

/* ---- the fixed tree ---- */

enum { PARTS = 4 }; /* at least as many as there are ranks */

/* Drawn once, as drawing takes longer than all else here. */
static float part(int number, int64_t i)
{
  static float drawn[PARTS][BIG];
  static char is_drawn[PARTS];
  for (int64_t k = 0; !is_drawn[number] && k < BIG; k++)
    drawn[number][k] = ct_rng_normal(7, CT_RNG_TEST, (uint32_t)number, (uint64_t)k);
  is_drawn[number] = 1;
  return drawn[number][i];
}

/* Parts first .. first + count of the tree. */
static float tree(int first, int count, int64_t i)
{
  if (count == 1) return part(first, i);
  return tree(first, count / 2, i) + tree(first + count / 2, count / 2, i);
}

static void sums_along_the_tree(int flat)
{
  static const int64_t counts[] = {0, 1, 5, 17, 1000, 4099, BIG};
  CT_ASSERT_OK(open_with((ct_comm_opts_t){.fixed_order = 1, .flat = flat}));
  float *sum = ct_mem_array(BIG, sizeof *sum, "a test");
  CU_ASSERT_PTR_NOT_NULL_FATAL(sum);
  for (int64_t i = 0; i < BIG; i++)
    sum[i] = tree(0, PARTS, i);
  int own = PARTS / t->size;
  for (int k = 0; k < 7; k++) {
    float *buffers[] = {memory, outside + 3};
    for (int b = 0; b < 2; b++) {
      int64_t n = counts[k], wrong = 0;
      for (int64_t i = 0; i < n; i++)
        buffers[b][i] = tree(t->rank * own, own, i);
      CT_ASSERT_OK(reduce(buffers[b], n, CT_REDUCE_ALL));
      for (int64_t i = 0; i < n; i++)
        wrong += buffers[b][i] != sum[i];
      CT_ASSERT_INT(wrong, 0);
    }
  }
  ct_mem_free(sum);
  close_comm();
}

/* Each rank adds up its block of the parts along the tree; the whole has the same bits at 1, 2
 * and 4 ranks, however they lie on nodes, whether those sum up by themselves first or not. */
static void the_tree_does_not_know_the_ranks(void)
{
  if (PARTS % t->size) {
    ct_test_skip("needs 1, 2 or 4 ranks");
    return;
  }
  sums_along_the_tree(0);
  sums_along_the_tree(1);
}

/* Many exchanges under way: what goes back does not overtake on any rank. */
static void many_exchanges(void)
{
  enum { TRANSFERS = 60, SIZE = 3001 };
  if (t->size & (t->size - 1)) {
    ct_test_skip("needs 1, 2 or 4 ranks");
    return;
  }
  CT_ASSERT_OK(open_with((ct_comm_opts_t){.fixed_order = 1}));
  int64_t wrong = 0;
  for (int round = 0; round < 6; round++) {
    int ticket[TRANSFERS];
    for (int k = 0; k < TRANSFERS; k++) {
      float *buf = (k % 3 ? memory : outside) + k * SIZE;
      fill(buf, SIZE, k + round);
      CT_ASSERT_OK(ops->reduce(comm, NULL, buf, SIZE, CT_REDUCE_ALL, &ticket[k]));
      pause_a_while(random_of_rank((uint64_t)(k + 100 * round)), 4);
      if (k % 4 == t->rank) CT_ASSERT_OK(ops->progress(comm));
    }
    for (int k = TRANSFERS - 1; k >= 0; k--) {
      CT_ASSERT_OK(finish(ticket[k]));
      wrong += wrong_sums((k % 3 ? memory : outside) + k * SIZE, 0, SIZE, k + round);
    }
  }
  CT_ASSERT_INT(wrong, 0);
  close_comm();
}

static void refused(void)
{
  ct_comm_t *c;
  ct_comm_opts_t both = {.fixed_order = 1, .wire = CT_BF16}, half = {.wire = CT_F16};
  if (t->size == 3)
    CT_ASSERT_FAILS(ops->open(t, be, dev, &(ct_comm_opts_t){.fixed_order = 1}, &c), CT_ERR_USAGE,
                    "1, 2, 4, 8 … ranks, not 3");
  else
    CT_ASSERT_FAILS(ops->open(t, be, dev, &both, &c), CT_ERR_USAGE, "rounded");
  CU_ASSERT_PTR_NULL(c);
  CT_ASSERT_FAILS(ops->open(t, be, dev, &half, &c), CT_ERR_UNSUP, "float16");
  CU_ASSERT_PTR_NULL(c);
  if (is_nccl()) return; /* which has no nodes of its own */
  CT_ASSERT_FAILS(ops->open(t, be, dev, &(ct_comm_opts_t){.wire = CT_BF16, .flat = 1}, &c),
                  CT_ERR_USAGE, "parallel.allreduce must be hierarchical");
  CU_ASSERT_PTR_NULL(c);
}

/* ---- bfloat16 between nodes ---- */

static void half_the_bytes_between_nodes(void)
{
  static const int64_t counts[] = {1, 2, 31, 1000, 4099, BIG};
  CT_ASSERT_OK(open_with((ct_comm_opts_t){.wire = CT_BF16}));
  double largest = 0;
  for (int k = 0; k < 6; k++) {
    float *buffers[] = {memory, outside};
    for (int b = 0; b < 2; b++) {
      int64_t n = counts[k], wrong = 0;
      for (int64_t i = 0; i < n; i++)
        buffers[b][i] = part(t->rank, i);
      CT_ASSERT_OK(reduce(buffers[b], n, CT_REDUCE_ALL));
      for (int64_t i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (int r = 0; r < t->size; r++) {
          sum += (double)part(r, i);
          size += fabs((double)part(r, i));
        }
        double error = fabs((double)buffers[b][i] - sum), allowed = t->nodes > 1 ? 0x1p-8 : 0x1p-22;
        wrong += !(error <= 1.01 * allowed * (size + fabs(sum))); /* NaN too */
        if (error > largest) largest = error;
      }
      CT_ASSERT_INT(wrong, 0);
      CT_ASSERT_OK(ct_agree_same(t, "the sum", ct_hash(buffers[b], (size_t)n * sizeof(float), 0)));
    }
  }
  CU_ASSERT(t->nodes > 1 ? largest > 1e-3 : largest < 1e-5); /* it was rounded, or not */
  close_comm();
}

static void no_number_is_lost_in_bf16(void)
{
  static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, 1e-40f, 3e38f};
  CT_ASSERT_OK(open_with((ct_comm_opts_t){.wire = CT_BF16}));
  for (int i = 0; i < 6; i++)
    memory[i] = t->rank == 0 ? special[i] : 0;
  memory[6] = t->rank == t->size - 1 ? NAN : 1;
  CT_ASSERT_OK(reduce(memory, 7, CT_REDUCE_ALL));
  CU_ASSERT(memory[0] == 0 && memory[1] == 0);
  CU_ASSERT(memory[2] == INFINITY && memory[3] == -INFINITY);
  CT_ASSERT_NEAR(memory[4], 1e-40, 1e-41); /* subnormal: few bits are left */
  CT_ASSERT_NEAR(memory[5], 3e38, 1.2e36);
  CU_ASSERT(isnan(memory[6]));
  close_comm();
}

/* ---- slices ---- */

static const int64_t lengths[] = {0, 1, 15, 16, 17, 33, 100, 1000, 4099, BIG};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void slices_cover_the_buffer(void)
{
  CT_ASSERT_OK(open_plain());
  for (int k = 0; k < LENGTHS; k++) {
    int64_t n = lengths[k], from, to, wrong = 0;
    ops->slice(comm, t->rank, n, &from, &to);
    CU_ASSERT(from >= 0 && from <= to && to <= n);
    if (from < to) CU_ASSERT(from % 16 == 0 && (to % 16 == 0 || to == n));
    memset(outside, 0, (size_t)n * sizeof *outside);
    for (int64_t i = from; i < to; i++)
      outside[i] = 1;
    CT_ASSERT_OK(reduce(outside, n, CT_REDUCE_ALL));
    for (int64_t i = 0; i < n; i++)
      wrong += outside[i] != 1;
    CT_ASSERT_INT(wrong, 0);
  }
  close_comm();
}

/* Gathers of elements of 2 and 4 bytes, many of them open at once and among sums. */
static void gathers_may_stay_open(void)
{
  enum { N = 4099, OPEN = 6 };
  int ticket[OPEN], sum;
  static uint16_t half[N];
  CT_ASSERT_OK(open_plain());
  for (int turn = 0; turn < 3; turn++) {
    int64_t from, to, wrong = 0;
    uint16_t *low = (uint16_t *)(void *)outside;
    ops->slice(comm, t->rank, N, &from, &to);
    for (int k = 0; k < OPEN; k++) {
      for (int64_t i = 0; i < N; i++) {
        half[i] = i < from || i >= to ? 0 : (uint16_t)(i + k + turn);
        memory[k * N + i] = i < from || i >= to ? NAN : (float)(i + k);
      }
      memcpy(low + k * 5000, half, sizeof half);
    }
    for (int k = 0; k < OPEN; k++)
      CT_ASSERT_OK(k % 2 ? ops->reduce(comm, NULL, (float *)(void *)(low + k * 5000), N,
                                       CT_GATHER_HALF, &ticket[k])
                         : ops->reduce(comm, NULL, memory + k * N, N, CT_GATHER, &ticket[k]));
    fill(memory + OPEN * N, N, turn);
    CT_ASSERT_OK(ops->reduce(comm, NULL, memory + OPEN * N, N, CT_REDUCE_ALL, &sum));
    CT_ASSERT_OK(finish(sum));
    wrong += wrong_sums(memory + OPEN * N, 0, N, turn);
    for (int k = OPEN - 1; k >= 0; k--) {
      CT_ASSERT_OK(ops->progress(comm));
      CT_ASSERT_OK(finish(ticket[k]));
      for (int64_t i = 0; i < N; i++)
        wrong += k % 2 ? low[k * 5000 + i] != (uint16_t)(i + k + turn)
                       : memory[k * N + i] != (float)(i + k);
    }
    CT_ASSERT_INT(wrong, 0);
  }
  close_comm();
}

/* Each rank gets its slice of the sum, changes it, and gives it to all. */
static void slices_there_and_back(void)
{
  static const ct_comm_opts_t with[] = {{0}, {.flat = 1}, {.fixed_order = 1}};
  for (int o = 0; o < (t->size & (t->size - 1) ? 2 : 3); o++) {
    CT_ASSERT_OK(open_with(with[o]));
    for (int k = 0; k < LENGTHS; k++) {
      float *buffers[] = {memory, outside};
      for (int b = 0; b < 2; b++) {
        int64_t n = lengths[k], from, to, wrong = 0;
        buffers[b][n] = -1;
        fill(buffers[b], n, k);
        CT_ASSERT_OK(reduce(buffers[b], n, CT_REDUCE_SLICE));
        ops->slice(comm, t->rank, n, &from, &to);
        wrong += wrong_sums(buffers[b], from, to, k);
        for (int64_t i = 0; i < n; i++)
          buffers[b][i] = i < from || i >= to ? NAN : (float)(i + k);
        CT_ASSERT_OK(ops->gather(comm, queue, buffers[b], n));
        CT_ASSERT_OK(be->queue->sync(queue));
        for (int64_t i = 0; i < n; i++)
          wrong += buffers[b][i] != (float)(i + k);
        CT_ASSERT_INT(wrong + (buffers[b][n] != -1), 0);
      }
    }
    if (is_fake())
      CT_ASSERT_FAILS(ops->gather(comm, broken_queue(), memory, 4), CT_ERR_DEVICE,
                      "the queue broke");
    close_comm();
  }
}

/* ---- rows ---- */

static void rows_there_and_back(void)
{
  enum { MOST_ROWS = 5000 };
  CT_ASSERT_OK(open_plain());
  char *mine = (char *)outside, *all = (char *)memory;
  for (int round = 0; round < 12; round++) {
    int64_t bytes[8], first = 0, total = 0, wrong = 0;
    for (int r = 0; r < t->size; r++) {
      bytes[r] = (int64_t)(ct_rng_u64(3, CT_RNG_TEST, (uint32_t)round, (uint64_t)r) % MOST_ROWS);
      if (round % 4 == 3 && r == round % t->size) bytes[r] = 0;
      if (r < t->rank) first += bytes[r];
      total += bytes[r];
    }
    memset(memory, 0, 8 * MOST_ROWS);
    memset(mine, -1, MOST_ROWS);
    for (int64_t i = 0; t->rank == 0 && i < total; i++)
      all[i] = (char)((i * 7 + round) % 101);
    CT_ASSERT_OK(ops->scatter(comm, queue, t->rank ? NULL : all, mine, bytes));
    for (int64_t i = 0; i < bytes[t->rank]; i++) {
      wrong += mine[i] != (char)(((first + i) * 7 + round) % 101);
      mine[i]++;
    }
    wrong += mine[bytes[t->rank]] != (char)-1;
    CT_ASSERT_OK(ops->collect(comm, queue, mine, t->rank ? NULL : all, bytes));
    for (int64_t i = 0; t->rank == 0 && i < total; i++)
      wrong += all[i] != (char)((i * 7 + round) % 101 + 1);
    CT_ASSERT_INT(wrong + (t->rank == 0 && all[total] != 0), 0);
  }
  int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (is_fake())
    CT_ASSERT_FAILS(ops->scatter(comm, broken_queue(), all, mine, ones), CT_ERR_DEVICE,
                    "the queue broke");
  if (is_fake())
    CT_ASSERT_FAILS(ops->collect(comm, broken_queue(), mine, all, ones), CT_ERR_DEVICE,
                    "the queue broke");
  close_comm();
}

static void sums_at_rank_zero(void)
{
  CT_ASSERT_OK(open_plain());
  for (int k = 0; k < LENGTHS; k++) {
    float *buffers[] = {memory, outside};
    for (int b = 0; b < 2; b++) {
      fill(buffers[b], lengths[k], k);
      CT_ASSERT_OK(ops->reduce_root(comm, queue, buffers[b], lengths[k]));
      CT_ASSERT_INT(t->rank == 0 ? wrong_sums(buffers[b], 0, lengths[k], k) : 0, 0);
    }
  }
  if (is_fake())
    CT_ASSERT_FAILS(ops->reduce_root(comm, broken_queue(), memory, 4), CT_ERR_DEVICE,
                    "the queue broke");
  close_comm();
}

/* ---- all of them ---- */

static void bytes_are_counted(void)
{
  CT_ASSERT_OK(open_plain());
  ct_group_t *g;
  int64_t R = t->size, others = R - 1, want = 0, rows[8] = {40, 40, 40, 40, 40, 40, 40, 40};
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  CT_ASSERT_INT(ops->bytes_sent(comm), 0);
  CT_ASSERT_OK(reduce(memory, 1200, CT_REDUCE_ALL));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += 2 * others * 4800 / R);
  CT_ASSERT_OK(reduce(memory, 1200, CT_REDUCE_SLICE));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += others * 4800 / R);
  CT_ASSERT_OK(reduce(outside, 1200, CT_GATHER_HALF));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += others * 2400 / R);
  CT_ASSERT_OK(ops->gather(comm, queue, memory, 1200));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += others * 4800 / R);
  CT_ASSERT_OK(ops->bcast(comm, queue, memory, 4800, 0));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += others * 4800 / R);
  CT_ASSERT_OK(sum_in_group(g, 120));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += 2 * others * 960 / R);
  CT_ASSERT_OK(ops->scatter(comm, queue, memory, outside, rows));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += t->rank ? 0 : 40 * others);
  CT_ASSERT_OK(ops->collect(comm, queue, outside, memory, rows));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += t->rank ? 40 : 0);
  CT_ASSERT_OK(ops->reduce_root(comm, queue, memory, 1200));
  CT_ASSERT_INT(ops->bytes_sent(comm), want += t->rank ? 4800 : 0);
  close_comm();
}

static void nothing_is_allocated_or_left(void)
{
  int64_t live = ct_mem_live(), rows[8] = {8, 8, 8, 8, 8, 8, 8, 8};
  CT_ASSERT_OK(open_with((ct_comm_opts_t){.wire = CT_BF16}));
  ct_group_t *g;
  CT_ASSERT_OK(ops->group(comm, 0, &g));
  CT_ASSERT_OK(reduce(outside, BIG, CT_REDUCE_SLICE)); /* the first transfer may allocate */
  CT_ASSERT_OK(sum_in_group(g, MOST));
  int64_t calls = ct_mem_calls();
  CT_ASSERT_OK(reduce(memory, BIG, CT_REDUCE_ALL));
  CT_ASSERT_OK(reduce(outside, BIG, CT_REDUCE_SLICE));
  CT_ASSERT_OK(ops->gather(comm, queue, outside, BIG));
  CT_ASSERT_OK(be->queue->sync(queue));
  CT_ASSERT_OK(sum_in_group(g, MOST));
  CT_ASSERT_OK(ops->scatter(comm, queue, memory, outside, rows));
  CT_ASSERT_OK(ops->collect(comm, queue, outside, memory, rows));
  CT_ASSERT_OK(ops->reduce_root(comm, queue, memory, BIG));
  CT_ASSERT_INT(ct_mem_calls(), calls);
  close_comm();
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void no_memory_for_exchanges(void)
{
  int64_t live = ct_mem_live();
  for (int nth = 1; nth <= 32; nth += 6) {
    ct_comm_t *c;
    if (t->rank == t->size - 1) ct_mem_fail_at(nth);
    int rc = ops->open(t, be, dev, &(ct_comm_opts_t){.wire = CT_BF16}, &c);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || (rc == CT_ERR_NOMEM && c == NULL));
    CT_ASSERT_OK(ct_agree_same(t, "the code", (uint64_t)rc));
    ops->close(c);
  }
  CT_ASSERT_INT(ct_mem_live(), live);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(groups_sum),
                                    CT_TEST(groups_have_the_same_bits),
                                    CT_TEST(groups_amid_transfers),
                                    CT_TEST(a_queue_fails_in_a_group),
                                    CT_TEST(bad_groups),
                                    CT_TEST(a_rank_gives_up_on_its_group),
                                    CT_TEST(the_tree_does_not_know_the_ranks),
                                    CT_TEST(many_exchanges),
                                    CT_TEST(refused),
                                    CT_TEST(half_the_bytes_between_nodes),
                                    CT_TEST(no_number_is_lost_in_bf16),
                                    CT_TEST(slices_cover_the_buffer),
                                    CT_TEST(slices_there_and_back),
                                    CT_TEST(gathers_may_stay_open),
                                    CT_TEST(rows_there_and_back),
                                    CT_TEST(sums_at_rank_zero),
                                    CT_TEST(bytes_are_counted),
                                    CT_TEST(nothing_is_allocated_or_left),
                                    CT_TEST(no_memory_for_exchanges),
                                    CT_TEST_END};
  return rig_main("comm_calls", tests, argc, argv);
}
