/* Tests one CPU algorithm for a convolution or a linear layer: runs each pass in its own layouts,
 * in memory with guards, and compares the results with the reference. */
#include "tests/conform/one_way.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

/* ---- one pass of one algorithm ---- */

/* Converts weights from one format to another. */
static void convert(const cpu__md_t *from, void *x, const cpu__md_t *to, void *y)
{
  cpu__dnnl_t *dnnl = tested.dev->dnnl;
  cpu__prim_t *reorder = NULL;

  must(cpu__prim_reorder(dnnl, from, to, &reorder));
  void *scratch = host_array((int64_t)cpu__prim_scratch(reorder) + 1, 1);
  must(cpu__prim_run(dnnl, reorder, (void *[CPU__ROLES]){x, NULL, NULL, y, scratch}));
  ct_mem_free(scratch);
  cpu__prim_free(reorder);
}

/* Memory of a pass. */
typedef struct bench {
  tensor_t x, y;
  block_t w, bias, scratch;
  cpu__md_t *plain; /* plain format of the weights */
} bench_t;

static void bench_open(bench_t *b, const cpu__job_t *job, const cpu__ready_t *ready, truth_t *t)
{
  const ct_op_desc_t *d = job->desc;

  memset(b, 0, sizeof *b);
  must(tensor_open(&b->x, &tested, &d->x, job->at.x));
  must(tensor_open(&b->y, &tested, &d->y, job->at.y));
  block_open(&b->w, &tested, cpu__md_bytes(ready->w));
  block_open(&b->bias, &tested, (size_t)d->y.dim[1] * sizeof(float));
  block_open(&b->scratch, &tested, ready->scratch);
  must(cpu__md_plain(ready->w, &b->plain));
  if (job->pass != CT_BWD_DATA) tensor_put(&b->x, t->in.x);
  if (job->pass != CT_FWD) tensor_put(&b->y, t->in.dy);
  if (job->pass != CT_BWD_PARAM) convert(b->plain, t->in.w[0], ready->w, b->w.mem);
  if (job->pass == CT_FWD && t->in.w[1]) block_put(&b->bias, t->in.w[1], b->bias.bytes);
}

static void bench_close(bench_t *b)
{
  tensor_close(&b->x);
  tensor_close(&b->y);
  block_close(&b->w);
  block_close(&b->bias);
  block_close(&b->scratch);
  cpu__md_free(b->plain);
}

static void compare(const char *name, const char *what, const float *got, const float *want,
                    int64_t n, double floor, double tolerance)
{
  char why[80] = "";
  check(is_close(got, want, n, floor, tolerance, why), "%s: %s: %s", name, what, why);
}

static double size_of(const float *v, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)v[i] * v[i];
  return 0.1 * sqrt(sum);
}

static void check_result(const cpu__algo_t *algo, const cpu__job_t *job, const char *name,
                         bench_t *b, const cpu__ready_t *ready, const truth_t *t)
{
  const ct_op_desc_t *d = job->desc;
  double tolerance = strstr(algo->name, "winograd") ? 1e-4 : 1e-5;
  double low = d->x.dtype == CT_F32 ? tolerance : 5e-3;
  double floor = size_of(t->in.dy, ct_shape_count(&d->y));
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y), w = param_count(d, 0);
  float *got = host_array(x + y + w, sizeof *got);

  if (job->pass == CT_FWD) {
    check(tensor_take(&b->y, got), "%s: padding or memory behind y", name);
    compare(name, "y", got, t->want[0].y, y, floor, low);
  } else if (job->pass == CT_BWD_DATA) {
    check(tensor_take(&b->x, got), "%s: padding or memory behind dx", name);
    compare(name, "dx", got, t->want[0].dx, x, floor, low);
  } else {
    convert(ready->w, b->w.mem, b->plain, got);
    compare(name, "dw", got, t->want[0].dw[0], w, floor, tolerance);
    if (t->in.w[1])
      compare(name, "db", b->bias.mem, t->want[0].dw[1], d->y.dim[1], floor, tolerance);
  }
  check(block_intact(&b->w) && block_intact(&b->bias) && block_intact(&b->scratch),
        "%s: memory behind the weights or scratch", name);
  ct_mem_free(got);
}

static void try_job(const cpu__algo_t *algo, const cpu__job_t *job, truth_t *t)
{
  static const char *const passes[] = {
      [CT_FWD] = "forward", [CT_BWD_DATA] = "data", [CT_BWD_PARAM] = "parameters"};
  cpu__ready_t ready = {0};
  char text[160], name[260];
  bench_t b;

  snprintf(name, sizeof name, "%s, %s, of %s (%s, x %s, y %s)", algo->name, passes[job->pass],
           ct_op_text(job->desc, text, sizeof text), ct_dtype_name(job->desc->x.dtype),
           ct_layout_name(job->at.x), ct_layout_name(job->at.y));
  if (CT_ASSERT_OK(algo->prepare(job, &ready)) == CT_OK) {
    bench_open(&b, job, &ready, t);
    void *at[CPU__ROLES] = {b.x.own.mem, b.w.mem, b.bias.mem, b.y.own.mem, b.scratch.mem};
    if (!t->in.w[1]) at[CPU__BIAS] = NULL;
    CT_ASSERT_OK(algo->run(tested.dev, &ready, at));
    check_result(algo, job, name, &b, &ready, t);
    bench_close(&b);
  }
  algo->clear(&ready);
  cpu__md_free(ready.w);
}

/* ---- all algorithms ---- */

static void set_relu(ct_op_desc_t *d, int relu)
{
  if (d->kind == CT_OP_CONV)
    d->u.conv.relu = relu;
  else
    d->u.linear.relu = relu;
}

/* Returns 1 for oneDNN's reference implementation, recognized by its cost: it is hundreds of times
 * slower than the others and would take nearly all of the time. */
static int is_reference(const cpu__job_t *job, const cpu__cost_t *cost)
{
  return cost->each > 200 * ct_op_flops(job->desc, job->pass) / 2 && !getenv("CT_FULL");
}

void try_algo(const cpu__algos_t *algos, const cpu__algo_t *algo, const op_case_t *c, truth_t *t,
              int *known, tally_t *tally)
{
  for (int i = 0; i < CPU__PASSES * algos->nlayouts; i++) {
    cpu__job_t job = {tested.dev, &c->desc, 1 << i % CPU__PASSES, algos->layouts[i / CPU__PASSES]};
    cpu__cost_t cost = {NAN, NAN};
    char why[128] = "";
    int can = algo->can(&job, &cost, why);
    if (!check(can == 0 || can == 1, "%s: can() is %d", algo->name, can)) break;
    if (!can) check(why[0] != 0, "%s does not say why it cannot", algo->name);
    if (!can) continue;
    check(cost.each > 0 && cost.each < INFINITY && cost.once >= 0 && cost.once < INFINITY,
          "%s costs %g and %g", algo->name, cost.each, cost.once);
    tally->jobs[i % CPU__PASSES]++;
    if (is_reference(&job, &cost)) continue;
    if (!*known && !truth_open(t, c)) break;
    *known = 1;
    try_job(algo, &job, t);
  }
}

/* Computing the expected results takes most of the time: it is done once with the ReLU and once
 * without. */
void try_all(const cpu__algos_t *algos, const op_case_t *c, tally_t tally[CPU__ALGOS_MAX])
{
  op_case_t with[2] = {*c, *c};
  truth_t truth[2];
  int known[2] = {0, 0};
  set_relu(&with[0].desc, 0);
  int relu = memcmp(&with[0].desc, &with[1].desc, sizeof with[0].desc) != 0;
  for (int w = 0; w < CPU__ALGOS_MAX && algos->algo[w]; w++) {
    int k = relu && algos->algo[w]->relu;
    try_algo(algos, algos->algo[w], &with[k], &truth[k], &known[k], &tally[w]);
  }
  for (int k = 0; k < 2; k++)
    if (known[k]) truth_close(&truth[k]);
}

void flatten(op_case_t *c)
{
  int last = c->desc.x.ndim - 1;
  int64_t in = c->desc.x.dim[last], out = c->desc.y.dim[last],
          rows = ct_shape_count(&c->desc.x) / in;
  c->desc.x = ct_shape(2, rows, in);
  c->desc.y = ct_shape(2, rows, out);
}
