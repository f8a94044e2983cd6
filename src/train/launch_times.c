/* Measures each launch of a plan. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Runs all launches in order, and stores when each has ended. */
static int run_all(ct_trainer_t *t, const ct_plan_t *p, const ct_bind_t *bind, double *end)
{
  int rc = CT_OK;
  for (int i = 0; i < p->launches; i++) {
    CT_TRY(ct_plan_run(p, i, bind, t->q));
    CT_TRY(t->env.be->queue->sync(t->q));
    end[i] = ct_clock();
  }
out:
  return rc;
}

/* Times launches within passes over the whole plan: operands and caches are those of a step. */
static int time_in_order(ct_trainer_t *t, const ct_plan_t *p, const ct_bind_t *bind, int repeats,
                         double *seconds)
{
  int rc = CT_OK;
  double *end = ct_mem_array(p->launches + 1, sizeof *end, "timings");
  if (!end) return CT_ERR_NOMEM;
  for (int r = -1; r < repeats; r++) { /* the first is a warm-up */
    double begin = ct_clock();
    CT_TRY(run_all(t, p, bind, end));
    for (int i = 0; i < p->launches && r >= 0; i++)
      seconds[i] += (end[i] - (i ? end[i - 1] : begin)) / repeats;
  }
out:
  ct_mem_free(end);
  return rc;
}

/* Times one launch several times in a row, so that the device does not wait for the host.  Launches
 * that work in place then have other operands than in a step, which a GPU's speed does not depend
 * on. */
static int time_in_a_row(ct_trainer_t *t, const ct_plan_t *p, int i, const ct_bind_t *bind,
                         int repeats, double *seconds)
{
  int rc = CT_OK;
  CT_TRY(ct_plan_run(p, i, bind, t->q)); /* warm-up: caches and clock frequency as in a step */
  CT_TRY(t->env.be->queue->sync(t->q));
  double begin = ct_clock();
  for (int r = 0; r < repeats; r++)
    CT_TRY(ct_plan_run(p, i, bind, t->q));
  CT_TRY(t->env.be->queue->sync(t->q));
  *seconds = (ct_clock() - begin) / repeats;
out:
  return rc;
}

int ct_trainer_times_in_order(const ct_trainer_t *t)
{
  return t->env.be->host_memory;
}

static int time_all(ct_trainer_t *t, const ct_plan_t *p, const ct_bind_t *bind, int repeats,
                    double *seconds)
{
  int rc = CT_OK;
  if (ct_trainer_times_in_order(t)) return time_in_order(t, p, bind, repeats, seconds);
  for (int i = 0; i < p->launches; i++)
    CT_TRY(time_in_a_row(t, p, i, bind, repeats, &seconds[i]));
out:
  return rc;
}

int ct_trainer_time_launches(ct_trainer_t *t, const ct_batch_t *b, int repeats,
                             int (*each)(void *ctx, const ct_launch_time_t *w), void *ctx)
{
  int rc = CT_OK;
  const ct__variant_t *v;
  double *seconds = NULL;
  CT_TRY(ct__input_take(t, b, -1));
  CT_TRY(ct__reduced_refresh(t));
  CT_TRY(ct__plans_use(t, b->n, t->env.training, &v));
  ct_bind_t bind = ct__input_bind(t, b, t->env.training, 0, 0);
  bind.loss_scale = 1;
  seconds = ct_mem_array(v->plan->launches + 1, sizeof *seconds, "timings");
  CT_TRY(seconds ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(time_all(t, v->plan, &bind, repeats, seconds));
  for (int i = 0; i < v->plan->launches; i++) {
    const ct_plan_launch_t *w = &v->plan->launch[i];
    const ct_plan_op_t *o = &v->plan->op[w->op];
    ct_launch_time_t one = {.desc = &o->desc,
                            .pass = w->pass,
                            .again = w->again,
                            .algorithm = o->info.algorithm,
                            .scratch = (double)o->info.scratch,
                            .seconds = seconds[i],
                            .bytes = ct_plan_launch_bytes(v->plan, i),
                            .flops = ct_op_flops(&o->desc, w->pass)};
    if (t->env.training) one.gradient_bytes = (double)ct_plan_launch_completes(v->plan, &t->map, i);
    CT_TRY(each(ctx, &one));
  }
out:
  ct_mem_free(seconds);
  return rc;
}

double ct_trainer_bucket_bytes(const ct_trainer_t *t)
{
  return t->env.bucket_mb * 1024 * 1024;
}
