/* The batches of data.train of a configuration, as a feed makes them: for check_fields.py.
 *
 *     read_batches CONFIG OUT RANKS EPOCH CURSOR [KEY=VALUE ...]
 *
 * writes float64 numbers of each sample from the cursor to the end of the epoch, all samples of one
 * rank after those of another: its number, how many numbers its input has and these, the same of
 * its labels or targets. */
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "setup/ct_setup.h"

static void put(FILE *out, double v)
{
  fwrite(&v, sizeof v, 1, out);
}

static void put_sample(FILE *out, const ct_dataset_t *d, const ct_batch_t *b, int i)
{
  int64_t x = ct_shape_sample(&d->x), targets = d->info.targets, y = targets ? targets : d->pixels;
  put(out, (double)b->ids[i]);
  put(out, (double)x);
  for (int64_t k = 0; k < x; k++)
    put(out, (double)b->x[i * x + k]);
  put(out, (double)y);
  for (int64_t k = 0; k < y; k++)
    put(out, targets ? (double)b->targets[i * y + k] : (double)b->labels[i * y + k]);
}

static int read_rank(FILE *out, const ct_config_t *c, const ct_dataset_t *d, ct_feed_opts_t *o)
{
  int rc = CT_OK;
  ct_feed_t *feed = NULL;
  ct_blocks_t *blocks = NULL;
  const ct_batch_t *b = NULL;
  ct_sampler_t order = {.seed = (uint64_t)c->run.seed,
                        .samples = d->info.samples,
                        .batch = c->data.batch,
                        .drop_last = c->data.drop_last,
                        .shuffle = c->data.shuffle != CT_SHUFFLE_OFF};
  if (c->data.shuffle == CT_SHUFFLE_BLOCKS) {
    CT_TRY(ct_dataset_blocks(d, &blocks));
    order.blocks = blocks;
    order.lanes = ct_blocks_lanes(blocks, c->data.batch);
  }
  CT_TRY(ct_feed_open(d, &order, o, &feed));
  for (;;) {
    CT_TRY(ct_feed_next(feed, &b));
    if (!b) break;
    for (int i = 0; i < b->n; i++)
      put_sample(out, d, b, i);
    if (b->skipped) fprintf(stderr, "skipped: %s\n", b->skip[0].why);
  }
out:
  ct_feed_close(feed);
  ct_mem_free(blocks);
  return rc;
}

int main(int argc, char **argv)
{
  int rc = CT_OK;
  ct_config_t c = {0};
  ct_dataset_t d = {0};
  const char *set[16];
  ct_args_t args = {.set = set};
  FILE *out = argc > 5 ? fopen(argv[2], "wb") : NULL;
  if (!out) return 2;
  for (int i = 6; i < argc && args.sets < 16; i++)
    set[args.sets++] = argv[i];
  ct_feed_opts_t o = {
      .size = atoi(argv[3]), .epoch = atoll(argv[4]), .cursor = atoll(argv[5]), .one_epoch = 1};
  CT_TRY(ct_setup_read_config(&c, argv[1], &args, o.size, 1));
  CT_TRY(ct_setup_open_data(&c, &c.data.train, &d));
  d.skip = c.data.on_error;
  o.workers = (int)c.data.workers;
  for (o.rank = 0; o.rank < o.size; o.rank++)
    CT_TRY(read_rank(out, &c, &d, &o));
out:
  if (rc != CT_OK) fprintf(stderr, "%s\n", ct_err_last()->text);
  ct_dataset_close(&d);
  ct_config_clear(&c);
  fclose(out);
  return rc != CT_OK;
}
