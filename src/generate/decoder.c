/* Runs plans for sequences of several lengths on the weights of a trainer: of one token for a step,
 * and of a few larger numbers of tokens for what is known at the beginning.  A run may compute
 * tokens behind the end of a sequence: their places in the caches are written again before an
 * attention sees them. */
#include "generate/ct_decoder.h"

#include "base/ct_err.h"
#include "base/ct_heartbeat.h"
#include "base/ct_mem.h"

/* Numbers of tokens of a run, smallest first. */
static const int64_t lengths[] = {1, 8, 32, 128, 512};
enum { DECODER_PLANS = 2 * (int)(sizeof lengths / sizeof *lengths) };

typedef struct decoder_run {
  ct_plan_t *plan;
  int64_t length;
  int only_cache;
} decoder_run_t;

struct ct_decoder {
  ct_decoder_opts_t o;
  decoder_run_t run[DECODER_PLANS];
  int runs;
  int64_t vocab;
  char *arena, *scratch, *state; /* device memory */
  size_t arena_bytes, scratch_bytes, state_bytes;
  float *ids;                       /* [n * longest run], staging */
  int32_t *position;                /* [n], staging */
  char *ids_there, *position_there; /* their copies on the device; NULL: used in place */
};

static int64_t decoder_longest(const ct_decoder_t *d)
{
  int64_t most = lengths[DECODER_PLANS / 2 - 1];
  return d->o.cached && most < d->o.context ? most : d->o.context;
}

/* Makes device memory at least as large as `want`. */
static int decoder_grow(const ct_decoder_t *d, size_t want, size_t *have, char **p)
{
  int rc = CT_OK;
  void *more = NULL;
  if (want <= *have && *p) return CT_OK;
  CT_TRY(d->o.be->queue->sync(d->o.weights.queue));
  d->o.be->mem->free(d->o.dev, CT_MEM_DEVICE, *p);
  *p = NULL;
  CT_TRY(d->o.be->mem->alloc(d->o.dev, CT_MEM_DEVICE, want + 64, &more));
  *p = more;
  *have = want;
out:
  return rc;
}

/* Checks that the output is N x T x vocabulary. */
static int decoder_check(ct_decoder_t *d, const ct_graph_t *g, int64_t length)
{
  int rc = CT_OK;
  char text[80];
  const ct_shape_t *y = &g->layer[ct_graph_output(g, 0)].out;
  if (y->ndim != 3 || y->dim[1] != length)
    CT_FAIL(CT_ERR_SHAPE,
            "the model does not give logits for each token: its output for %lld tokens is %s, but "
            "%lld x the vocabulary is needed",
            (long long)length, ct_shape_text(y, text, sizeof text), (long long)length);
  d->vocab = y->dim[2];
out:
  return rc;
}

static int decoder_make(ct_decoder_t *d, decoder_run_t *r)
{
  int rc = CT_OK;
  const ct_graph_t *g;
  ct_plan_opts_t o = {.n = d->o.n,
                      .inference = 1,
                      .compute = d->o.compute,
                      .loss = {.kind = CT_LOSS_MSE},
                      .cache = d->o.cached ? d->o.context : 0,
                      .only_cache = r->only_cache};
  CT_TRY(d->o.graph(d->o.ctx, r->length, &g));
  CT_TRY(decoder_check(d, g, r->length));
  CT_TRY(ct_plan_make(g, d->o.be, d->o.dev, &o, d->o.weights.plan, &r->plan));
  CT_TRY(decoder_grow(d, r->plan->arena_bytes, &d->arena_bytes, &d->arena));
  CT_TRY(decoder_grow(d, r->plan->scratch_bytes, &d->scratch_bytes, &d->scratch));
  if (!d->state) CT_TRY(decoder_grow(d, r->plan->state_bytes, &d->state_bytes, &d->state));
  if (d->state_bytes != r->plan->state_bytes)
    CT_FAIL(CT_ERR_UNSUP, "the model has other caches for %lld tokens", (long long)r->length);
out:
  return rc;
}

static int decoder_find(ct_decoder_t *d, int64_t length, int only_cache, const ct_plan_t **out)
{
  int rc = CT_OK, i = 0;
  while (i < d->runs && (d->run[i].length != length || d->run[i].only_cache != only_cache))
    i++;
  if (i == d->runs) {
    d->run[i] = (decoder_run_t){.length = length, .only_cache = only_cache};
    d->runs++; /* also after a failure, to free what there is */
    CT_TRY(decoder_make(d, &d->run[i]));
  }
  *out = d->run[i].plan;
out:
  return rc;
}

static int decoder_copy(const ct_decoder_t *d, void *to, const void *from, size_t bytes)
{
  return to ? d->o.be->mem->copy(d->o.weights.queue, to, from, bytes) : CT_OK;
}

/* Runs a plan on d->ids and d->position. */
static int decoder_run(ct_decoder_t *d, const ct_plan_t *p, int64_t length)
{
  int rc = CT_OK;
  const ct_bind_t bind = {
      .arena = d->arena,
      .scratch = d->scratch,
      .state = d->state,
      .weight = d->o.weights.weight,
      .buffer = d->o.weights.buffer,
      .reduced = d->o.weights.reduced,
      .map = d->o.weights.map,
      .x = d->ids_there ? (const void *)d->ids_there : d->ids,
      .position = d->position_there ? (const int32_t *)d->position_there : d->position,
  };
  const size_t n = (size_t)d->o.n;
  CT_TRY(decoder_copy(d, d->ids_there, d->ids, n * (size_t)length * sizeof *d->ids));
  CT_TRY(decoder_copy(d, d->position_there, d->position, n * sizeof *d->position));
  for (int i = 0; i < p->launches; i++)
    CT_TRY(ct_plan_run(p, i, &bind, d->o.weights.queue));
  ct_heartbeat_progress();
out:
  return rc;
}

/* Sets the input to the tokens from the place `first` on; rows that are shorter get token 0. */
static void decoder_put(ct_decoder_t *d, const ct_sequence_t *s, int64_t first, int64_t length)
{
  for (int i = 0; i < d->o.n; i++) {
    d->position[i] = (int32_t)first;
    for (int64_t k = 0; k < length; k++)
      d->ids[i * length + k] = first + k < s[i].length ? (float)s[i].id[first + k] : 0;
  }
}

/* Returns the number of tokens of the next run, of which `rest` are wanted and `most` can be. */
static int64_t decoder_part(int64_t rest, int64_t most)
{
  int64_t part = 1;
  for (int i = 0; i < DECODER_PLANS / 2; i++) {
    if (lengths[i] > most) break;
    if (lengths[i] <= rest || lengths[i] <= 2 * rest) part = lengths[i];
    if (lengths[i] >= rest) break;
  }
  return part;
}

int ct_decoder_begin(ct_decoder_t *d, const ct_sequence_t *s)
{
  int rc = CT_OK;
  int64_t known = 0;
  const ct_plan_t *p;
  if (!d->o.cached) return CT_OK;
  for (int i = 0; i < d->o.n; i++)
    if (s[i].length - 1 > known) known = s[i].length - 1;
  for (int64_t at = 0, part; at < known; at += part) {
    part = decoder_part(known - at, d->o.context - at);
    CT_TRY(decoder_find(d, part, 1, &p));
    decoder_put(d, s, at, part);
    CT_TRY(decoder_run(d, p, part));
    CT_TRY(d->o.be->queue->sync(d->o.weights.queue)); /* before the input is written again */
  }
out:
  return rc;
}

int ct_decoder_next(ct_decoder_t *d, const ct_sequence_t *s, float *logits)
{
  int rc = CT_OK;
  const ct_plan_t *p;
  int64_t length = d->o.cached ? 1 : d->o.context;
  const size_t bytes = (size_t)d->vocab * sizeof *logits;
  CT_TRY(decoder_find(d, length, 0, &p));
  if (!d->o.cached) decoder_put(d, s, 0, length);
  for (int i = 0; i < d->o.n && d->o.cached; i++) {
    d->position[i] = s[i].length ? (int32_t)s[i].length - 1 : 0;
    d->ids[i] = s[i].length ? (float)s[i].id[s[i].length - 1] : 0;
  }
  CT_TRY(decoder_run(d, p, length));
  const char *from = d->arena + p->value[ct_plan_root(p, p->logits)].offset;
  for (int i = 0; i < d->o.n; i++) {
    int64_t row = i * length + (d->o.cached || !s[i].length ? 0 : s[i].length - 1);
    CT_TRY(d->o.be->mem->copy(d->o.weights.queue, logits + i * d->vocab, from + (size_t)row * bytes,
                              bytes));
  }
  CT_TRY(d->o.be->queue->sync(d->o.weights.queue));
out:
  return rc;
}

int64_t ct_decoder_vocab(const ct_decoder_t *d)
{
  return d->vocab;
}

size_t ct_decoder_cache_bytes(const ct_decoder_t *d)
{
  return d->state_bytes;
}

static int decoder_buffers(ct_decoder_t *d)
{
  int rc = CT_OK;
  const ct_mem_ops_t *mem = d->o.be->mem;
  size_t ids = (size_t)(d->o.n * decoder_longest(d)) * sizeof *d->ids;
  size_t places = (size_t)d->o.n * sizeof *d->position;
  void *p[4] = {0};
  CT_TRY(mem->alloc(d->o.dev, CT_MEM_STAGING, ids, &p[0]));
  d->ids = p[0];
  CT_TRY(mem->alloc(d->o.dev, CT_MEM_STAGING, places, &p[1]));
  d->position = p[1];
  if (d->o.be->in_place) goto out;
  CT_TRY(mem->alloc(d->o.dev, CT_MEM_DEVICE, ids, &p[2]));
  d->ids_there = p[2];
  CT_TRY(mem->alloc(d->o.dev, CT_MEM_DEVICE, places, &p[3]));
  d->position_there = p[3];
out:
  return rc;
}

int ct_decoder_open(const ct_decoder_opts_t *o, ct_decoder_t **out)
{
  int rc = CT_OK;
  const ct_plan_t *p;
  ct_decoder_t *d = ct_mem_alloc(sizeof *d, "the decoder");
  *out = NULL;
  if (!d) return CT_ERR_NOMEM;
  d->o = *o;
  CT_TRY(decoder_buffers(d));
  CT_TRY(decoder_find(d, o->cached ? 1 : o->context, 0, &p));
  *out = d;
  d = NULL;
out:
  ct_decoder_close(d);
  return rc;
}

void ct_decoder_close(ct_decoder_t *d)
{
  if (!d) return;
  const ct_mem_ops_t *mem = d->o.be->mem;
  for (int i = 0; i < d->runs; i++)
    ct_plan_free(d->run[i].plan);
  mem->free(d->o.dev, CT_MEM_DEVICE, d->arena);
  mem->free(d->o.dev, CT_MEM_DEVICE, d->scratch);
  mem->free(d->o.dev, CT_MEM_DEVICE, d->state);
  mem->free(d->o.dev, CT_MEM_STAGING, d->ids);
  mem->free(d->o.dev, CT_MEM_STAGING, d->position);
  mem->free(d->o.dev, CT_MEM_DEVICE, d->ids_there);
  mem->free(d->o.dev, CT_MEM_DEVICE, d->position_there);
  ct_mem_free(d);
}
