/* What all ranks know together: codes, texts, values, bytes, the step word. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/harness/ct_test_mpi.h"

static const ct_topo_t *t = &ct_test_topo;

static int fail(int code)
{
  return ct_err_set(code, __FILE__, __LINE__, "disk full on rank %d", t->rank);
}

static int work(int bad)
{
  return t->rank == bad ? fail(CT_ERR_IO) : CT_OK;
}

static int collective(int bad, int *went_on)
{
  int rc;
  *went_on = 0;
  CT_TRY_ALL(t, work(bad));
  *went_on = 1;
out:
  return rc;
}

static void each_rank_fails_in_turn(void)
{
  for (int bad = 0; bad < t->size; bad++) {
    char text[64];
    int went_on;
    snprintf(text, sizeof text, "disk full on rank %d", bad);
    CT_ASSERT_FAILS(collective(bad, &went_on), CT_ERR_IO, text);
    CT_ASSERT_INT(went_on, 0);
    CT_ASSERT_INT(ct_err_last()->rank, bad);
    CT_ASSERT_HAS(ct_err_last()->file, "t_agree.c");
    CT_ASSERT_OK(collective(-1, &went_on));
    CT_ASSERT_INT(went_on, 1);
  }
}

static void the_worst_code_wins(void)
{
  /* Codes grow towards 0 in the order of their list: NOMEM is lower than IO. */
  int last = t->size - 1;
  ct_agree(t, fail(t->rank == last ? CT_ERR_NOMEM : CT_ERR_IO));
  CT_ASSERT_INT(ct_err_last()->code, CT_ERR_NOMEM);
  CT_ASSERT_INT(ct_err_last()->rank, last);
  CT_ASSERT_INT(ct_agree(t, fail(CT_ERR_IO)), CT_ERR_IO);
  CT_ASSERT_INT(ct_err_last()->rank, 0);
}

static void a_second_agreement_keeps_the_culprit(void)
{
  int last = t->size - 1;
  int rc = ct_agree(t, work(last));
  CT_ASSERT_INT(ct_agree(t, rc), CT_ERR_IO);
  CT_ASSERT_INT(ct_err_last()->rank, last);
}

static void a_code_without_a_record_gets_words(void)
{
  fail(CT_ERR_DATA);
  CT_ASSERT_FAILS(ct_agree(t, t->rank == t->size - 1 ? CT_ERR_ARG : CT_OK), CT_ERR_ARG,
                  ct_err_meaning(CT_ERR_ARG));
}

static void equal_values(void)
{
  static const uint64_t values[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};
  for (int i = 0; i < 4; i++)
    CT_ASSERT_OK(ct_agree_same(t, "the seed", values[i]));
}

static void a_value_differs(void)
{
  for (int odd = 1; odd < t->size; odd++) {
    char text[120];
    uint64_t value = t->rank == odd || t->rank == t->size - 1 ? UINT64_MAX : 7;
    snprintf(text, sizeof text,
             "the plan differs between ranks: %016x on rank 0, %016llx on rank %d", 7,
             (unsigned long long)UINT64_MAX, odd);
    CT_ASSERT_FAILS(ct_agree_same(t, "the plan", value), CT_ERR_DIFFER, text);
    CT_ASSERT_INT(ct_err_last()->rank, odd);
  }
  if (t->size == 1) ct_test_skip("needs two ranks");
}

static void send_bytes(size_t bytes)
{
  unsigned char *data = NULL;
  size_t n = 0;
  if (t->rank == 0) {
    n = bytes;
    data = ct_mem_alloc(n + 1, "a test");
    for (size_t i = 0; i < n; i++)
      data[i] = (unsigned char)(i * 7 + i / 251);
  }
  void *io = data;
  CT_ASSERT_OK(ct_agree_bytes(t, CT_OK, &io, &n));
  CU_ASSERT_FATAL(io != NULL);
  CT_ASSERT_INT(n, bytes);
  data = io;
  int64_t wrong = 0;
  for (size_t i = 0; i < n; i++)
    wrong += data[i] != (unsigned char)(i * 7 + i / 251);
  CT_ASSERT_INT(wrong, 0);
  CT_ASSERT_INT(data[n], 0);
  ct_mem_free(io);
}

static void bytes_arrive(void)
{
  int64_t live = ct_mem_live();
  send_bytes(0);
  send_bytes(1);
  send_bytes(5000000);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void bytes_that_rank_0_lacks(void)
{
  void *data = NULL;
  size_t n = 0;
  int rc = t->rank == 0 ? fail(CT_ERR_IO) : CT_ERR_SHAPE; /* that of the others does not count */
  CT_ASSERT_FAILS(ct_agree_bytes(t, rc, &data, &n), CT_ERR_IO, "disk full on rank 0");
  CU_ASSERT(data == NULL);
}

static void bytes_without_memory(void)
{
  char text[] = "hello";
  void *data = t->rank == 0 ? text : NULL;
  size_t n = sizeof text;
  int64_t live = ct_mem_live();
  if (t->size == 1) {
    ct_test_skip("needs two ranks");
    return;
  }
  if (t->rank == t->size - 1) ct_mem_fail_at(1);
  CT_ASSERT_FAILS(ct_agree_bytes(t, CT_OK, &data, &n), CT_ERR_NOMEM, "a broadcast from rank 0");
  CU_ASSERT(t->rank == 0 ? data == text : data == NULL);
  CT_ASSERT_INT(ct_mem_live(), live);
}

/* More counts than one message takes. */
static void counts_are_summed(void)
{
  enum { N = (1 << 20) + 3 };
  int64_t *count = ct_mem_array(N, sizeof *count, "a test"), wrong = 0;
  int64_t n = t->size, ranks = n * (n + 1) / 2;
  CU_ASSERT_FATAL(count != NULL);
  for (int64_t i = 0; i < N; i++)
    count[i] = (t->rank + 1) * (i + ((int64_t)1 << 40));
  ct_agree_sum(t, count, N);
  for (int64_t i = 0; i < N; i++)
    wrong += count[i] != ranks * (i + ((int64_t)1 << 40));
  CT_ASSERT_INT(wrong, 0);
  ct_mem_free(count);
}

static ct_step_status_t word(int step)
{
  return (ct_step_status_t){.loss_sum = 0.5 * (t->rank + 1) * step,
                            .loss_weight = 0.25 * (t->rank + 1),
                            .abs_error = 2 * t->rank,
                            .samples = 8 + t->rank,
                            .top1 = t->rank,
                            .top5 = 2 * t->rank,
                            .stop = t->rank == step % t->size && step % 3 == 0 ? 15 : 0,
                            .work_max = 1 + t->rank,
                            .busy_max = 100 - t->rank,
                            .time_sum.s = {[CT_TIME_MOVE] = 2},
                            .time_max.s = {[CT_TIME_DATA] = 3 - t->rank}};
}

static void step_words_merge(void)
{
  int n = t->size, pairs = n * (n - 1) / 2;
  for (int step = 0; step < 50; step++) {
    ct_step_status_t w = word(step);
    CT_ASSERT_OK(ct_step_agree(t, &w));
    CT_ASSERT_INT(w.err, CT_OK);
    CT_ASSERT_INT(w.stop, step % 3 == 0 ? 15 : 0);
    CT_ASSERT_NEAR(w.loss_sum, 0.5 * step * (pairs + n), 0);
    CT_ASSERT_NEAR(w.loss_weight, 0.25 * (pairs + n), 0);
    CT_ASSERT_NEAR(w.abs_error, 2 * pairs, 0);
    CT_ASSERT_INT(w.samples, 8 * n + pairs);
    CT_ASSERT_INT(w.top1, pairs);
    CT_ASSERT_INT(w.top5, 2 * pairs);
    CT_ASSERT_NEAR(w.work_max, n, 0);
    CT_ASSERT_NEAR(w.busy_max, 100, 0);
    CT_ASSERT_NEAR(w.time_sum.s[CT_TIME_MOVE], 2 * n, 0);
    CT_ASSERT_NEAR(w.time_max.s[CT_TIME_DATA], 3, 0);
  }
}

static void step_words_tell_errors(void)
{
  for (int bad = 0; bad < t->size; bad++) {
    ct_step_status_t w = word(1);
    char text[64];
    snprintf(text, sizeof text, "disk full on rank %d", bad);
    w.err = work(bad);
    CT_ASSERT_FAILS(ct_step_agree(t, &w), CT_ERR_IO, text);
    CT_ASSERT_INT(w.err, CT_ERR_IO);
    CT_ASSERT_INT(w.err_rank, bad);
    CT_ASSERT_INT(w.samples, 8 * t->size + t->size * (t->size - 1) / 2);

    w = word(1);
    w.err = t->rank >= bad ? fail(CT_ERR_DATA) : CT_OK; /* several: the lowest rank is named */
    CT_ASSERT_FAILS(ct_step_agree(t, &w), CT_ERR_DATA, text);
    CT_ASSERT_INT(w.err_rank, bad);
  }
}

static void one_rank_needs_no_mpi(void)
{
  ct_topo_t alone = {.world = MPI_COMM_NULL, .node = MPI_COMM_NULL, .size = 1};
  ct_step_status_t w = {.samples = 3};
  char text[] = "x";
  void *data = text;
  size_t n = 1;
  CT_ASSERT_OK(ct_agree(&alone, CT_OK));
  CT_ASSERT_OK(ct_agree_same(&alone, "x", 3));
  CT_ASSERT_OK(ct_agree_bytes(&alone, CT_OK, &data, &n));
  CT_ASSERT_OK(ct_step_agree(&alone, &w));
  CT_ASSERT_INT(w.samples, 3);
  CT_ASSERT_FAILS(ct_agree(&alone, fail(CT_ERR_IO)), CT_ERR_IO, "disk full");
  CT_ASSERT_INT(ct_err_last()->rank, 0);
}

static void doubles_agree(void)
{
  double sum[3] = {1, t->rank, 0.1 * t->rank}, most[2] = {t->rank, -t->rank};
  CT_ASSERT_OK(ct_agree_doubles(t, sum, 3, 0));
  CT_ASSERT_NEAR(sum[0], t->size, 0);
  CT_ASSERT_NEAR(sum[1], t->size * (t->size - 1) / 2, 0);
  CT_ASSERT_OK(ct_agree_same(t, "the sum", ct_hash(sum, sizeof sum, 0)));
  CT_ASSERT_OK(ct_agree_doubles(t, most, 2, 1));
  CT_ASSERT_NEAR(most[0], t->size - 1, 0);
  CT_ASSERT_NEAR(most[1], 0, 0);
}

static void bytes_are_gathered(void)
{
  double mine[2] = {t->rank, -0.5 * t->rank}, all[2 * 64];
  CU_ASSERT_FATAL(t->size <= 64);
  for (int pass = 0; pass < 3; pass++, mine[0]++) {
    ct_agree_gather(t, mine, sizeof mine, t->rank == 0 ? all : NULL);
    for (int r = 0; r < t->size && t->rank == 0; r++) {
      CT_ASSERT_NEAR(all[2 * r], r + pass, 0);
      CT_ASSERT_NEAR(all[2 * r + 1], -0.5 * r, 0);
    }
  }
}

static void a_node_hears_its_first_rank(void)
{
  int64_t said[2] = {t->rank, -t->rank},
          first = t->rank - t->local_rank; /* ranks of a node follow */
  ct_agree_node(t, said, sizeof said);
  CT_ASSERT_INT(said[0], first);
  CT_ASSERT_INT(said[1], -first);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(each_rank_fails_in_turn),
                                    CT_TEST(the_worst_code_wins),
                                    CT_TEST(a_second_agreement_keeps_the_culprit),
                                    CT_TEST(a_code_without_a_record_gets_words),
                                    CT_TEST(equal_values),
                                    CT_TEST(a_value_differs),
                                    CT_TEST(bytes_arrive),
                                    CT_TEST(bytes_that_rank_0_lacks),
                                    CT_TEST(bytes_without_memory),
                                    CT_TEST(counts_are_summed),
                                    CT_TEST(step_words_merge),
                                    CT_TEST(step_words_tell_errors),
                                    CT_TEST(one_rank_needs_no_mpi),
                                    CT_TEST(doubles_agree),
                                    CT_TEST(bytes_are_gathered),
                                    CT_TEST(a_node_hears_its_first_rank),
                                    CT_TEST_END};
  return ct_test_mpi_main("agree", tests, argc, argv);
}
