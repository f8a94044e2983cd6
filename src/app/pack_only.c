/* Some classes of a source alone, counted from 0: half of the digits, to begin with. */
#include <inttypes.h>

#include "app/pack.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct only {
  ct_pack_input_t in;
  int64_t first, last;
  size_t sample_bytes;
} only_t;

/* The next sample of the classes; there is one. */
static int next_one(const only_t *o, void *x, int32_t *label)
{
  int rc = CT_OK;
  do
    CT_TRY(o->in.src.next(o->in.src.state, 1, x, label));
  while (*label < o->first || *label >= o->last);
  *label -= (int32_t)o->first;
out:
  return rc;
}

static int next_rows(void *state, int n, void *x, void *y)
{
  int rc = CT_OK;
  const only_t *o = state;
  for (int i = 0; i < n; i++)
    CT_TRY(next_one(o, (char *)x + (size_t)i * o->sample_bytes, (int32_t *)y + i));
out:
  return rc;
}

static void close_only(void *state)
{
  only_t *o = state;
  o->in.close(o->in.src.state);
  ct_mem_free(o);
}

/* How many samples are of the classes. */
static int count(const only_t *o, ct_pack_source_t *src, int64_t *kept)
{
  int rc = CT_OK;
  int32_t label;
  void *x = ct_mem_alloc(o->sample_bytes, "a sample");
  *kept = 0;
  if (!x) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < src->samples; i++) {
    CT_TRY(src->next(src->state, 1, x, &label));
    *kept += label >= o->first && label < o->last;
  }
out:
  ct_mem_free(x);
  return rc;
}

int ct_pack_only(ct_pack_input_t *in, ct_pack_source_t *same, int64_t first, int64_t last)
{
  int rc = CT_OK;
  int64_t kept;
  only_t *o = ct_mem_alloc(sizeof *o, "some classes");
  if (!o) return CT_ERR_NOMEM;
  *o = (only_t){*in, first, last,
                (size_t)ct_shape_sample(&in->src.x) * ct_dtype_size(in->src.x.dtype)};
  CT_TRY(count(o, same, &kept));
  if (!kept)
    CT_FAIL(CT_ERR_USAGE, "%s: has no sample of the classes %" PRId64 " to %" PRId64,
            in->src.inputs[0], first, last - 1);
  in->src.samples = kept;
  in->src.state = o;
  in->src.next = next_rows;
  in->close = close_only;
  in->classes = (in->classes < last ? in->classes : last) - first;
  o = NULL;
out:
  ct_mem_free(o);
  return rc;
}
