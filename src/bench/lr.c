/* `bench lr`: learning rate range test on the run's own data. */
#include <math.h>

#include "bench/ct_bench.h"
#include "bench/ct_lr_range.h"
#include "setup/ct_setup.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

typedef struct range {
  double from, to;
  int64_t steps;
} range_t;

static int read_rate(const ct_args_t *a, const char *name, double otherwise, double *out)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, name);
  *out = otherwise;
  if (text && (ct_text_double(text, out) != CT_OK || !isfinite(*out) || !(*out > 0)))
    CT_FAIL(CT_ERR_USAGE, "bench: --%s must be a number above 0, not '%s'", name, text);
out:
  return rc;
}

static int read_range(const ct_args_t *a, range_t *r)
{
  int rc = CT_OK;
  CT_TRY(read_rate(a, "from", 1e-7, &r->from));
  CT_TRY(read_rate(a, "to", 10, &r->to));
  CT_TRY(ct_args_int(a, "steps", 100, 10, CT_LR_STEPS, &r->steps));
  if (r->from >= r->to)
    CT_FAIL(CT_ERR_USAGE, "bench: --from %g is not below --to %g", r->from, r->to);
out:
  return rc;
}

/* Collective.  Runs the steps; the rates of all parameter groups grow by the same factor.  A NaN or
 * infinite loss ends the test without an error. */
static int lr_run(ct_steps_t *steps, double base, const range_t *r, ct_lr_range_t *out)
{
  int rc = CT_OK, over = 0;
  ct_heartbeat_at("trying learning rates", -1);
  for (int i = 0; i < r->steps && !over; i++) {
    ct_step_status_t status = {0};
    ct_step_report_t report = {0};
    double rate = ct_lr_rate(r->from, r->to, i, (int)r->steps);
    rc = ct_steps_next(steps, &(ct_schedule_point_t){.times = rate / base}, &status, &report, NULL);
    if (rc == CT_ERR_NONFINITE) {
      ct_lr_add(out, rate, NAN);
      rc = CT_OK;
      break;
    }
    CT_TRY(rc);
    over =
        ct_lr_add(out, rate, status.loss_weight > 0 ? status.loss_sum / status.loss_weight : NAN);
  }
out:
  return rc;
}

/* Returns the ratio of a step's learning rate to optim.lr. */
static double scale_of(const ct_setup_t *s)
{
  const ct_schedule_opts_t *o = &s->cfg.schedule;
  return o->scale_lr ? (double)s->cfg.data.batch / (double)o->base_batch : 1;
}

static int lr_print(const ct_lr_range_t *r, double scale, int json)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(json ? ct_lr_json(r, scale, &text) : ct_lr_text(r, scale, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

int ct_cmd_bench_lr(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  range_t r;
  ct_setup_t s = {.topo = topo};
  ct_steps_t steps = {0};
  ct_lr_range_t *out = ct_mem_alloc(sizeof *out, "a range of learning rates");
  (void)status;
  CT_TRY_ALL(topo, out ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(topo, read_range(a, &r));
  CT_TRY(ct_setup_config(&s, a->rest[1], a));
  if (!(s.cfg.optim.lr > 0)) CT_FAIL(CT_ERR_USAGE, "bench: lr needs an optim.lr above 0");
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 1, 0));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_setup_trainer(&s, 1));
  CT_TRY(ct_setup_init(&s));
  CT_TRY(ct_setup_steps(&s, &steps));
  CT_TRY(lr_run(&steps, s.cfg.optim.lr, &r, out));
  CT_TRY_ALL(topo,
             topo->rank ? CT_OK : lr_print(out, scale_of(&s), ct_args_get(a, "json") != NULL));
out:
  ct_steps_close(&steps);
  ct_setup_close(&s);
  ct_mem_free(out);
  return rc;
}
