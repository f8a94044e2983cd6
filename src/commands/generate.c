/* `generate`: continues texts, or sequences of token ids, with a trained language model.  The ranks
 * share the prompts; rank 0 reads the prompts and writes the results in their order. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_out.h"
#include "base/ct_clock.h"
#include "commands/ct_commands.h"
#include "commands/generate.h"
#include "setup/ct_model_file.h"
#include "setup/ct_predictor.h"

/* ---- options ---- */

static int read_number(const ct_args_t *a, const char *option, double otherwise, double lo,
                       double hi, double *out)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, option);
  *out = otherwise;
  if (text && (ct_text_double(text, out) != CT_OK || !(*out >= lo && *out <= hi)))
    CT_FAIL(CT_ERR_USAGE, "generate: --%s %s: expected a number from %g to %g", option, text, lo,
            hi);
out:
  return rc;
}

static int read_options(const ct_args_t *a, ct_generate_opts_t *o, int64_t *batch)
{
  int rc = CT_OK;
  int64_t seed;
  static const char *const sources[] = {"prompt", "prompt-tokens", "input", "input-tokens"};
  int given = 0;
  for (int i = 0; i < 4; i++)
    given += ct_args_get(a, sources[i]) != NULL;
  if (given != 1)
    CT_FAIL(CT_ERR_USAGE, "generate: give one of --prompt TEXT, --prompt-tokens 1,2,3, --input "
                          "FILE and --input-tokens FILE");
  CT_TRY(ct_args_int(a, "tokens", 100, 1, 1 << 30, &o->tokens));
  CT_TRY(read_number(a, "temperature", 1, 0, 1e6, &o->sample.temperature));
  CT_TRY(ct_args_int(a, "top-k", 0, 0, 1 << 30, &o->sample.top_k));
  CT_TRY(read_number(a, "top-p", 1, 0, 1, &o->sample.top_p));
  CT_TRY(ct_args_int(a, "seed", 0, 0, INT64_MAX, &seed));
  CT_TRY(ct_args_int(a, "batch", 8, 1, 4096, batch));
  o->sample.seed = (uint64_t)seed;
out:
  return rc;
}

/* ---- the model ---- */

/* The models of a run: for sequences of each length that the decoder asks for. */
typedef struct lengths {
  ct_setup_t *s;
  int64_t context;
  struct {
    int64_t length;
    ct_graph_t *graph;
    ct_fold_t fold;
  } of[16];
  int n;
} lengths_t;

/* A callback of the decoder. */
static int find_length(void *ctx, int64_t length, const ct_graph_t **out)
{
  int rc = CT_OK, i = 0;
  lengths_t *l = ctx;
  while (i < l->n && l->of[i].length != length)
    i++;
  if (i == l->n) {
    if (l->n == (int)(sizeof l->of / sizeof *l->of)) CT_FAIL(CT_ERR_ARG, "too many lengths");
    l->n++;
    l->of[i].length = length;
    CT_TRY(ct_model_graph(&l->s->cfg, length, &l->of[i].graph));
    CT_TRY(ct_fold_make(l->of[i].graph, &l->of[i].fold));
  }
  *out = l->of[i].fold.graph;
out:
  return rc;
}

static void free_lengths(lengths_t *l)
{
  for (int i = 0; i < l->n; i++) {
    ct_fold_clear(&l->of[i].fold);
    ct_graph_free(l->of[i].graph);
  }
}

/* Returns 1 if two models have the same parameters. */
static int same_params(const ct_graph_t *a, const ct_graph_t *b)
{
  int same = a->params == b->params;
  for (int i = 0; same && i < a->params; i++)
    same = !strcmp(a->param[i].name, b->param[i].name) &&
           ct_shape_same(&a->param[i].spec.shape, &b->param[i].spec.shape);
  return same;
}

/* Checks that the model can compute single tokens with caches. */
static int try_cache(ct_setup_t *s, int64_t context)
{
  int rc = CT_OK;
  ct_graph_t *whole = NULL, *one = NULL;
  ct_plan_t *plan = NULL;
  ct_plan_opts_t o = {.n = 1,
                      .inference = 1,
                      .compute = s->step_opts.compute,
                      .loss = {.kind = CT_LOSS_MSE},
                      .cache = context};
  CT_TRY(ct_model_graph(&s->cfg, context, &whole));
  CT_TRY(ct_model_graph(&s->cfg, 1, &one));
  if (!same_params(whole, one))
    CT_FAIL(CT_ERR_UNSUP, "its parameters depend on the number of tokens");
  CT_TRY(ct_plan_make(one, s->be, s->dev, &o, NULL, &plan));
out:
  ct_plan_free(plan);
  ct_graph_free(one);
  ct_graph_free(whole);
  return rc;
}

/* Makes s->graph for single tokens, or without caches for the whole context. */
static int make_model(ct_setup_t *s, const ct_args_t *a, int64_t context, int *cached)
{
  int rc = CT_OK;
  *cached = ct_args_get(a, "no-cache") == NULL;
  if (*cached) {
    rc = try_cache(s, context);
    *cached = rc == CT_OK;
    if (rc == CT_ERR_UNSUP || rc == CT_ERR_USAGE || rc == CT_ERR_SHAPE) {
      ct_log(CT_LOG_INFO, "no caches of keys and values, each step computes the whole context: %s",
             ct_err_last()->text);
      rc = CT_OK;
    }
  }
  CT_TRY(rc);
  CT_TRY(ct_model_graph(&s->cfg, *cached ? 1 : context, &s->graph));
out:
  return rc;
}

/* Sets the configuration to a model without data and losses. */
static int prepare_config(ct_setup_t *s, int64_t *context)
{
  int rc = CT_OK;
  ct_config_t *c = &s->cfg;
  *context = c->model.input.n == 1 ? (int64_t)c->model.input.v[0] : 1;
  CT_TRY(ct_losses_any(&c->losses));
  s->val.info.samples = 1;
  s->val.info.unlabelled = 1;
  c->data.eval_batch = 1;
out:
  return rc;
}

/* ---- the command ---- */

typedef struct generate {
  ct_setup_t s;
  ct_weights_file_t w;
  lengths_t lengths;
  ct_decoder_t *decoder;
  ct_generate_opts_t o;
  ct__prompts_t prompts;
  ct__writer_t *writer; /* rank 0 */
  int64_t batch, context;
  int cached;
} generate_t;

static int open_decoder(generate_t *g)
{
  int rc = CT_OK;
  ct_setup_t *s = &g->s;
  int64_t longest = ct__prompts_longest(&g->prompts) + g->o.tokens;
  g->o.context = g->context;
  if (g->batch > g->prompts.n) g->batch = g->prompts.n;
  ct_decoder_opts_t o = {.be = s->be,
                         .dev = s->dev,
                         .compute = s->step_opts.compute,
                         .n = (int)g->batch,
                         .context = g->cached && longest < g->context ? longest : g->context,
                         .cached = g->cached,
                         .graph = find_length,
                         .ctx = &g->lengths};
  g->lengths = (lengths_t){.s = s, .context = g->context};
  CT_TRY(ct_trainer_weights(s->trainer, &o.weights));
  CT_TRY(ct_decoder_open(&o, &g->decoder));
out:
  return rc;
}

static int open_model(generate_t *g, const ct_args_t *a)
{
  int rc = CT_OK, cached;
  ct_setup_t *s = &g->s;
  CT_TRY_ALL(s->topo, make_model(s, a, g->context, &cached));
  g->cached = cached;
  CT_TRY(ct_agree_same(s->topo, "the model", ct_graph_hash(s->graph)));
  CT_TRY(ct_predict_trainer(s, ct_args_get(a, "key"), s->topo->rank == 0 ? &g->w : NULL));
  CT_TRY_ALL(s->topo, open_decoder(g));
out:
  return rc;
}

/* Each rank continues a part of the prompts; rank 0 gets all results. */
static int run(generate_t *g)
{
  int rc = CT_OK;
  const ct_topo_t *topo = g->s.topo;
  int64_t n = g->prompts.n, ranks = topo->size, rank = topo->rank;
  int64_t first = (n * rank + ranks - 1) / ranks, end = (n * (rank + 1) + ranks - 1) / ranks;
  int stream = topo->rank == 0 && n == 1;
  double begin = ct_clock();
  ct_generated_t *s = NULL;
  rc = ct__prompts_sequences(&g->prompts, &g->o, first, end - first, &s);
  if (rc == CT_OK)
    rc = ct_generate(g->decoder, (int)g->batch, &g->o, s, end - first,
                     stream ? ct__writer_stream : NULL, g->writer);
  CT_TRY(ct_agree(topo, rc));
  double seconds = ct_clock() - begin;
  ct_agree_doubles(topo, &seconds, 1, 1);
  CT_TRY(ct__writer_gather(g->writer, topo, s, end - first));
  if (topo->rank == 0) ct__writer_log(g->writer, seconds, g->cached);
out:
  ct__sequences_free(s, end - first);
  return rc;
}

int ct_cmd_generate(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  generate_t g = {.s = {.topo = topo, .without_gradients = 1, .without_loss = 1}};
  const ct_model_ask_t ask = {
      .what = a->rest[0], .checkpoint = ct_args_get(a, "checkpoint"), .without_data = 1};
  (void)status;
  CT_TRY(read_options(a, &g.o, &g.batch));
  CT_TRY(ct_model_config(&g.s, a, &ask, &g.w));
  CT_TRY(prepare_config(&g.s, &g.context));
  if (topo->rank == 0) rc = ct__writer_open(a, g.w.path, &g.writer);
  if (rc == CT_OK && topo->rank == 0) rc = ct__prompts_read(a, g.writer, &g.prompts);
  CT_TRY(ct__prompts_share(topo, rc, &g.prompts));
  g.o.eot = g.prompts.eot;
  CT_TRY(ct_setup_device(&g.s));
  CT_TRY(open_model(&g, a));
  CT_TRY(run(&g));
  CT_TRY_ALL(topo, topo->rank == 0 ? ct__writer_commit(g.writer) : CT_OK);
out:
  ct__writer_close(g.writer);
  ct__prompts_clear(&g.prompts);
  ct_decoder_close(g.decoder);
  free_lengths(&g.lengths);
  ct_weights_close(&g.w);
  ct_setup_close(&g.s);
  return rc;
}
