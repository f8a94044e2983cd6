/* Decoding: logits with caches are those of the whole sequence, for sequences at different places
 * of a batch, prompts in several parts, and after a new beginning. */
#include <math.h>

#include "cpu/ct_cpu.h"
#include "generate/ct_generate.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_run.h"

enum { VOCAB = 23, CONTEXT = 48, ROWS = 3 };

/* Queries, keys and values in one tensor, and groups of heads in three. */
static const char gpt[] =
    "layers: [{embedding: {rows: 23, dim: 16}, name: wte}, layernorm, {linear: {out: 48}}, "
    "{sdpa: {heads: 4, causal: true}}, {linear: {out: 16}, name: proj}, "
    "{add: , from: [proj, wte], name: res}, {layernorm: , name: last}, "
    "{linear: {out: 24}, from: last, name: q}, {linear: {out: 12}, from: last, name: k}, "
    "{linear: {out: 12}, from: last, name: v}, "
    "{sdpa: {heads: 4, kv_heads: 2, causal: true}, from: [q, k, v]}, gelu, "
    "{linear: {out: 23, bias: false}}]";

typedef struct case_of {
  const char *model;
  ct_graph_t *graph[8];
  int graphs;
} case_of_t;

static int graph_of(void *ctx, int64_t length, const ct_graph_t **out)
{
  case_of_t *c = ctx;
  ct_graph_t **g = &c->graph[c->graphs++];
  *out = *g = make(c->model, ct_shape(2, 1, length), VOCAB);
  return *g ? CT_OK : CT_ERR_ARG;
}

static void close_case(case_of_t *c)
{
  for (int i = 0; i < c->graphs; i++)
    ct_graph_free(c->graph[i]);
}

static ct_decoder_opts_t options(net_t *m, case_of_t *c, int n, int64_t context, int cached)
{
  return (ct_decoder_opts_t){.be = m->be,
                             .dev = m->dev,
                             .weights = {m->p, &m->map, m->b.weight, m->b.buffer, NULL, m->q},
                             .n = n,
                             .context = context,
                             .cached = cached,
                             .graph = graph_of,
                             .ctx = c};
}

static double farthest(const float *a, const float *b, int64_t n)
{
  double most = 0;
  for (int64_t i = 0; i < n; i++)
    most = fmax(most, fabs((double)a[i] - b[i]));
  return most;
}

/* Feeds sequences of 1, 11 and 40 tokens to both decoders, and five more tokens of each. */
static void compare(ct_decoder_t *with, ct_decoder_t *without)
{
  static int32_t id[ROWS][CONTEXT];
  static float a[ROWS * VOCAB], b[ROWS * VOCAB];
  ct_sequence_t s[ROWS] = {{id[0], 1}, {id[1], 11}, {id[2], 40}};
  for (int i = 0; i < ROWS * CONTEXT; i++)
    id[i / CONTEXT][i % CONTEXT] = (int32_t)(ct_rng_u64(7, CT_RNG_TEST, 1, (uint64_t)i) % VOCAB);
  for (int again = 0; again < 2; again++) {
    for (int i = 0; i < ROWS; i++)
      s[i].length = i == 0 ? 1 : i == 1 ? 11 + again : 40;
    CT_ASSERT_OK(ct_decoder_begin(with, s));
    CT_ASSERT_OK(ct_decoder_begin(without, s));
    for (int step = 0; step < 6; step++) {
      CT_ASSERT_OK(ct_decoder_next(with, s, a));
      CT_ASSERT_OK(ct_decoder_next(without, s, b));
      CU_ASSERT(farthest(a, b, ROWS * VOCAB) < 1e-5);
      for (int i = 0; i < ROWS; i++)
        s[i].length += i != 1 || step % 2 == 0;
    }
  }
}

static void caches_change_nothing(void)
{
  const ct_backend_t *const backends[] = {&ct_backend_ref, &ct_backend_cpu};
  for (int k = 0; k < 2; k++) {
    case_of_t c = {.model = gpt};
    ct_decoder_t *with = NULL, *without = NULL;
    net_t m;
    ct_graph_t *one = make(gpt, ct_shape(2, 1, 1), VOCAB);
    float **plain = net_trained(one);
    CT_ASSERT_OK(net_open(&m, backends[k], one, &(ct_plan_opts_t){.n = 1, .inference = 1}));
    CT_ASSERT_OK(net_fill(&m, plain));
    ct_decoder_opts_t o = options(&m, &c, ROWS, CONTEXT, 1);
    if (CT_ASSERT_OK(ct_decoder_open(&o, &with)) == CT_OK) {
      o.cached = 0;
      CT_ASSERT_OK(ct_decoder_open(&o, &without));
      CT_ASSERT_INT(ct_decoder_vocab(with), VOCAB);
      /* keys and values: 32 and 24 numbers of each token */
      CT_ASSERT_INT(ct_decoder_cache_bytes(with), ROWS * CONTEXT * 56 * 4);
      if (without) compare(with, without);
    }
    ct_decoder_close(with);
    ct_decoder_close(without);
    net_discard(one, plain);
    net_close(&m);
    close_case(&c);
    ct_graph_free(one);
  }
}

/* Continues prompts of 2, 30, 3, 1 and 9 tokens in batches of n. */
static void continue_all(net_t *m, int n, int cached, int32_t id[5][CONTEXT], ct_generated_t s[5])
{
  static const int prompt[5] = {2, 30, 3, 1, 9};
  const ct_generate_opts_t o = {.sample = {.temperature = 1, .top_k = 9, .top_p = 0.9, .seed = 5},
                                .tokens = 20,
                                .context = CONTEXT,
                                .eot = 3};
  case_of_t c = {.model = gpt};
  ct_decoder_t *d = NULL;
  ct_decoder_opts_t opts = options(m, &c, n, CONTEXT, cached);
  for (int i = 0; i < 5; i++) {
    for (int k = 0; k < prompt[i]; k++)
      id[i][k] = (i * 5 + k) % VOCAB;
    s[i] = (ct_generated_t){.id = id[i], .prompt = prompt[i], .number = (uint32_t)i};
  }
  CT_ASSERT_OK(ct_decoder_open(&opts, &d));
  if (d) CT_ASSERT_OK(ct_generate(d, n, &o, s, 5, NULL, NULL));
  ct_decoder_close(d);
  close_case(&c);
}

static void batches_and_caches_do_not_matter(void)
{
  static int32_t id[4][5][CONTEXT];
  ct_generated_t s[4][5];
  int ends[4] = {0};
  net_t m;
  ct_graph_t *one = make(gpt, ct_shape(2, 1, 1), VOCAB);
  float **plain = net_trained(one);
  CT_ASSERT_OK(net_open(&m, &ct_backend_cpu, one, &(ct_plan_opts_t){.n = 1, .inference = 1}));
  CT_ASSERT_OK(net_fill(&m, plain));
  for (int k = 0; k < 4; k++)
    continue_all(&m, k < 2 ? 1 : k == 2 ? 2 : 8, k != 1, id[k], s[k]);
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 4; k++) {
      CT_ASSERT_INT(s[k][i].length, s[0][i].length);
      CT_ASSERT_INT(s[k][i].stop, s[0][i].stop);
      CU_ASSERT(!memcmp(id[k][i], id[0][i], (size_t)s[0][i].length * sizeof(int32_t)));
      ends[s[k][i].stop]++;
    }
  CT_ASSERT_INT(ends[CT_END_NONE], 0);
  CU_ASSERT(ends[CT_END_EOT] > 0 && ends[CT_END_LENGTH] > 0);
  net_discard(one, plain);
  net_close(&m);
  ct_graph_free(one);
}

static void refused(const char *model, const char *words)
{
  case_of_t c = {.model = model};
  ct_decoder_t *d = NULL;
  net_t m;
  ct_graph_t *one = make(model, ct_shape(2, 1, 1), VOCAB);
  CT_ASSERT_OK(net_open(&m, &ct_backend_ref, one, &(ct_plan_opts_t){.n = 1, .inference = 1}));
  ct_decoder_opts_t o = options(&m, &c, 1, CONTEXT, 1);
  CT_ASSERT_FAILS(ct_decoder_open(&o, &d), CT_ERR_UNSUP, words);
  CU_ASSERT(d == NULL);
  net_close(&m);
  close_case(&c);
  ct_graph_free(one);
}

static void other_models_are_refused(void)
{
  refused("layers: [{embedding: {rows: 23, dim: 16}}, {lstm: {hidden: 8}}, {linear: {out: 23}}]",
          "lstm");
  refused("layers: [{embedding: {rows: 23, dim: 8}}, {linear: {out: 24}}, "
          "{sdpa: {heads: 2}}, {linear: {out: 23}}]",
          "causal");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(caches_change_nothing),
                                    CT_TEST(batches_and_caches_do_not_matter),
                                    CT_TEST(other_models_are_refused), CT_TEST_END};
  return ct_test_main("generate", tests, argc, argv);
}
