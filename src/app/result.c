#include "app/result.h"

#include <inttypes.h>
#include <math.h>

#include "app/app.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

static int add_chunk(const char *text, size_t bytes, void *out)
{
  return ct_str_add(out, "%.*s", (int)bytes, text);
}

int ct_result_json(const json_t *o, ct_str_t *out)
{
  int rc = CT_OK;
  if (!o || json_dump_callback(o, add_chunk, out, JSON_INDENT(2)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory to write JSON");
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

/* null for what was not measured, and for what JSON has no number for. */
static json_t *real_or_null(int measured, double value)
{
  return measured && isfinite(value) ? json_real(value) : json_null();
}

/* A run that had nothing left to train leaves the summary of the one that trained. */
static int write_json(const ct_config_t *c, int ranks, const ct_loop_result_t *r)
{
  int rc = CT_OK, trained = r->seconds > 0, evaluated = r->last.samples > 0;
  char path[CT_PATH_MAX];
  const ct_eval_result_t *e = &r->last;
  ct_str_t text = {0};
  json_t *o = NULL;
  CT_TRY(ct_path_join(path, sizeof path, c->run.dir, "summary.json"));
  if (!trained && ct_file_exists(path)) goto out;
  o = json_pack("{s:s, s:s, s:I, s:I, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:I}", "name", c->run.name,
                "reason", r->stopped ? "signal" : "done", "epoch", (json_int_t)r->at.epoch, "step",
                (json_int_t)r->at.step, "ranks", ranks, "train_s", r->seconds, "samples_per_s",
                real_or_null(trained, r->samples_per_s), "train_loss",
                real_or_null(trained, r->train_loss), "val_loss", real_or_null(evaluated, e->loss),
                "top1", real_or_null(evaluated, e->top1), "top5", real_or_null(evaluated, e->top5),
                "val_samples", (json_int_t)e->samples);
  CT_TRY(ct_result_json(o, &text));
  CT_TRY(ct_file_write(path, text.data, text.len));
out:
  json_decref(o);
  ct_str_clear(&text);
  return rc;
}

int ct_result_eval(const ct_eval_result_t *e, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "  validation loss   %.4f\n", e->loss));
  CT_TRY(ct_str_add(out, "  top-1             %.4f\n", e->top1));
  CT_TRY(ct_str_add(out, "  top-5             %.4f\n", e->top5));
  CT_TRY(ct_str_add(out, "  samples           %" PRId64 "\n", e->samples));
out:
  return rc;
}

static int print_table(const ct_config_t *c, int ranks, const ct_loop_result_t *r)
{
  int rc = CT_OK;
  char time[32];
  ct_str_t t = {0};
  CT_TRY(ct_str_add(&t, "%s: %s\n", c->run.name,
                    r->stopped ? "stopped early; started again it goes on" : "done"));
  CT_TRY(ct_str_add(&t, "  epochs            %" PRId64 "\n", r->at.epoch));
  CT_TRY(ct_str_add(&t, "  steps             %" PRId64 "\n", r->at.step));
  CT_TRY(ct_str_add(&t, "  ranks             %d\n", ranks));
  if (r->seconds > 0) {
    CT_TRY(
        ct_str_add(&t, "  time in steps     %s\n", ct_text_seconds(r->seconds, time, sizeof time)));
    CT_TRY(ct_str_add(&t, "  samples/s         %.0f\n", r->samples_per_s));
    CT_TRY(ct_str_add(&t, "  training loss     %.4f\n", r->train_loss));
  }
  if (r->last.samples) CT_TRY(ct_result_eval(&r->last, &t));
  CT_TRY(ct_str_add(&t, "  results           %s\n", c->run.dir));
  CT_TRY(ct_app_print(t.data));
out:
  ct_str_clear(&t);
  return rc;
}

int ct_result_write(const ct_config_t *c, int ranks, const ct_loop_result_t *result)
{
  int rc = CT_OK;
  CT_TRY(write_json(c, ranks, result));
  CT_TRY(print_table(c, ranks, result));
out:
  return rc;
}
