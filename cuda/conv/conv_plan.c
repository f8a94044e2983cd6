/* Finds candidate plans for a pass of a convolution. */
#include "base/ct_err.h"
#include "cuda/conv/conv_plan.h"

/* Returns the numerical notes of engines that must not be used: bits of cuDNN's notes. */
static unsigned forbidden(const gpu__conv_pass_t *p)
{
  unsigned always = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC |
                    1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
  if (p->d->x.dtype != CT_F32 || p->tf32) return always;
  return always | 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE |
         1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
}

/* ---- search ---- */

typedef struct search {
  const gpu__dnn_target_t *t;
  const gpu__conv_pass_t *p;
  gpu__conv_algo_t *out;
  int fused, cap, n;
  gpu__conv_algo_t big; /* among plans that exceed the workspace limit, the one with the smallest
                          workspace */
} search_t;

static void plan_take(search_t *s, gpu__dnn_plan_t *plan, unsigned notes)
{
  gpu__conv_algo_t algo = {.plan = *plan, .fused = s->fused, .notes = notes};
  if (plan->workspace <= GPU_CONV_WORKSPACE) {
    s->out[s->n++] = algo;
  } else if (!s->big.plan.plan || plan->workspace < s->big.plan.workspace) {
    gpu__dnn_plan_clear(&s->big.plan);
    s->big = algo;
  } else {
    gpu__dnn_plan_clear(plan);
  }
}

/* Skips engines that turn out not to support the graph. */
static int try_configs(search_t *s, const gpu__dnn_graph_t *g, cudnnBackendHeurMode_t mode)
{
  int rc = CT_OK;
  gpu__dnn_configs_t c;
  CT_TRY(gpu__dnn_configs(s->t, g, mode, &c));
  for (int i = 0; i < c.count && s->n < s->cap; i++) {
    unsigned notes;
    gpu__dnn_plan_t plan;
    CT_TRY(gpu__dnn_notes(c.at[i], &notes));
    if (notes & forbidden(s->p)) continue;
    if (gpu__dnn_plan_make(s->t, &c.at[i], &plan) == CT_OK) plan_take(s, &plan, notes);
  }
out:
  gpu__dnn_configs_clear(&c);
  return rc;
}

int gpu__conv_algos(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p, int fused, int cap,
                    gpu__conv_algo_t *out, int *n)
{
  int rc = CT_OK;
  gpu__dnn_graph_t g;
  search_t s = {.t = t, .p = p, .out = out, .fused = fused, .cap = cap};
  *n = 0;
  rc = gpu__conv_graph(t, p, fused, &g);
  if (rc != CT_OK) return rc == CT_ERR_UNSUP ? CT_OK : rc;
  CT_TRY(try_configs(&s, &g, CUDNN_HEUR_MODE_A));
  if (s.n == 0) CT_TRY(try_configs(&s, &g, CUDNN_HEUR_MODE_FALLBACK));
  if (s.n == 0 && s.big.plan.plan) {
    s.out[s.n++] = s.big;
    s.big.plan = (gpu__dnn_plan_t){.plan = NULL};
  }
out:
  while (rc != CT_OK && s.n > 0)
    gpu__dnn_plan_clear(&out[--s.n].plan);
  gpu__dnn_plan_clear(&s.big.plan);
  gpu__dnn_graph_clear(&g);
  *n = s.n;
  return rc;
}

const char *gpu__conv_pass_name(int pass)
{
  return pass == CT_FWD ? "forward" : pass == CT_BWD_DATA ? "backward data" : "backward weight";
}

int gpu__conv_may_fuse(const gpu__conv_pass_t *p)
{
  return p->pass == CT_FWD && p->d->u.conv.bias && !p->d->u.conv.relu;
}

int gpu__conv_first_algo(const gpu__dnn_target_t *t, const gpu__conv_pass_t *p,
                         gpu__conv_algo_t *out)
{
  int rc = CT_OK, n = 0;
  char text[160];
  if (gpu__conv_may_fuse(p)) CT_TRY(gpu__conv_algos(t, p, 1, 1, out, &n));
  if (n == 0) CT_TRY(gpu__conv_algos(t, p, 0, 1, out, &n));
  if (n == 0)
    CT_FAIL(CT_ERR_UNSUP, "cuDNN %d has no deterministic plan for the %s pass of %s",
            (int)cudnnGetVersion(), gpu__conv_pass_name(p->pass),
            ct_op_text(p->d, text, sizeof text));
out:
  return rc;
}
