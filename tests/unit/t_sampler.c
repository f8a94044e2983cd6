/* The sampler: every epoch is a permutation, every world size sees the same samples. */
#include <stdlib.h>
#include <string.h>

#include "data/order/ct_sampler.h"
#include "tests/unit/distribution.h"

static ct_sampler_t sampler(int64_t samples, int64_t batch, uint64_t seed)
{
  return (ct_sampler_t){.seed = seed, .samples = samples, .batch = batch, .shuffle = 1};
}

static int is_permutation(const ct_sampler_t *s, int64_t epoch)
{
  char *seen = calloc((size_t)s->samples, 1);
  int64_t distinct = 0;
  for (int64_t i = 0; i < s->samples; i++) {
    int64_t at = ct_sampler_at(s, epoch, i);
    if (at >= 0 && at < s->samples && !seen[at]) {
      seen[at] = 1;
      distinct++;
    }
  }
  free(seen);
  return distinct == s->samples;
}

static void every_small_size_is_permuted(void)
{
  for (int64_t n = 1; n <= 300; n++) {
    ct_sampler_t s = sampler(n, 8, 7);
    for (int64_t epoch = 0; epoch < 3; epoch++)
      if (!is_permutation(&s, epoch)) CT_ASSERT_INT(n, -epoch); /* names both */
  }
  ct_sampler_t odd = sampler(65537, 8, 1), power = sampler(65536, 8, 1);
  CU_ASSERT(is_permutation(&odd, 0));
  CU_ASSERT(is_permutation(&power, 5));
}

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Too many to list: what is asked for lies in range and does not repeat. */
static void huge_sizes_are_permuted(void)
{
  static const int64_t sizes[] = {1281167, ((int64_t)1 << 31) + 11, (int64_t)1 << 40,
                                  ((int64_t)1 << 62) + 12345, INT64_MAX};
  enum { ASKED = 2000 };
  static int64_t got[ASKED];
  for (int k = 0; k < 5; k++) {
    ct_sampler_t s = sampler(sizes[k], 8, 3);
    for (int64_t i = 0; i < ASKED; i++) {
      got[i] = ct_sampler_at(&s, 2, i < ASKED / 2 ? i : sizes[k] - 1 - i);
      CU_ASSERT(got[i] >= 0 && got[i] < sizes[k]);
    }
    qsort(got, ASKED, sizeof got[0], by_value);
    for (int i = 1; i < ASKED; i++)
      CU_ASSERT(got[i] != got[i - 1]);
  }
}

static int64_t same_places(const ct_sampler_t *a, int64_t epoch_a, const ct_sampler_t *b,
                           int64_t epoch_b)
{
  int64_t same = 0;
  for (int64_t i = 0; i < a->samples; i++)
    same += ct_sampler_at(a, epoch_a, i) == ct_sampler_at(b, epoch_b, i);
  return same;
}

/* Two random permutations of any length agree in one place on average. */
static void seed_and_epoch_change_the_order(void)
{
  ct_sampler_t a = sampler(10000, 8, 1), b = sampler(10000, 8, 2);
  CU_ASSERT(same_places(&a, 0, &b, 0) < 12);
  CU_ASSERT(same_places(&a, 0, &a, 1) < 12);
  CT_ASSERT_INT(same_places(&a, 4, &a, 4), 10000);
  ct_sampler_t wide = a;
  wide.seed |= (uint64_t)1 << 40;
  CU_ASSERT(same_places(&a, 0, &wide, 0) < 12);
}

static void without_shuffle_it_is_in_order(void)
{
  ct_sampler_t s = sampler(100, 8, 1);
  s.shuffle = 0;
  for (int64_t i = 0; i < 100; i++)
    CT_ASSERT_INT(ct_sampler_at(&s, 9, i), i);
}

/* The order is stored in nobody's file but in everybody's resumed run: it must never change. */
/* Computed from the papers by another program.  At powers of four the network has no number to
 * spare. */
static void the_order_is_this_one(void)
{
  static const struct {
    int64_t samples, order[4];
  } known[] = {{64, {29, 12, 9, 7}},
               {65, {37, 56, 53, 42}},
               {1000, {901, 548, 522, 126}},
               {1024, {901, 548, 522, 126}},
               {1025, {493, 6, 479, 503}},
               {(int64_t)1 << 32, {324302919, 1176407231, 1228095827, 910772745}}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    ct_sampler_t s = sampler(known[k].samples, 8, 42);
    for (int64_t i = 0; i < 4; i++)
      CT_ASSERT_INT(ct_sampler_at(&s, 3, i), known[k].order[i]);
  }
}

/* Where position 0 and the pair of positions (0, 1) go, over many epochs. */
static void places_are_uniform(void)
{
  enum { EPOCHS = 20000, MOST = 12 };
  for (int n = 2; n <= MOST; n += 5) {
    ct_sampler_t s = sampler(n, 4, 5);
    int single[MOST] = {0}, pair[MOST * (MOST - 1)] = {0};
    for (int64_t e = 0; e < EPOCHS; e++) {
      int64_t a = ct_sampler_at(&s, e, 0), b = ct_sampler_at(&s, e, 1);
      single[a]++;
      pair[a * (n - 1) + b - (b > a)]++;
    }
    expect_even("position 0", single, n);
    expect_even("positions 0 and 1", pair, n * (n - 1));
  }
}

static void steps_cover_an_epoch(void)
{
  ct_sampler_t s = sampler(100, 32, 1);
  CT_ASSERT_INT(ct_sampler_steps(&s), 4);
  CT_ASSERT_INT(ct_sampler_batch(&s, 0), 32);
  CT_ASSERT_INT(ct_sampler_batch(&s, 96), 4);
  CT_ASSERT_INT(ct_sampler_batch(&s, 68), 32);
  s.samples = 96;
  CT_ASSERT_INT(ct_sampler_steps(&s), 3);
  s.batch = 1000;
  CT_ASSERT_INT(ct_sampler_steps(&s), 1);
  CT_ASSERT_INT(ct_sampler_batch(&s, 0), 96);
}

/* No sample is left out and no step is empty, whatever is left for the last step: one sample,
 * too. */
static void every_sample_has_a_step(void)
{
  for (int64_t samples = 1; samples <= 70; samples++) {
    for (int64_t batch = 1; batch <= 24; batch++) {
      ct_sampler_t s = sampler(samples, batch, 1);
      int64_t cursor = 0, steps = 0;
      for (; cursor < samples; steps++) {
        int64_t n = ct_sampler_batch(&s, cursor);
        CU_ASSERT_FATAL(n > 0 && (n == batch || cursor + n == samples));
        cursor += n;
      }
      CT_ASSERT_INT(cursor, samples);
      CT_ASSERT_INT(ct_sampler_steps(&s), steps);
    }
  }
}

static void shares_partition_the_batch(void)
{
  for (int size = 1; size <= 17; size++) {
    for (int64_t total = 0; total <= 70; total++) {
      int64_t next = 0, most = 0, least = total;
      for (int rank = 0; rank < size; rank++) {
        int64_t first, n = ct_sampler_cut(total, rank, size, &first);
        CT_ASSERT_INT(first, next);
        next += n;
        CU_ASSERT(rank == 0 || n <= most); /* low ranks have the larger */
        most = n > most ? n : most;
        least = n < least ? n : least;
      }
      CT_ASSERT_INT(next, total);
      CU_ASSERT(most - least <= 1);
    }
  }
}

/* A rank's share is what its pieces are together, which are the shares of so many ranks more. */
static void shares_are_neighbouring_pieces(void)
{
  for (int size = 1; size <= 5; size++) {
    for (int micro_batches = 0; micro_batches <= 4; micro_batches++) {
      ct_sampler_t s = {.samples = 100, .batch = 100, .micro_batches = micro_batches};
      int each = micro_batches > 0 ? micro_batches : 1;
      for (int64_t total = 0; total <= 40; total++) {
        for (int rank = 0; rank < size; rank++) {
          int64_t first, begin = 0, n = ct_sampler_local_batch(&s, total, rank, size, &first);
          for (int k = each - 1; k >= 0; k--) /* ends with the first piece */
            n -= ct_sampler_cut(total, rank * each + k, size * each, &begin);
          CT_ASSERT_INT(first, begin);
          CT_ASSERT_INT(n, 0);
        }
      }
    }
  }
}

/* What all ranks together see in each step of an epoch: the same list at every size. */
static void world_size_changes_nothing(void)
{
  enum { SAMPLES = 101, BATCH = 13 };
  int64_t alone[SAMPLES], together[SAMPLES];
  ct_sampler_t s = sampler(SAMPLES, BATCH, 9);
  for (int64_t i = 0; i < SAMPLES; i++)
    alone[i] = ct_sampler_at(&s, 1, i);
  for (int size = 1; size <= 17; size++) {
    int64_t seen = 0;
    for (int64_t cursor = 0; cursor < SAMPLES; cursor += ct_sampler_batch(&s, cursor)) {
      for (int rank = 0; rank < size; rank++) {
        int64_t first, n = ct_sampler_cut(ct_sampler_batch(&s, cursor), rank, size, &first);
        for (int64_t i = 0; i < n; i++)
          together[seen++] = ct_sampler_at(&s, 1, cursor + first + i);
      }
    }
    CT_ASSERT_INT(seen, SAMPLES);
    CT_ASSERT_INT(memcmp(alone, together, sizeof alone), 0);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(every_small_size_is_permuted),
      CT_TEST(huge_sizes_are_permuted),
      CT_TEST(seed_and_epoch_change_the_order),
      CT_TEST(without_shuffle_it_is_in_order),
      CT_TEST(the_order_is_this_one),
      CT_TEST(places_are_uniform),
      CT_TEST(steps_cover_an_epoch),
      CT_TEST(every_sample_has_a_step),
      CT_TEST(shares_partition_the_batch),
      CT_TEST(shares_are_neighbouring_pieces),
      CT_TEST(world_size_changes_nothing),
      CT_TEST_END,
  };
  return ct_test_main("sampler", tests, argc, argv);
}
