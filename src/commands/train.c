/* `train`: a training run from start to end; train_config() lists its stages in order. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "setup/ct_result.h"
#include "setup/ct_setup.h"
#include "commands/train_mllog.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "job/ct_stop.h"
#include "telemetry/ct_events.h"
#include "telemetry/ct_metrics.h"
#include "run/ct_rundir.h"

typedef struct run {
  ct_setup_t s;
  ct_sampler_t order;
  ct_position_t at; /**< position from which training starts */
  ct_early_stop_t early_stop;
  ct_confusion_t confusion; /**< class counts of the last evaluation, if any */
  ct_eval_want_t want;
  int shown;       /**< 1: the result is also printed to stdout */
  ct_str_t config; /**< resolved configuration; rank 0 only */
  ct_str_t versions;
  ct_str_t messages; /**< chosen settings of the all-reduce, as JSON; rank 0 only */
  ct_rundir_t *dir;  /**< run directory; rank 0 only */
  ct_metrics_t *metrics;
  ct_mllog_t *mllog;   /**< MLPerf log or NULL; rank 0 only */
  ct_events_t *events; /**< TensorBoard file or NULL; rank 0 only */
  ct_eval_set_t *set;  /**< owned; eval.sets, or NULL */
} run_t;

/* ---- resume ---- */

static int arrays_of(const ct_ckpt_found_t *c)
{
  int arrays = 0, n = c->ops->count(c->store);
  ct_shape_t shape;
  for (int i = 0; i < n; i++) {
    c->ops->item(c->store, i, &shape);
    arrays += shape.ndim > 0;
  }
  return arrays;
}

/* Compares the configuration with the checkpoint's.  A checkpoint of another model is refused;
 * another seed or batch size is allowed with a warning, since results will differ. */
static int check_same(const run_t *r, const ct_ckpt_found_t *c)
{
  int rc = CT_OK;
  char *old = NULL;
  ct_str_t changed = {0};
  int have = arrays_of(c), want = ct_trainer_arrays(r->s.trainer);
  CT_TRY(c->ops->get_text(c->store, "/meta/config", &old));
  CT_TRY(ct_config_differences(&r->s.cfg, old, &changed));
  if (have != want)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: holds %d arrays, but this model and optimizer have %d; start over with '--resume "
            "never', or keep both with another run.name%s%s",
            c->path, have, want, changed.len ? ": " : "", changed.len ? changed.data : "");
  if (changed.len) ct_log(CT_LOG_WARN, "%s has another configuration: %s", c->path, changed.data);
out:
  ct_mem_free(old);
  ct_str_clear(&changed);
  return rc;
}

/* Checks that the checkpoint's position exists in the data.  Identical on all ranks, except for \a
 * path, which only rank 0 knows. */
static int check_place(run_t *r, const char *path)
{
  int rc = CT_OK;
  int64_t samples = r->s.data.info.samples, epoch = ct_sampler_epoch(&r->order);
  if (r->at.cursor < 0 || r->at.cursor > samples)
    CT_FAIL(CT_ERR_USAGE,
            "%s: was written after %" PRId64
            " samples of an epoch, but data.train has only %" PRId64
            ": restore the data, or start over with '--resume never'",
            path, r->at.cursor, samples);
  if (r->at.cursor > epoch) r->at.cursor = epoch; /* data.drop_last was turned on since then */
out:
  return rc;
}

/* Warns if the order of samples differs from that of the interrupted epoch. */
static void check_order(run_t *r, const char *path)
{
  int64_t order = ct_setup_order_hash(&r->order);
  int within = r->at.cursor > 0 && r->at.cursor < ct_sampler_epoch(&r->order);
  if (within && r->at.order != order)
    ct_log(CT_LOG_WARN,
           "%s was written within an epoch with a different order of samples (other file chunks, "
           "data.lanes or data.shuffle): until the end of this epoch some samples are used twice "
           "and others not at all",
           path);
}

/* Rank 0.  Opens the newest checkpoint in \a dir ("auto"), the newest of a run directory, or a
 * file. */
static int open_meant(const char *what, const char *dir, ct_ckpt_found_t *c)
{
  int rc = CT_OK;
  char other[CT_PATH_MAX];
  if (strcmp(what, "auto") == 0) return ct_ckpt_find(ct_builtin_stores, NULL, dir, c);
  if (!ct_file_is_dir(what)) return ct_ckpt_find(ct_builtin_stores, what, dir, c);
  CT_TRY(ct_path_join(other, sizeof other, what, "checkpoints"));
  CT_TRY(ct_ckpt_find(ct_builtin_stores, NULL, other, c));
  if (!c->store) CT_FAIL(CT_ERR_USAGE, "--resume %s: no checkpoint found in %s", what, other);
out:
  return rc;
}

/* Rank 0 opens the checkpoint that --resume selects; all ranks learn whether there is one. */
static int find_checkpoint(const run_t *r, const char *what, const char *dir, ct_ckpt_found_t *c,
                           int *found)
{
  int rc = CT_OK, here = 0;
  void *data = &here;
  size_t bytes = sizeof here;
  ct_heartbeat_at("looking for a checkpoint", -1);
  if (r->s.topo->rank == 0 && strcmp(what, "never") != 0) {
    rc = open_meant(what, dir, c);
    if (rc == CT_OK && c->store) rc = check_same(r, c);
    here = c->store != NULL;
  }
  CT_TRY(ct_agree_bytes(r->s.topo, rc, &data, &bytes));
  memcpy(found, data, sizeof *found);
  if (data != &here) ct_mem_free(data);
out:
  return rc;
}

/* Returns a text of the checkpoint that the run will resume from on all ranks; "": none.  The
 * checkpoint is opened here once more, before resume(). */
static int noted_text(run_t *r, const ct_args_t *a, const char *name, char **out)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], *noted = NULL;
  const char *what = ct_args_get(a, "resume");
  ct_ckpt_found_t c = {0};
  *out = NULL;
  CT_TRY(ct_path_join(dir, sizeof dir, r->s.cfg.run.dir, "checkpoints"));
  if (r->s.topo->rank == 0 && !(what && strcmp(what, "never") == 0))
    rc = open_meant(what ? what : "auto", dir, &c);
  if (rc == CT_OK && c.store) (void)c.ops->get_text(c.store, name, &noted);
  void *data = noted ? noted : "";
  size_t bytes = strlen(data);
  CT_TRY(ct_agree_bytes(r->s.topo, rc, &data, &bytes));
  *out = r->s.topo->rank ? data : ct_mem_strdup(data);
  CT_TRY_ALL(r->s.topo, *out ? CT_OK : CT_ERR_NOMEM);
out:
  ct_mem_free(noted);
  ct_ckpt_found_close(&c);
  return rc;
}

/* Restores the all-reduce settings that are `auto` in the configuration from the checkpoint.  The
 * communicator needs them. */
static int recall_messages(run_t *r, const ct_args_t *a)
{
  int rc = CT_OK;
  char *noted = NULL;
  if (!ct_setup_leaves_messages(&r->s)) return CT_OK;
  CT_TRY(noted_text(r, a, "/meta/messages", &noted));
  ct_setup_recall_messages(&r->s, noted);
out:
  ct_mem_free(noted);
  return rc;
}

/* Restores the batch that `data.batch_per_rank: auto` chose for the checkpoint, at any memory and
 * number of ranks. */
static int recall_batch(run_t *r, const ct_args_t *a)
{
  int rc = CT_OK;
  char *noted = NULL;
  ct_yaml_t *old = NULL;
  int64_t batch = 0;
  if (r->s.cfg.data.batch_per_rank != CT_BATCH_AUTO) return CT_OK;
  CT_TRY(noted_text(r, a, "/meta/config", &noted));
  if (*noted) CT_TRY(ct_yaml_parse(noted, strlen(noted), "configuration in the checkpoint", &old));
  const ct_yaml_t *data = old && old->kind == CT_YAML_MAP ? ct_yaml_find(old, "data") : NULL;
  const ct_yaml_t *is = data && data->kind == CT_YAML_MAP ? ct_yaml_find(data, "batch") : NULL;
  if (!is || is->kind != CT_YAML_SCALAR || ct_text_int(is->text, &batch) != CT_OK) goto out;
  CT_TRY(ct_config_take_batch(&r->s.cfg, batch));
  ct_log(CT_LOG_INFO, "data.batch_per_rank: auto: global batch %" PRId64 ", of the checkpoint",
         batch);
out:
  ct_yaml_free(old);
  ct_mem_free(noted);
  return rc;
}

/* Rank 0.  Earlier versions resolved a relative run.dir against the working directory.  Warns if a
 * run exists there, since this version would train it again from the first step. */
static int warn_of_former(const ct_config_t *c)
{
  int rc = CT_OK, files = 0;
  char real[CT_PATH_MAX], dir[CT_PATH_MAX], former[CT_PATH_MAX], checkpoints[CT_PATH_MAX];
  char **file = NULL;
  if (!realpath(c->where, real)) return CT_OK; /* the built-in example is not a file */
  CT_TRY(ct_path_dir(dir, sizeof dir, real));
  size_t n = strlen(dir);
  if (strncmp(c->run.dir, dir, n) != 0 || c->run.dir[n] != '/') goto out;
  const char *written = c->run.dir + n + 1;
  if (!getcwd(real, sizeof real) || strcmp(real, dir) == 0) goto out;
  CT_TRY(ct_path_join(former, sizeof former, real, written));
  CT_TRY(ct_path_join(checkpoints, sizeof checkpoints, former, "checkpoints"));
  if (ct_file_is_dir(checkpoints) &&
      ct_file_glob(checkpoints, "step-*", &file, &files) == CT_OK) /* fails without a match */
    ct_log(CT_LOG_WARN,
           "run.dir is %s, which has no checkpoint: training starts over.  But %s has a run: "
           "before 0.2.0 a relative run.dir was taken from the working directory, now from the "
           "directory of the configuration.  To resume that run: --set run.dir=%s",
           c->run.dir, former, written);
out:
  ct_file_list_free(file, files);
  return rc;
}

static int resume(run_t *r, const ct_args_t *a)
{
  int rc = CT_OK, found;
  char dir[CT_PATH_MAX];
  const char *what = ct_args_get(a, "resume");
  const ct_topo_t *topo = r->s.topo;
  ct_ckpt_found_t c = {0};
  CT_TRY(ct_path_join(dir, sizeof dir, r->s.cfg.run.dir, "checkpoints"));
  CT_TRY(find_checkpoint(r, what ? what : "auto", dir, &c, &found));
  if (found) {
    CT_TRY(ct_trainer_restore(r->s.trainer, c.ops, c.store, 1, &r->at));
    CT_TRY(check_place(r, c.path));
    check_order(r, c.path);
    ct_log(CT_LOG_INFO, "resuming from %s: epoch %" PRId64 ", step %" PRId64, c.path,
           r->at.epoch + 1, r->at.step);
  }
  if (!found && !(what && strcmp(what, "never") == 0))
    CT_TRY_ALL(topo, topo->rank == 0 ? warn_of_former(&r->s.cfg) : CT_OK);
  if (!found) CT_TRY(ct_setup_init(&r->s));
  if (ct_train_is_over(&r->s.cfg.train, &r->early_stop, &r->at))
    ct_log(CT_LOG_INFO, "training is already complete; '--resume never' starts over");
  if (topo->rank == 0)
    rc = ct_ckpt_set_aside(dir, ct_builtin_stores[0], r->at.step, r->at.best.step);
  CT_TRY_ALL(topo, rc);
out:
  ct_ckpt_found_close(&c);
  return rc;
}

/* ---- the run directory ---- */

/* Adds the all-reduce settings, and the measurement that chose them. */
static void message_keys(run_t *r)
{
  const ct_messages_t *m = &r->s.messages;
  const ct_link_t *l = &m->probe.link;
  ct_metrics_num(r->metrics, "bucket_mb", m->bucket_mb);
  ct_metrics_text(r->metrics, "allreduce", m->flat ? "flat" : "hierarchical");
  ct_metrics_num(r->metrics, "allreduce_s", m->probe.sizes ? l->alpha_s : NAN);
  ct_metrics_num(r->metrics, "allreduce_bytes_per_s", m->probe.sizes ? l->bytes_per_s : NAN);
}

static int start_line(run_t *r)
{
  char hash_text[20];
  uint64_t hash = 0;
  const ct_setup_t *s = &r->s;
  ct_metrics_t *m = r->metrics;
  int rc = ct_config_hash(&s->cfg, &hash);
  if (rc != CT_OK) return rc;
  snprintf(hash_text, sizeof hash_text, "%016" PRIx64, hash);
  ct_metrics_begin(m, "start");
  ct_metrics_int(m, "format", CT_FORMAT_METRICS);
  ct_metrics_text(m, "name", s->cfg.run.name);
  ct_metrics_text(m, "versions", r->versions.data);
  ct_metrics_text(m, "backend", s->be->name);
  ct_metrics_text(m, "device", s->be->describe(s->dev));
  ct_metrics_int(m, "ranks", s->topo->size);
  ct_metrics_int(m, "nodes", s->topo->nodes);
  ct_metrics_int(m, "threads", ct_setup_threads(&s->cfg, s->topo->threads));
  ct_metrics_text(m, "config_hash", hash_text);
  ct_metrics_int(m, "parameters", ct_graph_count(s->graph));
  ct_metrics_int(m, "samples", s->data.info.samples);
  ct_metrics_int(m, "batch", s->cfg.data.batch);
  message_keys(r);
  ct_metrics_int(m, "step", r->at.step);
  ct_metrics_num(m, "mpi_s", s->topo->init_s);
  ct_metrics_num(m, "config_s", s->config_s);
  ct_metrics_num(m, "data_s", s->data_s);
  ct_metrics_num(m, "plan_s", s->plan_s);
  ct_metrics_num(m, "since_exec_s", ct_clock_since_exec());
  return ct_metrics_end(m);
}

/* Rank 0.  Opens the TensorBoard file. */
static int open_events(run_t *r)
{
  int rc = CT_OK;
  const ct_setup_t *s = &r->s;
  ct_yaml_t *settings = NULL;
  ct_str_t text = {0}; /* displayed as Markdown */
  if (!s->cfg.log.tensorboard) return CT_OK;
  CT_TRY(ct_config_settings(&s->cfg, &settings));
  CT_TRY(ct_str_add(&text, "```yaml\n%s```\n", r->config.data));
  CT_TRY(ct_events_open(s->cfg.run.dir, r->at.step, ct_metrics_run(r->metrics) > 1, &r->events));
  ct_events_settings(r->events, settings);
  ct_events_text(r->events, "config.yaml", text.data);
  ct_events_graph(r->events, s->graph);
  ct_metrics_follow(r->metrics, r->events);
out:
  ct_str_clear(&text);
  ct_yaml_free(settings);
  return rc;
}

/* Rank 0.  Writes the files of the run directory. */
static int open_directory(run_t *r)
{
  int rc = CT_OK;
  CT_TRY(ct_config_dump(&r->s.cfg, &r->config));
  CT_TRY(ct_builtin_versions("; ", &r->versions));
  if (ct_setup_leaves_messages(&r->s)) CT_TRY(ct_setup_note_messages(&r->s, &r->messages));
  CT_TRY(ct_rundir_config(r->dir, r->config.data, r->config.len));
  CT_TRY(ct_setup_copy_tokenizer(&r->s));
  CT_TRY(ct_metrics_open(r->s.cfg.run.dir, &r->metrics));
  CT_TRY(start_line(r));
  CT_TRY(ct_train_mllog(&r->s, &r->order, &r->mllog));
  CT_TRY(open_events(r));
out:
  return rc;
}

/* Writes the last line of metrics.jsonl. */
static int end_line(run_t *r, const char *reason, const ct_loop_result_t *result)
{
  ct_metrics_begin(r->metrics, "end");
  ct_metrics_int(r->metrics, "step", result->at.step);
  ct_metrics_text(r->metrics, "reason", reason);
  ct_metrics_num(r->metrics, "loop_s", result->loop_s);
  ct_metrics_num(r->metrics, "eval_s", result->eval_s);
  ct_metrics_num(r->metrics, "stall_s", result->stall_s);
  ct_metrics_num(r->metrics, "peak_rss_bytes", result->peak_rss);
  int known = *result->energy.from && result->energy.joule >= 0;
  ct_metrics_num(r->metrics, "energy_j", known ? result->energy.joule : NAN);
  ct_metrics_num(r->metrics, "joule_per_sample", known ? result->joule_per_sample : NAN);
  ct_metrics_text(r->metrics, "energy_from", result->energy.from);
  if (result->breakdown.steps)
    ct_metrics_json(r->metrics, "account", ct_breakdown_json(&result->breakdown));
  return ct_metrics_end(r->metrics);
}

/* Writes the last line after an error; later errors do not replace this error in the report. */
static void end_with_error(run_t *r, const ct_loop_result_t *result)
{
  ct_err_info_t first = *ct_err_last();
  end_line(r, "error", result);
  ct_err_put(&first);
}

/* ---- training ---- */

/* Allocates the list of eval.sets; NULL without data.val. */
static int list_sets(run_t *r)
{
  const ct_opt_files_t *f = &r->s.cfg.eval.sets;
  if (!r->s.set) return CT_OK;
  r->set = ct_mem_array(f->n, sizeof *r->set, "sets to evaluate on");
  if (!r->set) return CT_ERR_NOMEM;
  for (int i = 0; i < f->n; i++)
    r->set[i] = (ct_eval_set_t){.name = f->name[i], .data = &r->s.set[i]};
  return CT_OK;
}

static int train(run_t *r, ct_loop_result_t *result)
{
  int rc = CT_OK;
  const ct_setup_t *s = &r->s;
  const ct_config_t *c = &s->cfg;
  ct_loop_opts_t o = {.run = &c->run,
                      .train = &c->train,
                      .early_stop = r->early_stop,
                      .schedule = &c->schedule,
                      .ckpt = &c->checkpoint,
                      .job = &c->job,
                      .config_text = r->config.data,
                      .versions = r->versions.data,
                      .messages = r->messages.data,
                      .store = ct_builtin_stores[0],
                      .data = &s->data,
                      .val = s->val.info.samples ? &s->val : NULL,
                      .sampler = r->order,
                      .verify_every = c->parallel.verify_every,
                      .eval = &c->eval,
                      .set = r->set,
                      .sets = r->set ? c->eval.sets.n : 0,
                      .want = r->want,
                      .eval_batch = c->data.eval_batch,
                      .workers = (int)c->data.workers,
                      .dir = c->run.dir,
                      .metrics = r->metrics,
                      .mllog = r->mllog,
                      .events = r->events,
                      .graph = s->graph,
                      .histograms_every = c->log.histograms_every,
                      .rundir = r->dir,
                      .be = s->be,
                      .dev = s->dev,
                      .max_skipped = c->data.max_skipped};
  r->s.data.skip = c->data.on_error;
  rc = ct_train_loop(s->trainer, &o, r->at, result);
  ct_mllog_stop(r->mllog, rc == CT_OK && !result->stopped ? "success" : "aborted");
  if (rc != CT_OK || !result->stopped) ct_events_end(r->events, rc != CT_OK);
  if (rc != CT_OK) {
    end_with_error(r, result);
    return rc;
  }
  CT_TRY_ALL(s->topo, end_line(r, ct_stop_name(result->stopped), result));
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? ct_result_write(c, s->topo->size, result,
                                                           r->want.confusion, r->set, r->shown)
                                         : CT_OK);
out:
  return rc;
}

/* Finds the configuration file.  It must be named or be ./ctrain.yaml: a job script with an empty
 * variable must not train the example instead. */
static int choose_config(const ct_args_t *a, char *path, size_t cap)
{
  static const char usual[] = "ctrain.yaml";
  int rc = CT_OK;
  if (a->rests > 0) return ct_text_format(path, cap, "%s", a->rest[0]);
  if (!ct_file_exists(usual))
    CT_FAIL(CT_ERR_USAGE,
            "train: no CONFIG is given, and ./%s does not exist; `ctrain-hpc demo` trains the "
            "built-in example",
            usual);
  return ct_text_format(path, cap, "%s", usual);
out:
  return rc;
}

static int print_config(const ct_setup_t *s)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_config_dump(&s->cfg, &text));
  if (s->topo->rank == 0) CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

static int train_config(const ct_args_t *a, const ct_topo_t *topo, const char *config, int *status)
{
  int rc = CT_OK;
  run_t r = {.s = {.topo = topo, .with_sets = 1}, .shown = !a->unshown};
  ct_loop_result_t result;
  ct_plateau_init(&r.at.plateau);
  CT_TRY(ct_setup_config(&r.s, config, a));
  if (ct_args_get(a, "print-config")) {
    CT_TRY(print_config(&r.s));
    goto out;
  }
  CT_TRY(ct_early_stop_read(&r.s.cfg.train, config, &r.early_stop)); /* was checked */
  CT_TRY(recall_messages(&r, a));
  CT_TRY(recall_batch(&r, a));
  CT_TRY(ct_setup_device(&r.s));
  CT_TRY(ct_setup_data(&r.s, 1, r.s.cfg.data.val.n > 0));
  CT_TRY(ct_setup_model(&r.s));
  if (r.s.val.info.samples) CT_TRY_ALL(topo, ct_setup_eval(&r.s, 0, &r.confusion, &r.want));
  CT_TRY_ALL(topo, list_sets(&r));
  CT_TRY(ct_setup_trainer(&r.s, 1));
  CT_TRY(ct_setup_order(&r.s, &r.order));
  CT_TRY(ct_trainer_check_batches(r.s.trainer, ct_sampler_epoch(&r.order), r.order.batch));
  CT_TRY_ALL(topo, topo->rank == 0 ? ct_rundir_open(r.s.cfg.run.dir, &topo->job, &r.dir) : CT_OK);
  CT_TRY(resume(&r, a));
  r.at.order = ct_setup_order_hash(&r.order);
  CT_TRY(ct_setup_cache(&r.s)); /* last, since it may take long and any other error would waste
                                   that time */
  ct_heartbeat_at("opening the run directory", -1);
  CT_TRY_ALL(topo, topo->rank == 0 ? open_directory(&r) : CT_OK);
  CT_TRY(train(&r, &result));
  if (result.stopped) *status = CT_EXIT_STOPPED;
out:
  ct_mllog_close(r.mllog);
  ct_metrics_close(r.metrics);
  ct_events_close(r.events);
  ct_rundir_close(r.dir);
  ct_confusion_close(&r.confusion);
  ct_mem_free(r.set);
  ct_str_clear(&r.messages);
  ct_str_clear(&r.versions);
  ct_str_clear(&r.config);
  ct_setup_close(&r.s);
  return rc;
}

int ct_cmd_train(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  char config[CT_PATH_MAX];
  CT_TRY_ALL(topo, choose_config(a, config, sizeof config));
  CT_TRY(train_config(a, topo, config, status));
out:
  return rc;
}

int ct_cmd_demo(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  char config[CT_PATH_MAX];
  const char *what = a->bare ? "no command: the built-in example; see --help"
                             : "demo: the built-in example, handwritten digits; your own: "
                               "ctrain-hpc train CONFIG";
  CT_TRY_ALL(topo, ct_builtin_example(config, sizeof config));
  ct_log(CT_LOG_INFO, "%s", what);
  CT_TRY(train_config(a, topo, config, status));
  ct_log(CT_LOG_INFO, "%s", what);
out:
  return rc;
}
