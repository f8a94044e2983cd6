/* `doctor`: checks the setup of a job before a run starts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/ct_commands.h"
#include "setup/ct_builtin.h"
#include "bench/ct_data_wait.h"
#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "job/ct_walltime.h"

/* Reads the configuration; without a file, the defaults changed by --set. */
static int config(const ct_args_t *a, ct_setup_t *s)
{
  int rc = CT_OK;
  if (a->rests) return ct_setup_config(s, a->rest[0], a);
  CT_TRY_ALL(s->topo, ct_config_parse(&s->cfg, "", 0, "the command line", a->set, a->sets));
out:
  return rc;
}

/* Returns 1 if the run's directory is known: from a configuration or --set run.dir. */
static int has_directory(const ct_args_t *a)
{
  int has = a->rests > 0;
  for (int i = 0; i < a->sets; i++)
    has |= strncmp(a->set[i], "run.dir=", 8) == 0;
  return has;
}

static int check_directory(const ct_setup_t *s, int has_dir, ct_job_facts_t *job)
{
  int rc = CT_OK;
  if (has_dir)
    CT_TRY(ct_text_format(job->dir, sizeof job->dir, "%s", s->cfg.run.dir));
  else
    CT_TRY(ct_file_cwd(job->dir, sizeof job->dir));
  ct_volume_read(job->dir, &job->volume);
out:
  return rc;
}

/* Rank 0.  Prints the report; *bad is the number of findings that must be fixed. */
static int doctor_tell(const ct_args_t *a, const ct_rank_facts_t *all, const ct_job_facts_t *job,
                       int64_t *bad)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  ct_findings_t *findings = ct_mem_alloc(sizeof *findings, "the findings");
  if (!findings) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_doctor_judge(all, job, findings));
  if (ct_args_get(a, "json"))
    CT_TRY(ct_doctor_json(all, job, findings, &text));
  else
    CT_TRY(ct_doctor_report(all, job, findings, ct_builtin_versions, &text));
  CT_TRY(ct_app_print(text.data));
  *bad = ct_doctor_count(findings, CT_FINDING_BAD);
out:
  ct_mem_free(findings);
  ct_str_clear(&text);
  return rc;
}

/* Determines when the job ends, by the same rules as a training run. */
static int check_end(const ct_config_t *c, ct_job_facts_t *job)
{
  int rc = CT_OK;
  ct_walltime_t end;
  if (strcmp(c->job.walltime, "off") == 0) return CT_OK;
  CT_TRY(ct_walltime_open(c->job.walltime, &job->batch, &end));
  job->left_s = end.source ? fmax(ct_walltime_left_now(&end), 0) : -1;
out:
  return rc;
}

/* Rank 0.  Collects the facts about the job and the run directory. */
static int doctor_begin(const ct_setup_t *s, const ct_doctor_env_t *env, int has_dir,
                        ct_job_facts_t **job)
{
  int rc = CT_OK;
  *job = ct_mem_alloc(sizeof **job, "the facts of the job");
  if (!*job) CT_TRY(CT_ERR_NOMEM);
  ct_doctor_job(env, *job);
  CT_TRY(check_end(&s->cfg, *job));
  CT_TRY(check_directory(s, has_dir, *job));
out:
  return rc;
}

static int open_run(ct_setup_t *s)
{
  int rc = CT_OK;
  CT_TRY(ct_step_opts_make(&s->cfg.parallel, &s->cfg.train, s->topo->size, &s->step_opts));
  CT_TRY(ct_setup_data(s, 1, s->cfg.data.val.n > 0));
  CT_TRY(ct_setup_model(s));
out:
  return rc;
}

/* Suggests an h5repack command with chunks of whole samples that are worth a disk request. */
static void describe_repack(const ct_setup_t *s, ct_data_facts_t *d)
{
  enum { WORTH = 16384 };
  char dims[128] = "";
  const ct_reader_layout_t *l = &s->data.info.layout;
  const char *path = s->data.ops->file(s->data.reader, 0), *input = s->cfg.data.input.v[0];
  size_t bytes = ct_dtype_size(s->data.info.x.dtype), len = 0;
  if (l->dims == 0 || !path) return;
  for (int i = 1; i < l->dims; i++)
    bytes *= (size_t)l->dim[i];
  int64_t rows = (int64_t)(WORTH / (bytes + 1)) + 1;
  len = (size_t)snprintf(dims, sizeof dims, "%" PRId64, rows < l->dim[0] ? rows : l->dim[0]);
  for (int i = 1; i < l->dims && len < sizeof dims; i++)
    len += (size_t)snprintf(dims + len, sizeof dims - len, "x%" PRId64, l->dim[i]);
  int n = snprintf(d->repack, sizeof d->repack, "h5repack -l %s:CHUNK=%s %s repacked.h5", input,
                   dims, path);
  if (n >= (int)sizeof d->repack / 2 || strpbrk(path, " '\"\\$&;()<>|*?[]"))
    snprintf(d->repack, sizeof d->repack, "h5repack -l %s:CHUNK=%s IN.h5 OUT.h5", input, dims);
}

/* Reads the stripe counts of the first files. */
static void describe_stripes(const ct_dataset_t *data, ct_data_facts_t *d)
{
  enum { LOOKED_AT = 256 };
  const char *path;
  for (int i = 0; i < d->files && i < LOOKED_AT && (path = data->ops->file(data->reader, i)); i++) {
    struct stat st;
    int n = ct_machine_stripes(path);
    if (n == 0 || stat(path, &st) != 0) continue;
    if (!d->stripes_most || n < d->stripes_least) d->stripes_least = n;
    if (n > d->stripes_most) d->stripes_most = n;
    d->large_on_one += n == 1 && st.st_size >= (off_t)1 << 30;
  }
}

static void describe_data(const ct_setup_t *s, ct_data_facts_t *d)
{
  char stored[64], seen[64];
  const ct_dataset_t *data = &s->data;
  const ct_shape_t *x = &data->ops->info(data->reader)->x; /* shape before transforms */
  snprintf(d->sample, sizeof d->sample, "%s %s to %s", ct_dtype_name(x->dtype),
           ct_shape_text(x, stored, sizeof stored), ct_shape_text(&data->x, seen, sizeof seen));
  for (int k = 0; k < data->extra.n; k++) {
    size_t len = strlen(d->sample);
    snprintf(d->sample + len, sizeof d->sample - len, "; input.%s %s", data->extra.name[k],
             ct_shape_text(&data->extra.x[k], seen, sizeof seen));
  }
  snprintf(d->seen, sizeof d->seen, "%s", data->info.seen);
  snprintf(d->packed, sizeof d->packed, "%s", data->info.packed);
  d->doubtful = data->info.doubtful;
  d->samples = data->info.samples;
  d->classes = s->cfg.model.classes;
  d->targets = data->info.targets;
  d->val_samples = s->val.info.samples;
  d->batch = s->cfg.data.batch;
  d->shuffled = s->cfg.data.shuffle == CT_SHUFFLE_FULL;
  const ct_reader_layout_t *l = &data->info.layout;
  d->files = l->files;
  d->blocks = l->blocks;
  d->block_rows = l->block_rows;
  d->block_bytes = l->block_bytes;
  d->compressed = l->compressed;
  d->cached = l->cached;
  d->by_hdf5 = l->by_hdf5;
  describe_repack(s, d);
  describe_stripes(data, d);
}

static void describe_steps(const ct_setup_t *s, const ct_doctor_steps_t *tried, ct_data_facts_t *d)
{
  d->steps = tried->steps;
  d->workers = s->cfg.data.workers;
  if (!tried->steps) return;
  d->step_s = tried->seconds / (double)tried->steps;
  d->wait_s = tried->wait_s / (double)tried->steps;
}

/* Computes the memory of rank 0, which has the largest local batch. */
static int describe_memory(ct_setup_t *s, ct_data_facts_t *d)
{
  int rc = CT_OK;
  ct_memory_t m;
  ct_setup_measure(s);
  CT_TRY(ct_setup_choose(s, &m.budget));
  CT_TRY(ct_setup_memory(s, &m, NULL, NULL));
  int states;
  (void)ct_optim_rule(&s->cfg.optim, &states);
  d->rank_bytes = ct_memory_total(&m);
  if (m.budget.bytes) ct_budget_text(&m.budget, d->budget, sizeof d->budget);
  d->least_bytes = m.budget.met ? 0 : m.budget.least;
  d->gradient_bytes = m.bytes[CT_MEMORY_GRADIENTS];
  d->checkpoint_bytes = (size_t)ct_graph_count(s->graph) * sizeof(float) +
                        (size_t)states * m.bytes[CT_MEMORY_GRADIENTS];
out:
  return rc;
}

/* Collective.  Opens data and model as a run would.  An error here becomes a fact about the job.
 * \a job: rank 0's, NULL on the other ranks; \a looks: filled in. */
static int survey_run(ct_setup_t *s, int full, int64_t steps, ct_job_facts_t *job,
                      ct_surveys_t *looks)
{
  ct_doctor_steps_t tried = {0};
  int rc = open_run(s);
  if (rc == CT_OK) rc = ct_survey(s->topo, &s->data, &s->val, full, looks);
  if (rc == CT_OK && steps) rc = ct_doctor_steps(s, steps, &tried);
  if (!job) return CT_OK;
  if (rc == CT_OK) job->surveys = looks;
  job->has_config = 1;
  if (rc == CT_OK) describe_data(s, &job->data);
  if (rc == CT_OK) describe_steps(s, &tried, &job->data);
  if (rc == CT_OK && s->dev) rc = describe_memory(s, &job->data);
  if (rc != CT_OK) snprintf(job->data.error, sizeof job->data.error, "%s", ct_err_last()->text);
  return CT_OK;
}

/* ---- the command ---- */

int ct_cmd_doctor(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK, first = topo->rank == 0;
  int64_t bad = 0, steps;
  char why[CT_ERR_TEXT] = "";
  ct_setup_t s = {.topo = topo};
  ct_rank_facts_t *all = NULL;
  ct_job_facts_t *job = NULL;
  ct_surveys_t *looks = NULL;
  CT_TRY(ct_args_int(a, "steps", 0, 0, 1000000, &steps));
  if (steps && !a->rests) CT_FAIL(CT_ERR_USAGE, "doctor: --steps needs a CONFIG");
  CT_TRY(config(a, &s));
  if (ct_setup_open_device(&s) != CT_OK) snprintf(why, sizeof why, "%s", ct_err_last()->text);
  ct_doctor_env_t env = ct_setup_doctor(&s, why);
  CT_TRY(ct_doctor_gather(&env, 1, &all));
  CT_TRY_ALL(topo, first ? doctor_begin(&s, &env, has_directory(a), &job) : CT_OK);
  looks = ct_mem_alloc(sizeof *looks, "the data survey");
  CT_TRY(ct_agree(topo, looks ? CT_OK : CT_ERR_NOMEM));
  if (a->rests) CT_TRY(survey_run(&s, ct_args_get(a, "full") != NULL, steps, job, looks));
  CT_TRY_ALL(topo, first ? doctor_tell(a, all, job, &bad) : CT_OK);
  ct_agree_sum(topo, &bad, 1);
  if (bad) *status = 1;
out:
  ct_mem_free(looks);
  ct_mem_free(job);
  ct_mem_free(all);
  ct_setup_close(&s);
  return rc;
}
