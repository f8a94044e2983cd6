/* Measures each launch of a plan on its own. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"

static int time_launch(ct_trainer_t *t, const ct_plan_t *p, int i, const ct_bind_t *bind,
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

int ct_trainer_time_launches(ct_trainer_t *t, const ct_batch_t *b, int repeats,
                             int (*each)(void *ctx, const ct_launch_time_t *w), void *ctx)
{
  int rc = CT_OK;
  const ct__variant_t *v;
  CT_TRY(ct__input_take(t, b, -1));
  CT_TRY(ct__reduced_refresh(t));
  CT_TRY(ct__plans_use(t, b->n, t->env.training, &v));
  ct_bind_t bind = ct__input_bind(t, b, t->env.training, 0, 0);
  bind.loss_scale = 1;
  for (int i = 0; i < v->plan->launches; i++) {
    const ct_plan_launch_t *w = &v->plan->launch[i];
    const ct_plan_op_t *o = &v->plan->op[w->op];
    ct_launch_time_t one = {.desc = &o->desc,
                            .pass = w->pass,
                            .again = w->again,
                            .algorithm = o->info.algorithm,
                            .scratch = (double)o->info.scratch,
                            .bytes = ct_plan_launch_bytes(v->plan, i),
                            .flops = ct_op_flops(&o->desc, w->pass)};
    if (t->env.training) one.gradient_bytes = (double)ct_plan_launch_completes(v->plan, &t->map, i);
    CT_TRY(time_launch(t, v->plan, i, &bind, repeats, &one.seconds));
    CT_TRY(each(ctx, &one));
  }
out:
  return rc;
}

double ct_trainer_bucket_bytes(const ct_trainer_t *t)
{
  return t->env.bucket_mb * 1024 * 1024;
}
