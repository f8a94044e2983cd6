/* `pack`: files of other programs become the sharded HDF5 that is trained on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/pack.h"
#include "base/ct_err.h"

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

static int open_input(const ct_args_t *a, ct_pack_input_t *in)
{
  int rc = CT_OK;
  int64_t label, seed, targets;
  ct_shape_t shape;
  ct_pack_rows_t rows = {.last = INT64_MAX, .shuffle = ct_args_get(a, "shuffle") != NULL};
  const char *csv = ct_args_get(a, "csv"), *images = ct_args_get(a, "images");
  const char *labels = ct_args_get(a, "labels");
  CT_TRY(ct_args_int(a, "shuffle", 0, 0, INT64_MAX, &seed));
  rows.seed = (uint64_t)seed;
  CT_TRY(read_range(a, "range", "row numbers such as 0:1437", &rows.first, &rows.last));
  CT_TRY(read_shape(ct_args_get(a, "shape"), &shape));
  CT_TRY(read_label(ct_args_get(a, "label"), &label));
  CT_TRY(ct_args_int(a, "targets", 0, 1, 1000000, &targets));
  if (targets && (ct_args_get(a, "label") || ct_args_get(a, "classes")))
    CT_FAIL(CT_ERR_USAGE,
            "pack: --targets are instead of a label: give neither --label nor --classes");
  if (csv && !images && !labels) return ct_pack_open_csv(csv, &shape, label, targets, &rows, in);
  if (csv || !images || !labels)
    CT_FAIL(CT_ERR_USAGE, "pack: what to read? --images FILE --labels FILE (IDX), or --csv FILE");
  if (shape.ndim || ct_args_get(a, "label") || targets)
    CT_FAIL(CT_ERR_USAGE,
            "pack: --shape, --label and --targets are for --csv; an IDX file says its shape");
  CT_TRY(ct_pack_open_idx(images, labels, &rows, in));
out:
  return rc;
}

/* Of classes that are left out nothing is packed. */
static int keep_only(const ct_args_t *a, ct_pack_input_t *in)
{
  int rc = CT_OK;
  int64_t first = 0, last = INT32_MAX;
  ct_pack_input_t same = {0};
  if (!ct_args_get(a, "only")) return CT_OK;
  CT_TRY(read_range(a, "only", "classes such as 0:5", &first, &last));
  if (in->src.targets) CT_FAIL(CT_ERR_USAGE, "pack: --only is of labels, not of --targets");
  CT_TRY(open_input(a, &same));
  CT_TRY(ct_pack_only(in, &same.src, first, last));
out:
  if (same.close) same.close(same.src.state);
  return rc;
}

static int tell(const ct_pack_source_t *src, int64_t classes, int64_t shards, const char *output)
{
  int rc = CT_OK;
  char shape[64];
  ct_str_t text = {0};
  CT_TRY(ct_str_add(
      &text, "%" PRId64 " sample%s (%s, %s), %" PRId64 " %s, in %" PRId64 " file%s: %s\n",
      src->samples, src->samples == 1 ? "" : "s", ct_shape_text(&src->x, shape, sizeof shape),
      ct_dtype_name(src->x.dtype), src->targets ? src->targets : classes,
      src->targets ? "targets" : "classes", shards, shards == 1 ? "" : "s", output));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

int ct_cmd_pack(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t shards, deflate, classes;
  ct_pack_input_t in = {0};
  const char *output = ct_args_get(a, "output");
  (void)topo;
  (void)status;
  CT_TRY(ct_args_int(a, "shards", 1, 1, 1000000, &shards));
  CT_TRY(ct_args_int(a, "deflate", 4, 0, 9, &deflate));
  CT_TRY(ct_args_int(a, "classes", 0, 1, INT32_MAX, &classes));
  if (!output)
    CT_FAIL(CT_ERR_USAGE, "pack: --output is missing, such as --output 'train-%%03d.h5'");
  CT_TRY(open_input(a, &in));
  CT_TRY(keep_only(a, &in));
  if (classes && classes < in.classes)
    CT_FAIL(CT_ERR_USAGE, "pack: --classes is %" PRId64 ", but the highest label is %" PRId64,
            classes, in.classes - 1);
  if (!classes) classes = in.classes;
  CT_TRY(ct_pack_write(&in.src, output, (int)shards, (int)deflate, classes));
  CT_TRY(tell(&in.src, classes, shards, output));
out:
  if (in.close) in.close(in.src.state);
  return rc;
}
