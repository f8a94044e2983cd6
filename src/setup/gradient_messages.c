/* Measures and chooses the bucket size and the all-reduce algorithm where `parallel.bucket_mb` and
 * `parallel.allreduce` are `auto`.  Both can change the order of sums, and so the last bits of
 * results: a resumed run restores the values of its checkpoint. */
#include "setup/ct_setup.h"

#include <math.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "comm/ct_comm_model.h"

static const double mib = 1024 * 1024;

int ct_setup_leaves_messages(const ct_setup_t *s)
{
  const ct_parallel_opts_t *p = &s->cfg.parallel;
  return s->topo->size > 1 && !s->without_gradients &&
         (p->bucket_mb == CT_BUCKET_AUTO || p->allreduce == CT_ALLREDUCE_AUTO);
}

/* ---- settings in checkpoints ---- */

int ct_setup_note_messages(const ct_setup_t *s, ct_str_t *out)
{
  const ct_messages_t *m = &s->messages;
  json_t *o =
      json_pack("{s:i, s:i, s:s, s:f, s:b}", "ranks", s->topo->size, "nodes", s->topo->nodes, "by",
                s->comm_ops->name, "bucket_mb", m->bucket_mb, "flat", m->flat);
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

void ct_setup_recall_messages(ct_setup_t *s, const char *text)
{
  int ranks, nodes, flat;
  double bucket_mb;
  const char *by;
  json_t *o = json_loads(text, 0, NULL);
  int good = o && json_unpack(o, "{s:i, s:i, s:s, s:F, s:b}", "ranks", &ranks, "nodes", &nodes,
                              "by", &by, "bucket_mb", &bucket_mb, "flat", &flat) == 0;
  if (good && ranks == s->topo->size && nodes == s->topo->nodes && bucket_mb > 0 &&
      strlen(by) < sizeof s->messages.by) {
    s->messages = (ct_messages_t){.bucket_mb = bucket_mb, .flat = flat, .recalled = 1};
    memcpy(s->messages.by, by, strlen(by) + 1);
  }
  json_decref(o);
}

/* ---- measurement ---- */

static int over_mpi(const ct_setup_t *s)
{
  return s->comm_ops == &ct_comm_mpi || s->comm_ops == &ct_comm_staged;
}

/* Returns 1 if a hierarchical all-reduce is possible: several ranks per node, reduced in shared
 * memory first. */
static int has_two_ways(const ct_setup_t *s, const ct_comm_opts_t *o)
{
  return over_mpi(s) && o->wire != CT_BF16 && s->topo->equal_nodes && s->topo->local_size > 1;
}

/* Returns 1 if larger messages took longer.  On busy cores they may not, and then the rate is
 * unknown. */
static int saw_rate(const ct_comm_probe_t *p)
{
  return p->sizes && isfinite(p->link.bytes_per_s);
}

static double message_s(const ct_comm_probe_t *p, double mb)
{
  return ct_link_time(&p->link, (ct_comm_cost_t){1, 1}, mb * mib);
}

/* Collective.  Chooses the flat all-reduce if it is faster by more than the measurement noise. */
static int choose_way(ct_setup_t *s, ct_comm_opts_t *o)
{
  int rc = CT_OK;
  const double clearly = 0.95;
  const double mb = s->cfg.parallel.bucket_mb > 0 ? s->cfg.parallel.bucket_mb : 1;
  ct_comm_probe_t flat;
  if (s->cfg.parallel.allreduce != CT_ALLREDUCE_AUTO || !has_two_ways(s, o)) return CT_OK;
  o->flat = 1;
  CT_TRY(ct_comm_probe(s->comm_ops, s->topo, s->be, s->dev, o, &flat));
  double in_nodes_s = message_s(&s->messages.probe, mb), flat_s = message_s(&flat, mb);
  o->flat = saw_rate(&flat) && saw_rate(&s->messages.probe) && flat_s < clearly * in_nodes_s;
  ct_log(CT_LOG_INFO, "parallel.allreduce: auto: %s; %g MB take %.3g ms, and %.3g ms flat",
         o->flat ? "flat" : "hierarchical", mb, 1e3 * in_nodes_s, 1e3 * flat_s);
  if (o->flat) s->messages.probe = flat;
out:
  return rc;
}

int ct_setup_messages(ct_setup_t *s, ct_comm_opts_t *o)
{
  int rc = CT_OK;
  ct_messages_t *m = &s->messages;
  o->flat = s->cfg.parallel.allreduce == CT_ALLREDUCE_FLAT;
  if (o->flat && s->topo->size > 1 && !over_mpi(s))
    CT_FAIL(CT_ERR_USAGE,
            "%s: parallel.allreduce: flat is for messages over MPI; %s has its own algorithm",
            s->cfg.where, s->comm_ops->name);
  if (m->recalled && strcmp(m->by, s->comm_ops->name) != 0) *m = (ct_messages_t){0};
  if (m->recalled) {
    if (s->cfg.parallel.allreduce == CT_ALLREDUCE_AUTO) o->flat = m->flat && has_two_ways(s, o);
  } else if (ct_setup_leaves_messages(s) && !s->step_opts.strategy->rank0_deals) {
    ct_heartbeat_at("timing all-reduces", -1);
    CT_TRY(ct_comm_probe(s->comm_ops, s->topo, s->be, s->dev, o, &m->probe));
    CT_TRY(choose_way(s, o));
  }
  m->flat = o->flat;
out:
  return rc;
}

static int64_t gradient_bytes(const ct_graph_t *g)
{
  int64_t n = 0;
  for (int i = 0; i < g->params; i++)
    if (!g->param[i].spec.buffer && !g->param[i].frozen) n += g->param[i].count;
  return n * (int64_t)sizeof(float);
}

double ct_setup_bucket_mb(ct_setup_t *s)
{
  ct_messages_t *m = &s->messages;
  double mb = s->cfg.parallel.bucket_mb;
  int open = mb == CT_BUCKET_AUTO;
  const ct_link_t *l = &m->probe.link;
  if (open && m->recalled) return m->bucket_mb;
  if (open && saw_rate(&m->probe))
    mb = (double)ct_comm_bucket(gradient_bytes(s->graph), l->alpha_s, l->bytes_per_s) / mib;
  m->bucket_mb = mb > 0 ? mb : s->be->host_memory ? 1 : 25;
  return m->bucket_mb;
}

void ct_setup_log_messages(const ct_setup_t *s)
{
  const ct_messages_t *m = &s->messages;
  if (s->cfg.parallel.bucket_mb != CT_BUCKET_AUTO || s->topo->size == 1) return;
  if (m->recalled)
    ct_log(CT_LOG_INFO, "parallel.bucket_mb: auto: %g, from the checkpoint", m->bucket_mb);
  else if (m->probe.sizes && !saw_rate(&m->probe))
    ct_log(CT_LOG_WARN,
           "parallel.bucket_mb: auto: %g, the default: large all-reduces took no longer than "
           "small ones "
           "(%d sizes timed in %.2g s)",
           m->bucket_mb, m->probe.sizes, m->probe.seconds);
  else if (m->probe.sizes)
    ct_log(CT_LOG_INFO,
           "parallel.bucket_mb: auto: %g for %.3g MB of gradients: all-reduce latency %.3g us, "
           "bandwidth %.3g GB/s (%d sizes timed in %.2g s)",
           m->bucket_mb, (double)gradient_bytes(s->graph) / mib, 1e6 * m->probe.link.alpha_s,
           1e-9 * m->probe.link.bytes_per_s, m->probe.sizes, m->probe.seconds);
}
