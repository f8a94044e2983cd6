/* The order that reads each block once: a permutation for every layout of files, the same at any
 * number of ranks, with few reads and in no step many at once; and how well it mixes. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/order/ct_blocks.h"
#include "data/order/ct_sampler.h"
#include "tests/harness/ct_test.h"

/* Files of `samples[]`, in blocks of rows. */
static ct_blocks_t *make(const int64_t *samples, const int64_t *rows, int n)
{
  ct_block_run_t runs[16];
  int64_t first = 0;
  ct_blocks_t *b = NULL;
  for (int i = 0; i < n; i++) {
    runs[i] = (ct_block_run_t){first, samples[i], rows[i]};
    first += samples[i];
  }
  CT_ASSERT_OK(ct_blocks_make(runs, n, &b));
  return b;
}

static ct_blocks_t *files_of(int n, int64_t samples, int64_t rows)
{
  int64_t all[16], each[16];
  for (int i = 0; i < n; i++) {
    all[i] = samples;
    each[i] = rows;
  }
  return make(all, each, n);
}

static ct_sampler_t sampler(const ct_blocks_t *b, int64_t samples, int64_t batch, int64_t lanes)
{
  return (ct_sampler_t){.seed = 5,
                        .samples = samples,
                        .batch = batch,
                        .shuffle = 1,
                        .blocks = b,
                        .lanes = lanes ? lanes : ct_blocks_lanes(b, batch)};
}

/* ---- the table ---- */

static void blocks_are_numbered(void)
{
  static const int64_t samples[] = {10, 0, 7, 8}, rows[] = {4, 5, 7, 4};
  static const int64_t block[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3,
                                  3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5};
  ct_blocks_t *b = make(samples, rows, 4);
  CT_ASSERT_INT(ct_blocks_count(b), 6);
  CT_ASSERT_INT(ct_blocks_rows(b), 4); /* 16 of the 25 samples */
  for (int i = 0; i < 25; i++)
    CT_ASSERT_INT(ct_blocks_of(b, i), block[i]);
  ct_blocks_free(b);
}

static void wrong_tables_are_refused(void)
{
  ct_blocks_t *b;
  ct_block_run_t gap[] = {{0, 4, 2}, {5, 4, 2}}, flat = {0, 4, 0}, none = {0, 0, 4};
  CT_ASSERT_FAILS(ct_blocks_make(gap, 2, &b), CT_ERR_ARG, "do not follow 4");
  CU_ASSERT_PTR_NULL(b);
  CT_ASSERT_FAILS(ct_blocks_make(&flat, 1, &b), CT_ERR_ARG, "blocks of 0");
  CT_ASSERT_FAILS(ct_blocks_make(&none, 1, &b), CT_ERR_ARG, "no samples");
}

static void the_hash_tells_tables_apart(void)
{
  ct_blocks_t *a = files_of(2, 100, 16), *b = files_of(2, 100, 16), *c = files_of(2, 100, 10),
              *d = files_of(1, 200, 16);
  CU_ASSERT(ct_blocks_hash(a) == ct_blocks_hash(b));
  CU_ASSERT(ct_blocks_hash(a) != ct_blocks_hash(c));
  CU_ASSERT(ct_blocks_hash(a) != ct_blocks_hash(d));
  ct_blocks_t *all[] = {a, b, c, d};
  for (int i = 0; i < 4; i++)
    ct_blocks_free(all[i]);
}

/* ---- each sample once ---- */

static void is_permutation(const ct_sampler_t *s, int64_t epoch)
{
  char *seen = ct_mem_alloc((size_t)s->samples, "a test");
  int64_t wrong = 0;
  for (int64_t i = 0; i < s->samples; i++) {
    int64_t at = ct_sampler_at(s, epoch, i);
    int fits = at >= 0 && at < s->samples && !seen[at];
    if (fits) seen[at] = 1;
    wrong += !fits;
  }
  CT_ASSERT_INT(wrong, 0);
  ct_mem_free(seen);
}

/* Files that are short, uneven, empty; batches that are larger than all, and than any lane. */
static void every_sample_comes_once(void)
{
  static const struct layout {
    int files;
    int64_t samples[5], rows[5];
  } layouts[] = {{1, {1}, {1}},
                 {1, {7}, {7}},
                 {1, {1000}, {16}},
                 {1, {1024}, {16}},
                 {3, {333, 0, 334}, {10, 3, 10}},
                 {5, {100, 99, 3, 250, 1}, {16, 16, 16, 7, 1}},
                 {2, {4096, 4096}, {32, 64}},
                 {2, {500, 500}, {500, 1}}};
  static const int64_t batches[] = {1, 2, 3, 8, 60, 97, 100, 256, 5000};
  static const int64_t lanes[] = {0, 1, 5, 64};
  for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
    int64_t all = 0;
    for (int i = 0; i < layouts[k].files; i++)
      all += layouts[k].samples[i];
    ct_blocks_t *b = make(layouts[k].samples, layouts[k].rows, layouts[k].files);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
      for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
        ct_sampler_t s = sampler(b, all, batches[i], lanes[l]);
        is_permutation(&s, (int64_t)(i + l));
      }
    ct_blocks_free(b);
  }
}

static void epochs_and_seeds_differ(void)
{
  enum { SAMPLES = 4000 };
  ct_blocks_t *b = files_of(2, SAMPLES / 2, 16);
  ct_sampler_t s = sampler(b, SAMPLES, 64, 0), other = s;
  int64_t same_epoch = 0, same_seed = 0;
  other.seed++;
  for (int64_t i = 0; i < SAMPLES; i++) {
    same_epoch += ct_sampler_at(&s, 0, i) == ct_sampler_at(&s, 1, i);
    same_seed += ct_sampler_at(&s, 0, i) == ct_sampler_at(&other, 0, i);
  }
  CU_ASSERT(same_epoch < 20);
  CU_ASSERT(same_seed < 20);
  ct_blocks_free(b);
}

/* A checkpoint that was made in an epoch goes on with it. */
static void the_order_is_this_one(void)
{
  static const int64_t known[] = {81, 87, 83, 114, 110, 111, 234, 235, 237, 288, 291, 294};
  ct_blocks_t *b = files_of(3, 100, 8);
  ct_sampler_t s = sampler(b, 300, 12, 4);
  for (int i = 0; i < 12; i++)
    CT_ASSERT_INT(ct_sampler_at(&s, 2, 60 + i), known[i]);
  ct_blocks_free(b);
}

/* Where a sample comes in an epoch says nothing: over many epochs each place is as likely. */
static void places_are_spread(void)
{
  enum { SAMPLES = 220, EPOCHS = 4000, PARTS = 10 };
  static const int64_t samples[] = {125, 95}, rows[] = {10, 10};
  ct_blocks_t *b = make(samples, rows, 2);
  ct_sampler_t s = sampler(b, SAMPLES, 4, 2);
  int in_part[PARTS] = {0}, of_short[PARTS] = {0};
  for (int64_t e = 0; e < EPOCHS; e++)
    for (int64_t i = 0; i < SAMPLES; i++) {
      int64_t at = ct_sampler_at(&s, e, i);
      in_part[i * PARTS / SAMPLES] += at == 37;
      of_short[i * PARTS / SAMPLES] += at == 122; /* in a block of 5 */
    }
  for (int i = 0; i < PARTS; i++) { /* 400 each, 19 is the standard deviation */
    CT_ASSERT_NEAR(in_part[i], EPOCHS / PARTS, 90);
    CT_ASSERT_NEAR(of_short[i], EPOCHS / PARTS, 90);
  }
  ct_blocks_free(b);
}

/* ---- reads ---- */

enum { CACHE_MAX = 4096 };

/* The blocks that a rank has in memory, in the order of their use. */
typedef struct cache {
  int64_t block[CACHE_MAX];
  int n, cap;
} cache_t;

/* 1 if it had to be read. */
static int use(cache_t *c, int64_t block)
{
  int i = 0;
  while (i < c->n && c->block[i] != block)
    i++;
  int read = i == c->n;
  if (read && c->n < c->cap) c->n++;
  if (i == c->cap) i--;
  memmove(c->block + 1, c->block, (size_t)i * sizeof *c->block);
  c->block[0] = block;
  return read;
}

typedef struct reads {
  int64_t all, most; /* of the ranks together; most: of a rank in one step but the first ones and
                        * a short last one */
} reads_t;

/* An epoch of one rank; its steps' reads are added up. */
static void read_share(const ct_sampler_t *s, int rank, int ranks, int slots, reads_t *r)
{
  cache_t *c = ct_mem_alloc(sizeof *c, "a test");
  c->cap = slots;
  for (int64_t cursor = 0; cursor < s->samples; cursor += ct_sampler_batch(s, cursor)) {
    int64_t first, n = ct_sampler_local_batch(s, ct_sampler_batch(s, cursor), rank, ranks, &first),
                   now = 0;
    for (int64_t i = 0; i < n; i++)
      now += use(c, ct_blocks_of(s->blocks, ct_sampler_at(s, 3, cursor + first + i)));
    r->all += now;
    int whole = cursor > 2 * s->batch && cursor + s->batch <= s->samples;
    if (whole && now > r->most) r->most = now;
  }
  ct_mem_free(c);
}

static reads_t count_reads(const ct_sampler_t *s, int ranks)
{
  reads_t r = {0};
  for (int rank = 0; rank < ranks; rank++)
    read_share(s, rank, ranks, (int)(s->lanes / ranks + 2) * 3 / 2, &r);
  return r;
}

/* A rank alone reads each block once.  Of several, neighbours read those of their boundary both,
 * and in the last batch, which is shorter, lanes lie on other ranks.  In no step do all lanes need
 * a new block. */
static void each_block_is_read_once(void)
{
  static const struct {
    int64_t files, samples, rows, batch;
  } sets[] = {{1, 16384, 16, 64}, {4, 5003, 16, 256}, {3, 9999, 10, 96}, {2, 20000, 64, 128}};
  for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
    ct_blocks_t *b = files_of((int)sets[k].files, sets[k].samples, sets[k].rows);
    ct_sampler_t s = sampler(b, sets[k].files * sets[k].samples, sets[k].batch, 0);
    int64_t rest = s.samples % s.batch ? s.lanes / 2 : 0;
    CU_ASSERT(s.lanes >= 64);
    for (int ranks = 1; ranks <= 16; ranks *= 2) {
      reads_t r = count_reads(&s, ranks);
      if (ranks == 1) CT_ASSERT_INT(r.all, ct_blocks_count(b));
      CU_ASSERT(r.all <= ct_blocks_count(b) + 3 * (ranks - 1) + rest);
      CU_ASSERT(r.most <= 8 + 2 * s.batch / sets[k].rows / ranks);
    }
    ct_blocks_free(b);
  }
}

/* In a full shuffle of data that do not fit into memory nearly every sample costs a block. */
static void a_full_shuffle_reads_again_and_again(void)
{
  ct_blocks_t *b = files_of(1, 16384, 16);
  ct_sampler_t s = sampler(b, 16384, 64, 0);
  reads_t r = {0};
  const ct_sampler_t full = {.seed = 5, .samples = 16384, .batch = 64, .shuffle = 1};
  cache_t *c = ct_mem_alloc(sizeof *c, "a test");
  c->cap = (int)s.lanes;
  for (int64_t i = 0; i < full.samples; i++)
    r.all += use(c, ct_blocks_of(b, ct_sampler_at(&full, 3, i)));
  CU_ASSERT(r.all > 12 * ct_blocks_count(b));
  ct_mem_free(c);
  ct_blocks_free(b);
}

/* What a rank has is a part of the same batch. */
static void ranks_have_the_same_samples(void)
{
  enum { SAMPLES = 1003, BATCH = 96 };
  int64_t alone[SAMPLES], together[SAMPLES];
  ct_blocks_t *b = files_of(1, SAMPLES, 8);
  ct_sampler_t s = sampler(b, SAMPLES, BATCH, 0);
  for (int64_t i = 0; i < SAMPLES; i++)
    alone[i] = ct_sampler_at(&s, 1, i);
  for (int ranks = 1; ranks <= 8; ranks++) {
    int64_t seen = 0;
    for (int64_t cursor = 0; cursor < SAMPLES; cursor += ct_sampler_batch(&s, cursor))
      for (int rank = 0; rank < ranks; rank++) {
        int64_t first,
            n = ct_sampler_local_batch(&s, ct_sampler_batch(&s, cursor), rank, ranks, &first);
        for (int64_t i = 0; i < n; i++)
          together[seen++] = ct_sampler_at(&s, 1, cursor + first + i);
      }
    CT_ASSERT_INT(seen, SAMPLES);
    CT_ASSERT_INT(memcmp(alone, together, sizeof alone), 0);
  }
  ct_blocks_free(b);
}

/* ---- lanes, mixing ---- */

static void lanes_follow_from_batch_and_blocks(void)
{
  static const struct {
    int64_t blocks, batch, lanes;
  } cases[] = {{1000, 1, 1},      {1000, 32, 32},     {1000, 64, 64},    {1000, 97, 97},
               {1000, 100, 100},  {1000, 128, 64},    {1000, 256, 64},   {1000, 512, 64},
               {9000, 1024, 128}, {99999, 4096, 512}, {1000, 4096, 128}, {100, 64, 16},
               {40, 97, 13},      {3, 64, 2},         {1, 64, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_blocks_t *b = files_of(1, cases[i].blocks * 4, 4);
    CT_ASSERT_INT(ct_blocks_lanes(b, cases[i].batch), cases[i].lanes);
    ct_blocks_free(b);
  }
}

static double mates(const ct_sampler_t *s, const ct_blocks_t *b)
{
  double m = 0;
  CT_ASSERT_OK(ct_sampler_mixing(s, b, 1, 50, &m));
  return m;
}

/* Samples of a batch that come from one block: all of a lane's.  The full shuffle has of 16 384
 * samples in blocks of 16 hardly any two in a batch of 64; in order there are whole blocks. */
static void mixing_is_measured(void)
{
  ct_blocks_t *b = files_of(1, 16384, 16);
  ct_sampler_t s = sampler(b, 16384, 64, 64), full = s, in_order = s, wide = s, few = s;
  full.blocks = NULL;
  in_order.shuffle = 0;
  wide.batch = 256;
  few.lanes = 16;
  CT_ASSERT_NEAR(mates(&in_order, b), 16, 1e-9);
  CT_ASSERT_NEAR(mates(&full, b), 1 + 63 * 15 / 16383.0, 0.03);
  CT_ASSERT_NEAR(mates(&s, b), 1, 0.1);
  CT_ASSERT_NEAR(mates(&wide, b), 4 - 0.6, 0.5); /* a lane may change its block within a batch */
  CT_ASSERT_NEAR(mates(&few, b), 4 - 0.6, 0.5);
  ct_blocks_free(b);
}

/* For mixup: from the same batch, none of it from the wrong end of the data. */
static void near_samples_are_in_the_batch(void)
{
  enum { SAMPLES = 1000, BATCH = 256 };
  ct_blocks_t *b = files_of(1, SAMPLES, 4);
  ct_sampler_t s = sampler(b, SAMPLES, BATCH, 64), full = s;
  int different = 0;
  for (int64_t at = 0; at < SAMPLES; at++) {
    int found = 0;
    int64_t first = at / BATCH * BATCH, near = ct_sampler_near(&s, 2, at, at * 7919 % SAMPLES);
    for (int64_t i = at / 32 * 32; i < SAMPLES && i < at / 32 * 32 + 32; i++)
      found |= i >= first && ct_sampler_at(&s, 2, i) == near;
    CU_ASSERT(found);
    different += near != ct_sampler_at(&s, 2, at);
  }
  CU_ASSERT(different > SAMPLES * 9 / 10);
  full.blocks = NULL;
  CT_ASSERT_INT(ct_sampler_near(&full, 2, 17, 333), 333);
  ct_blocks_free(b);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(blocks_are_numbered),
                                    CT_TEST(wrong_tables_are_refused),
                                    CT_TEST(the_hash_tells_tables_apart),
                                    CT_TEST(every_sample_comes_once),
                                    CT_TEST(epochs_and_seeds_differ),
                                    CT_TEST(the_order_is_this_one),
                                    CT_TEST(places_are_spread),
                                    CT_TEST(each_block_is_read_once),
                                    CT_TEST(a_full_shuffle_reads_again_and_again),
                                    CT_TEST(ranks_have_the_same_samples),
                                    CT_TEST(lanes_follow_from_batch_and_blocks),
                                    CT_TEST(mixing_is_measured),
                                    CT_TEST(near_samples_are_in_the_batch),
                                    CT_TEST_END};
  return ct_test_main("blocks", tests, argc, argv);
}
