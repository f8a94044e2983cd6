/* One round of one configuration: its ranks train in a sub-communicator and measure the time
 * breakdown of their steps.  The other ranks sleep, and check at intervals whether the round has
 * ended, so that their cores stay idle. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "study/measure/ct_scale.h"
#include "setup/ct_setup.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "telemetry/ct_meter.h"

/* Warm-up runs windows of steps until the means of two consecutive windows agree within `alike`, at
 * most WINDOWS of them. */
enum { WINDOW = 10, WINDOWS = 5 };
static const double alike = 0.02;

/* ---- steps ---- */

typedef struct steps {
  ct_setup_t *s;
  const ct_sampler_t *order;
  ct_steps_t made;
  ct_breakdown_t *breakdown;
  ct_meter_t *meter; /* NULL during warm-up */
  int warmup;
} steps_t;

/* *seconds: duration of the step; < 0 for the short last batch of an epoch, which is excluded. */
static int one_step(steps_t *w, int count, double *seconds)
{
  int rc = CT_OK;
  int64_t samples;
  ct_step_status_t status = {0};
  ct_step_report_t report = {0};
  ct_meter_sample(w->meter, ct_clock());
  CT_TRY(ct_steps_next(&w->made, &(ct_schedule_point_t){0}, &status, &report, &samples));
  *seconds = samples < w->order->batch ? -1 : ct_step_times_all(&report.times);
  if (count && *seconds >= 0) ct_breakdown_step(w->breakdown, &status, &report);
out:
  return rc;
}

/* Runs n steps on whole batches; *mean: their mean duration, identical on all ranks. */
static int some_steps(steps_t *w, int64_t n, int count, double *mean)
{
  int rc = CT_OK;
  *mean = 0;
  for (int64_t done = 0; done < n;) {
    double seconds;
    CT_TRY(one_step(w, count, &seconds));
    if (seconds < 0 && w->order->samples >= w->order->batch) continue;
    *mean += seconds / (double)n;
    done++;
  }
  CT_TRY(ct_agree_doubles(w->s->topo, mean, 1, 1));
out:
  return rc;
}

static int warm_up(steps_t *w)
{
  int rc = CT_OK;
  double before = 0, now;
  for (int i = 0; i < WINDOWS; i++) {
    CT_TRY(some_steps(w, WINDOW, 0, &now));
    w->warmup += WINDOW;
    if (fabs(now - before) <= alike * before) break;
    before = now;
  }
out:
  return rc;
}

/* ---- a round ---- */

static int open_steps(steps_t *w)
{
  int rc = CT_OK;
  CT_TRY(ct_breakdown_open(w->s->topo, 0, &w->breakdown));
  CT_TRY_ALL(w->s->topo, ct_steps_open(w->s->trainer, &w->s->data, w->order, 0, 0,
                                       (int)w->s->cfg.data.workers, &w->made));
out:
  return rc;
}

/* Rank 0 of the sub-communicator: returns the mean busy time of each rank. */
static json_t *busy_list(const ct_breakdown_t *a, int ranks)
{
  json_t *list = json_array();
  for (int r = 0; r < ranks; r++)
    json_array_append_new(list, json_real(ct_breakdown_of_rank(a, r).busy_s));
  return list;
}

static double gradient_bytes(const ct_graph_t *g)
{
  double sum = 0;
  for (int i = 0; i < g->params; i++)
    if (!g->param[i].spec.buffer && !g->param[i].frozen) sum += (double)g->param[i].count;
  return sum * sizeof(float);
}

/* Runs the measured steps; *energy is set on rank 0. */
static int counted_steps(steps_t *w, int64_t n, ct_meter_sum_t *energy)
{
  int rc = CT_OK;
  const ct_setup_t *s = w->s;
  double mean;
  CT_TRY(ct_meter_open(s->topo, s->be, s->dev, 0, &w->meter));
  ct_breakdown_begin(w->breakdown);
  CT_TRY(some_steps(w, n, 1, &mean));
  CT_TRY(ct_meter_read(w->meter, energy));
out:
  ct_meter_close(w->meter);
  w->meter = NULL;
  return rc;
}

/* Times the launches on a whole batch of the feed.  It consumes batches, so no steps may follow. */
static int add_timeline(steps_t *w, json_t **out)
{
  int rc = CT_OK;
  const ct_batch_t *b = NULL;
  int64_t whole = w->order->samples < w->order->batch ? w->order->samples : w->order->batch;
  if (!w->made.feed || w->s->step_opts.strategy->rank0_deals) return CT_OK;
  do
    CT_TRY(ct_feed_next(w->made.feed, &b));
  while (b->global < whole);
  if (b->n > 0) CT_TRY(ct_scale_timeline(w->s, b, out));
out:
  return rc;
}

static int round_measure(const ct_args_t *a, ct_scale_group_t *group, const ct_scale_opts_t *o,
                         const ct_scale_config_t *p, ct_scale_round_t *out, ct_breakdown_sum_t *sum)
{
  int rc = CT_OK;
  ct_setup_t *s = &group->s;
  steps_t w = {.s = s, .order = &group->order};
  double begin = ct_clock();
  out->kept = group->ready;
  CT_TRY(ct_scale_group_ready(group, a, p));
  CT_TRY(open_steps(&w));
  out->setup_s = ct_clock() - begin;
  CT_TRY(warm_up(&w));
  CT_TRY(counted_steps(&w, o->steps, &out->energy));
  ct_breakdown_collect(w.breakdown, sum);
  out->steps = (int)sum->steps;
  out->warmup = w.warmup;
  out->threads = ct_setup_threads(&s->cfg, s->topo->threads);
  out->gradient_bytes = gradient_bytes(s->graph);
  if (s->topo->rank == 0) out->ranks_busy_s = busy_list(w.breakdown, s->topo->size);
  if (out->wants_timeline) CT_TRY(add_timeline(&w, &out->timeline));
out:
  ct_steps_close(&w.made);
  ct_breakdown_close(w.breakdown);
  return rc;
}

/* ---- all ranks ---- */

/* Collective.  A barrier that sleeps between polls, so that waiting ranks leave their cores idle.
 */
static void meet(const ct_topo_t *topo)
{
  MPI_Request request;
  int done = 0;
  CT_MPI(topo, MPI_Ibarrier(topo->world, &request));
  for (unsigned turn = 0; !done; turn++) {
    static const long soon = 100000, later = 10000000;
    struct timespec nap = {0, turn < 20 ? soon : later};
    CT_MPI(topo, MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    ct_heartbeat_at("the other ranks of a scaling study", -1);
    if (!done) nanosleep(&nap, NULL);
  }
}

/* Collective over the ranks of a CT_STUDY_NEIGHBOURS configuration: averages their time breakdowns.
 * All members are means, so the parts still add up to the step. */
static int average(const ct_topo_t *topo, ct_breakdown_sum_t *sum)
{
  int rc = CT_OK;
  double *const value[] = {&sum->step_s,   &sum->busy_s,     &sum->imbalance_s, &sum->steady_s,
                           &sum->random_s, &sum->transfer_s, &sum->busy_sd_s,   &sum->offcpu_s};
  for (size_t i = 0; i < sizeof value / sizeof *value; i++)
    CT_TRY(ct_agree_doubles(topo, value[i], 1, 0));
  CT_TRY(ct_agree_doubles(topo, sum->mean.s, CT_TIME_KINDS, 0));
  for (size_t i = 0; i < sizeof value / sizeof *value; i++)
    *value[i] /= topo->size;
  for (int i = 0; i < CT_TIME_KINDS; i++)
    sum->mean.s[i] /= topo->size;
  sum->ranks = topo->size;
out:
  return rc;
}

static int take_part(const ct_args_t *a, ct_scale_group_t *w, const ct_scale_opts_t *o,
                     const ct_scale_config_t *p, ct_scale_round_t *out)
{
  int rc = CT_OK;
  const ct_topo_t *group = &w->group;
  ct_breakdown_sum_t sum = {0};
  int measured = round_measure(a, w, o, p, out, &sum);
  if (p->kind == CT_STUDY_NEIGHBOURS) {
    CT_TRY_ALL(group, measured);
    CT_TRY(average(group, &sum));
    json_decref(out->ranks_busy_s);
    out->ranks_busy_s = NULL;
  }
  CT_TRY(measured);
  CT_TRY(ct_scale_conditions(group, &out->conditions));
  if (group->rank == 0) out->breakdown = ct_breakdown_json(&sum);
out:
  return rc;
}

/* Measures a configuration. *measured: its result, identical on all ranks; the return code reports
 * errors that end the whole study. */
static int try_once(const ct_args_t *a, const ct_topo_t *topo,
                    const ct_scale_placement_t *placement, const ct_scale_opts_t *o,
                    const ct_scale_config_t *config, int i, ct_scale_groups_t *groups,
                    ct_scale_round_t *out, int *measured)
{
  int rc = CT_OK;
  ct_scale_group_t *w;
  CT_TRY(ct_scale_group_begin(groups, topo, placement, config, i, &w));
  *measured = w->group.size ? take_part(a, w, o, config, out) : CT_OK;
  meet(topo);
  *measured = ct_agree(topo, *measured);
  ct_err_info_t why = *ct_err_last();
  CT_TRY(ct_scale_group_end(groups, topo, w, i, *measured == CT_OK));
  if (*measured != CT_OK) ct_err_put(&why);
out:
  return rc;
}

int ct_scale_measure(const ct_args_t *a, const ct_topo_t *topo,
                     const ct_scale_placement_t *placement, const ct_scale_opts_t *o,
                     const ct_scale_config_t *config, int i, ct_scale_groups_t *groups,
                     ct_scale_round_t *out)
{
  int rc = CT_OK, measured;
  CT_TRY(try_once(a, topo, placement, o, config, i, groups, out, &measured));
  if (measured == CT_ERR_NOMEM && ct_scale_groups_close(groups) > 0) /* retries */
    CT_TRY(try_once(a, topo, placement, o, config, i, groups, out, &measured));
  CT_TRY(measured);
out:
  return rc;
}
