/* `doctor --steps N`: runs training steps and measures how long they wait for samples. */
#include "bench/ct_data_wait.h"

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "comm/ct_agree.h"

/* Runs the steps.  The first \a before steps use batches that were prefetched and are not counted.
 */
static int data_wait_run(ct_steps_t *s, int64_t before, int64_t steps, ct_doctor_steps_t *out)
{
  int rc = CT_OK;
  ct_heartbeat_at("trying some steps", -1);
  for (int64_t i = -before; i < steps; i++) {
    ct_step_status_t status = {0};
    ct_step_report_t report = {0};
    CT_TRY(ct_steps_next(s, &(ct_schedule_point_t){0}, &status, &report, NULL));
    if (i < 0) continue;
    out->steps++;
    out->seconds += ct_step_times_all(&report.times);
    out->wait_s += status.time_max.s[CT_TIME_DATA];
  }
out:
  return rc;
}

int ct_doctor_steps(ct_setup_t *s, int64_t steps, ct_doctor_steps_t *out)
{
  int rc = CT_OK;
  int64_t devices = s->dev != NULL;
  ct_steps_t made = {0};
  *out = (ct_doctor_steps_t){0};
  ct_agree_sum(s->topo, &devices, 1);
  if (devices < s->topo->size)
    CT_FAIL(CT_ERR_DEVICE, "--steps: %lld of %d ranks have no device to try steps on",
            (long long)(s->topo->size - devices), s->topo->size);
  CT_TRY(ct_setup_comm(s));
  CT_TRY(ct_setup_trainer(s, 1));
  CT_TRY(ct_setup_steps(s, &made));
  CT_TRY(data_wait_run(&made, s->cfg.data.workers + 3, steps, out));
out:
  ct_steps_close(&made);
  return rc;
}
