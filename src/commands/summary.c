/* `summary`: prints the model and the memory per rank, for any number of ranks.  It runs as one
 * process that computes what rank 0 of such a job would have. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/ct_commands.h"
#include "setup/ct_setup.h"
#include "host/ct_cores.h"
#include "base/ct_err.h"
#include "base/ct_log.h"

/* ---- settings of the training: optimizer, loss and batch, and whatever else is in use ---- */

static const char *word(const ct_opt_t *rows, const char *key, int value)
{
  return ct_opt_word(rows, key, value);
}

static int is(const char *a, const char *b)
{
  return strcmp(a, b) == 0;
}

static int optimizer(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_optim_opts_t *o = &c->optim;
  const ct_schedule_opts_t *s = &c->schedule;
  CT_TRY(
      ct_str_add(t, "  %-14s %s, lr %g", "optimizer", word(ct_optim_rows, "kind", o->kind), o->lr));
  if (o->weight_decay > 0) CT_TRY(ct_str_add(t, ", weight decay %g", o->weight_decay));
  if (o->no_decay_bias_norm) CT_TRY(ct_str_add(t, " (not of biases and norms)"));
  if (o->groups)
    CT_TRY(ct_str_add(t, ", %" PRId64 " parameter groups", (int64_t)ct_yaml_count(o->groups)));
  CT_TRY(ct_str_add(t, "\n  %-14s ", "schedule"));
  for (int i = 0; i < (s->parts ? s->parts : 1); i++)
    CT_TRY(ct_str_add(t, "%s%s", i ? ", then " : "",
                      word(ct_schedule_rows, "kind", s->parts ? s->part[i].kind : s->kind)));
  if (s->warmup > 0)
    CT_TRY(ct_str_add(t, " after %g %s of warm-up", s->warmup,
                      word(ct_schedule_rows, "unit", s->unit)));
  if (s->warmup_epochs > 0) CT_TRY(ct_str_add(t, " after %g epochs of warm-up", s->warmup_epochs));
  if (s->scale_lr)
    CT_TRY(ct_str_add(t, ", lr x %g for the batch", (double)c->data.batch / (double)s->base_batch));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

static int loss(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  for (int k = 0; k < c->losses.n; k++) {
    const ct_loss_opts_t *o = &c->losses.of[k];
    CT_TRY(ct_str_add(t, "  %-14s %s", k ? "" : "loss", word(ct_loss_rows, "kind", o->kind)));
    if (o->output[0]) CT_TRY(ct_str_add(t, " of %s", o->output));
    if (o->target[0]) CT_TRY(ct_str_add(t, " against %s", o->target));
    if (o->weight != 1) CT_TRY(ct_str_add(t, ", weight %g", o->weight));
    if (o->reduction) CT_TRY(ct_str_add(t, ", %s", word(ct_loss_rows, "reduction", o->reduction)));
    if (o->gamma > 0) CT_TRY(ct_str_add(t, ", focal %g", o->gamma));
    if (o->z_loss > 0) CT_TRY(ct_str_add(t, ", z-loss %g", o->z_loss));
    if (o->place_weights[0]) CT_TRY(ct_str_add(t, ", places by %s", o->place_weights));
    if (o->ignore_value[0]) CT_TRY(ct_str_add(t, ", targets %s ignored", o->ignore_value));
    if (o->label_smoothing > 0) CT_TRY(ct_str_add(t, ", label smoothing %g", o->label_smoothing));
    if (o->class_weights.n) CT_TRY(ct_str_add(t, ", weighted classes"));
    if (o->ignore_index[0]) CT_TRY(ct_str_add(t, ", label %s ignored", o->ignore_index));
    CT_TRY(ct_str_add(t, "\n"));
  }
out:
  return rc;
}

/* Appends the names of the transforms, whose list has been checked before. */
static int transforms(const char *what, const ct_yaml_t *list, ct_str_t *t)
{
  int rc = CT_OK;
  if (!list || !list->child) return CT_OK;
  CT_TRY(ct_str_add(t, "  %-14s ", what));
  for (const ct_yaml_t *n = list->child; n; n = n->next)
    CT_TRY(ct_str_add(t, "%s%s", n->kind == CT_YAML_MAP && n->child ? n->child->key : n->text,
                      n->next ? ", " : "\n"));
out:
  return rc;
}

static int precision(const ct_config_t *c, ct_str_t *t)
{
  const char *amp = word(ct_train_rows, "amp", c->train.amp);
  if (is(amp, "off")) return CT_OK;
  if (is(amp, "tf32"))
    return ct_str_add(t, "  %-14s float32, products of factors in tf32\n", "precision");
  return ct_str_add(t, "  %-14s %s activations, float32 weights%s\n", "precision", amp,
                    is(amp, "fp16") ? ", dynamic loss scaling" : "");
}

/* With train.qat: counts the fake-quantized weights and activations. */
static int rounding(const ct_config_t *c, const ct_graph_t *g, ct_str_t *t)
{
  int weights = 0, ranges = 0;
  int64_t channels;
  if (!c->train.qat) return CT_OK;
  for (int i = 0; i < g->params; i++) {
    weights += ct_quant_is_weight(g, i, &channels);
    ranges += ct_observed_is_range(g, i);
  }
  return ct_str_add(t, "  %-14s int8 by train.qat: %d weight%s, activations at %d point%s\n",
                    "rounding", weights, weights == 1 ? "" : "s", ranges, ranges == 1 ? "" : "s");
}

static int batches(const ct_config_t *c, int ranks, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_parallel_opts_t *p = &c->parallel;
  CT_TRY(ct_str_add(t, "  %-14s %" PRId64 " over %d rank%s (%s)", "batch", c->data.batch, ranks,
                    ranks == 1 ? "" : "s", word(ct_parallel_rows, "mode", p->mode)));
  if (c->train.accumulate > 1)
    CT_TRY(ct_str_add(t, ", in %" PRId64 " pieces each", c->train.accumulate));
  if (p->shards)
    CT_TRY(ct_str_add(t, ", in %" PRId64 " logical shards: the same bits at every rank count",
                      p->shards));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

static int batchnorms(const ct_config_t *c, const ct_graph_t *g, ct_str_t *t)
{
  const char *over = c->train.sync_bn;
  int n = 0, is_number = !is(over, "world") && !is(over, "node");
  if (is(over, "off")) return CT_OK;
  for (int i = 0; i < g->layers; i++)
    n += is(g->layer[i].ops->kind, "batchnorm") && !g->layer[i].keeps_stats;
  return ct_str_add(t, "  %-14s statistics of %d batchnorm%s over %s%s\n", "sync_bn", n,
                    n == 1 ? "" : "s", over, is_number ? " ranks" : "");
}

static int gradients(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_train_opts_t *o = &c->train;
  if (o->clip_norm > 0)
    CT_TRY(ct_str_add(t, "  %-14s clipped to a norm of %g (p = %s)\n", "gradients", o->clip_norm,
                      o->clip_norm_type));
  if (o->clip_value > 0)
    CT_TRY(ct_str_add(t, "  %-14s clipped to +-%g\n", "gradients", o->clip_value));
  if (c->parallel.grad_dtype)
    CT_TRY(ct_str_add(t, "  %-14s as bfloat16 between nodes\n", "traffic"));
  if (c->parallel.bucket_mb == CT_BUCKET_AUTO)
    CT_TRY(ct_str_add(t, "  %-14s chosen by timing all-reduces when a run starts\n", "buckets"));
  if (c->parallel.zero)
    CT_TRY(ct_str_add(t, "  %-14s each rank has a slice of them (ZeRO-1)\n", "states"));
  if (c->parallel.verify_every)
    CT_TRY(ct_str_add(t, "  %-14s parameters of all ranks every %" PRId64 " steps\n", "compared",
                      c->parallel.verify_every));
  if (o->replay_every)
    CT_TRY(ct_str_add(t, "  %-14s forward and backward run twice in 1 of %" PRId64 " steps\n",
                      "replayed", o->replay_every));
out:
  return rc;
}

static int frozen(const ct_config_t *c, const ct_graph_t *g, ct_str_t *t)
{
  int rc = CT_OK, n = 0, keeps = 0;
  int64_t elements = 0;
  for (int i = 0; i < g->params; i++) {
    n += g->param[i].frozen;
    elements += g->param[i].frozen ? g->param[i].count : 0;
  }
  for (int i = 0; i < g->layers; i++)
    keeps += g->layer[i].keeps_stats;
  if (n == 0 && keeps == 0) return CT_OK;
  CT_TRY(ct_str_add(t, "  %-14s %d parameter%s (%" PRId64 " values)", "frozen", n,
                    n == 1 ? "" : "s", elements));
  if (c->train.freeze_bn) CT_TRY(ct_str_add(t, ", statistics of %d batchnorms", keeps));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

static int summary_describe(const ct_config_t *c, const ct_graph_t *g, int ranks, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\nTraining:\n"));
  CT_TRY(optimizer(c, out));
  CT_TRY(loss(c, out));
  CT_TRY(transforms("transforms", c->transforms, out));
  CT_TRY(transforms("in evaluation", c->val_transforms, out));
  CT_TRY(precision(c, out));
  CT_TRY(rounding(c, g, out));
  CT_TRY(batches(c, ranks, out));
  CT_TRY(batchnorms(c, g, out));
  CT_TRY(gradients(c, out));
  CT_TRY(frozen(c, g, out));
out:
  return rc;
}

/* ---- memory ---- */

static int threads_here(void)
{
  unsigned char cores[CT_MASK_BYTES];
  int n = ct_cores_omp(cores);
  return n > 0 ? n : 1;
}

static int add_bytes(ct_str_t *t, const char *what, size_t bytes)
{
  char text[32];
  return ct_str_add(t, "  %-46s %s\n", what, ct_text_bytes((double)bytes, text, sizeof text));
}

/* Appends a line only if bytes is not 0. */
static int add_if_any(ct_str_t *t, const char *what, size_t bytes)
{
  return bytes ? add_bytes(t, what, bytes) : CT_OK;
}

static int add_memory(const ct_memory_t *m, ct_str_t *t)
{
  int rc = CT_OK;
  char evaluation[64];
  const size_t *bytes = m->bytes;
  size_t others = bytes[CT_MEMORY_CHANNEL_MAPS] + bytes[CT_MEMORY_CLASS_WEIGHTS] +
                  bytes[CT_MEMORY_STATISTICS] + bytes[CT_MEMORY_NORMS] + bytes[CT_MEMORY_MATRIX];
  CT_TRY(ct_str_add(t, "\nMemory of a rank that trains on %d samples at a time:\n", m->samples[1]));
  CT_TRY(add_bytes(t, "activations and their gradients", bytes[CT_MEMORY_ACTIVATIONS]));
  CT_TRY(add_bytes(t, "scratch", bytes[CT_MEMORY_SCRATCH]));
  CT_TRY(add_if_any(t, "(outputs, not stored: fused with the loss)", m->logits));
  CT_TRY(add_if_any(t, "(convolutions, not stored: pooled in slabs)", m->slabs));
  if (m->unfused[0])
    CT_TRY(ct_str_add(t, "  %-46s %s\n", "(outputs, stored: not fused with the loss)", m->unfused));
  CT_TRY(add_bytes(t, "weights and buffers", bytes[CT_MEMORY_WEIGHTS] + bytes[CT_MEMORY_BUFFERS]));
  CT_TRY(add_if_any(t, "weights in reduced precision", bytes[CT_MEMORY_REDUCED_WEIGHTS]));
  CT_TRY(add_if_any(t, "fake-quantized weights", bytes[CT_MEMORY_ROUNDED_WEIGHTS]));
  CT_TRY(add_if_any(t, "averages of weights and buffers", bytes[CT_MEMORY_AVERAGES]));
  CT_TRY(add_bytes(t, "gradients",
                   bytes[CT_MEMORY_GRADIENTS] + bytes[CT_MEMORY_PARTIAL_SUMS] +
                       bytes[CT_MEMORY_LATE_ROWS]));
  CT_TRY(add_bytes(t, "optimizer states", bytes[CT_MEMORY_STATES]));
  CT_TRY(add_if_any(t, "(states and weights in host memory)", m->on_host));
  CT_TRY(add_if_any(t, "a parameter on its way to a checkpoint", bytes[CT_MEMORY_STATE_PIECE]));
  CT_TRY(add_if_any(t, "batches: one in use, one prefetched", bytes[CT_MEMORY_BATCHES]));
  CT_TRY(add_if_any(t, "scatter and gather buffers of rank 0", bytes[CT_MEMORY_DEALT]));
  CT_TRY(add_if_any(t, "statistics, norms and the like", others));
  CT_TRY(add_bytes(t, "total", ct_memory_total(m)));
  snprintf(evaluation, sizeof evaluation, "(activations of %d samples in evaluation)",
           m->samples[0]);
  CT_TRY(add_if_any(t, evaluation, m->evaluation));
out:
  return rc;
}

/* ---- the budget ---- */

/* Of the MPI library, which this command does not start: resident pages of a rank after MPI_Init,
 * as measured with MPICH 4.0 on 1 and 2 ranks of a node. */
enum { MPI_BYTES = 10 << 20 };

static const char *short_bytes(size_t bytes, char buf[32])
{
  return ct_text_bytes((double)bytes, buf, 32);
}

static int add_budget(const ct_setup_t *s, const ct_budget_t *b, ct_str_t *t)
{
  static const char *const what[] = {
      [CT_BUDGET_PROCESS] = "program, libraries, open data",
      [CT_BUDGET_ARRAYS] = "parameters, gradients, states",
      [CT_BUDGET_NEIGHBOURS] = "gradients of other ranks, in shared memory",
      [CT_BUDGET_CHECKPOINT] = "copy of the state for a checkpoint",
      [CT_BUDGET_FEED] = "batches and decoded samples",
      [CT_BUDGET_OPS] = "prepared ops",
      [CT_BUDGET_SCRATCH] = "scratch",
      [CT_BUDGET_MARGIN] = "margin for libraries",
  };
  int rc = CT_OK;
  char bytes[32], text[200];
  CT_TRY(ct_str_add(t, "\nBudget of a rank (train.memory %s, %s):\n", s->cfg.train.memory,
                    short_bytes(b->bytes, bytes)));
  for (int k = 0; k < CT_BUDGET_COUNT; k++)
    CT_TRY(add_if_any(t, what[k], b->taken[k]));
  CT_TRY(add_bytes(t, "left for activations", b->most));
  CT_TRY(ct_str_add(t, "  %s\n", ct_budget_text(b, text, sizeof text)));
out:
  return rc;
}

/* Appends a row of the curve; bytes 0: without a budget. */
static int add_point(ct_setup_t *s, size_t bytes, ct_budget_t *b, ct_str_t *t)
{
  int rc = CT_OK;
  char budget[32] = "none", peak[32], text[200];
  ct_memory_t m;
  s->memory = bytes ? bytes : (size_t)1 << 60;
  CT_TRY(ct_setup_memory(s, &m, NULL, NULL));
  *b = m.budget;
  if (bytes) short_bytes(bytes, budget);
  if (b->met)
    CT_TRY(ct_str_add(t, "  %-10s %10s %6d of %-6d %9.3g %8.1f%% %9.1f\n", budget,
                      short_bytes(ct_budget_peak(b, 0), peak), b->again, b->launches,
                      1e-9 * b->flops, 100 * b->share, 1e3 * b->seconds * (1 + b->share)));
  else
    CT_TRY(ct_str_add(t, "  %-10s %s\n", budget, ct_budget_text(b, text, sizeof text)));
out:
  return rc;
}

/* Appends the curve of --memory: what each budget of a list costs. \a met: some budget of the list
 * can be met. */
static int add_curve(ct_setup_t *s, const char *list, ct_str_t *t, int *met)
{
  int rc = CT_OK;
  char one[40];
  size_t bytes;
  ct_budget_t b;
  *met = 0;
  CT_TRY(ct_str_add(t,
                    "\nBudgets of a rank (modelled for this device):\n"
                    "  %-10s %10s %6s of %-6s %9s %9s %9s\n",
                    "budget", "peak", "again", "launches", "+GFLOP", "+time", "ms"));
  CT_TRY(add_point(s, 0, &b, t));
  for (const char *p = list; *p; p += strspn(p, ",")) {
    size_t len = strcspn(p, ",");
    if (len < sizeof one) snprintf(one, sizeof one, "%.*s", (int)len, p);
    if (len >= sizeof one || ct_text_size(one, &bytes) != CT_OK)
      CT_FAIL(CT_ERR_USAGE, "--memory %s: expected sizes such as 4G,2G,800M", list);
    CT_TRY(add_point(s, bytes, &b, t));
    *met |= b.met;
    p += len;
  }
out:
  return rc;
}

/* ---- placement of data and states ---- */

static int add_types(unsigned types, char *out, size_t cap)
{
  size_t n = 0;
  out[0] = '\0';
  for (int k = 0; types >> k; k++) {
    if (!(types >> k & 1) || n >= cap) continue;
    n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", ct_dtype_name((ct_dtype_t)k));
  }
  return n < cap ? CT_OK : CT_ERR_ARG;
}

static const char *spread_text(ct_spread_t spread, int ranks, char *out, size_t cap)
{
  static const char *const texts[] = {
      [CT_SPREAD_SAME] = "the same on each of %d ranks",
      [CT_SPREAD_SLICES] = "a slice on each of %d ranks",
      [CT_SPREAD_SUMMED] = "on each of %d ranks, summed over them",
      [CT_SPREAD_SAMPLES] = "of its own samples on each of %d ranks",
      [CT_SPREAD_ROOT] = "on rank 0 of %d, for all of them",
  };
  if (ranks == 1) return "on the one rank";
  int n = snprintf(out, cap, texts[spread], ranks);
  return n > 0 ? out : "";
}

static int add_residency(const ct_setup_t *s, const ct_residency_t *residency, int residencies,
                         ct_str_t *t)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(t, "\nPlacement (%s: %s):\n", s->be->name, s->be->describe(s->dev)));
  for (int i = 0; i < residencies; i++) {
    char types[64], spread[64];
    const ct_residency_t *p = &residency[i];
    CT_TRY(add_types(p->types, types, sizeof types));
    CT_TRY(ct_str_add(t, "  %-17s %-18s %-5s %s\n", p->what, types,
                      p->on_device ? s->be->name : "host",
                      spread_text(p->spread, s->topo->size, spread, sizeof spread)));
  }
out:
  return rc;
}

int ct_cmd_summary(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t ranks;
  ct_topo_t as_if = {.threads = threads_here(), .nodes = 1};
  ct_setup_t s = {.topo = &as_if};
  ct_memory_t memory;
  ct_residency_t residency[CT_RESIDENCIES];
  int residencies, met = 1;
  ct_str_t text = {0};
  const char *budgets = ct_args_get(a, "memory");
  (void)topo;
  CT_TRY(ct_args_int(a, "ranks", 1, 1, 1000000, &ranks));
  as_if.size = as_if.local_size = (int)ranks;
  CT_TRY(ct_setup_without_device(&s, a->rest[0], a));
  CT_TRY(ct_graph_summary(s.graph, &text));
  CT_TRY(ct_setup_open_device(&s));
  ct_setup_measure(&s);
  if (s.be->host_memory) s.used += MPI_BYTES;
  CT_TRY(ct_setup_choose(&s, &memory.budget));
  CT_TRY(summary_describe(&s.cfg, s.graph, (int)ranks, &text));
  CT_TRY(ct_setup_memory(&s, &memory, residency, &residencies));
  CT_TRY(add_residency(&s, residency, residencies, &text));
  CT_TRY(add_memory(&memory, &text));
  if (memory.budget.bytes) CT_TRY(add_budget(&s, &memory.budget, &text));
  if (memory.budget.bytes) met = memory.budget.met;
  if (budgets) CT_TRY(add_curve(&s, budgets, &text, &met));
  if (!met) *status = 1;
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  ct_setup_close(&s);
  return rc;
}
