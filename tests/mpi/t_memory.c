/* What a trainer's memory is said to be is what it allocates: by name as the trainer counts it, and
 * in all as the device does. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "model/ct_family.h"
#include "tests/harness/ct_test_backend.h"
#include "tests/harness/ct_test_mpi.h"
#include "train/ct_trainer.h"

static const ct_topo_t *const topo = &ct_test_topo;

/* ---- a device that counts ---- */

enum { BLOCKS = 256 };
static const ct_backend_t *device;
static ct_backend_t counting;
static ct_mem_ops_t counting_mem;
static ct_op_ops_t counting_op;
static struct {
  void *p;
  size_t bytes;
} block[BLOCKS];
static size_t now, most;

static int count_alloc(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out)
{
  int rc = device->mem->alloc(dev, kind, bytes, out), i = 0;
  if (rc != CT_OK || kind != CT_MEM_DEVICE) return rc;
  while (i < BLOCKS && block[i].p)
    i++;
  CU_ASSERT_FATAL(i < BLOCKS);
  block[i].p = *out;
  block[i].bytes = bytes;
  now += bytes;
  if (now > most) most = now;
  return rc;
}

static void count_free(ct_dev_t *dev, ct_mem_kind_t kind, void *p)
{
  for (int i = 0; i < BLOCKS && p; i++) {
    if (block[i].p != p) continue;
    now -= block[i].bytes;
    block[i].p = NULL;
  }
  device->mem->free(dev, kind, p);
}

/* Losses want scratch, more of it the more samples they are of. */
static int prepare_greedy(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                          ct_op_info_t *info)
{
  int rc = device->op->prepare(dev, d, like, out, info);
  if (rc == CT_OK && d->kind == CT_OP_LOSS) info->scratch += (size_t)d->x.dim[0] * 4096;
  return rc;
}

static void open_counting(const char *name)
{
  const ct_comm_ops_t *own;
  device = ct_test_backend(name, &own);
  CU_ASSERT_PTR_NOT_NULL_FATAL(device);
  counting = *device;
  counting_mem = *device->mem;
  counting_mem.alloc = count_alloc;
  counting_mem.free = count_free;
  counting.mem = &counting_mem;
  counting_op = *device->op;
  counting_op.prepare = prepare_greedy;
  counting.op = &counting_op;
  now = most = 0;
}

/* ---- runs ---- */

#define CONV "- conv2d: {out: 5, kernel: 3, padding: 1}\n"
static const char plain[] = "layers:\n" CONV "- relu:\n- maxpool: {kernel: 2}\n- flatten:\n"
                            "- linear: {out: 30}\n- relu:\n- dropout: {p: 0.4}\n"
                            "- linear: {out: 10}\n";
static const char norm[] = "layers:\n" CONV "- batchnorm:\n- relu:\n  name: first\n" CONV
                           "- batchnorm:\n  name: norm2\n- add:\n  from: [norm2, first]\n- relu:\n"
                           "- flatten:\n- linear: {out: 10}\n";
static const char tied[] = "layers:\n- embedding: {rows: 4000, dim: 2}\n  name: table\n"
                           "- flatten:\n- linear: {out: 2}\n- linear: {out: 4000, bias: false}\n"
                           "  weights: [table.weight]\n- linear: {out: 10}\n";

enum { SGD, ADAM, LARS = 4, MUON = 12 };
typedef struct run {
  const char *model;
  int64_t samples, batch; /* of a rank, as all that follows: of training (0: none) … */
  int64_t val, eval;      /* … and of evaluation; 0: none */
  int accumulate, shards, zero, dp, amp;
  const char *sync_bn;
  int optim, weighted, frozen;
  int bytes; /* samples are stored as such, and the device converts them */
  int low;   /* the device wants low weights */
  double ema;
  int qat;
  int host;   /* the states are in host memory */
  int budget; /* 1: half of what recomputation can save must be saved */
} run_t;

enum { OFF, BF16, FP16 };
static const run_t runs[] = {
    {.model = plain, .samples = 8, .batch = 8},
    {.model = plain, .samples = 13, .batch = 4, .val = 3, .eval = 2},
    {.model = plain, .samples = 8, .batch = 2, .val = 40, .eval = 32},
    {.model = norm, .samples = 8, .batch = 8, .val = 8, .eval = 8, .optim = ADAM},
    {.model = norm, .samples = 9, .batch = 4, .val = 64, .eval = 64, .optim = LARS},
    {.model = norm, .samples = 16, .batch = 16, .val = 16, .eval = 16, .accumulate = 4},
    {.model = norm, .samples = 19, .batch = 8, .val = 5, .eval = 5, .accumulate = 3},
    {.model = plain, .samples = 16, .batch = 8, .val = 9, .eval = 9, .shards = 4},
    {.model = plain, .samples = 12, .batch = 8, .shards = 8, .optim = ADAM},
    {.model = plain, .samples = 8, .batch = 8, .val = 8, .eval = 8, .zero = 1, .optim = ADAM},
    {.model = norm, .samples = 8, .batch = 4, .val = 9, .eval = 9, .zero = 1, .accumulate = 2},
    {.model = norm, .samples = 8, .batch = 4, .zero = 1, .optim = LARS},
    {.model = plain, .samples = 8, .batch = 4, .optim = MUON},
    {.model = plain, .samples = 9, .batch = 4, .amp = BF16, .zero = 1, .optim = MUON},
    {.model = plain, .samples = 9, .batch = 4, .val = 7, .eval = 3, .dp = 1},
    {.model = norm, .samples = 8, .batch = 4, .val = 50, .eval = 50, .dp = 1, .optim = ADAM},
    {.model = plain, .samples = 8, .batch = 8, .amp = BF16},
    {.model = norm, .samples = 8, .batch = 2, .val = 40, .eval = 32, .amp = BF16, .optim = ADAM},
    {.model = norm, .samples = 9, .batch = 8, .val = 9, .eval = 8, .amp = BF16, .accumulate = 2},
    {.model = norm, .samples = 8, .batch = 4, .val = 4, .eval = 4, .amp = BF16, .zero = 1},
    {.model = norm, .samples = 8, .batch = 4, .val = 5, .eval = 4, .sync_bn = "world"},
    {.model = norm, .samples = 8, .batch = 4, .amp = BF16, .sync_bn = "node", .optim = LARS},
    {.model = plain, .samples = 8, .batch = 8, .val = 8, .eval = 8, .weighted = 1},
    {.model = norm, .samples = 8, .batch = 4, .val = 8, .eval = 4, .frozen = 1, .optim = ADAM},
    {.model = norm, .samples = 8, .batch = 4, .val = 9, .eval = 9, .bytes = 1},
    {.model = norm, .samples = 8, .batch = 4, .val = 8, .eval = 4, .amp = FP16, .low = 1},
    {.model = norm, .samples = 9, .batch = 4, .amp = BF16, .low = 1, .zero = 1, .optim = ADAM},
    {.model = norm, .val = 9, .eval = 4, .weighted = 1},
    {.model = norm, .samples = 8, .batch = 4, .val = 8, .eval = 4, .ema = 0.9},
    {.model = norm, .samples = 9, .batch = 4, .amp = BF16, .low = 1, .zero = 1, .ema = 0.9},
    {.model = norm, .val = 9, .eval = 4, .ema = 0.9},
    {.model = norm, .samples = 8, .batch = 4, .val = 8, .eval = 4, .qat = 1},
    {.model = plain, .val = 40, .eval = 32, .amp = BF16, .low = 1, .accumulate = 2, .bytes = 1},
    {.model = norm, .samples = 9, .batch = 8, .val = 9, .eval = 2, .budget = 1},
    {.model = norm, .samples = 8, .batch = 8, .amp = BF16, .sync_bn = "world", .budget = 1},
    {.model = norm, .samples = 16, .batch = 16, .accumulate = 2, .zero = 1, .budget = 1},
    {.model = plain, .samples = 16, .batch = 8, .shards = 4, .optim = ADAM, .budget = 1},
    {.model = tied, .samples = 9, .batch = 4, .val = 4, .eval = 4},
    {.model = norm, .samples = 9, .batch = 4, .optim = ADAM, .host = 1},
    {.model = norm, .samples = 9, .batch = 4, .low = 1, .amp = BF16, .zero = 1, .host = 1},
    {.model = tied, .samples = 8, .batch = 4, .amp = BF16, .zero = 1, .optim = ADAM},
};
enum { RUNS = sizeof runs / sizeof *runs };

typedef struct made {
  ct_train_opts_t train;
  ct_parallel_opts_t parallel;
  ct_optim_opts_t optim;
  ct_graph_t *graph;
  ct_dev_t *dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  ct_dataset_t stored;
  ct_trainer_env_t env;
  ct_batches_t batches[2];
} made_t;

static ct_graph_t *make_graph(const run_t *r)
{
  int updating;
  ct_graph_t *g = NULL;
  ct_yaml_t *root = NULL;
  ct_shape_t input = ct_shape(4, 1, 3, 8, 8);
  ct_model_opts_t m = {.family = (char[]){""}};
  ct_opt_texts_t first = {.v = (char *[]){(char[]){"*1.weight"}}, .n = 1};
  CT_ASSERT_OK(ct_yaml_parse(r->model, strlen(r->model), "test", &root));
  m.layers = ct_yaml_find(root, "layers");
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  if (r->frozen) CT_ASSERT_OK(ct_graph_freeze(g, &first, 0, &updating));
  ct_yaml_free(root);
  return g;
}

static int mode_of(const char *word)
{
  int mode = 0;
  while (strcmp(ct_opt_word(ct_parallel_rows, "mode", mode), word) != 0)
    mode++;
  return mode;
}

static void set_options(made_t *m, const run_t *r)
{
  CT_ASSERT_OK(ct_opt_defaults(ct_train_rows, &m->train));
  CT_ASSERT_OK(ct_opt_defaults(ct_parallel_rows, &m->parallel));
  CT_ASSERT_OK(ct_opt_defaults(ct_optim_rows, &m->optim));
  m->optim.kind = r->optim;
  m->optim.place = r->host ? CT_OPTIM_ON_HOST : CT_OPTIM_ON_DEVICE;
  m->train.amp = r->amp;
  m->train.ema = r->ema;
  m->train.qat = r->qat;
  if (r->accumulate) m->train.accumulate = r->accumulate;
  m->parallel.shards = r->shards * topo->size;
  m->parallel.zero = r->zero;
  if (r->dp) m->parallel.mode = mode_of("dp");
  if (!r->sync_bn) return;
  ct_mem_free(m->train.sync_bn);
  m->train.sync_bn = ct_mem_strdup(r->sync_bn);
}

static int largest(ct_batches_t b, int micro_batches)
{
  int64_t first;
  ct_sampler_t s = {.micro_batches = micro_batches};
  return (int)ct_sampler_local_batch(&s, b.batch < b.samples ? b.batch : b.samples, 0, topo->size,
                                     &first);
}

/* What of the run is the device's, and what its samples come as. */
static void set_device(made_t *m, const run_t *r)
{
  if (r->low) counting.reduced_weights = 1;
  if (!r->bytes) return;
  counting.in_place = 0;
  m->stored = (ct_dataset_t){.x = m->graph->input, .info.x = m->graph->input};
  m->stored.info.x.dtype = CT_U8;
  m->stored.affine = (ct_affine_t){1, {1 / 57.3f}, {-2.1f}};
  CU_ASSERT(ct_trainer_takes_bytes(&counting, m->dev, &m->stored));
  m->env.bytes_of[0] = &m->stored;
  if (r->samples) m->env.bytes_of[1] = &m->stored;
}

static void make(made_t *m, const run_t *r, const char *name)
{
  static const float weights[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  *m = (made_t){0};
  open_counting(name);
  set_options(m, r);
  m->graph = make_graph(r);
  CT_ASSERT_OK(counting.open(&(ct_dev_opts_t){.threads = 1}, &m->dev));
  m->env = (ct_trainer_env_t){.topo = topo,
                              .be = &counting,
                              .dev = m->dev,
                              .graph = m->graph,
                              .optim = &m->optim,
                              .where = "test",
                              .class_weight = r->weighted ? weights : NULL,
                              .loss.weighted = r->weighted,
                              .seed = 1,
                              .training = r->samples > 0};
  const ct_comm_ops_t *comm;
  m->env.host = ct_test_backend("cpu", &comm);
  CT_ASSERT_OK(m->env.host->open(&(ct_dev_opts_t){.threads = 1}, &m->env.host_dev));
  set_device(m, r);
  CT_ASSERT_OK(ct_step_opts_make(&m->parallel, &m->train, topo->size, &m->env.step_opts));
  ct_comm_opts_t o = {.fixed_order = m->env.step_opts.fixed_order};
  m->comm_ops = device->host_memory ? &ct_comm_mpi : &ct_comm_staged;
  CT_ASSERT_OK(m->comm_ops->open(topo, device, m->dev, &o, &m->comm));
  m->env.comm_ops = m->comm_ops;
  m->env.comm = m->comm;
  m->batches[0] = (ct_batches_t){r->val * topo->size, r->eval * topo->size};
  if (r->samples)
    m->batches[1] = (ct_batches_t){r->samples * topo->size - 1, r->batch * topo->size};
  m->env.max_eval = r->val ? largest(m->batches[0], 1) : 0;
  m->env.max_batch = r->samples ? largest(m->batches[1], m->env.step_opts.micro_batches) : 0;
}

static void clear(made_t *m)
{
  m->comm_ops->close(m->comm);
  counting.close(m->dev);
  m->env.host->close(m->env.host_dev);
  ct_graph_free(m->graph);
  ct_opt_clear(ct_train_rows, &m->train);
  ct_opt_clear(ct_parallel_rows, &m->parallel);
  ct_opt_clear(ct_optim_rows, &m->optim);
}

/* As the loop does, to a checkpoint. */
static void get_ready(made_t *m, ct_trainer_t **t)
{
  CT_ASSERT_OK(ct_trainer_create(&m->env, t));
  for (int k = 1; k >= 0; k--)
    if (m->batches[k].samples)
      CT_ASSERT_OK(ct_trainer_prepare(*t, m->batches[k].samples, m->batches[k].batch, k));
  ct_ckpt_item_t *item = ct_mem_array(ct_trainer_items(*t), sizeof *item, "test");
  CT_ASSERT_OK(ct_trainer_snapshot(*t, &(ct_position_t){0}, item));
  ct_mem_free(item);
}

/* Sets the budget in the middle between the least and what is enough without recomputation. */
static void squeeze(made_t *m)
{
  ct_memory_t tight;
  m->env.memory = 1;
  m->env.saves = topo->rank == 0;
  CT_ASSERT_OK(ct_trainer_plan_memory(&m->env, m->batches, &tight));
  CU_ASSERT(!tight.budget.met);
  size_t least = tight.budget.least, whole = ct_budget_peak(&tight.budget, 1);
  CU_ASSERT(least <= whole);
  m->env.memory = (least + whole) / 2;
}

static int
    squeezed; /* runs that recompute: some of these networks are too small to save anything */

static void check_budget(const made_t *m, const ct_memory_t *said, const ct_trainer_t *t)
{
  const ct_budget_t *b = &said->budget, *own = ct_trainer_budget(t);
  CU_ASSERT(b->met && ct_budget_peak(b, 0) <= m->env.memory);
  CT_ASSERT_INT(b->again > 0, m->env.memory < ct_budget_peak(b, 1));
  squeezed += b->again > 0;
  CT_ASSERT_INT(ct_budget_peak(b, 0), ct_budget_peak(own, 0)); /* one decision */
  CT_ASSERT_INT(b->again, own->again);
}

static int is_there[CT_MEMORY_COUNT]; /* in some run */

static void compare(const run_t *r, const char *name)
{
  made_t m;
  ct_memory_t said, alone;
  ct_trainer_t *t = NULL;
  make(&m, r, name);
  if (r->budget) squeeze(&m);
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &said));
  CT_ASSERT_INT(most, 0); /* nothing is allocated for the account */
  get_ready(&m, &t);
  const ct_memory_t *taken = ct_trainer_memory(t);
  for (int k = 0; k < CT_MEMORY_COUNT; k++) {
    CT_ASSERT_INT(said.bytes[k], taken->bytes[k]);
    is_there[k] += said.bytes[k] > 0;
  }
  if (r->host) CU_ASSERT(said.on_host > 0 && said.bytes[CT_MEMORY_STATES] == 0);
  CT_ASSERT_INT(most, ct_memory_total(&said) - said.bytes[CT_MEMORY_GRADIENTS]);
  if (r->budget) check_budget(&m, &said, t);
  ct_trainer_destroy(t);
  CT_ASSERT_INT(now, 0);
  m.env.comm = NULL;
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &alone));
  CU_ASSERT(ct_memory_total(&alone) >= ct_memory_total(&said));
  if (topo->rank == 0 && device->host_memory)
    CT_ASSERT_INT(ct_memory_total(&alone), ct_memory_total(&said));
  clear(&m);
}

/* Shards are a power of two; some types and conversions are not the cpu's, nor is what a device
 * with memory of its own wants. */
static int can(const run_t *r, const char *name)
{
  int on_cpu = strcmp(name, "cpu") == 0;
  if (r->shards && (topo->size & (topo->size - 1)) != 0) return 0;
  if (r->host && (on_cpu || strcmp(name, "ref") == 0)) return 0;
  return !on_cpu || (!r->bytes && !r->low && r->amp != FP16);
}

static void what_is_said_is_allocated(void)
{
  static const char *const both[] = {"ref", "cpu"};
  const char *one = getenv("CT_TEST_DEVICE");
  for (int d = 0; d < (one ? 1 : 2); d++)
    for (int i = 0; i < RUNS; i++)
      if (can(&runs[i], one ? one : both[d])) compare(&runs[i], one ? one : both[d]);
  int odd = (topo->size & (topo->size - 1)) !=
            0; /* no shards; one rank gathers no rows; rank 0 alone writes */
  CU_ASSERT(squeezed >= 2);
  for (int k = 0; k < CT_MEMORY_COUNT; k++)
    CU_ASSERT(is_there[k] > 0 || (k == CT_MEMORY_LATE_ROWS && topo->size == 1) ||
              (k == CT_MEMORY_PARTIAL_SUMS && odd) || (k == CT_MEMORY_STATE_PIECE && topo->rank));
}

/* ---- before there is a communicator ---- */

/* NCCL's slices: rounded down, and the rest is the last rank's. */
static void rest_to_the_last(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
{
  int64_t step = n / topo->size / 16 * 16;
  (void)c;
  *from = rank * step;
  *to = rank == topo->size - 1 ? n : *from + step;
}

static void no_communicator_needs_more_than_was_said(void)
{
  made_t m;
  ct_comm_ops_t other;
  ct_memory_t said, alone;
  run_t r = {.model = plain, .samples = 8, .batch = 8, .zero = 1, .optim = ADAM};
  make(&m, &r, "ref");
  counting.host_memory = 0;
  other = *m.comm_ops;
  other.slice = rest_to_the_last;
  m.env.comm_ops = &other;
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &said));
  m.env.comm = NULL;
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &alone));
  CU_ASSERT(alone.bytes[CT_MEMORY_STATES] >= said.bytes[CT_MEMORY_STATES]);
  clear(&m);
}

/* The figures of a case that can be reckoned by hand. */
static void a_large_evaluation_is_counted(void)
{
  made_t m;
  ct_memory_t small, large;
  run_t r = {.model = plain, .samples = 8, .batch = 2, .val = 64, .eval = 2};
  make(&m, &r, "ref");
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &small));
  clear(&m);
  r.eval = 64;
  make(&m, &r, "ref");
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &large));
  clear(&m);
  CT_ASSERT_INT(large.samples[0], 64);
  CT_ASSERT_INT(large.samples[1], 2);
  CU_ASSERT(small.bytes[CT_MEMORY_ACTIVATIONS] > small.evaluation);
  CT_ASSERT_INT(large.bytes[CT_MEMORY_ACTIVATIONS], large.evaluation);
  CU_ASSERT(large.evaluation >= 64 * 5 * 8 * 8 * sizeof(float)); /* what the convolution writes */
}

static void copies_on_the_device_are_counted(void)
{
  made_t m;
  ct_memory_t said;
  run_t r = {.model = norm, .samples = 8, .batch = 4, .val = 9, .eval = 9, .amp = BF16};
  r.bytes = r.low = 1;
  make(&m, &r, "ref");
  CT_ASSERT_OK(ct_trainer_plan_memory(&m.env, m.batches, &said));
  clear(&m);
  size_t sample = 3 * 8 * 8 + 2 * sizeof(int32_t) + 11 * sizeof(float); /* 10 targets, a share */
  CT_ASSERT_INT(said.bytes[CT_MEMORY_BATCHES], 2 * 9 * sample);
  CT_ASSERT_INT(said.bytes[CT_MEMORY_CHANNEL_MAPS], 2 * 2 * 3 * sizeof(float));
  CT_ASSERT_INT(said.bytes[CT_MEMORY_REDUCED_WEIGHTS], said.bytes[CT_MEMORY_WEIGHTS] / 2);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(what_is_said_is_allocated),
                                    CT_TEST(no_communicator_needs_more_than_was_said),
                                    CT_TEST(a_large_evaluation_is_counted),
                                    CT_TEST(copies_on_the_device_are_counted), CT_TEST_END};
  return ct_test_mpi_main("memory", tests, argc, argv);
}
