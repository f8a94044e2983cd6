/* Through the epochs: where a run ends, and what is due between its steps. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "hdf5io/ct_h5.h"
#include "run/ct_loop.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *const topo = &ct_test_topo;

/* Options of a loop over made-up samples of the rig's shape, three steps an epoch, the last one
 * smaller. */
typedef struct loop {
  ct_run_opts_t run;
  ct_train_opts_t train;
  ct_schedule_opts_t schedule;
  ct_ckpt_opts_t ckpt;
  ct_job_opts_t job;
  ct_dataset_t data;
  ct_eval_opts_t eval;
  ct_loop_opts_t o;
} loop_t;

static void open_loop(loop_t *l)
{
  static char dir[600];
  int64_t shape[] = {2, 6, 6}, batch = 4 * topo->size;
  ct_reader_spec_t spec = {.samples = 2 * batch + topo->size,
                           .classes = RIG_CLASSES,
                           .shape = shape,
                           .shape_dims = 3,
                           .seed = 1};
  *l = (loop_t){.run = {0}};
  if (topo->rank == 0) snprintf(dir, sizeof dir, "%s", ct_test_dir());
  CT_ASSERT_OK(ct_dataset_open(&ct_reader_synthetic, &spec, NULL, "test", &l->data));
  CT_ASSERT_OK(ct_opt_defaults(ct_run_rows, &l->run));
  CT_ASSERT_OK(ct_opt_defaults(ct_train_rows, &l->train));
  CT_ASSERT_OK(ct_opt_defaults(ct_schedule_rows, &l->schedule));
  CT_ASSERT_OK(ct_opt_defaults(ct_ckpt_rows, &l->ckpt));
  CT_ASSERT_OK(ct_opt_defaults(ct_job_rows, &l->job));
  CT_ASSERT_OK(ct_opt_defaults(ct_eval_rows, &l->eval));
  l->train.epochs = 2;
  l->ckpt.every_epochs = 0;
  l->o = (ct_loop_opts_t){.run = &l->run,
                          .train = &l->train,
                          .schedule = &l->schedule,
                          .ckpt = &l->ckpt,
                          .job = &l->job,
                          .eval = &l->eval,
                          .config_text = "",
                          .versions = "",
                          .store = &ct_store_hdf5,
                          .data = &l->data,
                          .sampler = {.seed = 1, .samples = spec.samples, .batch = batch},
                          .dir = dir};
}

static void close_loop(loop_t *l)
{
  ct_opt_clear(ct_run_rows, &l->run);
  ct_opt_clear(ct_train_rows, &l->train);
  ct_opt_clear(ct_schedule_rows, &l->schedule);
  ct_opt_clear(ct_ckpt_rows, &l->ckpt);
  ct_opt_clear(ct_job_rows, &l->job);
  ct_opt_clear(ct_eval_rows, &l->eval);
  ct_dataset_close(&l->data);
}

static void it_ends_where_it_should(void)
{
  static const struct {
    int64_t steps, at_step, at_epoch;
    int batches; /* that the last epoch has had */
  } cases[] = {{0, 6, 2, 0}, {7, 6, 2, 0}, {6, 6, 2, 0}, {4, 4, 1, 1}, {3, 3, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig_t r;
    loop_t l;
    ct_loop_result_t result;
    open_loop(&l);
    l.train.steps = cases[i].steps;
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
    l.o.be = &r.be;
    l.o.dev = r.dev;
    CT_ASSERT_OK(ct_train_loop(r.t, &l.o, (ct_position_t){0}, &result));
    CT_ASSERT_INT(result.at.step, cases[i].at_step);
    CT_ASSERT_INT(result.at.epoch, cases[i].at_epoch);
    CT_ASSERT_INT(result.at.cursor, cases[i].batches * l.o.sampler.batch);
    CT_ASSERT_INT(result.stopped, CT_STOP_NO);
    CT_ASSERT_INT(result.idle, 0);
    rig_close(&r);
    close_loop(&l);
  }
}

/* A rank whose weights are others is found at the first comparison, not before and not later. */
static void comparisons_are_made_when_due(void)
{
  for (int every = 0; every <= 5 && topo->size > 1; every++) {
    rig_t r;
    loop_t l;
    float w[8192];
    char step[64];
    ct_loop_result_t result;
    open_loop(&l);
    l.train.steps = 4;
    l.o.verify_every = every;
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
    CT_ASSERT_OK(ct_trainer_get(r.t, 0, w));
    if (topo->rank == topo->size - 1) w[0] += 0.5f;
    CT_ASSERT_OK(ct_trainer_set(r.t, 0, w));
    snprintf(step, sizeof step, "the parameters after step %d ", every);
    l.o.be = &r.be;
    l.o.dev = r.dev;
    int rc = ct_train_loop(r.t, &l.o, (ct_position_t){0}, &result);
    if (every == 0 || every > 4)
      CT_ASSERT_OK(rc);
    else
      CT_ASSERT_FAILS(rc, CT_ERR_DIFFER, step);
    rig_close(&r);
    close_loop(&l);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(it_ends_where_it_should),
                                    CT_TEST(comparisons_are_made_when_due), CT_TEST_END};
  return ct_test_mpi_main("loop", tests, argc, argv);
}
