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

/* Places of a long list that are kept for the engines of last resort: they are the only ones that
 * are exact in some passes, and cuDNN does not order them by speed. */
enum { LAST_RESORT = 3 };

typedef struct search {
  const gpu__dnn_target_t *t;
  const gpu__conv_pass_t *p;
  gpu__conv_algo_t *out;
  int fused, n;
  gpu__conv_algo_t big; /* among plans that exceed the workspace limit, the one with the smallest
                          workspace */
} search_t;

static void plan_take(search_t *s, gpu__conv_algo_t *algo)
{
  size_t workspace = algo->plan.workspace;
  if (workspace <= s->t->workspace) {
    s->out[s->n++] = *algo;
  } else if (!s->big.plan.plan || workspace < s->big.plan.workspace) {
    gpu__dnn_plan_clear(&s->big.plan);
    s->big = *algo;
  } else {
    gpu__dnn_plan_clear(&algo->plan);
  }
}

static int has_engine(const search_t *s, int n, int engine)
{
  for (int i = 0; i < n; i++)
    if (s->out[i].engine == engine) return 1;
  return 0;
}

/* Adds candidates until there are \a cap. Skips engines that turn out not to support the graph, and
 * engines that an earlier call has found. */
static int try_configs(search_t *s, const gpu__dnn_graph_t *g, cudnnBackendHeurMode_t mode, int cap)
{
  int rc = CT_OK, found = s->n;
  gpu__dnn_configs_t c;
  CT_TRY(gpu__dnn_configs(s->t, g, mode, &c));
  for (int i = 0; i < c.count && s->n < cap; i++) {
    gpu__conv_algo_t algo = {.fused = s->fused, .last_resort = mode == CUDNN_HEUR_MODE_FALLBACK};
    CT_TRY(gpu__dnn_notes(c.at[i], &algo.notes));
    if (algo.notes & forbidden(s->p)) continue;
    CT_TRY(gpu__dnn_engine(c.at[i], &algo.engine));
    if (has_engine(s, found, algo.engine)) continue;
    if (gpu__dnn_plan_make(s->t, &c.at[i], &algo.plan) == CT_OK) plan_take(s, &algo);
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
  search_t s = {.t = t, .p = p, .out = out, .fused = fused};
  *n = 0;
  rc = gpu__conv_graph(t, p, fused, &g);
  if (rc != CT_OK) return rc == CT_ERR_UNSUP ? CT_OK : rc;
  CT_TRY(try_configs(&s, &g, CUDNN_HEUR_MODE_A, cap > LAST_RESORT ? cap - LAST_RESORT : cap));
  if (s.n < cap) CT_TRY(try_configs(&s, &g, CUDNN_HEUR_MODE_FALLBACK, cap));
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
  int rc = CT_OK, n = 0, plain = 0;
  char text[160];
  gpu__conv_algo_t fused = {.fused = 1};
  if (gpu__conv_may_fuse(p)) CT_TRY(gpu__conv_algos(t, p, 1, 1, &fused, &n));
  if (n == 0 || fused.last_resort) CT_TRY(gpu__conv_algos(t, p, 0, 1, out, &plain));
  if (n > 0 && (plain == 0 || out->last_resort)) {
    if (plain > 0) gpu__dnn_plan_clear(&out->plan);
    *out = fused;
    fused.plan = (gpu__dnn_plan_t){.plan = NULL};
  }
  if (n + plain == 0)
    CT_FAIL(CT_ERR_UNSUP, "cuDNN %d has no deterministic plan for the %s pass of %s",
            (int)cudnnGetVersion(), gpu__conv_pass_name(p->pass),
            ct_op_text(p->d, text, sizeof text));
out:
  gpu__dnn_plan_clear(&fused.plan);
  return rc;
}
