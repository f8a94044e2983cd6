/* What a configuration tells of the run to come: its data, model and memory. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"
#include "base/ct_err.h"
#include "hdf5io/ct_h5.h"

static int open_run(ct_setup_t *s)
{
  int rc = CT_OK;
  CT_TRY(ct_recipe_make(&s->cfg.parallel, &s->cfg.train, s->topo->size, &s->recipe));
  CT_TRY(ct_setup_data(s, 1, s->cfg.data.val.n > 0));
  CT_TRY(ct_setup_model(s));
out:
  return rc;
}

static void describe_data(const ct_setup_t *s, ct_data_facts_t *d)
{
  char stored[64], seen[64];
  const ct_dataset_t *data = &s->data;
  snprintf(d->sample, sizeof d->sample, "%s %s to %s", ct_dtype_name(data->info.x.dtype),
           ct_shape_text(&data->info.x, stored, sizeof stored),
           ct_shape_text(&data->x, seen, sizeof seen));
  d->samples = data->info.samples;
  d->classes = s->cfg.model.classes;
  d->targets = data->info.targets;
  d->val_samples = s->val.info.samples;
  d->batch = s->cfg.data.batch;
  d->shuffled = s->cfg.data.shuffle;
  if (data->ops != &ct_reader_hdf5) return;
  ct_h5_layout_t l;
  ct_h5_layout(data->reader, &l);
  d->files = l.files;
  d->blocks = l.blocks;
  d->block_rows = l.block_rows;
  d->block_bytes = l.block_bytes;
  d->compressed = l.compressed;
  d->cached = l.cached;
}

/* Of rank 0, whose part of a batch is as large as any. */
static int plan(const ct_setup_t *s, ct_job_facts_t *job)
{
  int rc = CT_OK, ranks = s->topo->size;
  int n = ct_needs_samples(&s->cfg, &s->recipe, s->data.info.samples, ranks);
  CT_TRY(ct_needs_of_plans(&s->cfg, s->graph, &s->recipe, n, &s->data, ranks, s->be, s->dev,
                           &job->needs));
  job->checkpoint_bytes = job->needs.weights + job->needs.states * (s->recipe.zero ? ranks : 1);
out:
  return rc;
}

int ct_doctor_config(ct_setup_t *s, ct_job_facts_t *job)
{
  int rc = open_run(s);
  if (!job) return CT_OK;
  job->has_config = 1;
  if (rc == CT_OK) describe_data(s, &job->data);
  if (rc == CT_OK && s->dev) rc = plan(s, job);
  if (rc != CT_OK) snprintf(job->data.error, sizeof job->data.error, "%s", ct_err_last()->text);
  return CT_OK;
}
