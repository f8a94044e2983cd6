/* `bench step --roofline`: what a step costs on a GPU model, computed from the plan that the CUDA
 * backend makes for that model.  Nothing is measured, and no GPU is needed.  With --cpu: on cores
 * with given rates, from the plan of the configuration's device.
 *
 * The lower bound of a launch is the longer of two times: moving its bytes, and its arithmetic
 * (roofline model: Williams, Waterman, Patterson 2009).  Its bytes are those that the backend's
 * kernels move: each operand once, and what several kernels of an op read again or pass on in
 * memory.  Hits in the L2 cache are not counted, nor is the copy of the batch to the device, which
 * runs beside the step before. */
#include <stdio.h>
#include <string.h>

#include "bench/step_output.h"
#include "base/ct_err.h"
#include "base/ct_json.h"

/* ---- GPU models ---- */

/* Rates that programs reach: on H100 and H200 a large GEMM and a copy were measured; the others are
 * these shares of NVIDIA's data sheet, which fit the H100's. */
#define GEMM_SHARE 0.80
#define COPY_SHARE 0.90
#define TERA       1e12

typedef struct ceiling {
  const char *card;
  double reduced;    /* FLOP/s of a GEMM in bf16 or fp16 (dense) */
  double tf32, full; /* in TF32; in float32 without tensor cores */
  double copy;       /* bytes/s, read and written */
  const char *source;
} ceiling_t;

static const ceiling_t ceilings[] = {
    {"a100", GEMM_SHARE * 312 * TERA, GEMM_SHARE * 156 * TERA, GEMM_SHARE * 19.5 * TERA,
     COPY_SHARE * 2.039 * TERA, "80% and 90% of the data sheet"},
    {"h100", 798 * TERA, GEMM_SHARE * 494 * TERA, GEMM_SHARE * 67 * TERA, 3.0 * TERA, "measured"},
    {"h200", 790 * TERA, GEMM_SHARE * 494 * TERA, GEMM_SHARE * 67 * TERA, 4.3 * TERA, "measured"},
    {"b200", GEMM_SHARE * 2250 * TERA, GEMM_SHARE * 1125 * TERA, GEMM_SHARE * 75 * TERA,
     COPY_SHARE * 8.0 * TERA, "80% and 90% of the data sheet"}};
enum { CEILINGS = sizeof ceilings / sizeof *ceilings };

/* Estimates of what the ops of a training reach of these rates, and of the time between two kernels
 * of a CUDA graph. */
#define EXPECT_GEMM 0.65
#define EXPECT_COPY 0.85
#define GAP_S       2e-6

/* Parses "75:2700", in GB/s and GFLOP/s. */
static int ceiling_given(const char *text, ceiling_t *out)
{
  double copy, gemm;
  char end;
  if (sscanf(text, "%lf:%lf%c", &copy, &gemm, &end) != 2 || !(copy > 0) || !(gemm > 0))
    return ct_err_set(
        CT_ERR_USAGE, __FILE__, __LINE__,
        "bench: --cpu needs the rates of a copy in GB/s and of a GEMM in GFLOP/s, such "
        "as 75:2700, not '%s'",
        text);
  gemm *= 1e9;
  *out = (ceiling_t){"cpu", gemm, gemm, gemm, 1e9 * copy, "given"};
  return CT_OK;
}

static int ceiling_find(const char *card, const ceiling_t **out)
{
  for (int i = 0; i < CEILINGS; i++) {
    *out = &ceilings[i];
    if (strcmp(card, ceilings[i].card) == 0) return CT_OK;
  }
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "bench: no rates of a GPU '%s' are known; there are a100, h100, h200 and b200",
                    card);
}

/* ---- one launch ---- */

/* Costs of one launch, or of several together. */
typedef struct cost {
  int kernels;
  double bytes, flops, floor, expected;
  double moving; /* the part of floor in launches that the memory limits */
} cost_t;

typedef struct roofline {
  const ceiling_t *c;
  int exact; /* 1: no estimates of what ops reach */
  int tf32;
  ct_str_t *out; /* text, if list is NULL */
  json_t *list;
  cost_t kind[CT_OP_COUNT][2]; /* forward and backward */
  cost_t all;
} roofline_t;

/* Returns 1 for ops whose FLOP are those of GEMMs. */
static int multiplies(ct_op_kind_t k)
{
  return k == CT_OP_CONV || k == CT_OP_CONVT || k == CT_OP_LINEAR || k == CT_OP_CONVOLVE ||
         k == CT_OP_CONV_POOL || k == CT_OP_LSTM || k == CT_OP_GRU || k == CT_OP_ATTENTION;
}

static double flop_rate(const roofline_t *r, const ct_op_desc_t *d)
{
  if (!multiplies(d->kind)) return r->c->full;
  return d->x.dtype != CT_F32 ? r->c->reduced : r->tf32 ? r->c->tf32 : r->c->full;
}

static double longer(double a, double b)
{
  return a > b ? a : b;
}

static void roofline_time(const roofline_t *r, double rate, cost_t *c)
{
  double moving = c->bytes / r->c->copy, counting = c->flops / rate;
  c->floor = c->expected = longer(moving, counting);
  c->moving = moving > counting ? moving : 0;
  if (r->exact) return;
  c->expected = longer(moving / EXPECT_COPY, counting / EXPECT_GEMM) + c->kernels * GAP_S;
}

static void add_cost(cost_t *sum, const cost_t *c)
{
  sum->kernels += c->kernels;
  sum->bytes += c->bytes;
  sum->flops += c->flops;
  sum->floor += c->floor;
  sum->expected += c->expected;
  sum->moving += c->moving;
}

static int add_line(const cost_t *c, const char *pass, const char *op, ct_str_t *out)
{
  return ct_str_add(out, "%10.4f %10.4f %9.2f %9.2f %8d  %-16s %s\n", 1e3 * c->floor,
                    1e3 * c->expected, c->bytes / 1e6, c->flops / 1e9, c->kernels, pass, op);
}

static int add_row(roofline_t *r, const cost_t *c, const char *pass, const char *op)
{
  if (!r->list) return add_line(c, pass, op, r->out);
  json_t *o = json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:i}", "op", op, "pass", pass, "floor_s",
                        c->floor, "expected_s", c->expected, "bytes", c->bytes, "flops", c->flops,
                        "kernels", c->kernels);
  return o && json_array_append_new(r->list, o) == 0
             ? CT_OK
             : ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for JSON");
}

static int add_launch(roofline_t *r, const ct_plan_t *p, int i)
{
  int rc = CT_OK;
  char text[160];
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  int back = (w->pass & (CT_FWD | CT_FWD_STATS)) == 0;
  cost_t c = {.kernels = o->info.kernels[back],
              .bytes = ct_plan_launch_bytes(p, i) + o->info.extra_bytes[back],
              .flops = ct_op_flops(&o->desc, w->pass) + o->info.extra_flops[back]};
  roofline_time(r, flop_rate(r, &o->desc), &c);
  CT_TRY(add_row(r, &c, ct_op_pass_text(w->pass), ct_op_text(&o->desc, text, sizeof text)));
  add_cost(&r->kind[o->desc.kind][back], &c);
  add_cost(&r->all, &c);
out:
  return rc;
}

/* ---- the update ---- */

/* Clipping and loss scaling read the gradient once, before the update. */
static int looks_before(const ct_setup_t *s)
{
  return s->step_opts.clip_norm > 0 || s->step_opts.compute == CT_F16;
}

/* The optimizer reads gradient, weight and states, and writes weight, states and the weights in
 * reduced precision.  Rules with norms read gradient, weight and states once before. */
double ct_bench_update_bytes(const ct_setup_t *s, double weights)
{
  int states, rule = ct_optim_rule(&s->cfg.optim, &states);
  int half = s->be->reduced_weights && s->step_opts.compute != CT_F32;
  double times = 3 + 2 * states + looks_before(s) + 0.5 * half;
  if (ct_rule_needs_norms((ct_rule_t)rule)) times += 2 + states;
  return weights * times;
}

static int add_update(roofline_t *r, const ct_setup_t *s, const ct_plan_t *p)
{
  int rc = CT_OK, states, rule = ct_optim_rule(&s->cfg.optim, &states);
  ct_arena_map_t map = {0};
  CT_TRY(ct_arena_map_make(p, &map));
  cost_t c = {.kernels = 1 + looks_before(s),
              .bytes = ct_bench_update_bytes(s, (double)map.trained_bytes)};
  if (ct_rule_needs_norms((ct_rule_t)rule)) /* a launch for each parameter, twice */
    c.kernels += 2 * map.trained - 1;
  roofline_time(r, r->c->full, &c);
  CT_TRY(add_row(r, &c, "update", "all parameters"));
  add_cost(&r->kind[CT_OP_UPDATE][1], &c);
  add_cost(&r->all, &c);
out:
  ct_arena_map_clear(&map);
  return rc;
}

/* ---- output ---- */

static int add_heading(const roofline_t *r, ct_setup_t *s)
{
  const ceiling_t *c = r->c;
  if (r->exact)
    return ct_str_add(r->out, "floor: at the given %.4g GFLOP/s and %.4g GB/s\n%10s %10s %9s %9s\n",
                      c->full / 1e9, c->copy / 1e9, "floor ms", "", "MB", "GFLOP");
  return ct_str_add(r->out,
                    "%s\n"
                    "floor: at %.3g TFLOP/s in bf16 and fp16, %.3g in TF32, %.3g in float32, and "
                    "%.3g TB/s (%s)\n"
                    "expected: at %.0f%% of the arithmetic and %.0f%% of the memory rate, and %.0f "
                    "us between kernels (estimates)\n"
                    "%10s %10s %9s %9s %8s\n",
                    s->be->describe(s->dev), c->reduced / TERA, c->tf32 / TERA, c->full / TERA,
                    c->copy / TERA, c->source, 100 * EXPECT_GEMM, 100 * EXPECT_COPY, 1e6 * GAP_S,
                    "floor ms", "expected", "MB", "GFLOP", "kernels");
}

static int add_sums(const roofline_t *r, int n)
{
  int rc = CT_OK;
  const cost_t *all = &r->all;
  CT_TRY(ct_str_add(r->out, "sums\n"));
  for (int k = 0; k < CT_OP_COUNT; k++)
    for (int back = 0; back < 2; back++)
      if (r->kind[k][back].floor > 0)
        CT_TRY(add_line(&r->kind[k][back], back ? "backward" : "forward",
                        ct_op_name((ct_op_kind_t)k), r->out));
  CT_TRY(add_line(all, "all", "", r->out));
  CT_TRY(ct_str_add(r->out, "the memory limits %.0f%% of the floor\n",
                    100 * all->moving / all->floor));
  CT_TRY(ct_str_add(r->out,
                    "%d samples: floor %.2f ms (%.0f samples/s), expected %.2f ms (%.0f "
                    "samples/s); %.1f MB and %.3f GFLOP a sample\n",
                    n, 1e3 * all->floor, n / all->floor, 1e3 * all->expected, n / all->expected,
                    all->bytes / n / 1e6, all->flops / n / 1e9));
out:
  return rc;
}

static int roofline_print(const roofline_t *r, int n)
{
  int rc = CT_OK;
  json_t *o = NULL;
  if (!r->list) {
    CT_TRY(add_sums(r, n));
  } else {
    o = json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:O}", "gpu", r->c->card,
                  "samples", n, "floor_s", r->all.floor, "moving_s", r->all.moving, "expected_s",
                  r->all.expected, "bytes", r->all.bytes, "flops", r->all.flops, "kernels",
                  r->all.kernels, "copy_bytes_per_s", r->c->copy, "flop_per_s", r->c->reduced,
                  "ops", r->list);
    CT_TRY(ct_json_add(o, r->out));
  }
  CT_TRY(ct_app_print(r->out->data));
out:
  json_decref(o);
  return rc;
}

int ct_bench_roofline(const ct_args_t *a, const ct_topo_t *topo)
{
  int rc = CT_OK;
  const char *card = ct_args_get(a, "gpu"), *cores = ct_args_get(a, "cpu");
  ct_topo_t as_if = {.threads = 1, .nodes = 1, .size = topo->size, .local_size = topo->size};
  ct_setup_t s = {.topo = &as_if};
  ct_plan_t *p = NULL;
  ct_str_t out = {0};
  roofline_t r = {.out = &out, .list = ct_args_get(a, "json") ? json_array() : NULL};
  ceiling_t given;
  r.c = &given;
  r.exact = cores != NULL;
  CT_TRY(cores ? ceiling_given(cores, &given) : ceiling_find(card ? card : "h100", &r.c));
  CT_TRY(ct_setup_without_device(&s, a->rest[1], a));
  CT_TRY(cores ? ct_setup_open_device(&s) : ct_setup_describe_device(&s, r.c->card));
  CT_TRY(ct_setup_plan(&s, &p));
  r.tf32 = ct_train_opts_tf32(&s.cfg.train);
  if (!r.list) CT_TRY(add_heading(&r, &s));
  for (int i = 0; i < p->launches; i++)
    CT_TRY(add_launch(&r, p, i));
  CT_TRY(add_update(&r, &s, p));
  CT_TRY(roofline_print(&r, p->o.n));
out:
  json_decref(r.list);
  ct_str_clear(&out);
  ct_plan_free(p);
  ct_setup_close(&s);
  return rc;
}
