/* Small models, batches out of a formula and a trainer on the flaky backend; and what tests ask of
 * it: the hash of all state, one rank's numbers against another's, no memory left behind. */
#include "tests/mpi/trainer_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "tests/mpi/flaky.h"

const char *const rig_plain = "layers:\n"
                              "- conv2d: {out: 3, kernel: 3, padding: 1}\n"
                              "- relu:\n"
                              "- maxpool: {kernel: 2}\n"
                              "- flatten:\n"
                              "- linear: {out: 12}\n"
                              "- relu:\n"
                              "- dropout: {p: 0.4}\n"
                              "- linear: {out: 10}\n";

#define NORM(middle, width)                                           \
  "layers:\n"                                                         \
  "- conv2d: {out: 3, kernel: 3, padding: 1}\n  name: conv\n"         \
  "- batchnorm:\n  name: norm\n"                                      \
  "- relu:\n  name: first\n"                                          \
  "- conv2d: {out: 3, kernel: 3, padding: 1, bias: false}\n"          \
  "- batchnorm:\n  name: norm2\n"                                     \
  "- add:\n  from: [norm2, first]\n"                                  \
  "- relu:\n"                                                         \
  "- flatten:\n" middle "- linear: {out: " #width "}\n  name: wide\n" \
  "- dropout: {p: 0.4}\n"                                             \
  "- linear: {out: 10}\n  name: last\n"
const char *const rig_norm = NORM("", 12);
const char *const rig_shared = "layers:\n"
                               "- flatten:\n"
                               "- linear: {out: 72}\n  name: own\n"
                               "- relu:\n"
                               "- linear: {out: 72}\n  weights: [own.weight]\n"
                               "- relu:\n"
                               "- linear: {out: 72}\n  weights: [own.weight, own.bias]\n"
                               "- dropout: {p: 0.4}\n"
                               "- linear: {out: 10}\n";
const char *const rig_wider = NORM("", 13);
const char *const rig_longer = NORM("- linear: {out: 108}\n  name: more\n- relu:\n", 12);

/* ---- a communicator that has moved everything when reduce() returns ----
 *
 * Opening the real one takes MPI long where there are more ranks than cores, too long for a test
 * that makes hundreds of trainers. */

static void *taken; /* by the trainer that is being made */

static int take(ct_comm_t *c, size_t bytes, void **out)
{
  (void)c;
  *out = taken = ct_mem_alloc(bytes, "gradients");
  return ct_agree(&ct_test_topo, taken ? CT_OK : CT_ERR_NOMEM);
}

/* In the order of the ranks, so that every way to cut the buffer gives the same bits. */
static void sum_up(float *buf, int64_t n)
{
  enum { PIECE = 1024 };
  const ct_topo_t *t = &ct_test_topo;
  float sum[PIECE], from[PIECE];
  for (int64_t at = 0; at < n; at += PIECE) {
    size_t len = n - at < PIECE ? (size_t)(n - at) : PIECE;
    for (int r = 0; r < t->size; r++) {
      memcpy(from, buf + at, len * sizeof *from);
      ct_mpi_bcast(t, t->world, from, len * sizeof *from, r);
      for (size_t i = 0; i < len; i++)
        sum[i] = r ? sum[i] + from[i] : from[i];
    }
    memcpy(buf + at, sum, len * sizeof *sum);
  }
}

static int64_t slice_begin(int64_t n, int rank)
{
  int64_t step = (n / ct_test_topo.size + 16) / 16 * 16;
  return rank * step < n ? rank * step : n;
}

static void gather_now(char *buf, int64_t n, int size)
{
  const ct_topo_t *t = &ct_test_topo;
  for (int r = 0; r < t->size; r++) {
    int64_t from = slice_begin(n, r), to = slice_begin(n, r + 1);
    ct_mpi_bcast(t, t->world, buf + from * size, (size_t)((to - from) * size), r);
  }
}

static int reduce_now(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                      int *ticket)
{
  (void)c;
  *ticket = 0;
  int rc = after ? flaky_backend().queue->wait(after) : CT_OK;
  if (ct_test_topo.size > 1 && how < CT_GATHER) sum_up(buf, n);
  if (ct_test_topo.size > 1 && how >= CT_GATHER)
    gather_now((char *)buf, n, how == CT_GATHER ? 4 : 2);
  return rc;
}

static int progress(ct_comm_t *c)
{
  (void)c;
  return CT_OK;
}

static int end(ct_comm_t *c, int ticket, ct_queue_t *q)
{
  (void)c;
  (void)ticket;
  (void)q;
  return CT_OK;
}

static int broadcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root)
{
  const ct_topo_t *t = &ct_test_topo;
  (void)c;
  int rc = ct_agree(t, flaky_backend().queue->sync(q));
  if (rc == CT_OK && t->size > 1) ct_mpi_bcast(t, t->world, buf, bytes, root);
  return rc;
}

/* ---- its groups, slices and rows ---- */

enum { MOST_RANKS = 16 };

struct ct_group {
  int color[MOST_RANKS]; /* of every rank */
};

static int make_group(ct_comm_t *c, int color, ct_group_t **out)
{
  static ct_group_t all[8];
  static int used;
  const ct_topo_t *t = &ct_test_topo;
  (void)c;
  ct_group_t *g = *out = &all[used++ % 8];
  for (int r = 0; r < t->size; r++) {
    g->color[r] = color;
    if (t->size > 1) ct_mpi_bcast(t, t->world, &g->color[r], sizeof color, r);
  }
  return CT_OK;
}

/* All groups at once: every rank shows its numbers to all. */
static int group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n)
{
  enum { PIECE = 512 };
  const ct_topo_t *t = &ct_test_topo;
  double sum[PIECE], from[PIECE];
  int rc = flaky_backend().queue->sync(q);
  for (int64_t at = 0; t->size > 1 && at < n; at += PIECE) {
    size_t len = n - at < PIECE ? (size_t)(n - at) : PIECE;
    memset(sum, 0, sizeof sum);
    for (int r = 0; r < t->size; r++) {
      memcpy(from, buf + at, len * sizeof *from);
      ct_mpi_bcast(t, t->world, from, len * sizeof *from, r);
      for (size_t i = 0; i < len && g->color[r] == g->color[t->rank]; i++)
        sum[i] += from[i];
    }
    memcpy(buf + at, sum, len * sizeof *sum);
  }
  return rc;
}

static void slice(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
{
  (void)c;
  *from = slice_begin(n, rank);
  *to = slice_begin(n, rank + 1);
}

static int gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK;
  for (int r = 0; r < ct_test_topo.size; r++) {
    int64_t from = slice_begin(n, r), to = slice_begin(n, r + 1);
    CT_TRY(broadcast(c, q, buf + from, (size_t)(to - from) * sizeof *buf, r));
  }
out:
  return rc;
}

static void counts_of(const int64_t bytes[], int count[], int offset[])
{
  for (int r = 0; r < ct_test_topo.size; r++) {
    count[r] = (int)bytes[r];
    offset[r] = r ? offset[r - 1] + count[r - 1] : 0;
  }
}

static int scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine, const int64_t bytes[])
{
  int rc = CT_OK, count[MOST_RANKS], offset[MOST_RANKS];
  const ct_topo_t *t = &ct_test_topo;
  (void)c;
  CT_TRY_ALL(t, flaky_backend().queue->sync(q));
  counts_of(bytes, count, offset);
  CT_MPI(t,
         MPI_Scatterv(all, count, offset, MPI_BYTE, mine, count[t->rank], MPI_BYTE, 0, t->world));
out:
  return rc;
}

static int collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all, const int64_t bytes[])
{
  int rc = CT_OK, count[MOST_RANKS], offset[MOST_RANKS];
  const ct_topo_t *t = &ct_test_topo;
  (void)c;
  CT_TRY_ALL(t, flaky_backend().queue->sync(q));
  counts_of(bytes, count, offset);
  CT_MPI(t, MPI_Gatherv(mine, count[t->rank], MPI_BYTE, all, count, offset, MPI_BYTE, 0, t->world));
out:
  return rc;
}

static int reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  (void)c;
  int rc = ct_agree(&ct_test_topo, flaky_backend().queue->sync(q));
  if (rc == CT_OK && ct_test_topo.size > 1) sum_up(buf, n);
  return rc;
}

static int64_t bytes_sent(const ct_comm_t *c)
{
  (void)c;
  return 0;
}

static void waited(ct_comm_t *c, int of, double *transfers, double *groups)
{
  (void)c;
  (void)of;
  *transfers = *groups = 0;
}

static const ct_comm_ops_t blocking = {.size = sizeof(ct_comm_ops_t),
                                       .name = "blocking",
                                       .alloc = take,
                                       .reduce = reduce_now,
                                       .slice = slice,
                                       .gather = gather,
                                       .progress = progress,
                                       .end = end,
                                       .bcast = broadcast,
                                       .group = make_group,
                                       .group_sum = group_sum,
                                       .scatter = scatter,
                                       .collect = collect,
                                       .reduce_root = reduce_root,
                                       .bytes_sent = bytes_sent,
                                       .waited = waited};

/* ---- the rig ---- */

static ct_graph_t *make_graph(const char *yaml)
{
  ct_graph_t *g = NULL;
  ct_yaml_t *root = NULL;
  ct_shape_t input = ct_shape(4, 1, 2, 6, 6);
  ct_model_opts_t m = {.family = (char[]){""}};
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "test", &root));
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  m.layers = ct_yaml_find(root, "layers");
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, RIG_CLASSES, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  ct_yaml_free(root);
  return g;
}

static void freeze(ct_graph_t *g, const rig_opts_t *o)
{
  int updating;
  char *pattern = (char *)(uintptr_t)o->freeze;
  ct_opt_texts_t patterns = {.v = &pattern, .n = o->freeze != NULL};
  if (o->freeze || o->freeze_bn)
    CT_ASSERT_OK(ct_graph_freeze(g, &patterns, o->freeze_bn, &updating));
}

static void open_device(rig_t *r, const char *order)
{
  if (order) setenv("CTRAIN_REF_ORDER", order, 1);
  CT_ASSERT_OK(r->be.open(&(ct_dev_opts_t){.threads = 1}, &r->dev));
  unsetenv("CTRAIN_REF_ORDER");
}

void rig_open(rig_t *r, const rig_opts_t *o)
{
  *r = (rig_t){.be = flaky_backend(), .topo = ct_test_topo};
  r->be.in_place = o->in_place;
  if (o->alone) r->topo = (ct_topo_t){.size = 1, .local_size = 1, .nodes = 1, .threads = 1};
  r->optim = o->optim;
  if (r->optim.lr == 0)
    r->optim = (ct_optim_opts_t){.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
  r->graph = make_graph(o->model);
  freeze(r->graph, o);
  open_device(r, o->order);
  ct_comm_opts_t comm_opts = {.fixed_order = o->step_opts.fixed_order};
  r->comm_ops = o->blocking ? &blocking : &ct_comm_mpi;
  if (!o->blocking) CT_ASSERT_OK(ct_comm_mpi.open(&r->topo, &r->be, r->dev, &comm_opts, &r->comm));
  r->env = (ct_trainer_env_t){.topo = &r->topo,
                              .be = &r->be,
                              .dev = r->dev,
                              .comm_ops = r->comm_ops,
                              /* a handle, at which the rig's own does not look */
                              .comm = o->blocking ? (ct_comm_t *)r : r->comm,
                              .graph = r->graph,
                              .optim = &r->optim,
                              .where = "test",
                              .step_opts = o->step_opts,
                              .loss = o->loss,
                              .class_weight = o->class_weight,
                              .bucket_mb = o->bucket_mb,
                              .seed = o->seed ? o->seed : 1,
                              .max_batch = o->max_batch ? o->max_batch : 4,
                              .max_eval = o->max_eval,
                              .training = !o->evaluation};
  int64_t count = RIG_ROOM * ct_shape_count(&r->graph->input);
  r->batch.x = ct_mem_array(count, sizeof *r->batch.x, "test");
  r->batch.labels = ct_mem_array(RIG_ROOM, sizeof *r->batch.labels, "test");
}

int rig_create(rig_t *r)
{
  taken = NULL;
  int rc = ct_trainer_create(&r->env, &r->t);
  r->taken = taken;
  return rc;
}

void rig_start(rig_t *r, const rig_opts_t *o)
{
  rig_open(r, o);
  CT_ASSERT_OK(rig_create(r));
  CU_ASSERT_PTR_NOT_NULL_FATAL(r->t);
}

void rig_close(rig_t *r)
{
  ct_trainer_destroy(r->t);
  ct_comm_mpi.close(r->comm);
  ct_mem_free(r->taken);
  r->be.close(r->dev);
  ct_graph_free(r->graph);
  ct_mem_free(r->batch.x);
  ct_mem_free(r->batch.labels);
  ct_mem_free(r->item);
}

float rig_element(int step, int64_t i)
{
  return ct_rng_normal(1, CT_RNG_TEST, (uint32_t)step, (uint64_t)i);
}

int32_t rig_label(int step, int64_t place)
{
  return (int32_t)((place * 7 + step * 3) % RIG_CLASSES);
}

void rig_load(rig_t *r, int step, int global)
{
  ct_batch_t *b = &r->batch;
  int64_t per = ct_shape_count(&r->graph->input);
  b->global = global;
  ct_sampler_t s = {.micro_batches = r->env.step_opts.micro_batches};
  const ct_strategy_t *strategy = r->env.step_opts.strategy;
  int dp = strategy && strategy->rank0_deals; /* rank 0 has all of it */
  b->n = (int)ct_sampler_local_batch(&s, global, dp ? 0 : r->topo.rank, dp ? 1 : r->topo.size,
                                     &b->first);
  if (dp && r->topo.rank) b->n = 0;
  CU_ASSERT_FATAL(b->n <= RIG_ROOM);
  for (int64_t i = 0; i < b->n * per; i++)
    b->x[i] = rig_element(step, b->first * per + i);
  for (int i = 0; i < b->n; i++)
    b->labels[i] = rig_label(step, b->first + i);
}

int rig_run(rig_t *r, ct_step_status_t *word)
{
  ct_step_report_t times = {0};
  return ct_trainer_step(r->t, &r->batch, CT_OK, &(ct_schedule_point_t){0}, word, &times);
}

double rig_step(rig_t *r, int step, int global)
{
  ct_step_status_t word = {0};
  rig_load(r, step, global);
  CT_ASSERT_OK(rig_run(r, &word));
  CT_ASSERT_INT(word.samples, global);
  return word.loss_sum / (double)word.samples;
}

int rig_forward(rig_t *r, ct_loss_t *sum)
{
  return r->batch.n ? ct_trainer_forward(r->t, &r->batch, sum) : CT_OK;
}

uint64_t rig_snapshot(rig_t *r, const ct_position_t *at, int whole)
{
  uint64_t hash = 0;
  r->items = ct_trainer_items(r->t);
  if (!r->item) r->item = ct_mem_array(r->items, sizeof *r->item, "test");
  CU_ASSERT_PTR_NOT_NULL_FATAL(r->item);
  int slices = ct_trainer_snapshot_is_collective(r->t); /* rank 0 gets them */
  int has = !slices || ct_test_topo.rank == 0;
  if (CT_ASSERT_OK(ct_trainer_snapshot(r->t, at, has ? r->item : NULL))) return 0;
  for (int i = 0; i < r->items && has; i++) {
    const ct_ckpt_item_t *it = &r->item[i];
    if (!whole && strstr(it->name, ".running_")) continue;
    hash = ct_hash_text(it->name, hash);
    size_t bytes = (size_t)ct_shape_count(&it->shape) * ct_dtype_size(it->shape.dtype);
    hash = ct_hash(it->data, bytes, hash);
  }
  if (slices) ct_mpi_bcast(&ct_test_topo, ct_test_topo.world, &hash, sizeof hash, 0);
  return hash;
}

uint64_t rig_hash(rig_t *r)
{
  ct_position_t none = {0};
  return rig_snapshot(r, &none, 0);
}

int rig_last_rank(void)
{
  return ct_test_topo.size - 1;
}

void rig_same(const char *what, uint64_t value)
{
  CT_ASSERT_OK(ct_agree_same(&ct_test_topo, what, value));
}

void rig_told(int rc, int code, int rank, const char *word)
{
  CT_ASSERT_FAILS(rc, code, word);
  CT_ASSERT_INT(ct_err_last()->rank, rank);
}

void rig_goes_on(rig_t *r)
{
  flaky_clear();
  CT_ASSERT_OK(ct_trainer_broadcast(r->t, 0));
  CU_ASSERT(isfinite(rig_step(r, 0, 2 * ct_test_topo.size)));
  rig_same("the state", rig_hash(r));
}
