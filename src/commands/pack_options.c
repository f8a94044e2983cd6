/* The options of `pack` that all sources have: outputs, shards, ranges and the split. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "commands/pack.h"

/* Parses a range such as "100:200", "100:" or ":200". */
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
  if (split && !job->shuffle && !ct_args_get(a, "tokens"))
    ct_log(CT_LOG_WARN, "pack: --split without --shuffle: %s gets the last samples as they come",
           job->rest);
out:
  return rc;
}

int ct__pack_job_options(const ct_args_t *a, ct_pack_job_t *job)
{
  int rc = CT_OK;
  int64_t shards, deflate, seed;
  *job = (ct_pack_job_t){.last = INT64_MAX,
                         .shuffle = ct_args_get(a, "shuffle") != NULL,
                         .output = ct_args_get(a, "output"),
                         .skip_bad = ct_args_get(a, "skip-bad") != NULL,
                         .force = ct_args_get(a, "force") != NULL};
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
