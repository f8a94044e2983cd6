/* Describes attention to cuDNN, and finds plans for it. cuDNN recognizes the whole graph and runs
 * one kernel that stores no scores (backward: a few kernels), so the graph has to be built as in
 * NVIDIA's cudnn-frontend (scaled_dot_product_flash_attention.h): each operation, in this order. */
#include "base/ct_err.h"
#include "cuda/attention/sdpa_plan.h"

enum {
  HEAD = 8,          /* heads have a multiple of this size, */
  MOST = 128,        /* and at most this one; */
  MOST_HOPPER = 256, /* on Hopper this one */
  OLDEST = 91501,    /* before, backward read out of bounds where T % 128 != 0 */
  OLDEST_10 = 91800, /* of Blackwell's deterministic backward */
  NEW_KNOBS = 92300  /* from here on, other knobs */
};

int gpu__sdpa_fits(const gpu__sdpa_spec_t *s)
{
  const gpu__attention_t *a = &s->shape;
  int most = s->sm / 10 == 9 ? MOST_HOPPER : MOST;
  gpu__attention_t f = gpu__attention_full(a);
  int plain = f.mask == CT_MASK_NONE && !f.cached && f.values == f.wide;
  int aligned = (f.q_row | f.k_row | f.v_row | f.y_row) % HEAD == 0;
  return s->sm >= 80 && (s->type == CT_F16 || s->type == CT_BF16) && a->wide % HEAD == 0 &&
         a->wide <= most && a->t > 1 && f.s > 1 && a->n > 0 && plain && aligned &&
         f.kv_heads == f.heads;
}

/* ---- tensors: [n, heads, rows, columns] ---- */

typedef struct graph {
  gpu__dnn_graph_t *g;
  ct_dtype_t type;
  gpu__attention_t a;
  int back;
} graph_t;

/* Which tensor: queries, keys, values, or outputs. */
typedef enum { QUERIES, KEYS, VALUES, OUTPUTS } which_t;

static int64_t row_of(const graph_t *b, which_t w)
{
  const gpu__attention_t *a = &b->a;
  return w == QUERIES ? a->q_row : w == KEYS ? a->k_row : w == VALUES ? a->v_row : a->y_row;
}

static int is_key(which_t w)
{
  return w == KEYS || w == VALUES;
}

/* Rows of heads in memory. */
static gpu__dnn_desc_t head_rows(const graph_t *b, int64_t id, which_t w)
{
  const gpu__attention_t *a = &b->a;
  int64_t row = row_of(b, w), length = is_key(w) ? a->s : a->t;
  int64_t heads = is_key(w) ? a->kv_heads : a->heads;
  gpu__dnn_layout_t l = {4, {a->n, heads, length, a->wide}, {length * row, a->wide, row, 1}};
  return gpu__dnn_strided(b->g, id, b->type, &l);
}

/* The same memory, transposed. */
static gpu__dnn_desc_t head_columns(const graph_t *b, int64_t id, which_t w)
{
  const gpu__attention_t *a = &b->a;
  int64_t row = row_of(b, w), length = is_key(w) ? a->s : a->t;
  int64_t heads = is_key(w) ? a->kv_heads : a->heads;
  gpu__dnn_layout_t l = {4, {a->n, heads, a->wide, length}, {length * row, a->wide, 1, row}};
  return gpu__dnn_strided(b->g, id, b->type, &l);
}

/* Float32 numbers between two operations. */
static gpu__dnn_desc_t virtual(const graph_t *b, int64_t columns)
{
  const gpu__attention_t *a = &b->a;
  int64_t matrix = a->t * columns;
  gpu__dnn_layout_t l = {
      4, {a->n, a->heads, a->t, columns}, {a->heads * matrix, matrix, columns, 1}};
  return gpu__dnn_strided(b->g, 0, CT_F32, &l);
}

static gpu__dnn_desc_t virtual_scores(const graph_t *b)
{
  return virtual(b, b->a.s);
}

/* Scores in the type of a GEMM's factors, perhaps transposed. */
static gpu__dnn_desc_t factor(const graph_t *b, int turned)
{
  const gpu__attention_t *a = &b->a;
  int64_t t = a->t, s = a->s, rows = turned ? s : t, columns = turned ? t : s;
  gpu__dnn_layout_t l = {4,
                         {a->n, a->heads, rows, columns},
                         {a->heads * t * s, t * s, turned ? 1 : s, turned ? s : 1}};
  return gpu__dnn_strided(b->g, 0, b->type, &l);
}

/* One float32 number per query, in memory. */
static gpu__dnn_desc_t per_query(const graph_t *b, int64_t id)
{
  const gpu__attention_t *a = &b->a;
  gpu__dnn_layout_t l = {4, {a->n, a->heads, a->t, 1}, {a->heads * a->t, a->t, 1, 1}};
  return gpu__dnn_strided(b->g, id, CT_F32, &l);
}

/* ---- operations ---- */

static void apply(const graph_t *b, cudnnPointwiseMode_t mode, gpu__dnn_desc_t x,
                  gpu__dnn_desc_t x2, gpu__dnn_desc_t y)
{
  gpu__dnn_pointwise(b->g, mode, x, x2, y);
}

/* Adds mode(x, x2) of scores; returns it. */
static gpu__dnn_desc_t applied(const graph_t *b, cudnnPointwiseMode_t mode, gpu__dnn_desc_t x,
                               gpu__dnn_desc_t x2)
{
  gpu__dnn_desc_t y = virtual_scores(b);
  apply(b, mode, x, x2, y);
  return y;
}

/* Adds the scores q k^T * scale. */
static gpu__dnn_desc_t scores(const graph_t *b, gpu__dnn_desc_t q, gpu__dnn_desc_t kt,
                              gpu__dnn_desc_t scale)
{
  const gpu__attention_t *a = &b->a;
  gpu__dnn_desc_t s = virtual_scores(b);
  gpu__dnn_matmul(b->g, q, kt, s);
  gpu__dnn_desc_t scaled = applied(b, CUDNN_POINTWISE_MUL, s, scale);
  if (!a->causal) return scaled;
  int64_t matrix = a->t * a->s, id = b->back ? GPU_SDPA_BACKWARD_IDS : GPU_SDPA_FORWARD_IDS;
  gpu__dnn_layout_t l = {4, {a->n, a->heads, a->t, a->s}, {a->heads * matrix, matrix, a->s, 1}};
  gpu__dnn_desc_t least = gpu__dnn_number(b->g, id + 1, 4), y = virtual_scores(b);
  gpu__dnn_lower(b->g, &l, scaled, least, y);
  return y;
}

static void forward(const graph_t *b)
{
  gpu__dnn_desc_t q = head_rows(b, GPU_SDPA_Q, QUERIES), kt = head_columns(b, GPU_SDPA_K, KEYS),
                  v = head_rows(b, GPU_SDPA_V, VALUES), c = head_rows(b, GPU_SDPA_C, OUTPUTS),
                  stats = per_query(b, GPU_SDPA_STATS), most = virtual(b, 1), sum = virtual(b, 1),
                  log = virtual(b, 1), p = factor(b, 0);
  gpu__dnn_desc_t s = scores(b, q, kt, gpu__dnn_number(b->g, GPU_SDPA_SCALE, 4));
  gpu__dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_MAX, s, most);
  gpu__dnn_desc_t e =
      applied(b, CUDNN_POINTWISE_EXP, applied(b, CUDNN_POINTWISE_SUB, s, most), NULL);
  gpu__dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
  apply(b, CUDNN_POINTWISE_LOG, sum, NULL, log);
  apply(b, CUDNN_POINTWISE_ADD, most, log, stats);
  apply(b, CUDNN_POINTWISE_DIV, e, sum, p);
  gpu__dnn_matmul(b->g, p, v, c);
}

/* Adds y = scores^T x. */
static void turned_product(const graph_t *b, gpu__dnn_desc_t s, gpu__dnn_desc_t x,
                           gpu__dnn_desc_t y)
{
  gpu__dnn_desc_t turned = factor(b, 1);
  gpu__dnn_reshape(b->g, s, turned);
  gpu__dnn_matmul(b->g, turned, x, y);
}

/* dq is the product of one matrix of stored gradients of the scores, which cuDNN keeps in its
 * workspace; the alternative, a float32 sum of all blocks in memory, has no fixed order. */
static void backward(const graph_t *b)
{
  gpu__dnn_desc_t q = head_rows(b, GPU_SDPA_Q, QUERIES), kt = head_columns(b, GPU_SDPA_K, KEYS),
                  vt = head_columns(b, GPU_SDPA_V, VALUES), c = head_rows(b, GPU_SDPA_C, OUTPUTS),
                  dc = head_rows(b, GPU_SDPA_DC, OUTPUTS), stats = per_query(b, GPU_SDPA_STATS),
                  sums = per_query(b, GPU_SDPA_SUMS), part = virtual(b, b->a.wide),
                  sum = virtual(b, 1), dp = virtual_scores(b), k = head_rows(b, 0, KEYS),
                  scale = gpu__dnn_number(b->g, GPU_SDPA_SCALE, 4);
  apply(b, CUDNN_POINTWISE_MUL, dc, c, part);
  gpu__dnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, part, sum);
  apply(b, CUDNN_POINTWISE_MUL, sum, gpu__dnn_number(b->g, GPU_SDPA_ONE, 4), sums);
  gpu__dnn_desc_t s = applied(b, CUDNN_POINTWISE_SUB, scores(b, q, kt, scale), stats);
  gpu__dnn_desc_t p = applied(b, CUDNN_POINTWISE_EXP, s, NULL);
  turned_product(b, p, dc, head_rows(b, GPU_SDPA_DV, VALUES));
  gpu__dnn_matmul(b->g, dc, vt, dp);
  gpu__dnn_desc_t ds =
      applied(b, CUDNN_POINTWISE_MUL, applied(b, CUDNN_POINTWISE_SUB, dp, sums), p);
  ds = applied(b, CUDNN_POINTWISE_MUL, ds, scale);
  turned_product(b, ds, q, head_rows(b, GPU_SDPA_DK, KEYS));
  gpu__dnn_reshape(b->g, kt, k);
  gpu__dnn_matmul(b->g, ds, k, head_rows(b, GPU_SDPA_DQ, QUERIES));
}

/* ---- plans ---- */

/* Takes the first proposal of cuDNN's heuristics that works. */
static int sdpa_search(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g, gpu__dnn_plan_t *out)
{
  int rc = CT_OK;
  unsigned notes;
  gpu__dnn_configs_t c;
  CT_TRY(gpu__dnn_configs(t, g, CUDNN_HEUR_MODE_A, &c));
  for (int i = 0; i < c.count && !out->plan; i++) {
    CT_TRY(gpu__dnn_notes(c.at[i], &notes));
    if (notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) continue;
    if (gpu__dnn_plan_make(t, &c.at[i], out) != CT_OK) *out = (gpu__dnn_plan_t){.plan = NULL};
  }
  if (!out->plan)
    rc = ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "none of its %d plans works", c.count);
out:
  gpu__dnn_configs_clear(&c);
  return rc;
}

/* On Blackwell the heuristics do not choose cuDNN's deterministic kernel: takes it, by the knobs of
 * cudnn-frontend. */
static int sdpa_blackwell(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g,
                          const gpu__sdpa_spec_t *spec, size_t version, gpu__dnn_plan_t *out)
{
  int rc = CT_OK, engine = spec->sm > 103 ? 17 : 5;
  static const gpu__dnn_knob_t before[] = {{CUDNN_KNOB_TYPE_KERNEL_CFG, 31},
                                           {CUDNN_KNOB_TYPE_STAGES, 2}},
                               now[] = {
                                   {CUDNN_KNOB_TYPE_TILE_M, 3},     {CUDNN_KNOB_TYPE_TILE_N, 2},
                                   {CUDNN_KNOB_TYPE_KERNEL_CFG, 2}, {CUDNN_KNOB_TYPE_STREAM_K, 0},
                                   {CUDNN_KNOB_TYPE_TILE_CGA_M, 0}, {CUDNN_KNOB_TYPE_STAGES, 2}};
  gpu__dnn_desc_t config = NULL;
  if (version < NEW_KNOBS)
    CT_TRY(gpu__dnn_config(t, g, engine, sizeof before / sizeof *before, before, &config));
  else
    CT_TRY(gpu__dnn_config(t, g, engine, sizeof now / sizeof *now, now, &config));
  CT_TRY(gpu__dnn_plan_make(t, &config, out));
out:
  gpu__dnn_free(config);
  return rc;
}

int gpu__sdpa_plan(const gpu__dnn_target_t *t, const gpu__sdpa_spec_t *spec, size_t version,
                   gpu__dnn_plan_t *out)
{
  int rc = CT_OK, is_10 = spec->sm / 10 == 10;
  size_t oldest = spec->back && is_10 ? OLDEST_10 : OLDEST;
  gpu__dnn_graph_t g = {.rc = CT_OK};
  graph_t b = {
      .g = &g, .type = spec->type, .a = gpu__attention_full(&spec->shape), .back = spec->back};
  *out = (gpu__dnn_plan_t){.plan = NULL};
  if (version < oldest)
    CT_FAIL(CT_ERR_UNSUP, "it needs cuDNN %d.%d.%d", (int)(oldest / 10000),
            (int)(oldest / 100 % 100), (int)(oldest % 100));
  if (spec->back)
    backward(&b);
  else
    forward(&b);
  CT_TRY(gpu__dnn_finish(&g, t));
  if (spec->back && is_10)
    CT_TRY(sdpa_blackwell(t, &g, spec, version, out));
  else
    CT_TRY(sdpa_search(t, &g, out));
out:
  gpu__dnn_graph_clear(&g);
  return rc;
}
