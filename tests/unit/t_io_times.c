/* Accounts of reading threads: the phases of one add up to its time, and others' are not in it. */
#include <pthread.h>
#include <time.h>

#include "base/ct_clock.h"
#include "data/feed/ct_io_times.h"
#include "tests/harness/ct_test.h"

static void pause_ms(int ms)
{
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static double seconds(const ct_io_times_t *t, ct_io_phase_t phase)
{
  return 1e-9 * (double)t->ns[phase];
}

static double total(const ct_io_times_t *t)
{
  double sum = 0;
  for (int i = 0; i < CT_IO_COUNT; i++)
    sum += seconds(t, (ct_io_phase_t)i);
  return sum;
}

/* A phase inside another one is not part of it. */
static void phases_add_up(void)
{
  static ct_io_times_t t;
  double begin = ct_clock();
  ct_io_times_begin(&t, CT_IO_COPY);
  double inside = ct_clock();
  ct_io_phase_t copy = ct_io_enter(CT_IO_READ);
  pause_ms(4);
  ct_io_phase_t read = ct_io_enter(CT_IO_OPEN);
  CT_ASSERT_INT(read, CT_IO_READ);
  pause_ms(8);
  ct_io_count(CT_IO_OPEN, 7);
  ct_io_enter(read);
  pause_ms(4);
  ct_io_enter(copy);
  pause_ms(2);
  inside = ct_clock() - inside;
  ct_io_times_begin(NULL, CT_IO_COPY);
  double took = ct_clock() - begin;
  CU_ASSERT(seconds(&t, CT_IO_READ) >= 0.008);
  CU_ASSERT(seconds(&t, CT_IO_OPEN) >= 0.008);
  CU_ASSERT(seconds(&t, CT_IO_COPY) >= 0.002);
  CU_ASSERT(total(&t) <= took && total(&t) >= inside);
  CT_ASSERT_INT(t.times[CT_IO_OPEN], 1);
  CT_ASSERT_INT(t.bytes[CT_IO_OPEN], 7);
  long long before = t.ns[CT_IO_READ];
  ct_io_enter(CT_IO_READ); /* no account any more */
  ct_io_count(CT_IO_READ, 1);
  CT_ASSERT_INT(t.ns[CT_IO_READ], before);
  CT_ASSERT_INT(t.bytes[CT_IO_READ], 0);
}

static void *work(void *arg)
{
  ct_io_times_begin(arg, CT_IO_DECODE);
  pause_ms(3);
  ct_io_count(CT_IO_DECODE, 10);
  ct_io_times_begin(NULL, CT_IO_DECODE);
  return NULL;
}

static void each_thread_has_its_own(void)
{
  static ct_io_times_t mine, t[2], sum;
  pthread_t thread[2];
  ct_io_times_begin(&mine, CT_IO_WAIT);
  for (int i = 0; i < 2; i++)
    CT_ASSERT_INT(pthread_create(&thread[i], NULL, work, &t[i]), 0);
  for (int i = 0; i < 2; i++)
    pthread_join(thread[i], NULL);
  ct_io_times_begin(NULL, CT_IO_WAIT);
  CT_ASSERT_INT(mine.ns[CT_IO_DECODE], 0);
  CU_ASSERT(mine.ns[CT_IO_WAIT] > 0);
  for (int i = 0; i < 2; i++)
    ct_io_add(&sum, &t[i]);
  CT_ASSERT_INT(sum.ns[CT_IO_DECODE], t[0].ns[CT_IO_DECODE] + t[1].ns[CT_IO_DECODE]);
  CT_ASSERT_INT(sum.bytes[CT_IO_DECODE], 20);
  CT_ASSERT_INT(sum.times[CT_IO_DECODE], 2);
  CU_ASSERT(seconds(&sum, CT_IO_DECODE) >= 0.006);
}

static void phases_have_names(void)
{
  CT_ASSERT_TEXT(ct_io_name(CT_IO_WAIT), "wait");
  CT_ASSERT_TEXT(ct_io_name(CT_IO_TRANSFORM), "transform");
  CU_ASSERT(ct_io_help(CT_IO_READ)[0] != 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(phases_add_up), CT_TEST(each_thread_has_its_own),
                                    CT_TEST(phases_have_names), CT_TEST_END};
  return ct_test_main("io_times", tests, argc, argv);
}
