/* Which rank has which device; a rank that tells the others that it failed. */
#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_alarm.h"
#include "comm/ct_devices.h"
#include "tests/harness/ct_test_mpi.h"

static const ct_topo_t *t = &ct_test_topo;

/* ---- pure ---- */

static void devices_are_chosen(void)
{
  static const struct {
    int local_rank, visible, share, index; /* index -1: refused */
  } cases[] = {{0, 1, 0, 0}, {3, 1, 0, 0}, {0, 4, 0, 0},  {3, 4, 0, 3}, {4, 4, 0, -1},
               {4, 4, 1, 0}, {7, 3, 1, 1}, {0, 0, 0, -1}, {0, 0, 1, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int index;
    if (cases[i].index < 0) {
      CT_ASSERT_FAILS(
          ct_devices_choose(cases[i].local_rank, cases[i].visible, cases[i].share, &index),
          CT_ERR_USAGE, "parallel.share_gpu");
    } else {
      CT_ASSERT_OK(
          ct_devices_choose(cases[i].local_rank, cases[i].visible, cases[i].share, &index));
      CT_ASSERT_INT(index, cases[i].index);
    }
  }
  ct_devices_choose(5, 4, 0, &(int){0});
  CT_ASSERT_HAS(ct_err_last()->text, "local rank 5 has no GPU, since 4 are visible");
}

static ct_device_row_t row(const char *host, const char *uuid, const char *bus)
{
  ct_device_row_t r = {.id.numa = -1};
  snprintf(r.host, sizeof r.host, "%s", host);
  snprintf(r.id.uuid, sizeof r.id.uuid, "%s", uuid);
  snprintf(r.id.bus, sizeof r.id.bus, "%s", bus);
  snprintf(r.id.name, sizeof r.id.name, "NVIDIA H100");
  return r;
}

static void devices_of_one_rank_each(void)
{
  int shared = 1;
  ct_device_row_t table[] = {row("a", "GPU-1", "3b"), row("a", "GPU-2", "5e"),
                             row("b", "GPU-3", "3b"), row("b", "GPU-4", "5e")};
  CT_ASSERT_OK(ct_devices_check(table, 4, 0, &shared));
  CT_ASSERT_INT(shared, 0);
  for (int r = 0; r < 4; r++)
    table[r].id.uuid[0] = table[r].id.bus[0] = 0; /* CPUs */
  CT_ASSERT_OK(ct_devices_check(table, 4, 0, &shared));
  CT_ASSERT_INT(shared, 0);
}

/* Containers of one machine may have names of their own. */
static void a_device_of_two_ranks(void)
{
  int shared;
  ct_device_row_t table[] = {row("a", "GPU-1", "3b"), row("a", "GPU-2", "5e"),
                             row("c", "GPU-2", "5e")};
  CT_ASSERT_FAILS(ct_devices_check(table, 3, 0, &shared), CT_ERR_USAGE,
                  "rank 1 on a and rank 2 on c have the same GPU, NVIDIA H100 at 5e (GPU-2)");
  CT_ASSERT_HAS(ct_err_last()->text, "parallel.share_gpu: true");
  CT_ASSERT_OK(ct_devices_check(table, 2, 0, &shared));
  CT_ASSERT_OK(ct_devices_check(table, 3, 1, &shared));
  CT_ASSERT_INT(shared, 1);
  table[2] = table[0];
  CT_ASSERT_FAILS(ct_devices_check(table, 3, 0, &shared), CT_ERR_USAGE,
                  "rank 0 on a and rank 2 on a have the same GPU, NVIDIA H100 at 3b (GPU-1)");
}

static void slices_of_a_device(void)
{
  int shared;
  ct_device_row_t table[] = {row("a", "MIG-1", "3b"), row("a", "MIG-2", "3b")};
  CT_ASSERT_OK(ct_devices_check(table, 2, 0, &shared));
  CT_ASSERT_INT(shared, 1);
}

/* ---- over the ranks ---- */

static void a_table_is_agreed(void)
{
  int shared = 1;
  char uuid[32];
  snprintf(uuid, sizeof uuid, "GPU-%d", t->rank);
  const ct_device_row_t own = row("", uuid, uuid);
  CT_ASSERT_OK(ct_devices_agree(t, &own.id, 0, &shared));
  CT_ASSERT_INT(shared, 0);
  const ct_device_row_t same = row("", "GPU-7", "3b");
  int rc = ct_devices_agree(t, &same.id, 0, &shared);
  CT_ASSERT_INT(rc, t->size > 1 ? CT_ERR_USAGE : CT_OK);
  if (t->size > 1) CT_ASSERT_HAS(ct_err_last()->text, "rank 0 on ");
  CT_ASSERT_OK(ct_devices_agree(t, &same.id, 1, &shared));
  CT_ASSERT_INT(shared, t->size > 1);
}

static void no_memory(void)
{
  int shared;
  int64_t live = ct_mem_live();
  ct_dev_id_t id = {.numa = -1};
  ct_alarm_t *alarm;
  for (int nth = 1; nth <= 2; nth++) {
    if (t->rank == t->size - 1) ct_mem_fail_at(nth);
    if (nth == 1) CT_ASSERT_INT(ct_devices_agree(t, &id, 0, &shared), CT_ERR_NOMEM);
    ct_mem_fail_at(0);
    if (t->rank == t->size - 1) ct_mem_fail_at(nth);
    CT_ASSERT_INT(ct_alarm_open(t, &alarm), CT_ERR_NOMEM);
    ct_mem_fail_at(0);
  }
  CT_ASSERT_INT(ct_mem_live(), live);
}

/* Everybody learns of the last rank's error, who is not told of its own. */
static void an_alarm_is_heard(void)
{
  ct_alarm_t *alarm;
  int last = t->size - 1;
  CT_ASSERT_OK(ct_alarm_open(t, &alarm));
  CT_ASSERT_OK(ct_alarm_heard(alarm));
  ct_agree(t, CT_OK);
  if (t->rank == last) {
    ct_err_set(CT_ERR_COMM, __FILE__, __LINE__, "a cable was pulled");
    ct_alarm_raise(alarm);
    ct_err_set(CT_ERR_COMM, __FILE__, __LINE__, "another one");
    ct_alarm_raise(alarm); /* nobody hears that */
    CT_ASSERT_OK(ct_alarm_heard(alarm));
  } else {
    double begin = ct_clock();
    while (ct_alarm_heard(alarm) == CT_OK && ct_clock() - begin < 30)
      ;
    ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "something else");
    CT_ASSERT_FAILS(ct_alarm_heard(alarm), CT_ERR_COMM, "a cable was pulled");
    CT_ASSERT_INT(ct_err_last()->rank, last);
  }
  ct_agree(t, CT_OK);
  ct_alarm_close(alarm, 0);
  ct_alarm_close(NULL, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(devices_are_chosen),    CT_TEST(devices_of_one_rank_each),
      CT_TEST(a_device_of_two_ranks), CT_TEST(slices_of_a_device),
      CT_TEST(a_table_is_agreed),     CT_TEST(no_memory),
      CT_TEST(an_alarm_is_heard),     CT_TEST_END};
  return ct_test_mpi_main("devices", tests, argc, argv);
}
