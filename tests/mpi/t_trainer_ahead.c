/* The batch after this one is copied to the device while it works: nothing else changes. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "comm/ct_agree.h"
#include "data/feed/convert.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"
#include "train/trainer.h"

static const ct_topo_t *topo = &ct_test_topo;

enum { STEPS = 6 };

typedef struct ahead {
  ct_batch_t batch[STEPS]; /* as a feed has them; the sizes differ */
  int now;                 /* the one in use */
  int asked;
  enum {
    READY,
    SELDOM,
    WRONG
  } how; /* every second time it is not there yet; it is not what comes */
} ahead_t;

static const ct_batch_t *next_of(void *ctx)
{
  ahead_t *a = ctx;
  if (a->how == SELDOM && a->asked++ % 2) return NULL;
  if (a->how == WRONG) return &a->batch[(a->now + 2) % STEPS];
  return a->now + 1 < STEPS ? &a->batch[a->now + 1] : NULL;
}

static void make_batches(rig_t *r, ahead_t *a)
{
  for (int s = 0; s < STEPS; s++) {
    ct_batch_t *b = &a->batch[s];
    rig_load(r, s, s == 3 ? 1 : 4 * topo->size - s % 2); /* once there are ranks without samples */
    *b = r->batch;
    b->epoch = s;
    b->x = ct_mem_array(RIG_ROOM * ct_shape_count(&r->graph->input), sizeof *b->x, "test");
    b->labels = ct_mem_array(RIG_ROOM, sizeof *b->labels, "test");
    memcpy(b->x, r->batch.x, (size_t)b->n * ct_shape_bytes(&r->graph->input));
    memcpy(b->labels, r->batch.labels, (size_t)b->n * sizeof *b->labels);
  }
}

static void free_batches(ahead_t *a)
{
  for (int s = 0; s < STEPS; s++) {
    ct_mem_free(a->batch[s].x);
    ct_mem_free(a->batch[s].labels);
  }
}

/* The memory of a batch that was used is somebody else's again. */
static void spoil(const rig_t *r, ct_batch_t *b)
{
  for (int64_t i = 0; i < b->n * ct_shape_count(&r->graph->input); i++)
    b->x[i] = 1e6f;
  memset(b->labels, 0x7f, (size_t)b->n * sizeof *b->labels);
}

/* Steps with an evaluation of other batches in between: the state they end with. */
static uint64_t run_ahead(const rig_opts_t *o, int follow, int how, double loss[STEPS])
{
  rig_t r;
  ahead_t a = {.how = how};
  ct_loss_t sum = {0};
  rig_start(&r, o);
  make_batches(&r, &a);
  if (follow) ct_trainer_follow(r.t, (ct_prefetch_t){.ahead = next_of, .ctx = &a});
  for (int s = 0; s < STEPS; s++) {
    ct_step_status_t word = {0};
    ct_step_report_t times = {0};
    a.now = s;
    CT_ASSERT_OK(
        ct_trainer_step(r.t, &a.batch[s], CT_OK, &(ct_schedule_point_t){0}, &word, &times));
    loss[s] = word.loss_sum;
    spoil(&r, &a.batch[s]);
    if (s != 2) continue;
    ct_prefetch_t before = ct_trainer_follow(r.t, (ct_prefetch_t){0});
    CU_ASSERT(before.ahead == (follow ? next_of : NULL));
    rig_load(&r, 9, 4 * topo->size);
    CT_ASSERT_OK(rig_forward(&r, &sum));
    ct_trainer_follow(r.t, before);
  }
  ct_trainer_follow(r.t, (ct_prefetch_t){0});
  uint64_t hash = rig_hash(&r);
  free_batches(&a);
  rig_close(&r);
  return hash;
}

static void looking_ahead_changes_nothing(void)
{
  static const char *const ways[] = {"inline", "late", "random:1", "random:2", "random:3"};
  double want[STEPS], loss[STEPS];
  rig_opts_t o = {.model = rig_plain, .blocking = 1, .in_place = 1, .max_eval = 4};
  uint64_t hash = run_ahead(&o, 0, 0, want);
  o.in_place = 0;
  for (int k = 0; k < 5 * 4; k++) {
    o.order = ways[k % 5];
    CU_ASSERT(run_ahead(&o, k / 5 < 3, k / 5 % 3, loss) == hash);
    for (int s = 0; s < STEPS; s++)
      CT_ASSERT_NEAR(loss[s], want[s], 0);
  }
}

/* Steps with all that a batch can have besides its samples: targets, or second labels and their
 * shares. */
static uint64_t run_besides(const rig_opts_t *o)
{
  rig_t r;
  float targets[RIG_ROOM * RIG_CLASSES], mix[RIG_ROOM];
  int32_t labels2[RIG_ROOM];
  rig_start(&r, o);
  for (int s = 0; s < 3; s++) {
    ct_step_status_t word = {0};
    rig_load(&r, s, 4 * topo->size);
    for (int i = 0; i < r.batch.n; i++) {
      mix[i] = 0.2f + 0.1f * (float)i;
      labels2[i] = (r.batch.labels[i] + i + 1) % RIG_CLASSES;
      for (int k = 0; k < RIG_CLASSES; k++)
        targets[i * RIG_CLASSES + k] = (float)(i * 3 + k * 7 + s) / 50;
    }
    if (o->loss.kind == CT_LOSS_MSE) {
      r.batch.targets = targets;
    } else {
      r.batch.mix = mix;
      r.batch.labels2 = labels2;
    }
    CT_ASSERT_OK(rig_run(&r, &word));
  }
  uint64_t hash = rig_hash(&r);
  rig_close(&r);
  return hash;
}

static void targets_reach_the_device_too(void)
{
  for (int k = 0; k < 4; k++) {
    rig_opts_t o = {.model = rig_plain, .blocking = 1, .in_place = 1};
    if (k % 2) o.loss.kind = CT_LOSS_MSE;
    o.step_opts.micro_batches = 1 + k / 2;
    uint64_t want = run_besides(&o);
    o.in_place = 0;
    CU_ASSERT(run_besides(&o) == want);
    o.order = "late";
    CU_ASSERT(run_besides(&o) == want);
  }
}

/* A feed uses its arrays again: what lies in them is another batch if its place is another. */
static const ct_batch_t *the_same(void *ctx)
{
  return ctx;
}

static void the_same_arrays_are_no_same_batch(void)
{
  rig_t r;
  uint64_t hash[2];
  for (int follow = 0; follow < 2; follow++) {
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
    ct_batch_t next;
    if (follow) ct_trainer_follow(r.t, (ct_prefetch_t){.ahead = the_same, .ctx = &next});
    for (int s = 0; s < STEPS; s++) {
      ct_step_status_t word = {0};
      rig_load(&r, s, 4 * topo->size);
      r.batch.cursor = s;
      next = r.batch; /* what is in them now, as if it were that of some step to come */
      next.cursor = STEPS;
      CT_ASSERT_OK(rig_run(&r, &word));
    }
    hash[follow] = rig_hash(&r);
    ct_trainer_follow(r.t, (ct_prefetch_t){0});
    rig_close(&r);
  }
  CU_ASSERT(hash[0] == hash[1]);
}

/* Where all batches are the same, later steps do not even read its memory. */
static void a_batch_that_stays_is_not_copied_again(void)
{
  uint64_t hash[2];
  for (int same = 0; same < 2; same++) {
    rig_t r;
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
    rig_load(&r, 1, 4 * topo->size);
    ct_batch_t kept = r.batch;
    ct_trainer_follow(r.t, (ct_prefetch_t){.ahead = the_same, .ctx = &kept, .same = same});
    for (int s = 0; s < STEPS; s++) {
      ct_step_status_t word = {0};
      CT_ASSERT_OK(rig_run(&r, &word));
      if (same && s >= 2) spoil(&r, &r.batch);
    }
    hash[same] = rig_hash(&r);
    ct_trainer_follow(r.t, (ct_prefetch_t){0});
    rig_close(&r);
  }
  CU_ASSERT(hash[0] == hash[1]);
}

/* A device may copy as late as it can, but not later than the memory is there. */
static void who_follows_no_more_may_free_the_batches(void)
{
  rig_t r;
  ahead_t a = {0};
  ct_step_status_t word = {0};
  ct_step_report_t times = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  make_batches(&r, &a);
  ct_trainer_follow(r.t, (ct_prefetch_t){.ahead = next_of, .ctx = &a});
  CT_ASSERT_OK(ct_trainer_step(r.t, &a.batch[0], CT_OK, &(ct_schedule_point_t){0}, &word, &times));
  const void *place = r.t->input.slot[!r.t->input.used].array[CT_INPUT_LABELS];
  size_t bytes = (size_t)a.batch[1].n * sizeof(int32_t);
  CU_ASSERT(memcmp(place, a.batch[1].labels, bytes) != 0);
  ct_trainer_follow(r.t, (ct_prefetch_t){0});
  CU_ASSERT(memcmp(place, a.batch[1].labels, bytes) == 0);
  free_batches(&a);
  rig_close(&r);
}

/* What fails in a copy ahead is told in its own step, if it fails again. */
static void a_copy_ahead_may_fail(void)
{
  rig_t r;
  ahead_t a = {0};
  ct_step_status_t word = {0};
  ct_step_report_t times = {0};
  ct_schedule_point_t at = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  make_batches(&r, &a);
  ct_trainer_follow(r.t, (ct_prefetch_t){.ahead = next_of, .ctx = &a});
  if (topo->rank ==
      rig_last_rank()) { /* two copies of the first batch, those of the next; again at the end */
    flaky_order(FLAKY_COPY, FLAKY_ANY, 4);
    flaky_order(FLAKY_COPY, FLAKY_ANY, 5);
    flaky_order(FLAKY_COPY, FLAKY_ANY, 6);
  }
  CT_ASSERT_OK(ct_trainer_step(r.t, &a.batch[0], CT_OK, &at, &word, &times));
  a.now = 1;
  rig_told(ct_trainer_step(r.t, &a.batch[1], CT_OK, &at, &word, &times), CT_ERR_DEVICE,
           rig_last_rank(), "in copy");
  ct_trainer_follow(r.t, (ct_prefetch_t){0});
  rig_goes_on(&r);
  free_batches(&a);
  rig_close(&r);
}

/* ---- samples as bytes ---- */

static ct_dataset_t stored_as_bytes(const rig_t *r, int channels_last)
{
  ct_dataset_t d = {.x = r->graph->input, .info = {.x = r->graph->input}};
  d.info.x.dtype = CT_U8;
  d.info.channels_last = channels_last;
  d.affine = (ct_affine_t){2, {1 / 57.3f, 1 / 60.1f}, {-2.1f, -1.7f}};
  if (channels_last) d.affine = (ct_affine_t){1, {1 / 57.3f}, {-2.1f}};
  return d;
}

/* Steps on stored samples, which this host or the device converts, and an evaluation. */
static uint64_t run_stored(const rig_opts_t *o, int channels_last, int bytes, ct_loss_t *sum)
{
  rig_t r;
  uint8_t stored[RIG_ROOM * 2 * 6 * 6];
  rig_open(&r, o);
  ct_dataset_t d = stored_as_bytes(&r, channels_last);
  float *x = r.batch.x;
  int64_t per = ct_shape_count(&r.graph->input);
  for (int k = 0; k < 2 && bytes; k++)
    r.env.bytes_of[k] = &d;
  CU_ASSERT(ct_trainer_takes_bytes(&r.be, r.dev, &d) == !o->in_place);
  CT_ASSERT_OK(rig_create(&r));
  CT_ASSERT_INT(ct_trainer_feed_opts(r.t, 1).bytes, bytes);
  for (int s = 0; s < 4; s++) {
    ct_step_status_t word = {0};
    rig_load(&r, s, 4 * topo->size - s);
    for (int64_t i = 0; i < r.batch.n * per; i++)
      stored[i] =
          (uint8_t)ct_rng_u64(3, CT_RNG_TEST, (uint32_t)s, (uint64_t)(r.batch.first * per + i));
    ct__convert(&d, &d.info.x, r.batch.n, stored, x);
    r.batch.bytes = bytes ? stored : NULL;
    r.batch.x = bytes ? NULL : x;
    if (s < 3)
      CT_ASSERT_OK(rig_run(&r, &word));
    else
      CT_ASSERT_OK(rig_forward(&r, sum));
    r.batch.x = x;
  }
  uint64_t hash = rig_hash(&r);
  rig_close(&r);
  return hash;
}

static void it_does_not_matter_who_converts_bytes(void)
{
  static const char *const ways[] = {"inline", "late", "random:1"};
  for (int k = 0; k < 3 * 2 * 3; k++) {
    static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16};
    ct_loss_t want = {0}, sum = {0};
    rig_opts_t o = {.model = rig_norm,
                    .blocking = 1,
                    .order = ways[k % 3],
                    .max_eval = 4,
                    .step_opts = {.compute = types[k / 6]}};
    uint64_t hash = run_stored(&o, k / 3 % 2, 0, &want);
    CU_ASSERT(run_stored(&o, k / 3 % 2, 1, &sum) == hash);
    CT_ASSERT_NEAR(sum.sum, want.sum, 0);
    CT_ASSERT_INT(sum.samples, want.samples);
  }
}

/* A quarter of the float32 ones, if no batch is of those. */
static void bytes_need_less_room(void)
{
  const size_t of_x = 2 * 4 * 2 * 6 * 6; /* two batches of four */
  size_t bytes[3];
  for (int k = 0; k < 3; k++) {
    rig_t r;
    rig_open(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .max_eval = 4});
    ct_dataset_t d = stored_as_bytes(&r, 0);
    r.env.bytes_of[1] = k > 0 ? &d : NULL;
    r.env.bytes_of[0] = k > 1 ? &d : NULL;
    CT_ASSERT_OK(rig_create(&r));
    bytes[k] = ct_trainer_memory(r.t)->bytes[CT_MEMORY_BATCHES];
    rig_close(&r);
  }
  CT_ASSERT_INT(bytes[1], bytes[0]);
  CT_ASSERT_INT(bytes[0] - bytes[2], 3 * of_x);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(looking_ahead_changes_nothing),
                                    CT_TEST(targets_reach_the_device_too),
                                    CT_TEST(the_same_arrays_are_no_same_batch),
                                    CT_TEST(a_batch_that_stays_is_not_copied_again),
                                    CT_TEST(who_follows_no_more_may_free_the_batches),
                                    CT_TEST(a_copy_ahead_may_fail),
                                    CT_TEST(it_does_not_matter_who_converts_bytes),
                                    CT_TEST(bytes_need_less_room),
                                    CT_TEST_END};
  return ct_test_mpi_main("trainer_ahead", tests, argc, argv);
}
