/* ways FILE.yaml TEXT [KEY=VALUE]...: times every algorithm, in every pair of layouts, of each pass
 * of each convolution and linear layer of a training step on the CPU, with the reorders that the
 * layouts of the plan need, and sums up what the choice loses against the fastest.  TEXT: only
 * layers with this in their line, such as "k3x3 s2"; "": all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/conv/conv.h"
#include "cpu/gemm/passes.h"
#include "cpu/kinds.h"
#include "setup/ct_setup.h"

enum { ROUNDS = 4, WAYS = CPU__ALGOS_MAX * CPU__LAYOUTS_MAX, TENSORS = 6 };

typedef struct way {
  cpu__passes_op_t op;
  void *scratch;
  int algo, at;
  double cost; /* estimated, in multiply-adds of the direct algorithm */
  double seconds;
} way_t;

typedef struct layer {
  const cpu__algos_t *algos;
  const ct_op_t *like; /* of the plan: has the format of the weights */
  ct_op_desc_t desc;   /* linear: of rows */
  cpu__layouts_t outer;
  cpu__costs_t costs;
  int times; /* equal layers in the plan */
} layer_t;

static double all_chosen, all_best;

static void *filled(int64_t floats)
{
  float *p = aligned_alloc(64, (size_t)ct_round_up(floats + 64, 16) * sizeof *p);
  if (!p) exit(99);
  for (int64_t i = 0; i < floats + 64; i++)
    p[i] = (float)(i * 7919 % 1009 - 504) / 5040;
  return p;
}

/* With blocks of 16 channels. */
static int64_t padded(const ct_shape_t *s)
{
  return ct_shape_count(s) / s->dim[1] * ct_round_up(s->dim[1], 16);
}

/* Prepares a pass as if no other algorithm or layout were possible. */
static int way_open(way_t *w, const layer_t *l, int pass, int algo, int at)
{
  cpu__costs_t only = {.algos = l->algos, .passes = 1 << pass, .x = 0, .y = 0};
  ct_op_info_t info = ct_op_info_of(&l->desc, "");
  for (int i = 0; i < CPU__PASSES * WAYS; i++)
    only.of[i / WAYS][i % WAYS / CPU__LAYOUTS_MAX][i % CPU__LAYOUTS_MAX].each = INFINITY;
  only.of[pass][algo][at].each = 1;
  *w = (way_t){.algo = algo, .at = at, .seconds = INFINITY};
  w->op.head = *l->like;
  w->op.head.desc = l->desc;
  const ct_op_t *like = l->algos->algo[algo]->as_it_lies ? NULL : l->like;
  int rc = cpu__passes_prepare_at(&w->op.head, &only, l->outer, &l->desc, like, &info);
  w->scratch = filled((int64_t)info.scratch / (int64_t)sizeof(float));
  return rc;
}

static void way_close(way_t *w)
{
  cpu__passes_clear(&w->op.head);
  free(w->scratch);
}

/* Times the second of two runs: the first leaves the caches as all find them. */
static void way_run(way_t *w, ct_op_args_t args)
{
  args.scratch = w->scratch;
  for (int run = 0; run < 2; run++) {
    double begin = ct_clock();
    if (cpu__passes_run(&w->op.head, &args) != CT_OK) exit(99);
    if (run) w->seconds = fmin(w->seconds, ct_clock() - begin);
  }
}

static int is_faster(const void *a, const void *b)
{
  double x = ((const way_t *)a)->seconds, y = ((const way_t *)b)->seconds;
  return (x > y) - (x < y);
}

static void print(const layer_t *l, int pass, const way_t *way, int n)
{
  char text[160];
  cpu__choice_t chosen = cpu__choose(&l->costs, pass, l->outer, 0);
  const way_t *is = way;
  for (int i = 0; i < n; i++)
    if (l->algos->algo[way[i].algo] == chosen.algo &&
        memcmp(&l->algos->layouts[way[i].at], &chosen.at, sizeof chosen.at) == 0)
      is = &way[i];
  double loss = l->times * (is->seconds - way->seconds);
  all_chosen += l->times * is->seconds;
  all_best += l->times * way->seconds;
  printf("%8.3f ms lost by %d x %s of %s (%s, %s)\n", 1e3 * loss, l->times,
         ct_op_pass_text(1 << pass), ct_op_text(&l->desc, text, sizeof text),
         ct_layout_name(l->outer.x), ct_layout_name(l->outer.y));
  for (int i = 0; i < n; i++) {
    const cpu__layouts_t *at = &l->algos->layouts[way[i].at];
    double flops = ct_op_flops(&l->desc, 1 << pass);
    printf("  %c %8.3f ms %5.0f GFLOP/s, cost %5.2f: %s, x %s, y %s\n", &way[i] == is ? '*' : ' ',
           1e3 * way[i].seconds, flops / way[i].seconds / 1e9, way[i].cost,
           l->algos->algo[way[i].algo]->name, ct_layout_name(at->x), ct_layout_name(at->y));
  }
}

/* Returns 1 and the cost if an algorithm can run the pass in these layouts in bearable time. */
static int is_possible(const layer_t *l, int pass, int algo, int at, double *cost)
{
  char why[128];
  cpu__cost_t is;
  cpu__job_t job = {l->like->dev, &l->desc, 1 << pass, l->algos->layouts[at]};
  const cpu__algo_t *a = l->algos->algo[algo];
  int lies = job.at.x == l->outer.x && job.at.y == l->outer.y;
  if (!a || (a->as_it_lies && !lies) || a->can(&job, &is, why) != 1) return 0;
  *cost = is.each / (ct_op_flops(&l->desc, 1 << pass) / 2);
  return *cost < 8;
}

/* Runs all of them in turn, so that a change of the clock rate meets all; after two rounds only
 * those that may be the fastest. */
static int time_pass(const layer_t *l, int pass, const ct_op_args_t *args)
{
  int rc = CT_OK, n = 0;
  static way_t way[WAYS];
  double cost, fastest = INFINITY;
  for (int algo = 0; algo < CPU__ALGOS_MAX && l->algos->algo[algo]; algo++)
    for (int at = 0; at < l->algos->nlayouts; at++) {
      if (!is_possible(l, pass, algo, at, &cost)) continue;
      CT_TRY(way_open(&way[n++], l, pass, algo, at));
      way[n - 1].cost = cost;
    }
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < n; i++) {
      if (round > 1 && way[i].seconds > 1.5 * fastest) continue;
      way_run(&way[i], *args);
      fastest = fmin(fastest, way[i].seconds);
    }
  qsort(way, (size_t)n, sizeof *way, is_faster);
  print(l, pass, way, n);
out:
  for (int i = 0; i < n; i++)
    way_close(&way[i]);
  return rc;
}

static int time_layer(const layer_t *l)
{
  int rc = CT_OK;
  int64_t x = padded(&l->desc.x), y = padded(&l->desc.y);
  int64_t w = (int64_t)l->like->param_bytes[0] / 4 * 16, b = l->desc.y.dim[1];
  void *t[TENSORS] = {filled(x), filled(y), filled(x), filled(y), filled(w), filled(w)};
  void *bias[2] = {filled(b), filled(b)};
  for (int pass = 0; pass < CPU__PASSES; pass++) {
    if (!(l->desc.passes >> pass & 1)) continue;
    ct_op_args_t args = {.pass = 1 << pass, .x = t[0], .y = t[1], .dx = t[2], .dy = t[3]};
    args.w[0] = t[4];
    args.dw[0] = t[5];
    args.w[1] = bias[0];
    args.dw[1] = bias[1];
    CT_TRY(time_pass(l, pass, &args));
  }
out:
  for (int i = 0; i < TENSORS; i++)
    free(t[i]);
  free(bias[0]);
  free(bias[1]);
  return rc;
}

/* Returns 1 if the op is one of those that are timed, with all it needs but `times`. */
static int layer_of(const ct_plan_op_t *o, layer_t *l)
{
  *l = (layer_t){.like = o->op, .desc = o->desc, .times = 1};
  if (o->op->kind != &cpu__conv && o->op->kind != &cpu__linear) return 0;
  if (o->desc.kind == CT_OP_CONV && o->desc.u.conv.add) return 0;
  l->outer = (cpu__layouts_t){o->desc.x.layout, o->info.y_layout};
  l->algos = o->desc.kind == CT_OP_CONV ? &cpu__conv_algos : &cpu__linear_algos;
  if (o->desc.kind != CT_OP_LINEAR) return 1;
  int64_t in = o->desc.x.dim[o->desc.x.ndim - 1], out = o->desc.y.dim[o->desc.y.ndim - 1];
  l->desc.x = ct_shape(2, ct_shape_count(&o->desc.x) / in, in);
  l->desc.y = ct_shape(2, ct_shape_count(&o->desc.y) / out, out);
  return 1;
}

static int is_same(const ct_plan_op_t *a, const ct_plan_op_t *b)
{
  char one[160], two[160];
  return strcmp(ct_op_text(&a->desc, one, sizeof one), ct_op_text(&b->desc, two, sizeof two)) ==
             0 &&
         a->desc.passes == b->desc.passes && a->desc.x.layout == b->desc.x.layout;
}

static int time_plan(const ct_plan_t *p, const char *only)
{
  int rc = CT_OK;
  char text[160];
  for (int i = 0; i < p->ops; i++) {
    layer_t l, other;
    int before = 0;
    if (!layer_of(&p->op[i], &l)) continue;
    if (!strstr(ct_op_text(&p->op[i].desc, text, sizeof text), only)) continue;
    for (int k = 0; k < p->ops; k++) {
      if (k == i || !layer_of(&p->op[k], &other) || !is_same(&p->op[i], &p->op[k])) continue;
      before |= k < i;
      l.times++;
    }
    if (before) continue;
    CT_TRY(cpu__ask(l.algos, p->dev, &l.desc, &l.costs));
    CT_TRY(time_layer(&l));
  }
out:
  return rc;
}

int main(int argc, char **argv)
{
  int rc = CT_OK;
  ct_topo_t as_if = {.threads = 1, .nodes = 1, .size = 1, .local_size = 1};
  ct_setup_t s = {.topo = &as_if};
  ct_plan_t *p = NULL;
  if (argc < 3) return 2;
  ct_args_t a = {.set = (const char **)argv + 3, .sets = argc - 3};
  CT_TRY(ct_setup_without_device(&s, argv[1], &a));
  CT_TRY(ct_setup_open_device(&s));
  CT_TRY(ct_setup_plan(&s, &p));
  CT_TRY(time_plan(p, argv[2]));
  printf("%s: chosen %.3f ms, fastest %.3f ms: %.1f%% lost\n", s.be->describe(s.dev),
         1e3 * all_chosen, 1e3 * all_best, 100 * (all_chosen / all_best - 1));
out:
  if (rc != CT_OK) fprintf(stderr, "%s\n", ct_err_last()->text);
  ct_plan_free(p);
  ct_setup_close(&s);
  return rc != CT_OK;
}
