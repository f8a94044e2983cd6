/* A forward run whose results were dropped, once more (ct_op_args_t.again). */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/conform/rig.h"

enum { KEPT = 6 }; /* y, saved, and the parameters, which include running statistics and ranges */

static void *take(const block_t *b)
{
  void *host = host_array((int64_t)b->bytes + 1, 1);
  if (b->mem) block_take(b, host, b->bytes);
  return host;
}

static int has_statistics(const rig_t *r)
{
  return r->desc.kind == CT_OP_BNORM && r->desc.training;
}

int rig_can_again(const ct_op_desc_t *d)
{
  int alone = d->kind == CT_OP_BNORM && d->training && !ct_op_goes_back(d);
  return !ct_op_is_loss(d->kind) && !alone;
}

int rig_again(rig_t *r)
{
  int rc = CT_OK;
  static const char *const name[KEPT] = {"y", "saved", "w[0]", "w[1]", "w[2]", "w[3]"};
  block_t *block[KEPT] = {&r->y.own, &r->saved, &r->w[0], &r->w[1], &r->w[2], &r->w[3]};
  void *before[KEPT], *after[KEPT];
  ct_op_args_t a = r->args;
  for (int i = 0; i < KEPT; i++)
    before[i] = take(block[i]);
  block_spoil(&r->y.own);
  rig_place(r);
  if (!has_statistics(r)) block_spoil(&r->saved);
  block_spoil(&r->scratch);
  if (r->stats.mem) block_spoil(&r->stats);
  a.pass = CT_FWD;
  a.again = 1;
  rc = r->side->be->op->run(r->side->queue, r->op, &a);
  if (rc == CT_OK) rc = r->side->be->queue->sync(r->side->queue);
  for (int i = 0; i < KEPT; i++) {
    after[i] = take(block[i]);
    if (rc == CT_OK && memcmp(before[i], after[i], block[i]->bytes))
      rc = ct_err_set(CT_ERR_DIFFER, __FILE__, __LINE__, "%s has other bits if it is made again",
                      name[i]);
  }
  for (int i = 0; i < KEPT; i++) {
    ct_mem_free(before[i]);
    ct_mem_free(after[i]);
  }
  return rc;
}
