/* A forward pass that reports the values at a model's observation points. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct showing {
  ct_trainer_t *t;
  int (*see)(void *ctx, int param, const float *x, int64_t padded, int64_t count);
  void *ctx;
} showing_t;

/* Passes the op's result, which is still in the arena, to the callback. */
static int observe_show(const showing_t *s, const ct_plan_t *p, const ct_plan_launch_t *w,
                        const char *arena)
{
  int rc = CT_OK;
  ct_trainer_t *t = s->t;
  const ct_value_t *v = &p->value[w->y];
  const char *at = arena + p->value[ct_plan_root(p, w->y)].offset;
  float *copy = ct_mem_array((int64_t)(v->bytes / sizeof(float)), sizeof *copy, "seen numbers");
  CT_TRY(copy ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(t->env.be->mem->copy(t->q, copy, at, v->bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
  int param = t->env.graph->layer[p->op[w->op].layer].param[0];
  CT_TRY(
      s->see(s->ctx, param, copy, (int64_t)(v->bytes / sizeof *copy), ct_shape_count(&v->shape)));
out:
  ct_mem_free(copy);
  return rc;
}

static int observe_forward(const showing_t *s, const ct_batch_t *b)
{
  int rc = CT_OK;
  ct_trainer_t *t = s->t;
  const ct__variant_t *v;
  CT_TRY(ct__input_take(t, b, -1));
  CT_TRY(ct__plans_use(t, b->n, 0, &v));
  ct_bind_t bind = ct__input_bind(t, b, 0, 0, 0);
  for (int i = 0; i < v->plan->launches; i++) {
    const ct_plan_launch_t *w = &v->plan->launch[i];
    CT_TRY(ct_plan_run(v->plan, i, &bind, t->q));
    if (v->plan->op[w->op].desc.kind == CT_OP_FAKE_QUANT)
      CT_TRY(observe_show(s, v->plan, w, bind.arena));
  }
out:
  return rc;
}

int ct_trainer_observe(ct_trainer_t *t, const ct_batch_t *b,
                       int (*see)(void *ctx, int param, const float *x, int64_t padded,
                                  int64_t count),
                       void *ctx)
{
  showing_t s = {t, see, ctx};
  int rc = observe_forward(&s, b), done = t->env.be->queue->sync(t->q);
  return rc != CT_OK ? rc : done;
}
