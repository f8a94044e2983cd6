/* Synthetic tokens that a model can learn: in three of four places the next token is a function of
 * the last one, otherwise it is drawn from the whole vocabulary. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "data/readers/token_windows.h"

enum {
  VOCAB = 256,
  RUN = 64 /* tokens after which the next one is drawn, so that any can be computed alone */
};

struct ct_reader {
  ct_reader_info_t info;
  uint64_t seed;
};

static void tokens_close(ct_reader_t *r)
{
  ct_mem_free(r);
}

static int tokens_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = CT_OK;
  const ct_token_facts_t *t = &spec->tokens;
  ct_reader_t *r = ct_mem_alloc(sizeof *r, "the synthetic reader");
  *out = NULL;
  if (!r) return CT_ERR_NOMEM;
  r->seed = spec->seed;
  r->info.x = ct_shape(2, 1, 1);
  r->info.x.dtype = CT_I32;
  r->info.classes = spec->classes > 0 ? spec->classes : VOCAB;
  r->info.eot = r->info.pad = -1;
  if (__builtin_mul_overflow(spec->samples - 1, t->stride, &r->info.samples) ||
      __builtin_add_overflow(r->info.samples, t->context + 1, &r->info.samples))
    CT_FAIL(CT_ERR_USAGE, "data.samples: %lld windows have too many tokens",
            (long long)spec->samples);
  r->info.fingerprint = ct_hash_int(r->info.samples, ct_hash_int(r->info.classes, spec->seed));
  *out = r;
  r = NULL;
out:
  ct_mem_free(r);
  return rc;
}

static int tokens_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  (void)r;
  *bytes = NULL;
  *n = 0;
  return CT_OK;
}

static const char *tokens_file(const ct_reader_t *r, int i)
{
  (void)r, (void)i;
  return NULL;
}

static int tokens_move(ct_reader_t *r, int i, const char *path)
{
  (void)r;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                    "synthetic tokens have no file %d to read at %s", i, path);
}

static const ct_reader_info_t *tokens_info(const ct_reader_t *r)
{
  return &r->info;
}

static int tokens_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  *out = (ct_block_run_t){0, r->info.samples, RUN};
  return i == 0;
}

/* Returns token \a place; \a last: the one before it, if place is not the first of a run. */
static int32_t token_at(const ct_reader_t *r, int64_t place, int32_t last)
{
  uint64_t bits = ct_rng_u64(r->seed, CT_RNG_DATA, 0, (uint64_t)place);
  if (place % RUN && bits >> 62) return (int32_t)((5 * (int64_t)last + 3) % r->info.classes);
  return (int32_t)((bits & INT64_MAX >> 2) % (uint64_t)r->info.classes);
}

static int tokens_range(ct_reader_t *r, int64_t first, int64_t n, void *x)
{
  int32_t *to = x, last = 0;
  if (first < 0 || n < 0 || first > r->info.samples - n)
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "synthetic tokens: out of range");
  for (int64_t i = first / RUN * RUN; i < first + n; i++) {
    last = token_at(r, i, last);
    if (i >= first) to[i - first] = last;
  }
  return CT_OK;
}

static int tokens_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  (void)y;
  for (int i = 0; x && i < n; i++)
    CT_TRY(tokens_range(r, index[i], 1, (int32_t *)x + i));
out:
  return rc;
}

static void tokens_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  (void)r;
  snprintf(buf, cap, "synthetic token %lld", (long long)index);
}

const ct_reader_ops_t ct__reader_synthetic_tokens = {
    .format = {.name = "synthetic"},
    .open = tokens_open,
    .share = tokens_share,
    .file = tokens_file,
    .move = tokens_move,
    .info = tokens_info,
    .blocks = tokens_blocks,
    .read = tokens_read,
    .range = tokens_range,
    .location = tokens_location,
    .close = tokens_close,
};
