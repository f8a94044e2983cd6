/* Plans with limits (recompute.c): drawn networks train some steps with drawn limits of the arena,
 * and with the same bits as without.  Usage: limits BACKEND [NETWORKS [FIRST]]. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "plan/ct_plan.h"
#include "tests/harness/ct_test.h"
#include "tests/harness/ct_test_backend.h"

enum { STEPS = 3, CLASSES = 5, VALUES = 3, RANKS = 2, TRIES = 3 };

static const ct_backend_t *be;
static ct_dev_t *dev;
static int networks = 60, first_network;

/* ---- drawing ---- */

typedef struct draw {
  char text[6000];
  int net, numbers, layers, images;
  int norm, size, channels; /* of the images at the end of the list */
  int same[64], sames;      /* layers whose output has the shape of the last one */
  int shared;               /* a layer whose parameters fit here; 0: none */
} draw_t;

static int draw(draw_t *d, int n)
{
  uint32_t r[4];
  ct_rng_block(77, CT_RNG_TEST, (uint32_t)d->net, (uint64_t)d->numbers++, r);
  return (int)(r[0] % (uint32_t)n);
}

static void put(draw_t *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds layer l<number>; keeps 1: its output has the shape of the last one's. */
static void put(draw_t *d, const char *fmt, ...)
{
  size_t at = strlen(d->text);
  va_list args;
  va_start(args, fmt);
  at += (size_t)snprintf(d->text + at, sizeof d->text - at, "- {name: l%d, ", ++d->layers);
  at += (size_t)vsnprintf(d->text + at, sizeof d->text - at, fmt, args);
  snprintf(d->text + at, sizeof d->text - at, "}\n");
  va_end(args);
  if (d->sames < 64) d->same[d->sames++] = d->layers;
}

static void new_shape(draw_t *d)
{
  d->sames = 0;
  d->shared = 0;
}

static void put_add(draw_t *d)
{
  if (d->sames < 2) return;
  int a = d->same[draw(d, d->sames)], b = d->same[draw(d, d->sames)];
  put(d, "%s: , from: [l%d, l%d, l%d]", draw(d, 4) ? "add" : "mul", a, b, d->layers);
}

static void put_simple(draw_t *d)
{
  static const char *const acts[] = {"relu: ",    "gelu: ",     "silu: ", "leaky_relu: ", "relu6: ",
                                     "sigmoid: ", "softplus: ", "tanh: ", "hardswish: "};
  switch (draw(d, 4)) {
  case 0:
    put(d, "dropout: {p: 0.3}");
    break;
  case 1:
    put(d, "drop_path: {p: 0.3}");
    break;
  default:
    put(d, "%s", acts[draw(d, (int)(sizeof acts / sizeof *acts))]);
  }
}

static void put_conv(draw_t *d)
{
  int at = d->layers + 1;
  if (d->shared && draw(d, 3) == 0) {
    put(d, "conv2d: {out: %d, kernel: 3, padding: 1}, share: l%d", d->channels, d->shared);
  } else if (draw(d, 3) == 0) {
    d->channels = 4 + 4 * draw(d, 4);
    new_shape(d);
    put(d, "conv2d: {out: %d, kernel: 3, padding: 1, bias: %s}", d->channels,
        draw(d, 2) ? "yes" : "no");
  } else {
    put(d, "conv2d: {out: %d, kernel: 3, padding: 1}", d->channels);
    d->shared = at;
  }
}

static void put_smaller(draw_t *d)
{
  if (d->size < 4) return;
  new_shape(d);
  if (draw(d, 2))
    put(d, "%s: {kernel: 2}", draw(d, 3) ? "maxpool" : "avgpool");
  else
    put(d, "conv2d: {out: %d, kernel: 3, stride: 2, padding: 1}", d->channels);
  d->size /= 2;
}

static void put_concat(draw_t *d)
{
  if (!d->sames || d->channels > 24) return;
  int other = d->same[draw(d, d->sames)], last = d->layers;
  new_shape(d);
  put(d, "concat: , from: [l%d, l%d]", other, last);
  d->channels *= 2;
}

/* A block of DenseNet, whose concatenations are one tensor (plan/place.c). */
static void put_dense(draw_t *d)
{
  int growth = draw(d, 2) ? 16 : 4 * (1 + draw(d, 3)), layers = 2 + draw(d, 2);
  if (d->channels > 24) return;
  for (int i = 0; i < layers; i++) {
    int before = d->layers;
    if (draw(d, 4)) put(d, "batchnorm: ");
    d->norm = 1;
    put(d, "relu: ");
    put(d, "conv2d: {out: %d, kernel: 3, padding: 1}", growth);
    new_shape(d);
    put(d, "concat: , from: [l%d, l%d]", before, d->layers);
    d->channels += growth;
  }
}

static void put_image_layer(draw_t *d)
{
  switch (draw(d, 13)) {
  case 10:
    put_dense(d);
    break;
  case 0:
  case 1:
  case 2:
    put_conv(d);
    break;
  case 3:
  case 4:
    put(d, "batchnorm: ");
    d->norm = 1;
    break;
  case 5:
    put(d, "groupnorm: {num_groups: 2}");
    break;
  case 6:
    put_smaller(d);
    break;
  case 7:
    put_concat(d);
    break;
  case 8:
    put(d, "scale: ");
    break;
  case 9:
    put_add(d);
    break;
  default:
    put_simple(d);
  }
}

static void put_sequence_layer(draw_t *d)
{
  switch (draw(d, 9)) {
  case 0:
    put(d, "attention: {heads: 2, causal: %s, rope: {theta: 100}}", draw(d, 2) ? "yes" : "no");
    break;
  case 1:
    put(d, "layernorm: ");
    break;
  case 2:
    put(d, "rmsnorm: ");
    break;
  case 3:
    put(d, "%s: {hidden: 16}", draw(d, 2) ? "lstm" : "gru");
    break;
  case 4:
    put(d, "linear: {out: 16}");
    break;
  case 5:
    put(d, "softmax: {dim: -1}");
    break;
  case 6:
    put(d, "attention: {heads: 4}");
    break;
  case 7:
    put_add(d);
    break;
  default:
    put_simple(d);
  }
}

static void draw_network(draw_t *d, int net)
{
  *d = (draw_t){.net = net, .size = 8, .channels = 8};
  int images = 3 + draw(d, 22), sequence = draw(d, 2) ? 2 + draw(d, 14) : 0;
  snprintf(d->text, sizeof d->text, "%s", "");
  put(d, "conv2d: {out: 8, kernel: 3, padding: 1}");
  for (int i = 0; i < images; i++)
    put_image_layer(d);
  if (sequence) {
    put(d, "reshape: {shape: [N, %d, %d]}", d->channels, d->size * d->size);
    put(d, "permute: {dims: [0, 2, 1]}");
    new_shape(d);
    put(d, "linear: {out: 16}");
  }
  for (int i = 0; i < sequence; i++)
    put_sequence_layer(d);
  put(d, "flatten: ");
  int flat = d->layers, further = draw(d, 3) == 0;
  put(d, "linear: {out: %d}", CLASSES);
  size_t at = strlen(d->text);
  if (further) put(d, "linear: {out: %d}, from: l%d", VALUES, flat);
  char list[6200];
  (void)at;
  if (further)
    snprintf(list, sizeof list, "outputs: [l%d, l%d]\nlayers:\n%s", d->layers - 1, d->layers,
             d->text);
  else
    snprintf(list, sizeof list, "layers:\n%s", d->text);
  memcpy(d->text, list, sizeof d->text);
  d->images = further;
}

/* ---- a rank that trains ---- */

typedef struct rank {
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_queue_t *q;
  ct_bind_t b;
  ct_loss_t *loss;
  size_t arena;
} rank_t;

static void *room(size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(be->mem->alloc(dev, CT_MEM_DEVICE, bytes + 64, &p));
  return p;
}

static void fill(const rank_t *r, void *to, const void *from, size_t bytes)
{
  CT_ASSERT_OK(be->mem->copy(r->q, to, from, bytes));
  CT_ASSERT_OK(be->queue->sync(r->q));
}

static void pack_params(rank_t *r)
{
  const ct_graph_t *g = r->p->graph;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    float *plain = ct_mem_array(par->count, sizeof *plain, "test");
    ct_graph_init_param(g, i, 1, plain);
    char *to = (par->spec.buffer ? r->b.buffer : r->b.weight) + r->map.offset[i];
    if (par->spec.buffer)
      fill(r, to, plain, (size_t)par->count * sizeof *plain);
    else
      CT_ASSERT_OK(
          be->op->pack(r->q, r->p->op[r->p->layer_op[par->layer]].op, par->slot, plain, to));
    ct_mem_free(plain);
  }
}

static void make_inputs(rank_t *r, int which)
{
  int n = r->p->o.n;
  int64_t count = n * ct_shape_count(&r->p->graph->input);
  float *x = ct_mem_array(count, sizeof *x, "test"), targets[16 * VALUES];
  int32_t labels[16];
  for (int64_t i = 0; i < count; i++)
    x[i] = ct_rng_normal(1, CT_RNG_TEST, (uint32_t)which, (uint64_t)i);
  for (int i = 0; i < n; i++)
    labels[i] = (3 * i + which) % CLASSES;
  for (int i = 0; i < n * VALUES; i++)
    targets[i] = ct_rng_normal(2, CT_RNG_TEST, (uint32_t)which, (uint64_t)i);
  void *at = room((size_t)count * sizeof *x), *at2 = room(sizeof labels),
       *at3 = room(sizeof targets);
  fill(r, at, x, (size_t)count * sizeof *x);
  fill(r, at2, labels, sizeof labels);
  fill(r, at3, targets, sizeof targets);
  r->b.x = at;
  r->b.labels = at2;
  r->b.more[0].targets = at3;
  r->b.more[0].scale = 0.5F;
  ct_mem_free(x);
}

static void rank_open(rank_t *r, const ct_graph_t *g, const ct_plan_opts_t *o, int which)
{
  void *loss = NULL;
  *r = (rank_t){0};
  CT_ASSERT_OK(be->queue->create(dev, &r->q));
  CT_ASSERT_OK(ct_plan_make(g, be, dev, o, NULL, &r->p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(r->p);
  CT_ASSERT_OK(ct_arena_map_make(r->p, &r->map));
  CT_ASSERT_OK(be->mem->alloc(dev, CT_MEM_STAGING, 2 * sizeof(ct_loss_t), &loss));
  r->loss = loss;
  r->arena = r->p->arena_bytes;
  r->b = (ct_bind_t){.arena = room(r->arena),
                     .scratch = room(r->p->scratch_bytes),
                     .weight = room(r->map.weight_bytes),
                     .gradient = room(r->map.weight_bytes),
                     .buffer = room(r->map.buffer_bytes),
                     .reduced = be->reduced_weights ? room(r->map.weight_bytes) : NULL,
                     .stats = room(sizeof(double) * 300),
                     .map = &r->map,
                     .loss = r->loss,
                     .loss_scale = 1,
                     .seed = 5,
                     .first = which * o->n};
  pack_params(r);
  make_inputs(r, which);
}

static void rank_close(rank_t *r)
{
  const void *all[] = {r->b.arena,  r->b.scratch,        r->b.weight, r->b.gradient,
                       r->b.buffer, r->b.reduced,        r->b.stats,  r->b.x,
                       r->b.labels, r->b.more[0].targets};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    be->mem->free(dev, CT_MEM_DEVICE, (void *)(uintptr_t)all[i]);
  be->mem->free(dev, CT_MEM_STAGING, r->loss);
  be->queue->destroy(r->q);
  ct_plan_free(r->p);
  ct_arena_map_clear(&r->map);
}

/* SyncBN: the sum over the ranks, for all of them. */
static void exchange(rank_t *r, int ranks, int i)
{
  const ct_plan_launch_t *w = &r->p->launch[i];
  if (!(w->pass & (CT_FWD_STATS | CT_BWD_STATS))) return;
  size_t n = (size_t)(2 * r->p->op[w->op].desc.x.dim[1] + 1);
  double sum[300] = {0}, one[300];
  for (int k = 0; k < ranks; k++) {
    fill(&r[k], one, r[k].b.stats, n * sizeof *one);
    for (size_t c = 0; c < n; c++)
      sum[c] += one[c];
  }
  for (int k = 0; k < ranks; k++)
    fill(&r[k], r[k].b.stats, sum, n * sizeof *sum);
}

/* What a step has left behind: weights, gradients, running statistics, losses. */
typedef struct trace {
  char *of[RANKS][STEPS];
  size_t bytes;
} trace_t;

static void update(rank_t *r, float *w, const float *g)
{
  size_t n = r->map.trained_bytes / sizeof *w;
  fill(r, w, r->b.weight, r->map.weight_bytes);
  for (size_t i = 0; i < n; i++)
    w[i] -= 0.02F * g[i];
  fill(r, r->b.weight, w, r->map.weight_bytes);
}

static void refresh(rank_t *r, const float *w)
{
  if (!r->b.reduced) return;
  ct_dtype_t t = r->p->o.compute;
  size_t n = r->map.weight_bytes / sizeof *w;
  uint16_t *low = ct_mem_array((int64_t)n + 1, sizeof *low, "test");
  for (size_t i = 0; i < n && t == CT_BF16; i++) {
    uint32_t bits;
    memcpy(&bits, &w[i], sizeof bits);
    low[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  fill(r, (char *)(uintptr_t)r->b.reduced, low, n * sizeof *low);
  ct_mem_free(low);
}

static void note(rank_t *r, trace_t *t, int rank, int step)
{
  size_t w = r->map.weight_bytes, b = r->map.buffer_bytes, l = 2 * sizeof(ct_loss_t);
  t->bytes = r->map.trained_bytes + w + b + l;
  char *to = t->of[rank][step] = ct_mem_alloc(t->bytes, "test");
  fill(r, to, r->b.gradient, r->map.trained_bytes);
  memcpy(to + r->map.trained_bytes + w + b, r->loss, l);
  to += r->map.trained_bytes;
  float *all = ct_mem_alloc(w, "test");
  update(r, all, (const float *)t->of[rank][step]);
  memcpy(to, all, w);
  if (b) fill(r, to + w, r->b.buffer, b);
  refresh(r, all);
  ct_mem_free(all);
}

static void train(rank_t *r, int ranks, trace_t *t)
{
  for (int k = 0; k < ranks; k++) {
    float *w = ct_mem_alloc(r[k].map.weight_bytes, "test");
    pack_params(&r[k]);
    fill(&r[k], w, r[k].b.weight, r[k].map.weight_bytes);
    refresh(&r[k], w);
    ct_mem_free(w);
  }
  for (int step = 0; step < STEPS; step++) {
    for (int k = 0; k < ranks; k++) {
      char *nan = ct_mem_alloc(r[k].arena, "test");
      memset(nan, 0xff, r[k].arena);
      fill(&r[k], r[k].b.arena, nan, r[k].arena);
      ct_mem_free(nan);
      memset(r[k].loss, 0, 2 * sizeof(ct_loss_t));
      r[k].b.step = step;
    }
    for (int i = 0; i < r->p->launches; i++) {
      for (int k = 0; k < ranks; k++)
        CT_ASSERT_OK(ct_plan_run(r[k].p, i, &r[k].b, r[k].q));
      exchange(r, ranks, i);
    }
    for (int k = 0; k < ranks; k++) {
      CT_ASSERT_OK(be->queue->sync(r[k].q));
      note(&r[k], t, k, step);
    }
  }
}

static void trace_free(trace_t *t)
{
  for (int k = 0; k < RANKS; k++)
    for (int i = 0; i < STEPS; i++)
      ct_mem_free(t->of[k][i]);
}

/* ---- checks ---- */

static int same_trace(const trace_t *a, const trace_t *b, int ranks)
{
  for (int k = 0; k < ranks; k++)
    for (int i = 0; i < STEPS; i++)
      if (memcmp(a->of[k][i], b->of[k][i], a->bytes)) return 0;
  return 1;
}

static size_t limit_of(draw_t *d, const ct_plan_t *p)
{
  size_t span = p->again.most - p->again.least;
  int kind = draw(d, 4);
  return kind == 0 ? p->again.least : p->again.least + span * (size_t)draw(d, 1000) / 1000;
}

static void check_limit(draw_t *d, rank_t *r, int ranks, const trace_t *want)
{
  trace_t got = {0};
  size_t limit = limit_of(d, r->p);
  for (int k = 0; k < ranks; k++)
    CT_ASSERT_OK(ct_plan_limit(r[k].p, limit));
  CU_ASSERT(r->p->arena_bytes <= limit);
  r->arena = r->p->arena_bytes; /* what is behind is not written: see the guard below */
  train(r, ranks, &got);
  if (!same_trace(want, &got, ranks)) {
    printf("# network %d, limit %zu of %zu: other bits\n%s", d->net, limit, r->p->again.most,
           d->text);
    CU_FAIL("other bits");
  }
  trace_free(&got);
}

static ct_graph_t *graph_of(const draw_t *d)
{
  ct_graph_t *g = NULL;
  ct_yaml_t *map = NULL;
  ct_model_opts_t o = {0};
  const ct_shape_t input = ct_shape(4, 1, 3, 8, 8);
  CT_ASSERT_OK(ct_yaml_parse(d->text, strlen(d->text), "test", &map));
  CT_ASSERT_OK(ct_opt_defaults(ct_model_rows, &o));
  CT_ASSERT_OK(ct_opt_read(ct_model_rows, &o, map, "test", "model", NULL));
  if (ct_graph_make(&o, &input, NULL, CLASSES, "test", &g) != CT_OK) {
    printf("# network %d: %s\n%s", d->net, ct_err_last()->text, d->text);
    CU_FAIL("no graph");
  }
  ct_opt_clear(ct_model_rows, &o);
  ct_yaml_free(map);
  return g;
}

static const ct_backend_t *whole; /* makes whole tensors only */

static int supports_whole(ct_dev_t *device, const ct_op_desc_t *d, char why[128])
{
  return !d->within && !ct_op_is_placed(d) && whole->op->supports(device, d, why);
}

/* Concatenations that copy give the same bits on the CPU; on the reference, which adds in double,
 * they round once more. */
static void check_copies(const draw_t *d, const ct_graph_t *g, const ct_plan_opts_t *o, int ranks,
                         const trace_t *want)
{
  rank_t r[RANKS];
  trace_t got = {0};
  ct_op_ops_t ops = *be->op;
  ct_backend_t copies = *be;
  if (strcmp(be->name, "cpu") || o->compute != CT_F32) return;
  ops.supports = supports_whole;
  copies.op = &ops;
  whole = be;
  be = &copies;
  for (int k = 0; k < ranks; k++)
    rank_open(&r[k], g, o, k);
  train(r, ranks, &got);
  if (!same_trace(want, &got, ranks)) {
    printf("# network %d: other bits with copies\n%s", d->net, d->text);
    CU_FAIL("other bits");
  }
  for (int k = 0; k < ranks; k++)
    rank_close(&r[k]);
  trace_free(&got);
  be = whole;
}

static void check_network(int net)
{
  draw_t d;
  rank_t r[RANKS];
  trace_t want = {0};
  draw_network(&d, net);
  ct_graph_t *g = graph_of(&d);
  if (!g) return;
  ct_plan_opts_t o = {.n = 2 + draw(&d, 3), .training = 1, .outputs_unread = draw(&d, 2)};
  o.sync_bn = d.norm && draw(&d, 2);
  o.compute = draw(&d, 3) == 0 ? CT_BF16 : CT_F32;
  o.heads.of[0] = (ct_head_t){.loss = {.kind = CT_LOSS_CROSS_ENTROPY}, .weight = 1};
  o.heads.of[1] =
      (ct_head_t){.loss = {.kind = CT_LOSS_MSE}, .output = 1, .target = 1, .weight = 0.5};
  o.heads.n = d.images ? 2 : 1;
  int ranks = o.sync_bn ? RANKS : 1;
  for (int k = 0; k < ranks; k++)
    rank_open(&r[k], g, &o, k);
  train(r, ranks, &want);
  check_copies(&d, g, &o, ranks, &want);
  for (int k = 0; k < ranks; k++) {
    CT_ASSERT_INT(ct_plan_limit(r[k].p, 1), CT_ERR_NOMEM);
    CT_ASSERT_INT(r[k].p->launches, r[k].p->unlimited.launches);
    CU_ASSERT(r[k].p->again.least > 0 && r[k].p->again.least <= r[k].p->again.most);
  }
  for (int i = 0; i < TRIES; i++)
    check_limit(&d, r, ranks, &want);
  for (int k = 0; k < ranks; k++)
    rank_close(&r[k]);
  trace_free(&want);
  ct_graph_free(g);
}

static void drawn_networks_have_the_same_bits(void)
{
  for (int i = first_network; i < first_network + networks; i++)
    check_network(i);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(drawn_networks_have_the_same_bits), CT_TEST_END};
  const ct_comm_ops_t *comm;
  const char *name = argc > 1 ? argv[1] : "ref";
  if (argc > 2) networks = atoi(argv[2]);
  if (argc > 3) first_network = atoi(argv[3]);
  be = ct_test_backend(name, &comm);
  if (!be || be->open(&(ct_dev_opts_t){.threads = 2}, &dev) != CT_OK) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  int rc = ct_test_main("limits", tests, 1, argv);
  be->close(dev);
  return rc;
}
