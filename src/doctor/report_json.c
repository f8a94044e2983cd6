/* The report as JSON. */
#include <math.h>

#include "doctor/doctor.h"
#include "base/ct_json.h"

/* null: not known, or no limit */
static json_t *count_or_null(int64_t n)
{
  return n < 0 || n == CT_NO_LIMIT ? json_null() : json_integer((json_int_t)n);
}

static json_t *text_or_null(const char *text)
{
  return *text ? ct_json_words(text) : json_null();
}

/* The indices of the cores in the mask. */
static json_t *cores(const ct_machine_t *m)
{
  json_t *list = json_array();
  for (int i = 0; i < CT_MASK_BYTES * 8; i++)
    if (m->mask[i / 8] >> i % 8 & 1) json_array_append_new(list, json_integer(i));
  return list;
}

/* The number of cores in the mask on each NUMA node. */
static json_t *numa_cores(const ct_machine_t *m)
{
  json_t *list = json_array();
  for (int i = 0; i < m->numa_nodes && i < CT_NUMA_MAX; i++)
    json_array_append_new(list, json_integer(m->numa_cores[i]));
  return list;
}

static json_t *network(const ct_machine_t *m)
{
  json_t *list = json_array();
  for (int i = 0; i < m->nics; i++)
    json_array_append_new(list, json_pack("{s:s, s:o, s:b}", "name", m->nic[i].name, "numa_node",
                                          count_or_null(m->nic[i].numa), "infiniband",
                                          m->nic[i].infiniband));
  return list;
}

static json_t *rank(const ct_rank_facts_t *f)
{
  const ct_machine_t *m = &f->machine;
  json_t *o = json_pack("{s:i, s:s, s:i, s:i, s:o, s:i, s:i, s:i, s:i}", "rank", f->rank, "host",
                        m->host, "node", f->node, "threads", f->threads, "cores", cores(m),
                        "physical_cores", m->physical, "online_cores", m->online, "allowed_cores",
                        m->allowed, "numa_nodes", m->numa_nodes);
  if (!o) return NULL;
  json_object_set_new(o, "numa_cores", numa_cores(m));
  json_object_set_new(o, "memory_policy", text_or_null(f->memory.policy));
  json_object_set_new(o, "remote_pages", json_real(ct_numa_remote(&f->memory, m)));
  json_object_set_new(o, "network", network(m));
  json_object_set_new(o, "memory_total", count_or_null(m->memory_total));
  json_object_set_new(o, "memory_free", count_or_null(m->memory_free));
  json_object_set_new(o, "memory_limit", count_or_null(m->memory_limit));
  json_object_set_new(o, "stack", count_or_null(m->stack));
  json_object_set_new(o, "open_files", count_or_null(m->files));
  json_object_set_new(o, "locked_memory", count_or_null(m->locked));
  json_object_set_new(o, "shm_total", count_or_null(m->shm_total));
  json_object_set_new(o, "shm_free", count_or_null(m->shm_free));
  json_object_set_new(o, "gpu", text_or_null(f->gpu.bus));
  return o;
}

static json_t *finding(const ct_finding_t *f)
{
  static const char *const levels[] = {"ok", "note", "bad"};
  return json_pack("{s:s, s:s, s:o, s:i, s:o, s:o}", "level", levels[f->level], "key", f->key,
                   "host", text_or_null(f->host), "nodes", f->nodes, "what", ct_json_words(f->what),
                   "cure", text_or_null(f->cure));
}

static json_t *directory(const ct_job_facts_t *job)
{
  const ct_volume_t *v = &job->volume;
  return json_pack("{s:o, s:s, s:o, s:b, s:b, s:b}", "path", ct_json_words(job->dir), "type",
                   v->type, "free", count_or_null(v->free), "writable", v->writable, "flock",
                   v->writable && !v->flock_error, "fcntl", v->writable && !v->fcntl_error);
}

static json_t *data(const ct_job_facts_t *job)
{
  const ct_data_facts_t *d = &job->data;
  if (!job->has_config || !d->samples) return json_null();
  return json_pack("{s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:s, s:s}",
                   "samples", (json_int_t)d->samples, "val_samples", (json_int_t)d->val_samples,
                   "classes", (json_int_t)d->classes, "batch", (json_int_t)d->batch, "files",
                   d->files, "chunks", (json_int_t)d->blocks, "chunk_bytes",
                   (json_int_t)d->block_bytes, "rank_bytes", (json_int_t)job->data.rank_bytes,
                   "checkpoint_bytes", (json_int_t)job->data.checkpoint_bytes, "steps",
                   (json_int_t)d->steps, "step_s", d->step_s, "wait_s", d->wait_s, "read_as",
                   d->seen, "converted", d->packed, "budget", d->budget);
}

static json_t *doubles(const double *list, int n)
{
  json_t *a = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(a, json_real(list[i]));
  return a;
}

static json_t *histogram(const ct_survey_t *l)
{
  json_t *a = json_array();
  for (int i = 0; i < l->bars; i++)
    json_array_append_new(
        a, json_pack("[I, I]", (json_int_t)ct_survey_bar_begin(l, i), (json_int_t)l->bar[i]));
  return a;
}

static json_t *phases(const ct_survey_t *l)
{
  json_t *o = json_object();
  for (int i = CT_IO_OPEN; i <= CT_IO_DECODE; i++)
    json_object_set_new(o, ct_io_name((ct_io_phase_t)i),
                        json_pack("{s:f, s:f}", "thread_s", l->io_s[i], "bytes", l->io_bytes[i]));
  return o;
}

static json_t *report_json_look(const ct_survey_t *l)
{
  if (l->samples == 0) return json_null();
  json_t *o = json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f}",
      "samples", (json_int_t)l->samples, "looked", (json_int_t)l->looked, "unreadable",
      (json_int_t)l->unread.n, "not_finite", (json_int_t)l->odd.n, "constant",
      (json_int_t)l->flat.n, "bad_labels", (json_int_t)l->label.n, "bad_weights",
      (json_int_t)l->weight.n, "duplicates", (json_int_t)l->twice.n, "classes",
      (json_int_t)l->classes, "empty_classes", (json_int_t)l->empty, "least_of_a_class",
      (json_int_t)l->least, "most_of_a_class", (json_int_t)l->most, "mean",
      doubles(l->mean, l->channels), "std", doubles(l->std, l->channels), "scale", l->scale,
      "read_s", l->seconds, "file_bytes", l->file_bytes);
  json_object_set_new(o, "missing", json_integer((json_int_t)l->missing.n));
  json_object_set_new(o, "missing_numbers", json_real(l->missing_numbers));
  json_object_set_new(o, "of_places", json_boolean(l->by_pixel));
  json_object_set_new(o, "histogram", histogram(l));
  json_object_set_new(o, "phases", phases(l));
  return o;
}

static json_t *looks(const ct_job_facts_t *job)
{
  int channel;
  const ct_surveys_t *l = job->surveys;
  if (!l) return json_null();
  return json_pack("{s:o, s:o, s:I, s:f}", "train", report_json_look(&l->train), "val",
                   report_json_look(&l->val), "in_both", (json_int_t)l->shared.n, "drift",
                   ct_survey_drift(l, &channel));
}

int ct_doctor_json(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                   const ct_findings_t *findings, ct_str_t *out)
{
  json_t *ranks = json_array(), *list = json_array();
  for (int r = 0; r < job->ranks; r++)
    json_array_append_new(ranks, rank(&f[r]));
  for (int i = 0; i < findings->n; i++)
    json_array_append_new(list, finding(&findings->list[i]));
  json_t *o =
      json_pack("{s:s, s:i, s:i, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "verdict",
                ct_doctor_count(findings, CT_FINDING_BAD) ? "bad" : "good", "ranks_total",
                job->ranks, "nodes", job->nodes, "launched_by", text_or_null(job->launch.name),
                "mpi", job->mpi, "mpi_threads", job->thread_level, "batch_system",
                text_or_null(job->batch.system.name), "job_id", text_or_null(job->batch.id),
                "scratch", text_or_null(job->batch.scratch), "directory", directory(job), "data",
                data(job), "samples", looks(job), "ranks", ranks, "findings", list);
  if (o)
    json_object_set_new(o, "left_s",
                        isfinite(job->left_s) && job->left_s >= 0 ? json_real(job->left_s)
                                                                  : json_null());
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}
