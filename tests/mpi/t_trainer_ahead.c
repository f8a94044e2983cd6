/* The batch after this one is copied to the device while it works: nothing else changes. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"
#include "train/trainer.h"

static const ct_topo_t *topo = &ct_test_topo;

static int last_rank(void)
{
  return topo->size - 1;
}

static void same_everywhere(const char *what, uint64_t value)
{
  CT_ASSERT_OK(ct_agree_same(topo, what, value));
}

/* All ranks know what happened, and where. */
static void told(int rc, int code, int rank, const char *word)
{
  CT_ASSERT_FAILS(rc, code, word);
  CT_ASSERT_INT(ct_err_last()->rank, rank);
}

/* The ranks hold the same weights again, and go on together. */
static void goes_on(rig_t *r)
{
  flaky_clear();
  CT_ASSERT_OK(ct_trainer_broadcast(r->t, 0));
  CU_ASSERT(isfinite(rig_step(r, 0, 2 * topo->size)));
  same_everywhere("the state", rig_hash(r));
}

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
  if (follow) ct_trainer_follow(r.t, (ct_look_t){next_of, &a});
  for (int s = 0; s < STEPS; s++) {
    ct_step_word_t word = {0};
    ct_step_report_t times = {0};
    a.now = s;
    CT_ASSERT_OK(
        ct_trainer_step(r.t, &a.batch[s], CT_OK, &(ct_schedule_point_t){0}, &word, &times));
    loss[s] = word.loss_sum;
    spoil(&r, &a.batch[s]);
    if (s != 2) continue;
    ct_look_t before = ct_trainer_follow(r.t, (ct_look_t){0});
    CU_ASSERT(before.ahead == (follow ? next_of : NULL));
    rig_load(&r, 9, 4 * topo->size);
    CT_ASSERT_OK(rig_forward(&r, &sum));
    ct_trainer_follow(r.t, before);
  }
  ct_trainer_follow(r.t, (ct_look_t){0});
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

/* A device may copy as late as it can, but not later than the memory is there. */
static void who_follows_no_more_may_free_the_batches(void)
{
  rig_t r;
  ahead_t a = {0};
  ct_step_word_t word = {0};
  ct_step_report_t times = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  make_batches(&r, &a);
  ct_trainer_follow(r.t, (ct_look_t){next_of, &a});
  CT_ASSERT_OK(ct_trainer_step(r.t, &a.batch[0], CT_OK, &(ct_schedule_point_t){0}, &word, &times));
  const void *place = r.t->input[!r.t->slot].part[CT_INPUT_LABELS];
  size_t bytes = (size_t)a.batch[1].n * sizeof(int32_t);
  CU_ASSERT(memcmp(place, a.batch[1].labels, bytes) != 0);
  ct_trainer_follow(r.t, (ct_look_t){0});
  CU_ASSERT(memcmp(place, a.batch[1].labels, bytes) == 0);
  free_batches(&a);
  rig_close(&r);
}

/* What fails in a copy ahead is told in its own step, if it fails again. */
static void a_copy_ahead_may_fail(void)
{
  rig_t r;
  ahead_t a = {0};
  ct_step_word_t word = {0};
  ct_step_report_t times = {0};
  ct_schedule_point_t at = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  make_batches(&r, &a);
  ct_trainer_follow(r.t, (ct_look_t){next_of, &a});
  if (topo->rank ==
      last_rank()) { /* two copies of the first batch, those of the next; again at the end */
    flaky_order(FLAKY_COPY, FLAKY_ANY, 4);
    flaky_order(FLAKY_COPY, FLAKY_ANY, 5);
    flaky_order(FLAKY_COPY, FLAKY_ANY, 6);
  }
  CT_ASSERT_OK(ct_trainer_step(r.t, &a.batch[0], CT_OK, &at, &word, &times));
  a.now = 1;
  told(ct_trainer_step(r.t, &a.batch[1], CT_OK, &at, &word, &times), CT_ERR_DEVICE, last_rank(),
       "in copy");
  ct_trainer_follow(r.t, (ct_look_t){0});
  goes_on(&r);
  free_batches(&a);
  rig_close(&r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(looking_ahead_changes_nothing),
                                    CT_TEST(who_follows_no_more_may_free_the_batches),
                                    CT_TEST(a_copy_ahead_may_fail), CT_TEST_END};
  return ct_test_mpi_main("trainer_ahead", tests, argc, argv);
}
