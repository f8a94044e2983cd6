/* Assembles a trainer from a command line, one function per part.  Everything that ranks could see
 * differently (files, devices, the model) is compared or broadcast here, once, so that later code
 * can rely on it being identical on all ranks. */
#include "setup/ct_setup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_quantized_open.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_devices.h"
#include "comm/ct_mpi.h"
#include "hdf5io/ct_h5.h"
#include "watch/ct_watch.h"
#include "weights/ct_weights.h"

/* ---- configuration ---- */

int ct_setup_parse(ct_config_t *c, const char *path, const ct_args_t *a)
{
  if (*path && ct_weights_foreign(path) != CT_OK)
    return ct_err_prefix(CT_ERR_USAGE, "expected a configuration: ");
  int rc = ct_config_read(c, path, a->set, a->sets);
  return rc == CT_ERR_IO ? ct_err_prefix(CT_ERR_USAGE, "configuration ") : rc; /* makes the exit
                                                                                  status 2 */
}

int ct_setup_resolve(ct_config_t *c, int ranks, int with_loss)
{
  char cwd[CT_PATH_MAX];
  int rc = ct_file_cwd(cwd, sizeof cwd);
  if (rc != CT_OK) return rc;
  CT_TRY(ct_config_resolve(c, cwd, ranks));
  CT_TRY(ct_setup_import(c));
  CT_TRY(ct_setup_normalize(c, cwd));
  CT_TRY(ct_config_check(c, ranks, with_loss));
out:
  if (rc == CT_ERR_IO) rc = ct_err_prefix(CT_ERR_USAGE, "configuration ");
  return rc;
}

int ct_setup_read_config(ct_config_t *c, const char *path, const ct_args_t *a, int ranks,
                         int with_loss)
{
  int rc = CT_OK;
  CT_TRY(ct_setup_parse(c, path, a));
  CT_TRY(ct_setup_resolve(c, ranks, with_loss));
out:
  return rc;
}

static int read_and_dump(ct_setup_t *s, const char *path, const ct_args_t *a, ct_str_t *text)
{
  int rc = CT_OK;
  CT_TRY(ct_setup_read_config(&s->cfg, path, a, s->topo->size, !s->without_loss));
  CT_TRY(ct_config_dump(&s->cfg, text));
out:
  return rc;
}

int ct_setup_share_config(ct_setup_t *s, const char *where, int rc, const ct_str_t *text)
{
  void *data = text->data;
  size_t bytes = text->len;
  uint64_t hash = 0;
  CT_TRY(ct_agree_bytes(s->topo, rc, &data, &bytes));
  if (s->topo->rank != 0) rc = ct_config_parse(&s->cfg, data, bytes, where, NULL, 0);
  if (rc == CT_OK) rc = ct_config_hash(&s->cfg, &hash);
  CT_TRY(ct_agree(s->topo, rc));
  CT_TRY(ct_agree_same(s->topo, "the configuration", hash));
  ct_watch_limit(s->cfg.job.watchdog_s);
out:
  if (data != text->data) ct_mem_free(data);
  return rc;
}

int ct_setup_config(ct_setup_t *s, const char *path, const ct_args_t *a)
{
  int rc = CT_OK;
  double begin = ct_clock();
  ct_str_t text = {0};
  ct_heartbeat_at("reading the configuration", -1);
  if (s->topo->rank == 0) rc = read_and_dump(s, path, a, &text);
  CT_TRY(ct_setup_share_config(s, path, rc, &text));
  s->config_s = ct_clock() - begin;
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- device ---- */

/* Returns the number of threads.  With logical shards it is 1: results must be bitwise independent
 * of the number of ranks, and thus of the threads of a rank. */
int ct_setup_threads(const ct_config_t *c, int share)
{
  if (c->cpu.threads) return (int)c->cpu.threads;
  return c->parallel.shards ? 1 : share;
}

/* Writes the directory where choices of autotuning are stored; "": none. */
static int cache_dir(const ct_cuda_opts_t *o, char *out, size_t cap)
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (strcmp(o->cache, "off") == 0) return ct_text_format(out, cap, "%s", "");
  if (*o->cache) return ct_text_format(out, cap, "%s", o->cache);
  if (cache && *cache) return ct_text_format(out, cap, "%s/ctrain-hpc", cache);
  return ct_text_format(out, cap, "%s%s", home ? home : "", home ? "/.cache/ctrain-hpc" : "");
}

int ct_setup_open_device(ct_setup_t *s)
{
  int rc = CT_OK;
  char cache[CT_PATH_MAX], why[128];
  int index = 0, visible = 1;
  const ct_config_t *c = &s->cfg;
  CT_TRY(ct_builtin_backend(c->device, &s->be, &s->comm_ops));
  if (ct_train_opts_tf32(&c->train) && !s->be->tf32)
    CT_FAIL(CT_ERR_USAGE,
            "train.amp: tf32 is a format of NVIDIA's GPUs, not of device %s: set it to off or bf16",
            s->be->name);
  CT_TRY(cache_dir(&c->cuda, cache, sizeof cache));
  if (!s->be->host_memory) visible = s->be->probe(why);
  if (visible < 1) CT_FAIL(CT_ERR_DEVICE, "device %s is not usable: %s", s->be->name, why);
  CT_TRY(ct_devices_choose(s->topo->local_rank, visible, c->parallel.share_gpu, &index));
  ct_dev_opts_t o = {.index = index,
                     .threads = ct_setup_threads(c, s->topo->threads),
                     .conv_direct = c->cpu.conv_algo,
                     .tf32 = ct_train_opts_tf32(&c->train),
                     .autotune = c->cuda.autotune && !c->parallel.shards,
                     .workspace = (size_t)c->cuda.workspace_mb * 1000000,
                     .plan_cache = cache,
                     .timeout_s = c->cuda.timeout_s,
                     .sim = {.times = c->sim.times,
                             .flop_rate = 1e9 * c->sim.gflops,
                             .byte_rate = 1e9 * c->sim.gbytes,
                             .noise = c->sim.noise,
                             .slow = s->topo->rank == c->sim.slow_rank ? c->sim.slow : 1,
                             .seed = (uint64_t)c->run.seed + (uint64_t)s->topo->rank}};
  ct_mpi_set_naps(s->be->naps);
  CT_TRY(s->be->open(&o, &s->dev));
out:
  return rc;
}

ct_doctor_env_t ct_setup_doctor(const ct_setup_t *s, const char *no_device)
{
  const ct_config_t *c = &s->cfg;
  return (ct_doctor_env_t){.topo = s->topo,
                           .be = s->be,
                           .dev = s->dev,
                           .no_device = no_device,
                           .threads = ct_setup_threads(c, s->topo->threads),
                           .threads_set = c->cpu.threads || c->parallel.shards,
                           .share_gpu = c->parallel.share_gpu,
                           .wants_gpu = c->device == CT_DEVICE_AUTO || c->device == CT_DEVICE_CUDA,
                           .locking = ct_h5_locking()};
}

/* `device: auto` chooses for each node separately.  Ranks with different backends would deadlock,
 * so fails unless all ranks have the backend of rank 0. */
static int agree_on_backend(const ct_setup_t *s)
{
  int rc = CT_OK;
  void *first = (void *)(uintptr_t)s->be->name; /* rank 0's backend */
  size_t bytes = strlen(s->be->name);
  CT_TRY(ct_agree_bytes(s->topo, CT_OK, &first, &bytes));
  if (strcmp(first, s->be->name) != 0)
    rc = ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__,
                    "device auto means %s here, but %s on rank 0: set device to what all nodes "
                    "have, or leave this node out",
                    s->be->name, (const char *)first);
  if (s->topo->rank) ct_mem_free(first);
  CT_TRY(ct_agree(s->topo, rc));
out:
  return rc;
}

/* Chooses the communicator for device memory: NCCL if available, else MPI through host memory.
 * NCCL refuses ranks that share a device. */
static int choose_comm(ct_setup_t *s)
{
  int rc = CT_OK, shared = 0;
  ct_dev_id_t id;
  s->be->identify(s->dev, &id);
  CT_TRY(ct_devices_agree(s->topo, &id, s->cfg.parallel.share_gpu, &shared));
  if (s->be->host_memory) return CT_OK;
  if (!s->comm_ops || shared) s->comm_ops = &ct_comm_staged;
  if (s->topo->size > 1)
    ct_log(CT_LOG_INFO, "gradients are reduced over %s",
           s->comm_ops == &ct_comm_staged ? "MPI, through host memory" : s->comm_ops->name);
out:
  return rc;
}

int ct_setup_comm(ct_setup_t *s)
{
  int rc = CT_OK;
  CT_TRY(agree_on_backend(s));
  CT_TRY(ct_step_opts_make(&s->cfg.parallel, &s->cfg.train, s->topo->size,
                           &s->step_opts)); /* cannot fail: the configuration was checked */
  CT_TRY(choose_comm(s));
  ct_comm_opts_t o = {.fixed_order = s->step_opts.fixed_order,
                      .wire = s->cfg.parallel.grad_dtype ? CT_BF16 : CT_F32};
  CT_TRY(ct_setup_messages(s, &o));
  CT_TRY(s->comm_ops->open(s->topo, s->be, s->dev, &o, &s->comm));
out:
  return rc;
}

int ct_setup_device(ct_setup_t *s)
{
  int rc = CT_OK;
  ct_heartbeat_at("opening the device", -1);
  CT_TRY_ALL(s->topo, ct_setup_open_device(s));
  CT_TRY(ct_setup_comm(s));
  ct_doctor_env_t doctor = ct_setup_doctor(s, "");
  CT_TRY(ct_doctor_start(&doctor));
out:
  return rc;
}

/* ---- data ---- */

/* The facts about a data set that rank 0 broadcasts. */
typedef struct known {
  int64_t reader; /* index into ct_builtin_readers; -1: not known yet */
  void *bytes;    /* file list and headers, serialized by the reader */
  size_t n;
} known_t;

static int open_data(const ct_config_t *c, const ct_tile_t *tile, const ct_opt_texts_t *files,
                     known_t *known, ct_dataset_t *out)
{
  int rc = CT_OK;
  int64_t shape[CT_MAX_DIMS - 1];
  ct_reader_spec_t spec;
  ct_loss_targets_t targets;
  int training = files == &c->data.train;
  uint64_t seed = (uint64_t)c->run.seed + !training;           /* for other synthetic samples */
  rc = ct_data_spec(&c->data, files, "/", seed, shape, &spec); /* all paths are absolute */
  if (rc != CT_OK) return ct_err_prefix(rc, "%s: ", c->where);
  CT_TRY(ct_setup_targets(c, &targets, &spec));
  if (tile) { /* tiles have no labels */
    spec.tile = tile;
    spec.target = "";
    spec.targets_of = NULL;
    spec.targets_apart = 0;
    spec.weight = NULL;
  }
  if (c->model.input.n == 3) spec.channels = (int)c->model.input.v[0];
  if (known->reader < 0) CT_TRY(ct_reader_find(ct_builtin_readers, &spec, &known->reader));
  spec.known = known->n ? known->bytes : NULL;
  spec.known_bytes = known->n;
  int of_labels = ct_loss_of_labels((ct_loss_kind_t)c->losses.of[0].kind);
  ct_transforms_opts_t transforms = {.list = c->transforms,
                                     .val_list = c->val_transforms,
                                     .training = training,
                                     .values = !of_labels,
                                     .exact_decode = c->data.exact_decode,
                                     .normalize_targets = c->data.normalize_targets};
  CT_TRY(ct_dataset_open(ct_builtin_readers[known->reader], &spec, &transforms, c->where, out));
  CT_TRY(ct_setup_note_targets(c, out));
  out->readahead = c->data.readahead;
out:
  return rc;
}

int ct_setup_open_data(const ct_config_t *c, const ct_opt_texts_t *files, ct_dataset_t *out)
{
  known_t nothing = {.reader = -1};
  return open_data(c, NULL, files, &nothing, out);
}

/* Sets the number of classes on all ranks to rank 0's, which may have counted labels. */
static int agree_classes(ct_setup_t *s, const char *what, ct_dataset_t *d)
{
  int rc = CT_OK;
  if (s->topo->rank == 0) {
    ct_heartbeat_at("counting the classes", -1);
    rc = ct_setup_classes(&s->cfg, d);
    if (rc == CT_OK) rc = ct_setup_take_names(&s->cfg, d, what);
  }
  if (rc != CT_OK) rc = ct_err_prefix(rc, "%s: ", what);
  void *data = &s->cfg.model.classes;
  size_t bytes = sizeof s->cfg.model.classes;
  if (s->topo->rank != 0) data = NULL;
  CT_TRY(ct_agree_bytes(s->topo, rc, &data, &bytes));
  if (s->topo->rank != 0) {
    memcpy(&s->cfg.model.classes, data, sizeof s->cfg.model.classes);
    ct_mem_free(data);
  }
  d->classes = s->cfg.model.classes;
out:
  return rc;
}

/* Rank 0 lists the files and reads their headers.  The other ranks get the list and the headers by
 * broadcast, and open a file only when they need a sample from it. */
static int open_agreed(ct_setup_t *s, const ct_opt_texts_t *files, const char *what,
                       ct_dataset_t *d)
{
  int rc = CT_OK;
  known_t known = {.reader = s->topo->rank == 0 ? -1 : 0};
  if (s->topo->rank == 0) {
    ct_heartbeat_at("reading the headers of the data", -1);
    rc = open_data(&s->cfg, s->tile, files, &known, d);
  }
  if (s->topo->rank == 0 && rc == CT_OK) rc = d->ops->share(d->reader, &known.bytes, &known.n);
  CT_TRY(ct_agree_bytes(s->topo, rc, &known.bytes, &known.n));
  ct_agree_sum(s->topo, &known.reader, 1); /* broadcast: known.reader is 0 on the other ranks */
  ct_heartbeat_at("opening a data set", -1);
  if (s->topo->rank != 0) rc = open_data(&s->cfg, s->tile, files, &known, d);
  CT_TRY_ALL(s->topo, rc);
  CT_TRY(ct_agree_same(s->topo, what, d->info.fingerprint));
  CT_TRY(agree_classes(s, what, d));
out:
  ct_mem_free(known.bytes);
  return rc;
}

/* Checks that two data sets have the same shapes, inputs, targets and labels, as one model needs.
 */
static int check_alike(const ct_dataset_t *a, const char *a_key, const ct_dataset_t *b,
                       const char *b_key)
{
  int rc = CT_OK;
  char x[300], y[300];
  if (!ct_shape_same(&a->x, &b->x))
    CT_FAIL(CT_ERR_SHAPE, "samples of %s are %s, but those of %s are %s", a_key,
            ct_shape_text(&a->x, x, sizeof x), b_key, ct_shape_text(&b->x, y, sizeof y));
  if (!ct_inputs_same(&a->extra, &b->extra))
    CT_FAIL(CT_ERR_SHAPE, "extra inputs of %s are [%s], but those of %s are [%s]", a_key,
            ct_inputs_text(&a->extra, x, sizeof x), b_key, ct_inputs_text(&b->extra, y, sizeof y));
  if (!ct_inputs_same(&a->more, &b->more))
    CT_FAIL(CT_ERR_SHAPE, "further targets of %s are [%s], but those of %s are [%s]", a_key,
            ct_inputs_text(&a->more, x, sizeof x), b_key, ct_inputs_text(&b->more, y, sizeof y));
  if (a->info.targets != b->info.targets)
    CT_FAIL(CT_ERR_FORMAT,
            "samples of %s have %" PRId64 " targets, but those of %s %" PRId64 " (0: labels)",
            a_key, a->info.targets, b_key, b->info.targets);
  if (a->pixels != b->pixels)
    CT_FAIL(CT_ERR_FORMAT, "samples of %s have %" PRId64 " labels, but those of %s %" PRId64, a_key,
            a->pixels, b_key, b->pixels);
out:
  return rc;
}

/* Opens eval.sets and checks that each matches data.val, since all use the same plan. */
static int open_sets(ct_setup_t *s)
{
  int rc = CT_OK;
  const ct_opt_files_t *f = &s->cfg.eval.sets;
  if (f->n == 0) return CT_OK;
  s->set = ct_mem_array(f->n, sizeof *s->set, "sets to evaluate on");
  CT_TRY_ALL(s->topo, s->set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < f->n; i++) {
    char key[CT_OPT_FILES_NAME + 16];
    snprintf(key, sizeof key, "eval.sets.%s", f->name[i]);
    CT_TRY(open_agreed(s, &f->paths[i], key, &s->set[i]));
    CT_TRY(check_alike(&s->val, "data.val", &s->set[i], key));
  }
out:
  return rc;
}

int ct_setup_data(ct_setup_t *s, int want_train, int want_val)
{
  int rc = CT_OK;
  double begin = ct_clock();
  if (want_train) CT_TRY(open_agreed(s, &s->cfg.data.train, "the training data", &s->data));
  if (want_val) CT_TRY(open_agreed(s, &s->cfg.data.val, "the validation data", &s->val));
  if (s->topo->rank == 0) ct_setup_log_reading(s, want_train, want_val);
  if (want_train && want_val) CT_TRY(check_alike(&s->data, "data.train", &s->val, "data.val"));
  if (want_val && s->with_sets) CT_TRY(open_sets(s));
  if (want_train && want_val) CT_TRY(ct_config_check_scores(&s->cfg, &s->val));
  s->data_s = ct_clock() - begin;
out:
  return rc;
}

/* ---- model ---- */

int ct_setup_freeze(const ct_config_t *c, ct_graph_t *g)
{
  int rc = ct_setup_freeze_unused(c, g), updating = 0;
  const ct_train_opts_t *t = &c->train;
  if (rc != CT_OK) return rc;
  if (t->freeze.n == 0 && !t->freeze_bn) return CT_OK;
  rc = ct_graph_freeze(g, &t->freeze, t->freeze_bn, &updating);
  if (rc != CT_OK) return ct_err_prefix(rc, "%s: ", c->where);
  if (updating)
    ct_log(CT_LOG_WARN,
           "%d batchnorm%s of the frozen part still update%s running statistics; train.freeze_bn: "
           "true "
           "stops that",
           updating, updating == 1 ? "" : "s", updating == 1 ? "s its" : " their");
  return rc;
}

int ct_setup_observe(ct_setup_t *s)
{
  int rc = CT_OK;
  if (!s->cfg.train.qat) return CT_OK;
  CT_TRY(ct_observed_make(s->graph, &s->observed));
  s->whole = s->graph;
  s->graph = s->observed.graph;
out:
  return rc;
}

/* Checks the losses against all data sets. */
static int check_losses(ct_setup_t *s)
{
  int rc = CT_OK;
  if (s->data.info.samples) CT_TRY(ct_setup_check_losses(&s->cfg, s->graph, &s->data));
  if (s->val.info.samples) CT_TRY(ct_setup_check_losses(&s->cfg, s->graph, &s->val));
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++)
    CT_TRY(ct_setup_check_losses(&s->cfg, s->graph, &s->set[i]));
out:
  return rc;
}

int ct_setup_model(ct_setup_t *s)
{
  int rc = CT_OK;
  CT_TRY_ALL(s->topo, ct_setup_fit_extra(&s->cfg.model, &s->data));
  CT_TRY_ALL(s->topo, ct_setup_fit_extra(&s->cfg.model, &s->val));
  const ct_dataset_t *d = s->data.info.samples ? &s->data : &s->val;
  int64_t outputs = s->cfg.model.classes;
  ct_heartbeat_at("making the model", -1);
  CT_TRY_ALL(s->topo,
             ct_graph_make(&s->cfg.model, &d->x, &d->extra, outputs, s->cfg.where, &s->graph));
  const char *remark = ct_model_remark(&s->cfg.model, &d->x);
  if (remark) ct_log(CT_LOG_INFO, "%s", remark);
  CT_TRY_ALL(s->topo, ct_model_note_input(&s->cfg.model, &d->x, &d->extra));
  const ct_shape_t *last = &s->graph->layer[ct_graph_output(s->graph, 0)].out;
  int several = ct_graph_outputs(s->graph) > 1;
  if (d == &s->val && d->info.unlabelled && !several &&
      ct_loss_of_labels((ct_loss_kind_t)s->cfg.losses.of[0].kind) && last->ndim > 2 &&
      (last->dim[1] == outputs || last->dim[last->ndim - 1] == outputs))
    s->val.pixels = ct_shape_sample(last) / outputs;
  CT_TRY_ALL(s->topo, check_losses(s));
  CT_TRY(ct_setup_place_weights(s));
  if (s->data.info.samples) /* only if a model is trained */
    CT_TRY_ALL(s->topo, ct_setup_freeze(&s->cfg, s->graph));
  CT_TRY_ALL(s->topo, ct_setup_observe(s));
  CT_TRY(ct_agree_same(s->topo, "the model", ct_graph_hash(s->graph)));
out:
  return rc;
}

/* Returns the largest local batch of any rank. */
static int largest_local_batch(int64_t batch, int64_t samples, int ranks, int micro_batches)
{
  int64_t first;
  ct_sampler_t s = {.micro_batches = micro_batches};
  return (int)ct_sampler_local_batch(&s, batch < samples ? batch : samples, 0, ranks, &first);
}

/* Returns the largest local batch over data.val and eval.sets. */
static int largest_eval_batch(const ct_setup_t *s)
{
  int64_t batch = s->cfg.data.eval_batch;
  int most = largest_local_batch(batch, s->val.info.samples, s->topo->size, 1);
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++) {
    int share = largest_local_batch(batch, s->set[i].info.samples, s->topo->size, 1);
    most = share > most ? share : most;
  }
  return most;
}

static int64_t repeat_batch(const ct_setup_t *s)
{
  int64_t batch = s->cfg.data.batch, samples = s->data.info.samples;
  return !s->cfg.cuda.graph ? 0 : batch < samples ? batch : samples;
}

int ct_setup_describe_trainer(ct_setup_t *s, int training, ct_trainer_env_t *env)
{
  const ct_config_t *c = &s->cfg;
  *env = (ct_trainer_env_t){
      .topo = s->topo,
      .be = s->be,
      .dev = s->dev,
      .comm_ops = s->comm_ops,
      .comm = s->comm,
      .graph = s->quantized    ? ct_quantized_graph(s->quantized)
               : s->fold.graph ? s->fold.graph
                               : s->graph,
      .optim = &c->optim,
      .where = c->where,
      .step_opts = s->step_opts,
      .bucket_mb = ct_setup_bucket_mb(s),
      .seed = (uint64_t)c->run.seed,
      .max_batch = training ? largest_local_batch(c->data.batch, s->data.info.samples,
                                                  s->topo->size, s->step_opts.micro_batches)
                            : 0,
      .max_eval = largest_eval_batch(s),
      .repeat_batch = repeat_batch(s),
      .training = training,
      .quant = s->quantized && s->quantized->as == CT_QUANTIZED_INT8 ? &s->quantized->quant : NULL,
      .inference = s->quantized ? s->quantized->logits_only : s->fold.graph != NULL};
  /* rank 0 sends converted samples when it distributes the batches */
  if (training && !s->step_opts.strategy->rank0_deals &&
      ct_trainer_takes_bytes(s->be, s->dev, &s->data))
    env->bytes_of[1] = &s->data;
  /* eval.sets may have other stored types than data.val */
  if (env->max_eval && !s->set && ct_trainer_takes_bytes(s->be, s->dev, &s->val))
    env->bytes_of[0] = &s->val;
  if (training) ct_setup_spend(s, env);
  return ct_setup_heads(s, env);
}

int ct_setup_memory(ct_setup_t *s, ct_memory_t *out, ct_residency_t *residency, int *residencies)
{
  int rc = CT_OK;
  ct_trainer_env_t env;
  const ct_batches_t batches[] = {{s->val.info.samples, s->cfg.data.eval_batch},
                                  {s->data.info.samples, s->cfg.data.batch}};
  CT_TRY(ct_setup_describe_trainer(s, 1, &env));
  CT_TRY(ct_trainer_plan_memory(&env, batches, out));
  if (residency) *residencies = ct_trainer_residency(&env, out, residency);
out:
  return rc;
}

void ct_setup_close(ct_setup_t *s)
{
  ct_err_info_t failure = *ct_err_last(); /* is reported later; a broken device fails again here */
  ct_trainer_destroy(s->trainer);
  ct_mem_free(s->class_weight);
  ct_mem_free(s->place_weight);
  for (int k = 0; k < CT_OUTPUTS; k++)
    ct_str_clear(&s->loss_name[k]);
  ct_quantized_free(s->quantized);
  ct_fold_clear(&s->fold);
  ct_graph_free(s->whole ? s->whole : s->graph);
  ct_observed_clear(&s->observed); /* frees the graph that is not s->whole */
  ct_blocks_free(s->blocks);
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++)
    ct_dataset_close(&s->set[i]);
  ct_mem_free(s->set);
  ct_dataset_close(&s->val);
  ct_dataset_close(&s->data);
  ct_setup_cache_close(s);
  if (s->comm) s->comm_ops->close(s->comm);
  if (s->dev) s->be->close(s->dev);
  if (s->host_dev) s->host->close(s->host_dev);
  ct_config_clear(&s->cfg);
  ct_err_put(&failure);
}
