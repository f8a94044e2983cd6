/* The order of the training samples; warns if data.cache_mb is too small for block-wise shuffling.
 */
#include <inttypes.h>

#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "comm/ct_agree.h"

/* Estimates how many blocks a rank has in memory at a time: one for each of its lanes (parts of a
 * batch, ct_blocks.h), and half as many again plus one per worker that are read ahead. */
static int64_t blocks_in_use(const ct_setup_t *s, int64_t lanes)
{
  int64_t own = (lanes + s->topo->size - 1) / s->topo->size;
  return own + own / 2 + s->cfg.data.workers + 1;
}

/* Warns if the cache is too small: a block that is evicted before its last sample is taken is read
 * again. */
static void warn_of_memory(const ct_setup_t *s, int64_t lanes)
{
  char need[32], block[32];
  const ct_reader_layout_t *l = &s->data.info.layout;
  int64_t blocks = blocks_in_use(s, lanes);
  double bytes = (double)blocks * (double)l->block_bytes;
  if (!l->compressed || l->cached || /* uncompressed data is read without the cache */
      bytes <= 1e6 * (double)s->cfg.data.cache_mb)
    return;
  ct_log(CT_LOG_WARN,
         "data.shuffle: blocks has about %lld blocks of %s in use on a rank, %s, which "
         "exceeds data.cache_mb: some will be read more than once; raise it to %lld, or "
         "set data.lanes below %lld",
         (long long)blocks, ct_text_bytes((double)l->block_bytes, block, sizeof block),
         ct_text_bytes(bytes, need, sizeof need), (long long)(bytes / 1e6) + 1, (long long)lanes);
}

static int take_blocks(ct_setup_t *s, ct_sampler_t *out)
{
  int rc = CT_OK;
  const ct_data_opts_t *o = &s->cfg.data;
  if (!s->blocks) rc = ct_dataset_blocks(&s->data, &s->blocks);
  CT_TRY_ALL(s->topo, rc);
  CT_TRY(ct_agree_same(s->topo, "the blocks of the training data", ct_blocks_hash(s->blocks)));
  out->blocks = s->blocks;
  out->lanes = o->lanes > 0 ? o->lanes : ct_blocks_lanes(s->blocks, o->batch);
  if (out->lanes > o->batch) out->lanes = o->batch;
out:
  return rc;
}

int ct_setup_order(ct_setup_t *s, ct_sampler_t *out)
{
  int rc = CT_OK;
  const ct_data_opts_t *o = &s->cfg.data;
  *out = (ct_sampler_t){.seed = (uint64_t)s->cfg.run.seed,
                        .samples = s->data.info.samples,
                        .batch = o->batch,
                        .drop_last = o->drop_last,
                        .shuffle = o->shuffle != CT_SHUFFLE_OFF,
                        .micro_batches = s->step_opts.micro_batches};
  if (ct_sampler_epoch(out) == 0)
    CT_FAIL(CT_ERR_USAGE,
            "%s: data.drop_last leaves nothing of an epoch: data.train has %" PRId64
            " samples, and data.batch is %" PRId64,
            s->cfg.where, out->samples, out->batch);
  if (o->shuffle != CT_SHUFFLE_BLOCKS) return CT_OK;
  CT_TRY(take_blocks(s, out));
  ct_log(CT_LOG_INFO, "data.shuffle: %lld block%s of %lld samples; a batch uses %lld at a time",
         (long long)ct_blocks_count(s->blocks), ct_blocks_count(s->blocks) == 1 ? "" : "s",
         (long long)ct_blocks_rows(s->blocks), (long long)out->lanes);
  if (out->lanes < s->topo->size)
    ct_log(CT_LOG_WARN,
           "data.shuffle: blocks has %lld lane%s for %d ranks: several read the same blocks; raise "
           "data.lanes, or pack the data again with smaller chunks",
           (long long)out->lanes, out->lanes == 1 ? "" : "s", s->topo->size);
  warn_of_memory(s, out->lanes);
out:
  return rc;
}

int ct_setup_steps(ct_setup_t *s, ct_steps_t *out)
{
  int rc = CT_OK;
  ct_sampler_t order;
  CT_TRY(ct_setup_order(s, &order));
  CT_TRY(ct_trainer_check_batches(s->trainer, ct_sampler_epoch(&order), order.batch));
  CT_TRY_ALL(s->topo,
             ct_steps_open(s->trainer, &s->data, &order, 0, 0, (int)s->cfg.data.workers, out));
out:
  return rc;
}

int64_t ct_setup_order_hash(const ct_sampler_t *s)
{
  return s->blocks ? (int64_t)ct_hash_int(s->lanes, ct_blocks_hash(s->blocks)) : 0;
}
