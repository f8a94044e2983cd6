/* Convolution, activation and pooling as one op: one after the other on whole tensors in the
 * workspace.  The slabs are a matter of other backends; this is what they are compared with.
 * Backward computes all three again. */
#include "ref/ref.h"

/* The three ops, and their places in the workspace. */
typedef struct chain {
  ct_op_desc_t conv, act, pool;
  int active; /* 1: the convolution or `act` computes an activation */
  size_t y, c, dc, dy, argmax, ops, end;
} chain_t;

static size_t chain_take(size_t *end, size_t bytes)
{
  size_t at = *end;
  *end += (bytes + 63) / 64 * 64;
  return at;
}

static chain_t chain_of(const ct_op_desc_t *d)
{
  chain_t k = {.conv = ct_conv_pool_part(d, CT_OP_CONV),
               .act = ct_conv_pool_part(d, CT_OP_ACT),
               .pool = ct_conv_pool_part(d, CT_OP_POOL),
               .active = d->u.conv_pool.act || d->u.conv_pool.conv.relu};
  k.act.passes |= CT_FWD;
  k.pool.passes |= CT_FWD;
  const ct_op_desc_t *all[] = {&k.conv, &k.act, &k.pool};
  size_t most = 0;
  for (int i = 0; i < 3; i++) {
    ct_op_info_t info = ct_op_info_of(all[i], "");
    const ct__ref_kind_t *kind = ct__ref_kinds[all[i]->kind];
    if (kind->needs) kind->needs(all[i], &info);
    if (info.scratch > most) most = info.scratch;
    if (i == 2) k.argmax = chain_take(&k.end, info.saved);
  }
  k.y = chain_take(&k.end, ct_shape_bytes(&k.pool.y));
  k.c = chain_take(&k.end, ct_shape_bytes(&k.conv.y));
  k.dc = chain_take(&k.end, ct_shape_bytes(&k.conv.y));
  k.dy = chain_take(&k.end, ct_shape_bytes(&k.conv.y));
  k.ops = chain_take(&k.end, most);
  return k;
}

static int chain_run(const ct_op_desc_t *d, const ct_op_args_t *a, char *work, const chain_t *k)
{
  ct_op_args_t args = *a;
  args.scratch = work + k->ops;
  args.saved = work + k->argmax;
  return ct__ref_kinds[d->kind]->run(d, &args);
}

/* c: the convolution's output; after the activation it is in dy's place. */
static int chain_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const chain_t *k, char *work,
                         void *y)
{
  int rc = CT_OK;
  ct_op_args_t conv = *a, act = {.pass = CT_FWD, .x = work + k->c, .y = work + k->dy};
  ct_op_args_t pool = {.pass = CT_FWD, .x = work + (d->u.conv_pool.act ? k->dy : k->c), .y = y};
  conv.pass = CT_FWD;
  conv.y = work + k->c;
  CT_TRY(chain_run(&k->conv, &conv, work, k));
  if (d->u.conv_pool.act) CT_TRY(chain_run(&k->act, &act, work, k));
  CT_TRY(chain_run(&k->pool, &pool, work, k));
out:
  return rc;
}

static int chain_backward(const ct_op_desc_t *d, const ct_op_args_t *a, const chain_t *k,
                          char *work)
{
  int rc = CT_OK;
  ct_op_args_t conv = *a, pool = {.pass = CT_BWD_DATA, .dy = a->dy, .dx = work + k->dc};
  ct_op_args_t act = {.pass = CT_BWD_DATA,
                      .x = work + k->c,
                      .y = work + (d->u.conv_pool.act ? k->dy : k->c),
                      .dy = work + k->dc,
                      .dx = work + k->dc};
  CT_TRY(chain_forward(d, a, k, work, work + k->y));
  CT_TRY(chain_run(&k->pool, &pool, work, k));
  if (k->active) CT_TRY(chain_run(&k->act, &act, work, k));
  conv.pass = a->pass & (CT_BWD_DATA | CT_BWD_PARAM);
  conv.dy = work + k->dc;
  CT_TRY(chain_run(&k->conv, &conv, work, k));
out:
  return rc;
}

static int conv_pool_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK;
  chain_t k = chain_of(d);
  if (a->pass & CT_FWD) CT_TRY(chain_forward(d, a, &k, a->scratch, a->y));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(chain_backward(d, a, &k, a->scratch));
out:
  return rc;
}

static void conv_pool_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  chain_t k = chain_of(d);
  info->scratch = k.end;
  info->bwd_uses = ct_op_goes_back(d) ? CT_USES_X : 0;
}

const ct__ref_kind_t ct__ref_conv_pool = {
    .run = conv_pool_run, .needs = conv_pool_needs, .reduced = 1};
