/* The planner: fusions, schedules, layouts, memory, buckets; on every backend that runs here. */
#include "base/ct_rng.h"
#include "plan/passes.h"
#include "tests/unit/plan_make.h"

static int count_ops(const ct_plan_t *p, ct_op_kind_t kind, int layers_only)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind && (!layers_only || p->op[i].layer >= 0);
  return n;
}

/* ---- placement ---- */

static void placed_blocks_never_overlap(void)
{
  enum { N = 60 };
  for (uint64_t round = 0; round < 200; round++) {
    size_t bytes[N], offset[N], total, sum = 0;
    int first[N], last[N];
    for (uint64_t i = 0; i < N; i++) {
      uint32_t r[4];
      ct_rng_block(round, CT_RNG_TEST, 0, i, r);
      bytes[i] = r[0] % 7 ? r[0] % 5000 : 0;
      first[i] = (int)(r[1] % 40);
      last[i] = first[i] + (int)(r[2] % 10);
      sum += (bytes[i] + 63) / 64 * 64;
    }
    CT_ASSERT_OK(ct__plan_fit(N, bytes, first, last, offset, &total));
    CU_ASSERT(total <= sum);
    for (int a = 0; a < N; a++)
      for (int b = 0; b < a; b++) {
        if (!bytes[a] || !bytes[b] || last[a] < first[b] || last[b] < first[a]) continue;
        CU_ASSERT(offset[a] + bytes[a] <= offset[b] || offset[b] + bytes[b] <= offset[a]);
      }
  }
}

/* What a work reads and writes; in_place: which read's memory the first write may take over, or
 * -1. */
enum { READS = 7, WRITES = 4 };
typedef struct access {
  int read[READS], write[WRITES];
  int in_place;
} access_t;

static access_t access_of(const ct_plan_t *p, int i)
{
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  if (w->pass == CT_FWD_STATS)
    return (access_t){{w->x, -1, -1, -1, -1, -1, -1}, {-1, -1, -1, -1}, -1};
  if (w->pass & CT_FWD) /* of the loss: with its backward */
    return (access_t){{w->x, w->x2, w->dy, w->dy2, -1, -1, -1},
                      {w->y, w->dx, w->dx2, o->saved},
                      o->info.inplace_fwd ? 0 : -1};
  return (access_t){{w->x, w->x2, w->dy, w->dy2, w->y, o->saved, w->dx_add},
                    {w->dx, w->dx2, -1, -1},
                    o->info.inplace_bwd ? 2 : -1};
}

static size_t offset_of(const ct_plan_t *p, int v)
{
  return p->value[ct_plan_root(p, v)].offset;
}

static int overlap(const ct_plan_t *p, int a, int b)
{
  if (a < 0 || b < 0 || p->value[a].external || p->value[b].external) return 0;
  return offset_of(p, a) < offset_of(p, b) + p->value[b].bytes &&
         offset_of(p, b) < offset_of(p, a) + p->value[a].bytes;
}

/* A work writes over nothing that it reads, but where its op is made for that. */
static void check_operands(const access_t *a, const ct_plan_t *p)
{
  for (int k = 0; k < WRITES; k++) {
    for (int r = 0; r < READS; r++) {
      int same = a->in_place >= 0 && a->read[r] == a->read[a->in_place];
      int in_place = k == 0 && same && a->write[0] >= 0 &&
                     offset_of(p, a->write[0]) == offset_of(p, a->read[r]);
      CU_ASSERT(in_place || !overlap(p, a->write[k], a->read[r]));
    }
    for (int other = 0; other < k; other++)
      CU_ASSERT(!overlap(p, a->write[k], a->write[other]));
  }
}

static int64_t bytes_not_of(const ct_plan_t *p, const int *holds, int v)
{
  int64_t wrong = 0;
  if (p->value[v].external) return 0;
  for (size_t b = 0; b < p->value[v].bytes; b++)
    wrong += holds[offset_of(p, v) + b] != v + 1;
  return wrong;
}

/* Plays the works on labels, a label for each byte: what a work reads is what was last written at
 * that place, and the logits are still there at the end. */
static void check_memory(const ct_plan_t *p)
{
  int *holds = ct_mem_array((int64_t)p->arena_bytes + 1, sizeof *holds, "test");
  for (int i = 0; i < p->launches; i++) {
    access_t a = access_of(p, i);
    check_operands(&a, p);
    for (int k = 0; k < READS; k++)
      if (a.read[k] >= 0) CT_ASSERT_INT(bytes_not_of(p, holds, a.read[k]), 0);
    for (int k = 0; k < WRITES; k++) {
      if (a.write[k] < 0) continue;
      size_t at = offset_of(p, a.write[k]), bytes = p->value[a.write[k]].bytes;
      CU_ASSERT_FATAL(!p->value[ct_plan_root(p, a.write[k])].external);
      CU_ASSERT_FATAL(at + bytes <= p->arena_bytes);
      CT_ASSERT_INT(at % 64, 0);
      for (size_t b = 0; b < bytes; b++)
        holds[at + b] = a.write[k] + 1;
    }
  }
  CT_ASSERT_INT(bytes_not_of(p, holds, p->logits), 0);
  ct_mem_free(holds);
}

/* An op gets each tensor in the layout, and with the bytes, for which it was prepared. */
static void check_tensor(const ct_plan_t *p, int v, const ct_shape_t *as)
{
  if (v < 0) return;
  CT_ASSERT_INT(p->value[v].shape.layout, as->layout);
  CT_ASSERT_INT(p->value[v].bytes, ct_shape_bytes(as));
}

/* What is run is what was prepared, and no gradient is made or offered that nobody takes. */
static void check_passes(const ct_plan_t *p, const ct_plan_launch_t *w)
{
  const ct_plan_op_t *o = &p->op[w->op];
  int add = o->desc.kind == CT_OP_ADD;
  CT_ASSERT_INT(w->pass & ~o->desc.passes, 0);
  CU_ASSERT(o->trained || !(w->pass & CT_BWD_PARAM));
  CU_ASSERT(o->info.takes_dy2 || w->dy2 < 0);
  CT_ASSERT_INT(w->dx >= 0 || w->dx2 >= 0, (w->pass & CT_BWD_DATA) != 0);
  if (w->dx >= 0 && o->in[0] >= 0 && !add) CT_ASSERT_INT(p->value[o->in[0]].grad, 1);
  if (w->dx2 >= 0) CT_ASSERT_INT(p->value[o->in[1]].grad, 1);
}

static void check_layouts(const ct_plan_t *p)
{
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    const ct_plan_op_t *o = &p->op[w->op];
    const int like_x[] = {w->x, w->dx, w->dx_add}, like_y[] = {w->y, w->dy, w->dy2};
    ct_shape_t second = ct_op_second(&o->desc);
    for (int k = 0; k < 3; k++)
      check_tensor(p, like_x[k], &o->desc.x);
    check_tensor(p, w->x2, &second);
    check_tensor(p, w->dx2, &second);
    for (int k = 0; k < 3; k++)
      check_tensor(p, like_y[k], &o->desc.y);
    CT_ASSERT_INT(o->saved >= 0 ? p->value[o->saved].bytes : 0, o->info.saved);
    CU_ASSERT(o->info.scratch <= p->scratch_bytes);
    check_passes(p, w);
  }
  CT_ASSERT_INT(p->launch[p->loss_launch].x, p->logits);
  CT_ASSERT_INT(p->value[p->logits].shape.layout, CT_PLAIN);
}

static const struct {
  const char *name;
  int depth, channels, size;
} models[] = {{"mlp", 0, 1, 8},
              {"lenet", 0, 1, 8},
              {"resnet", 20, 3, 8},
              {"resnet", 18, 3, 16},
              {"resnet", 50, 3, 16}};
enum { FAMILIES = sizeof models / sizeof *models, MODELS = FAMILIES + ODD_GRAPHS };

static ct_graph_t *model(int i)
{
  if (i >= FAMILIES) return odd_graph(i - FAMILIES);
  return family(models[i].name, models[i].depth,
                ct_shape(4, 1, models[i].channels, models[i].size, models[i].size));
}

static void every_read_sees_its_write(void)
{
  static const ct_plan_opts_t opts[] = {{.n = 2},
                                        {.n = 2, .training = 1},
                                        {.n = 2, .training = 1, .sync_bn = 1},
                                        {.n = 2, .training = 1, .compute = CT_F16}};
  for (int k = 0; k < MODELS * BACKENDS * 4; k++) {
    int b = k / 4 % BACKENDS;
    if (b != REF && opts[k % 4].compute != CT_F32) continue;
    ct_graph_t *g = model(k / BACKENDS / 4);
    ct_plan_t *p = plan_with(b, g, &opts[k % 4], NULL);
    check_memory(p);
    check_layouts(p);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

static void evaluation_needs_less_memory(void)
{
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 32, 32));
  ct_plan_t *train = plan(g, 4, 1), *eval = plan(g, 4, 0);
  CU_ASSERT(eval->arena_bytes * 3 < train->arena_bytes);
  ct_plan_free(train);
  ct_plan_free(eval);
  ct_graph_free(g);
}

/* ---- fusion ---- */

static void resnet_block_is_fused(void)
{
  ct_graph_t *g = family("resnet", 18, ct_shape(4, 1, 3, 32, 32));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_BNORM, 1), 20);
  int adds = 0, relus = 0;
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_BNORM) {
      adds += p->op[i].desc.u.bnorm.add;
      relus += p->op[i].desc.u.bnorm.relu;
    }
  CT_ASSERT_INT(adds, 8);
  CT_ASSERT_INT(relus,
                17); /* not the three of the shortcuts, or the block's other batchnorm there */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void relu6_goes_into_the_batchnorm(void)
{
  ct_graph_t *g = family("mobilenet_v2", 0, ct_shape(4, 1, 3, 64, 64));
  ct_plan_t *p = plan(g, 2, 1);
  int bnorms = 0, cut = 0;
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_BNORM) {
      bnorms++;
      cut += p->op[i].desc.u.bnorm.relu == CT_RELU6;
    }
  CT_ASSERT_INT(count_ops(p, CT_OP_ACT, 1), 0);
  CT_ASSERT_INT(bnorms, 52);
  CT_ASSERT_INT(cut, 35); /* not those behind the 17 projections */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void relu_goes_into_the_pool(void)
{
  ct_graph_t *g = family("lenet", 0, ct_shape(4, 1, 1, 28, 28));
  ct_plan_t *p = plan(g, 2, 1);
  for (int i = 0; i < p->ops; i++) {
    const ct_op_desc_t *d = &p->op[i].desc;
    if (d->kind == CT_OP_POOL) CT_ASSERT_INT(d->u.pool.relu, 1);
    if (d->kind == CT_OP_CONV) CT_ASSERT_INT(d->u.conv.relu, 0);
  }
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 0);
  CT_ASSERT_INT(count_ops(p, CT_OP_REORDER, 0), 0); /* flatten of a plain tensor is nothing */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void what_is_read_twice_is_not_fused(void)
{
  ct_graph_t *g = layers(read_twice, ct_shape(4, 1, 3, 6, 6));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_RELU, 1), 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 1), 1);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* relu(bn(x)) + a is not relu(bn(x) + a), and a batchnorm adds once. */
static void what_is_fused_takes_no_sum(void)
{
  ct_graph_t *g = layers(preactivation, ct_shape(4, 1, 3, 6, 6));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 1), 2);
  CT_ASSERT_INT(count_ops(p, CT_OP_BNORM, 1), 2);
  for (int i = 0; i < p->ops; i++)
    if (p->op[i].desc.kind == CT_OP_BNORM)
      CT_ASSERT_INT(p->op[i].desc.u.bnorm.relu + p->op[i].desc.u.bnorm.add, 1);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void three_readers_get_their_gradients_summed(void)
{
  ct_graph_t *g = layers(three_readers, ct_shape(4, 1, 3, 6, 6));
  ct_plan_t *p = plan(g, 2, 1);
  CT_ASSERT_INT(count_ops(p, CT_OP_ADD, 0) - count_ops(p, CT_OP_ADD, 1), 2);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* A copy that makes an image of plain rows writes the layout of the convolution that reads it, or
 * of the image that is added to it: nothing is reordered. */
static void copies_write_blocks(void)
{
  ct_graph_t *g = layers(
      "layers:\n- conv2d: {out: 32, kernel: 3, padding: 1}\n  name: a\n- permute: {dims: [0, 2, 3, "
      "1]}\n"
      "- linear: {out: 32}\n- permute: {dims: [0, 3, 1, 2]}\n- gelu:\n  name: b\n"
      "- add:\n  from: [b, a]\n- conv2d: {out: 32, kernel: 3, padding: 1}\n"
      "- permute: {dims: [0, 2, 3, 1]}\n- linear: {out: 32}\n- permute: {dims: [0, 3, 1, 2]}\n"
      "- conv2d: {out: 16, kernel: 3, padding: 1}\n- flatten:\n- linear: {out: 10}\n",
      ct_shape(4, 1, 32, 6, 6));
  ct_plan_t *p = plan_on(CPU, g, 2, 1, NULL);
  CT_ASSERT_INT(count_ops(p, CT_OP_STRIDED, 0), 4);
  CU_ASSERT(count_ops(p, CT_OP_REORDER, 0) <= 2); /* of the input and before flatten */
  ct_plan_free(p);
  ct_graph_free(g);
}

static void dropout_is_nothing_in_evaluation(void)
{
  ct_graph_t *g =
      layers("layers:\n- flatten:\n- linear: {out: 20}\n- dropout: {p: 0.5}\n- linear: {out: 10}\n",
             ct_shape(4, 1, 1, 6, 6));
  ct_plan_t *train = plan(g, 2, 1), *eval = plan(g, 2, 0);
  CT_ASSERT_INT(count_ops(train, CT_OP_DROPOUT, 0), 1);
  CT_ASSERT_INT(count_ops(eval, CT_OP_DROPOUT, 0), 0);
  ct_plan_free(train);
  ct_plan_free(eval);
  ct_graph_free(g);
}

/* Layers that keep the elements in their order are no launches. */
static void reshapes_copy_nothing(void)
{
  ct_graph_t *g = layers("layers:\n- reshape: {shape: [N, 1, 6, 1, 6]}\n"
                         "- permute: {dims: [0, 2, 1, 4, 3]}\n- slice: {dim: 1, end: 6}\n"
                         "- reshape: {shape: [6N, 6]}\n- linear: {out: 4}\n"
                         "- reshape: {shape: [N, -1]}\n- linear: {out: 10}\n",
                         ct_shape(4, 1, 1, 6, 6));
  for (int b = REF; b <= CPU; b++) {
    ct_plan_t *p = plan_on(b, g, 2, 1, NULL);
    CT_ASSERT_INT(count_ops(p, CT_OP_REORDER, 0) + count_ops(p, CT_OP_STRIDED, 0), 0);
    CT_ASSERT_INT(p->ops, 3); /* two linear layers and the loss */
    ct_plan_free(p);
  }
  ct_graph_free(g);
}

/* ---- layouts ---- */

static void the_cpu_keeps_its_layout_from_input_to_logits(void)
{
  ct_graph_t *g = family("resnet", 18, ct_shape(4, 1, 3, 32, 32));
  ct_plan_t *p = plan_on(CPU, g, 2, 1, NULL);
  CU_ASSERT(count_ops(p, CT_OP_REORDER, 0) <= 2);
  ct_plan_free(p);
  p = plan_on(FICKLE, g, 2, 1, NULL);
  CU_ASSERT(count_ops(p, CT_OP_REORDER, 0) > 10);
  ct_plan_free(p);
  ct_graph_free(g);
}

static void every_batch_size_has_the_same_parameters(void)
{
  static const struct {
    int n, training;
  } others[] = {{1, 1}, {3, 1}, {1, 0}, {16, 0}};
  for (int k = 0; k < MODELS * BACKENDS; k++) {
    ct_graph_t *g = model(k / BACKENDS);
    ct_plan_t *like = plan_on(k % BACKENDS, g, 8, 1, NULL);
    ct_arena_map_t first, m;
    CT_ASSERT_OK(ct_arena_map_make(like, &first));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
      ct_plan_t *p = plan_on(k % BACKENDS, g, others[i].n, others[i].training, like);
      CT_ASSERT_OK(ct_arena_map_make(p, &m));
      CU_ASSERT(m.layout == first.layout);
      CT_ASSERT_INT(m.weight_bytes, first.weight_bytes);
      CU_ASSERT(memcmp(m.offset, first.offset, (size_t)m.params * sizeof *m.offset) == 0);
      ct_arena_map_clear(&m);
      ct_plan_free(p);
    }
    ct_arena_map_clear(&first);
    ct_plan_free(like);
    ct_graph_free(g);
  }
}

/* By this number ranks see that their processors lay out weights in different ways. */
static void the_map_tells_other_layouts(void)
{
  ct_graph_t *g = family("lenet", 0, ct_shape(4, 1, 1, 28, 28));
  ct_plan_t *p = plan_on(CPU, g, 2, 1, NULL);
  ct_arena_map_t first, m;
  CT_ASSERT_OK(ct_arena_map_make(p, &first));
  for (int l = 0; l < g->layers; l++) {
    if (!g->layer[l].params) continue;
    ct_op_info_t *info = &p->op[p->layer_op[l]].info;
    info->param_layout++;
    CT_ASSERT_OK(ct_arena_map_make(p, &m));
    CU_ASSERT(m.layout != first.layout);
    info->param_layout--;
    ct_arena_map_clear(&m);
  }
  ct_arena_map_clear(&first);
  ct_plan_free(p);
  ct_graph_free(g);
}

/* ---- arenas and buckets ---- */

static void parameters_do_not_overlap(void)
{
  for (int k = 0; k < MODELS * BACKENDS; k++) {
    ct_graph_t *g = model(k / BACKENDS);
    ct_plan_t *p = plan_on(k % BACKENDS, g, 2, 1, NULL);
    ct_arena_map_t m;
    CT_ASSERT_OK(ct_arena_map_make(p, &m));
    for (int i = 0; i < m.params; i++) {
      int buffer = g->param[i].spec.buffer;
      CT_ASSERT_INT(m.offset[i] % 64, 0);
      CU_ASSERT(m.bytes[i] >= (size_t)g->param[i].count * sizeof(float));
      CU_ASSERT(m.offset[i] + m.bytes[i] <= (buffer ? m.buffer_bytes : m.weight_bytes));
      for (int j = 0; j < i; j++)
        CU_ASSERT(g->param[j].spec.buffer != buffer || m.offset[j] + m.bytes[j] <= m.offset[i] ||
                  m.offset[i] + m.bytes[i] <= m.offset[j]);
    }
    ct_arena_map_clear(&m);
    ct_plan_free(p);
    ct_graph_free(g);
  }
}

/* The last work that writes a gradient within the bucket. */
static int last_writer(const ct_plan_t *p, const ct_arena_map_t *m, const ct_bucket_t *b)
{
  int last = -1;
  for (int i = 0; i < p->launches; i++) {
    int layer = p->op[p->launch[i].op].layer;
    if (layer < 0 || !(p->launch[i].pass & CT_BWD_PARAM)) continue;
    for (int k = 0; k < m->trained; k++) {
      size_t at = m->offset[m->order[k]];
      if (p->graph->param[m->order[k]].layer == layer && at >= b->offset &&
          at < b->offset + b->bytes)
        last = i;
    }
  }
  return last;
}

static int params_in(const ct_arena_map_t *m, const ct_bucket_t *b, size_t *last_at)
{
  int n = 0;
  for (int k = 0; k < m->trained; k++)
    if (m->offset[m->order[k]] >= b->offset && m->offset[m->order[k]] < b->offset + b->bytes) {
      *last_at = m->offset[m->order[k]];
      n++;
    }
  return n;
}

/* Sent as early as can be, and not before every gradient in it is there. */
static void check_buckets(const ct_plan_t *p, const ct_arena_map_t *m, size_t bytes, int cap)
{
  ct_bucket_t b[64];
  int n = ct_buckets_make(p, m, bytes, cap, b);
  size_t end = 0, last_at = 0;
  CU_ASSERT_FATAL(n >= 1 && n <= cap);
  for (int i = 0; i < n; i++) {
    CT_ASSERT_INT(b[i].offset, end);
    CT_ASSERT_INT(b[i].after, last_writer(p, m, &b[i]));
    CU_ASSERT(b[i].after > p->loss_launch && b[i].after < p->launches);
    CU_ASSERT(i == 0 || b[i].after >= b[i - 1].after);
    CU_ASSERT(i == n - 1 || b[i].bytes >= bytes);
    /* one parameter less would not have been enough */
    int params = params_in(m, &b[i], &last_at);
    CU_ASSERT(params == 1 || last_at - b[i].offset < bytes || (i == n - 1 && n == cap));
    end = b[i].offset + b[i].bytes;
  }
  CT_ASSERT_INT(end, m->trained_bytes);
}

/* Behind the last work of a bucket there is no gradient of it left. */
static void check_completion(const ct_plan_t *p, const ct_arena_map_t *m)
{
  ct_bucket_t b[64];
  int n = ct_buckets_make(p, m, 10000, 64, b);
  size_t sum = 0;
  for (int i = 0, k = 0; i < p->launches; i++) {
    size_t bytes = ct_plan_launch_completes(p, m, i);
    CU_ASSERT(i > p->loss_launch || bytes == 0);
    sum += bytes;
    for (; k < n && b[k].after == i; k++)
      CU_ASSERT(sum >= b[k].offset + b[k].bytes);
  }
  CT_ASSERT_INT(sum, m->trained_bytes);
}

static void buckets_cover_the_arena_in_backward_order(void)
{
  ct_graph_t *g = family("resnet", 20, ct_shape(4, 1, 3, 8, 8));
  for (int k = 0; k < BACKENDS; k++) {
    ct_plan_t *first = plan_on(k, g, 5, 1, NULL), *p = plan_on(k, g, 2, 1, first);
    ct_arena_map_t m;
    CT_ASSERT_OK(ct_arena_map_make(first, &m));
    check_completion(first, &m);
    check_completion(p, &m);
    for (size_t bytes = 0; bytes < 4000000; bytes = 3 * bytes + 1000) {
      check_buckets(first, &m, bytes, 64);
      check_buckets(p, &m, bytes, 64);
      check_buckets(p, &m, bytes, 3);
    }
    CT_ASSERT_INT(m.order[0] >= g->params - 2, 1); /* the last layer's gradients are ready first */
    ct_arena_map_clear(&m);
    ct_plan_free(p);
    ct_plan_free(first);
  }
  ct_graph_free(g);
}

/* ---- failures ---- */

static void nothing_to_train_is_an_error(void)
{
  ct_graph_t *g = layers("layers:\n- avgpool: {kernel: 2}\n- flatten:\n", ct_shape(4, 1, 10, 2, 2));
  ct_plan_t *p = NULL;
  CT_ASSERT_FAILS(ct_plan_make(g, backends[REF], device(REF),
                               &(ct_plan_opts_t){.n = 2, .training = 1}, NULL, &p),
                  CT_ERR_USAGE, "no parameters");
  CU_ASSERT_PTR_NULL(p);
  CT_ASSERT_OK(ct_plan_make(g, backends[REF], device(REF), &(ct_plan_opts_t){.n = 2, .training = 0},
                            NULL, &p));
  ct_plan_free(p);
  ct_graph_free(g);
}

/* A thousand million samples of 2^36 values: their bytes are more than a size can tell. */
static void a_step_beyond_all_memory_is_an_error(void)
{
  ct_graph_t *g =
      layers("layers:\n- batchnorm:\n- relu:\n- global_avgpool:\n- flatten:\n- linear: {out: 10}\n",
             ct_shape(4, 1, 4096, 4096, 4096));
  ct_plan_t *p = NULL;
  for (int n = 1000000000; n > 100000000; n /= 2)
    CT_ASSERT_FAILS(ct_plan_make(g, backends[REF], device(REF),
                                 &(ct_plan_opts_t){.n = n, .training = 1}, NULL, &p),
                    CT_ERR_NOMEM, "choose a smaller batch");
  CU_ASSERT_PTR_NULL(p);
  ct_graph_free(g);
}

static void no_memory_is_an_error_and_leaks_nothing(void)
{
  ct_graph_t *g = layers(residual, ct_shape(4, 1, 3, 6, 6));
  for (int b = 0; b < BACKENDS; b++) {
    ct_plan_t *like = plan_on(b, g, 3, 1, NULL), *p = plan_on(b, g, 2, 1, like);
    ct_plan_free(p);
    int64_t live = ct_mem_live();
    for (int64_t n = 1; n < 10000; n++) {
      ct_mem_fail_at(n);
      int rc =
          ct_plan_make(g, backends[b], devs[b], &(ct_plan_opts_t){.n = 2, .training = 1}, like, &p);
      ct_mem_fail_at(0);
      if (rc == CT_OK) break;
      CT_ASSERT_INT(rc, CT_ERR_NOMEM);
      CT_ASSERT_INT(ct_mem_live(), live);
      CU_ASSERT_PTR_NULL(p);
    }
    ct_plan_free(p);
    CT_ASSERT_INT(ct_mem_live(), live);
    ct_plan_free(like);
  }
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(placed_blocks_never_overlap),
                                    CT_TEST(every_read_sees_its_write),
                                    CT_TEST(evaluation_needs_less_memory),
                                    CT_TEST(resnet_block_is_fused),
                                    CT_TEST(relu6_goes_into_the_batchnorm),
                                    CT_TEST(relu_goes_into_the_pool),
                                    CT_TEST(what_is_read_twice_is_not_fused),
                                    CT_TEST(what_is_fused_takes_no_sum),
                                    CT_TEST(three_readers_get_their_gradients_summed),
                                    CT_TEST(dropout_is_nothing_in_evaluation),
                                    CT_TEST(copies_write_blocks),
                                    CT_TEST(reshapes_copy_nothing),

                                    CT_TEST(the_cpu_keeps_its_layout_from_input_to_logits),
                                    CT_TEST(every_batch_size_has_the_same_parameters),
                                    CT_TEST(the_map_tells_other_layouts),
                                    CT_TEST(parameters_do_not_overlap),
                                    CT_TEST(buckets_cover_the_arena_in_backward_order),
                                    CT_TEST(nothing_to_train_is_an_error),
                                    CT_TEST(a_step_beyond_all_memory_is_an_error),
                                    CT_TEST(no_memory_is_an_error_and_leaks_nothing),
                                    CT_TEST_END};
  int rc = ct_test_main("plan", tests, argc, argv);
  close_devices();
  return rc;
}
