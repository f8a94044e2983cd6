/* `pack`: converts data of other formats to the sharded HDF5 files that training reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/pack.h"
#include "base/ct_err.h"
#include "comm/ct_agree.h"
#include "pack/ct_pack_in.h"
#include "pack/ct_pack_job.h"

/* Parses the shape of a sample, such as "1,8,8"; ndim is 0 if the option is not given. */
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

/* Parses "256" or "224,320". */
static int read_resize(const char *text, ct_pack_images_t *o)
{
  enum { MOST = 16384 };
  int rc = CT_OK;
  int used = 0;
  long long h = 0, w = 0;
  if (!text) return CT_OK;
  if (sscanf(text, "%lld,%lld%n", &h, &w, &used) != 2 || text[used]) {
    w = -1;
    if (sscanf(text, "%lld%n", &h, &used) != 1 || text[used]) h = -1;
  }
  o->crop = w < 0;
  o->height = h;
  o->width = w < 0 ? h : w;
  if (o->height < 1 || o->width < 1 || o->height > MOST || o->width > MOST)
    CT_FAIL(CT_ERR_USAGE, "pack: --resize must be a size such as 256 or 224,320 (H,W), not '%s'",
            text);
out:
  return rc;
}

static int pack_read_header(const ct_args_t *a, ct_pack_header_t *out)
{
  static const char *const words[] = {"auto", "yes", "no"};
  int rc = CT_OK, i = 0;
  const char *text = ct_args_get(a, "header");
  if (text && !ct_args_get(a, "csv") && !ct_args_get(a, "list"))
    CT_FAIL(CT_ERR_USAGE, "pack: --header is for --csv and --list");
  while (text && i < 3 && strcmp(text, words[i]) != 0)
    i++;
  if (i == 3) CT_FAIL(CT_ERR_USAGE, "pack: --header must be auto, yes or no, not '%s'", text);
  *out = (ct_pack_header_t)i;
out:
  return rc;
}

static const char *const image_flags[] = {"images-from", "list", "tar"};

static int read_images(const ct_args_t *a, ct_pack_images_t *o)
{
  int rc = CT_OK;
  int64_t channels;
  *o = (ct_pack_images_t){.folder = ct_args_get(a, "images-from"),
                          .list = ct_args_get(a, "list"),
                          .root = ct_args_get(a, "root"),
                          .tar = ct_args_get(a, "tar"),
                          .encoded = ct_args_get(a, "encoded") != NULL};
  CT_TRY(ct_args_int(a, "channels", 3, 1, 3, &channels));
  CT_TRY(ct_args_int(a, "targets", 0, 1, 1000000, &o->targets));
  CT_TRY(pack_read_header(a, &o->header));
  CT_TRY(read_resize(ct_args_get(a, "resize"), o));
  o->channels = (int)channels;
  if (channels == 2) CT_FAIL(CT_ERR_USAGE, "pack: --channels must be 1 or 3, not 2");
  if (o->encoded && (o->height || ct_args_get(a, "channels")))
    CT_FAIL(CT_ERR_USAGE, "pack: --encoded keeps images as they are: give neither --resize nor "
                          "--channels (the transforms of a training resize)");
  if (o->root && !o->list) CT_FAIL(CT_ERR_USAGE, "pack: --root is for --list");
  if (!o->root) o->root = ".";
  if (o->targets && !o->list)
    CT_FAIL(CT_ERR_USAGE, "pack: --targets is for --csv and --list; images have labels");
out:
  return rc;
}

static int is_of_images(const ct_args_t *a)
{
  for (int i = 0; i < 3; i++)
    if (ct_args_get(a, image_flags[i])) return 1;
  return 0;
}

/* Collective.  Opens encoded image files as the source. */
static int open_images(const ct_args_t *a, const ct_topo_t *topo, ct_pack_source_t *out)
{
  static const char *const others[] = {"images", "labels", "csv", "shape", "label", "cifar"};
  int rc = CT_OK, kinds = 0;
  ct_pack_images_t o;
  for (int i = 0; i < 3; i++)
    kinds += ct_args_get(a, image_flags[i]) != NULL;
  for (int i = 0; i < 6; i++)
    if (ct_args_get(a, others[i]))
      CT_FAIL(CT_ERR_USAGE, "pack: --%s is not for image files", others[i]);
  if (kinds > 1) CT_FAIL(CT_ERR_USAGE, "pack: give one of --images-from, --list and --tar");
  CT_TRY(read_images(a, &o));
  CT_TRY(ct_pack_open_images(topo, &o, out));
out:
  return rc;
}

/* Refuses image options for other sources. */
static int check_no_images(const ct_args_t *a)
{
  static const char *const flags[] = {"root", "encoded", "resize", "channels"};
  int rc = CT_OK;
  for (int i = 0; i < 4; i++)
    if (ct_args_get(a, flags[i]))
      CT_FAIL(CT_ERR_USAGE, "pack: --%s is for --images-from, --list and --tar", flags[i]);
out:
  return rc;
}

/* Opens CIFAR files; only the choice of coarse or fine labels is an option. */
static int open_cifar(const ct_args_t *a, const char *pattern, ct_pack_source_t *out)
{
  static const char *const others[] = {"images", "labels", "csv", "shape", "targets"};
  int rc = CT_OK;
  const char *label = ct_args_get(a, "label");
  int coarse = label && strcmp(label, "coarse") == 0;
  for (int i = 0; i < 5; i++)
    if (ct_args_get(a, others[i]))
      CT_FAIL(CT_ERR_USAGE, "pack: --%s is not for --cifar", others[i]);
  if (label && !coarse && strcmp(label, "fine") != 0)
    CT_FAIL(CT_ERR_USAGE, "pack: --label of --cifar must be fine or coarse, not '%s'", label);
  CT_TRY(ct_pack_open_cifar(pattern, coarse, out));
out:
  return rc;
}

/* Opens NumPy files; the element type decides between labels and targets. */
static int open_npy(const ct_args_t *a, const ct_shape_t *shape, ct_pack_source_t *out)
{
  int rc = CT_OK;
  if (ct_args_get(a, "label") || ct_args_get(a, "targets"))
    CT_FAIL(CT_ERR_USAGE, "pack: --label and --targets are not for NumPy's files, where integers "
                          "are labels and floats targets");
  CT_TRY(ct_pack_open_npy(ct_args_get(a, "images"), ct_args_get(a, "labels"), shape, out));
out:
  return rc;
}

static int open_input(const ct_args_t *a, ct_pack_source_t *out)
{
  int rc = CT_OK;
  ct_pack_csv_t o;
  const char *csv = ct_args_get(a, "csv"), *images = ct_args_get(a, "images");
  const char *labels = ct_args_get(a, "labels");
  CT_TRY(check_no_images(a));
  CT_TRY(pack_read_header(a, &o.header));
  if (ct_args_get(a, "cifar")) return open_cifar(a, ct_args_get(a, "cifar"), out);
  CT_TRY(read_shape(ct_args_get(a, "shape"), &o.shape));
  if (!csv && images && labels && ct_pack_is_npy(images)) return open_npy(a, &o.shape, out);
  CT_TRY(read_label(ct_args_get(a, "label"), &o.label));
  CT_TRY(ct_args_int(a, "targets", 0, 1, 1000000, &o.targets));
  if (o.targets && (ct_args_get(a, "label") || ct_args_get(a, "classes")))
    CT_FAIL(CT_ERR_USAGE,
            "pack: --targets are instead of a label: give neither --label nor --classes");
  if (csv && !images && !labels) return ct_pack_open_csv(csv, &o, out);
  if (csv || !images || !labels)
    CT_FAIL(CT_ERR_USAGE, "pack: what to read? --images FILE --labels FILE (IDX, NumPy), --csv "
                          "FILE, --cifar FILES, --images-from DIR, --list FILE, --tar FILE or "
                          "--tokens SOURCE");
  if (o.shape.ndim || ct_args_get(a, "label") || o.targets)
    CT_FAIL(CT_ERR_USAGE,
            "pack: --shape, --label and --targets are for --csv; an IDX file says its shape");
  CT_TRY(ct_pack_open_idx(images, labels, out));
out:
  return rc;
}

static int pack_tell(const ct_pack_source_t *src, const ct_pack_job_t *job,
                     const ct_pack_result_t *r)
{
  int rc = CT_OK;
  char shape[64];
  ct_str_t text = {0};
  CT_TRY(ct_str_add(&text, "%" PRId64 " sample%s (", r->samples, r->samples == 1 ? "" : "s"));
  if (src->encoded)
    CT_TRY(ct_str_add(&text, "encoded images"));
  else
    CT_TRY(ct_str_add(&text, "%s, %s", ct_shape_text(&src->x, shape, sizeof shape),
                      src->unsigned16 ? "uint16" : ct_dtype_name(src->x.dtype)));
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
  if (ct_args_get(a, "tokens")) return ct__pack_tokens(a, topo);
  CT_TRY_ALL(topo, ct__pack_no_tokens(a));
  CT_TRY_ALL(topo, ct__pack_job_options(a, &job));
  if (is_of_images(a))
    CT_TRY(open_images(a, topo, &src));
  else
    CT_TRY_ALL(topo, open_input(a, &src));
  CT_TRY(ct_pack_run(topo, &src, &job, &result));
  CT_TRY_ALL(topo, topo->rank ? CT_OK : pack_tell(&src, &job, &result));
out:
  if (src.close) src.close(src.state);
  return rc;
}
