/* `pack`: files of other programs become the sharded HDF5 that is trained on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "comm/ct_agree.h"
#include "pack/ct_pack_in.h"
#include "pack/ct_pack_job.h"

/* "1,8,8": the dims of a sample; nothing given: ndim 0. */
static int read_shape(const char *text, ct_shape_t *out)
{
  int rc = CT_OK;
  char *end;
  *out = (ct_shape_t){0};
  if (!text) return CT_OK;
  *out = (ct_shape_t){.ndim = 1, .dim = {1, 1, 1, 1, 1}};
  for (const char *p = text;; p = end + 1) {
    long long dim = strtoll(p, &end, 10);
    if (end == p || dim < 1 || dim > INT32_MAX || (*end && *end != ',') || out->ndim == CT_MAX_DIMS)
      CT_FAIL(CT_ERR_USAGE, "pack: --shape must be up to %d numbers such as 1,8,8, not '%s'",
              CT_MAX_DIMS - 1, text);
    out->dim[out->ndim++] = dim;
    if (!*end) break;
  }
out:
  return rc;
}

static int read_label(const char *text, int64_t *out)
{
  int rc = CT_OK;
  *out = -1;
  if (!text || strcmp(text, "last") == 0) return CT_OK;
  if (strcmp(text, "first") == 0)
    *out = 0;
  else if (ct_text_int(text, out) != CT_OK || *out < 0)
    CT_FAIL(CT_ERR_USAGE, "pack: --label must be last, first or a column number from 0, not '%s'",
            text);
out:
  return rc;
}

/* "100:200", "100:", ":200" */
static int read_range(const ct_args_t *a, const char *option, const char *what, int64_t *begin,
                      int64_t *end)
{
  int rc = CT_OK;
  char first[32] = "";
  const char *text = ct_args_get(a, option);
  if (!text) return CT_OK;
  size_t n = strcspn(text, ":");
  int good = text[n] == ':' && n < sizeof first;
  if (good) snprintf(first, sizeof first, "%.*s", (int)n, text);
  if (good && first[0]) good = ct_text_int(first, begin) == CT_OK;
  if (good && text[n + 1]) good = ct_text_int(text + n + 1, end) == CT_OK;
  if (!good || *begin < 0 || *end <= *begin)
    CT_FAIL(CT_ERR_USAGE, "pack: --%s must be two %s, not '%s'", option, what, text);
out:
  return rc;
}

static int open_input(const ct_args_t *a, ct_pack_source_t *out)
{
  int rc = CT_OK;
  int64_t label, targets;
  ct_shape_t shape;
  const char *csv = ct_args_get(a, "csv"), *images = ct_args_get(a, "images");
  const char *labels = ct_args_get(a, "labels");
  CT_TRY(read_shape(ct_args_get(a, "shape"), &shape));
  CT_TRY(read_label(ct_args_get(a, "label"), &label));
  CT_TRY(ct_args_int(a, "targets", 0, 1, 1000000, &targets));
  if (targets && (ct_args_get(a, "label") || ct_args_get(a, "classes")))
    CT_FAIL(CT_ERR_USAGE,
            "pack: --targets are instead of a label: give neither --label nor --classes");
  if (csv && !images && !labels) return ct_pack_open_csv(csv, &shape, label, targets, out);
  if (csv || !images || !labels)
    CT_FAIL(CT_ERR_USAGE, "pack: what to read? --images FILE --labels FILE (IDX), or --csv FILE");
  if (shape.ndim || ct_args_get(a, "label") || targets)
    CT_FAIL(CT_ERR_USAGE,
            "pack: --shape, --label and --targets are for --csv; an IDX file says its shape");
  CT_TRY(ct_pack_open_idx(images, labels, out));
out:
  return rc;
}

static int read_split(const ct_args_t *a, ct_pack_job_t *job)
{
  int rc = CT_OK;
  int64_t shards;
  const char *split = ct_args_get(a, "split");
  job->rest = ct_args_get(a, "rest");
  if (!split != !job->rest)
    CT_FAIL(CT_ERR_USAGE, "pack: --split needs --rest, such as --split 0.9 --rest 'val-%%03d.h5'");
  CT_TRY(ct_args_int(a, "rest-shards", 1, 1, 1000000, &shards));
  job->rest_shards = (int)shards;
  if (!split && ct_args_get(a, "rest-shards"))
    CT_FAIL(CT_ERR_USAGE, "pack: --rest-shards is for --split");
  if (split && (ct_text_double(split, &job->split) != CT_OK || !(job->split > 0 && job->split < 1)))
    CT_FAIL(CT_ERR_USAGE, "pack: --split must be a part such as 0.9, not '%s'", split);
  if (split && !job->shuffle)
    ct_log(CT_LOG_WARN, "pack: --split without --shuffle: %s gets the last samples as they come",
           job->rest);
out:
  return rc;
}

static int read_job(const ct_args_t *a, ct_pack_job_t *job)
{
  int rc = CT_OK;
  int64_t shards, deflate, seed;
  *job = (ct_pack_job_t){.last = INT64_MAX,
                         .shuffle = ct_args_get(a, "shuffle") != NULL,
                         .output = ct_args_get(a, "output"),
                         .skip_bad = ct_args_get(a, "skip-bad") != NULL};
  CT_TRY(ct_args_int(a, "shards", 1, 1, 1000000, &shards));
  CT_TRY(ct_args_int(a, "deflate", 4, 0, 9, &deflate));
  CT_TRY(ct_args_int(a, "classes", 0, 1, INT32_MAX, &job->classes));
  CT_TRY(ct_args_int(a, "shuffle", 0, 0, INT64_MAX, &seed));
  job->shards = (int)shards;
  job->deflate = (int)deflate;
  job->seed = (uint64_t)seed;
  if (!job->output)
    CT_FAIL(CT_ERR_USAGE, "pack: --output is missing, such as --output 'train-%%03d.h5'");
  CT_TRY(read_range(a, "range", "row numbers such as 0:1437", &job->first, &job->last));
  if (ct_args_get(a, "only")) job->only_last = INT32_MAX;
  CT_TRY(read_range(a, "only", "classes such as 0:5", &job->only_first, &job->only_last));
  CT_TRY(read_split(a, job));
out:
  return rc;
}

static int tell(const ct_pack_source_t *src, const ct_pack_job_t *job, const ct_pack_result_t *r)
{
  int rc = CT_OK;
  char shape[64];
  ct_str_t text = {0};
  CT_TRY(ct_str_add(&text, "%" PRId64 " sample%s (", r->samples, r->samples == 1 ? "" : "s"));
  if (src->encoded)
    CT_TRY(ct_str_add(&text, "encoded images"));
  else
    CT_TRY(ct_str_add(&text, "%s, %s", ct_shape_text(&src->x, shape, sizeof shape),
                      ct_dtype_name(src->x.dtype)));
  CT_TRY(ct_str_add(&text, "), %" PRId64 " %s, in %d file%s: %s\n",
                    src->targets ? src->targets : r->classes, src->targets ? "targets" : "classes",
                    job->shards, job->shards == 1 ? "" : "s", job->output));
  if (job->split > 0)
    CT_TRY(ct_str_add(&text, "%" PRId64 " sample%s in %d file%s: %s\n", r->rest,
                      r->rest == 1 ? "" : "s", job->rest_shards, job->rest_shards == 1 ? "" : "s",
                      job->rest));
  if (r->bad) CT_TRY(ct_str_add(&text, "%" PRId64 " left out\n", r->bad));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

int ct_cmd_pack(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_pack_job_t job;
  ct_pack_result_t result;
  ct_pack_source_t src = {0};
  (void)status;
  CT_TRY_ALL(topo, read_job(a, &job));
  CT_TRY_ALL(topo, open_input(a, &src));
  CT_TRY(ct_pack_run(topo, &src, &job, &result));
  CT_TRY_ALL(topo, topo->rank ? CT_OK : tell(&src, &job, &result));
out:
  if (src.close) src.close(src.state);
  return rc;
}
