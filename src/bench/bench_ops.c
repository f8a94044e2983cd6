/* `bench step --ops`: the time of each op of a step, compared with what the device could reach.
 *
 * The lower bound of an op is the longer of two times: moving its operands at the rate of a copy,
 * and its arithmetic at the rate of a large GEMM in the same precision.  Both rates are measured
 * here (roofline model: Williams, Waterman, Patterson 2009). */
#include <string.h>

#include "bench/step_output.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_json.h"

enum { REPEATS = 10, PASSES = 3, COPY_BYTES = 128 << 20 };

/* Total time of one kind of op in one direction. */
typedef struct total {
  int n;
  double seconds, floor;
  double least; /* sum of the shorter of the two times of each op */
} total_t;

typedef struct table {
  ct_str_t *out;
  json_t *list;                /* owned by the caller; NULL: print text */
  double copy_rate, flop_rate; /* in bytes/s and FLOP/s */
  total_t kind[CT_OP_COUNT][2];
  total_t all;
} table_t;

/* ---- limits of the device ---- */

/* Times \a work: returns the shortest of several passes, each with several repetitions. */
static int best_of(ct_setup_t *s, ct_queue_t *q, int (*work)(void *), void *ctx, double *seconds)
{
  int rc = CT_OK;
  *seconds = 0;
  for (int pass = 0; pass <= PASSES; pass++) {
    double begin = ct_clock();
    for (int i = 0; i < REPEATS; i++)
      CT_TRY(work(ctx));
    CT_TRY(s->be->queue->sync(q));
    double took = (ct_clock() - begin) / REPEATS;
    if (pass == 1 || (pass > 1 && took < *seconds)) *seconds = took; /* pass 0 is a warm-up */
  }
out:
  return rc;
}

typedef struct copying {
  ct_setup_t *s;
  ct_queue_t *q;
  void *a, *b;
} copying_t;

static int copy_once(void *ctx)
{
  copying_t *c = ctx;
  return c->s->be->mem->copy(c->q, c->a, c->b, COPY_BYTES);
}

typedef struct repeated_op {
  ct_setup_t *s;
  ct_queue_t *q;
  ct_op_t *op;
  ct_op_args_t args;
} repeated_op_t;

static int run_once(void *ctx)
{
  repeated_op_t *o = ctx;
  return o->s->be->op->run(o->q, o->op, &o->args);
}

static int time_op(ct_setup_t *s, ct_queue_t *q, const ct_op_desc_t *d, const ct_op_args_t *args,
                   double *seconds)
{
  int rc = CT_OK;
  ct_op_info_t info = {0};
  repeated_op_t work = {.s = s, .q = q, .args = *args};
  void *scratch = NULL;
  CT_TRY(s->be->op->prepare(s->dev, d, NULL, &work.op, &info));
  CT_TRY(s->be->mem->alloc(s->dev, CT_MEM_DEVICE, info.scratch + 64, &scratch));
  work.args.scratch = scratch;
  CT_TRY(best_of(s, q, run_once, &work, seconds));
out:
  s->be->op->release(work.op);
  s->be->mem->free(s->dev, CT_MEM_DEVICE, scratch);
  return rc;
}

/* Measures the faster of a copy and a ReLU: on a host, a copy is done by one thread. */
static int measure_copy(ct_setup_t *s, ct_queue_t *q, double *rate)
{
  int rc = CT_OK;
  ct_op_desc_t d;
  ct_shape_t flat = ct_shape(2, 1, (int64_t)(COPY_BYTES / sizeof(float)));
  copying_t c = {.s = s, .q = q};
  double copy, relu;
  CT_TRY(s->be->mem->alloc(s->dev, CT_MEM_DEVICE, COPY_BYTES, &c.a));
  CT_TRY(s->be->mem->alloc(s->dev, CT_MEM_DEVICE, COPY_BYTES, &c.b));
  CT_TRY(best_of(s, q, copy_once, &c, &copy));
  ct_op_desc_init(&d, CT_OP_RELU, &flat, &flat);
  CT_TRY(time_op(s, q, &d, &(ct_op_args_t){.pass = CT_FWD, .x = c.a, .y = c.b}, &relu));
  *rate = 2. * COPY_BYTES / (copy < relu ? copy : relu); /* bytes are read and written */
out:
  s->be->mem->free(s->dev, CT_MEM_DEVICE, c.a);
  s->be->mem->free(s->dev, CT_MEM_DEVICE, c.b);
  return rc;
}

/* Measures a square GEMM that is large enough to be limited by arithmetic. */
static int measure_product(ct_setup_t *s, ct_queue_t *q, double *rate)
{
  int rc = CT_OK;
  const int64_t n = s->be->host_memory ? 2048 : 8192;
  double seconds;
  char *mem = NULL;
  void *p = NULL;
  ct_op_desc_t d;
  ct_shape_t x = ct_shape(3, 1, n, n); /* two dims are a classifier, which may avoid bf16 */
  size_t square = (size_t)(n * n) * sizeof(float);
  x.dtype = s->step_opts.compute;
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &x);
  CT_TRY(s->be->mem->alloc(s->dev, CT_MEM_DEVICE, 4 * square, &p));
  mem = p;
  const ct_op_args_t args = {.pass = CT_FWD,
                             .x = mem,
                             .y = mem + square,
                             .w = {mem + 2 * square},
                             .w_reduced = {mem + 3 * square}};
  CT_TRY(time_op(s, q, &d, &args, &seconds));
  *rate = ct_op_flops(&d, CT_FWD) / seconds;
out:
  s->be->mem->free(s->dev, CT_MEM_DEVICE, p);
  return rc;
}

/* ---- the table ---- */

static void add_to(total_t *t, double seconds, double floor)
{
  t->n++;
  t->seconds += seconds;
  t->floor += floor;
  t->least += floor < seconds ? floor : seconds;
}

static int bench_ops_add_line(const ct_launch_time_t *w, double floor, ct_str_t *out)
{
  char text[160];
  return ct_str_add(out, "%10.4f %10.4f %5.0f %8.0f %9.0f  %-16s %s  [%s]\n", 1e3 * w->seconds,
                    1e3 * floor, 100 * floor / w->seconds, w->bytes / w->seconds / 1e9,
                    w->flops / w->seconds / 1e9,
                    w->again ? "forward again" : ct_op_pass_text(w->pass),
                    ct_op_text(w->desc, text, sizeof text), w->algorithm);
}

static int add_object(const ct_launch_time_t *w, double floor, json_t *list)
{
  char text[160];
  json_t *o =
      json_pack("{s:s, s:s, s:b, s:s, s:f, s:f, s:f, s:f, s:f}", "op",
                ct_op_text(w->desc, text, sizeof text), "pass", ct_op_pass_text(w->pass), "again",
                w->again, "algorithm", w->algorithm, "workspace_bytes", w->scratch, "seconds",
                w->seconds, "floor_s", floor, "bytes", w->bytes, "flops", w->flops);
  return o && json_array_append_new(list, o) == 0
             ? CT_OK
             : ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for JSON");
}

static int add_launch(void *ctx, const ct_launch_time_t *w)
{
  table_t *t = ctx;
  double moving = w->bytes / t->copy_rate, counting = w->flops / t->flop_rate;
  double floor = moving > counting ? moving : counting;
  int back = w->again || !(w->pass & (CT_FWD | CT_FWD_STATS));
  add_to(&t->kind[w->desc->kind][back], w->seconds, floor);
  add_to(&t->all, w->seconds, floor);
  return t->list ? add_object(w, floor, t->list) : bench_ops_add_line(w, floor, t->out);
}

static int add_sum(const total_t *t, const char *pass, const char *name, ct_str_t *out)
{
  if (t->n == 0) return CT_OK;
  return ct_str_add(out, "%10.4f %10.4f %5.0f %8s %9s  %-16s %d x %s\n", 1e3 * t->seconds,
                    1e3 * t->floor, 100 * t->floor / t->seconds, "", "", pass, t->n, name);
}

static int add_sums(const table_t *t)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(t->out, "sums\n"));
  for (int k = 0; k < CT_OP_COUNT; k++)
    for (int back = 0; back < 2; back++)
      CT_TRY(add_sum(&t->kind[k][back], back ? "backward" : "forward", ct_op_name((ct_op_kind_t)k),
                     t->out));
  CT_TRY(add_sum(&t->all, "all", "op", t->out));
out:
  return rc;
}

/* The parts of a measured step, and its time with all ops and the update at their floors. */
static int add_step(const table_t *t, const ct_setup_t *s, const ct_bench_t *step)
{
  double all = step->breakdown.step_s, update = step->breakdown.mean.s[CT_TIME_UPDATE];
  double weights = (double)ct_trainer_memory(s->trainer)->bytes[CT_MEMORY_GRADIENTS];
  if (s->step_opts.zero) weights /= s->topo->size;
  double moving = ct_bench_update_bytes(s, weights) / t->copy_rate;
  double least = t->all.least + (moving < update ? moving : update);
  return ct_str_add(t->out,
                    "step %.3f ms: %.3f in ops, %.3f in the update, %.3f in the rest\n"
                    "at the floor %.3f ms (%.0f%%): ops and update at the shorter of time and "
                    "floor, no rest\n",
                    1e3 * all, 1e3 * t->all.seconds, 1e3 * update,
                    1e3 * (all - t->all.seconds - update), 1e3 * least, 100 * least / all);
}

static int add_heading(const table_t *t, const ct_setup_t *s)
{
  return ct_str_add(
      t->out,
      "ops timed %s, %d times; limits: copy %.0f GB/s, GEMM in %s %.0f GFLOP/s\n"
      "floor: bytes at the rate of the copy, or FLOP at that of the GEMM; above 100%%: operands in "
      "a cache, or Winograd's fewer FLOP\n"
      "%10s %10s %5s %8s %9s\n",
      ct_trainer_times_in_order(s->trainer) ? "in the order of the step" : "alone, in a row",
      REPEATS, t->copy_rate / 1e9, ct_dtype_name(s->step_opts.compute), t->flop_rate / 1e9, "ms",
      "floor ms", "%", "GB/s", "GFLOP/s");
}

static int add_all(table_t *t, ct_setup_t *s, const ct_batch_t *b, ct_queue_t *q)
{
  int rc = CT_OK;
  CT_TRY(measure_copy(s, q, &t->copy_rate));
  CT_TRY(measure_product(s, q, &t->flop_rate));
  if (!t->list) CT_TRY(add_heading(t, s));
  CT_TRY(ct_trainer_time_launches(s->trainer, b, REPEATS, add_launch, t));
  if (!t->list) CT_TRY(add_sums(t));
out:
  return rc;
}

int ct_bench_ops(ct_setup_t *s, const ct_batch_t *b, const ct_bench_t *step, json_t *json,
                 ct_str_t *out)
{
  int rc = CT_OK;
  ct_queue_t *q = NULL;
  table_t t = {.out = out, .list = json ? json_array() : NULL};
  CT_TRY(s->be->queue->create(s->dev, &q));
  CT_TRY(add_all(&t, s, b, q));
  if (step && !json) CT_TRY(add_step(&t, s, step));
  if (json && json_object_update_new(json, json_pack("{s:f, s:f, s:f, s:f, s:O}",
                                                     "copy_bytes_per_s", t.copy_rate, "flop_per_s",
                                                     t.flop_rate, "ops_s", t.all.seconds, "floor_s",
                                                     t.all.floor, "ops", t.list)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory for JSON");
out:
  json_decref(t.list);
  s->be->queue->destroy(q);
  return rc;
}
