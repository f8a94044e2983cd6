/* Reads latency and bandwidth from the output of `bench comm --json`. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "study/model/ct_scaling.h"

static int read_link(const char *path, const json_t *o, ct_link_t *inside, ct_link_t *between)
{
  int rc = CT_OK;
  const char *level = json_string_value(json_object_get(o, "level"));
  double alpha = json_number_value(json_object_get(o, "alpha_s")),
         rate = json_number_value(json_object_get(o, "bytes_per_s"));
  if (level && json_is_null(json_object_get(o, "bytes_per_s"))) return CT_OK; /* not measurable */
  if (!level || !(alpha >= 0) || !(rate > 0))
    CT_FAIL(CT_ERR_FORMAT, "%s: a link needs level, alpha_s and bytes_per_s", path);
  ct_link_t *to = strcmp(level, "nodes") == 0  ? between
                  : strcmp(level, "node") == 0 ? inside
                                               : NULL;
  if (to && to->bytes_per_s < rate) *to = (ct_link_t){alpha, rate};
out:
  return rc;
}

int ct_scaling_links(const char *path, ct_link_t *inside, ct_link_t *between)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes, i;
  json_error_t why;
  json_t *all = NULL, *one;
  *inside = *between = (ct_link_t){0};
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &text, &bytes));
  if (!(all = json_loadb(text, bytes, 0, &why)))
    CT_FAIL(CT_ERR_FORMAT, "%s:%d: %s", path, why.line, why.text);
  const json_t *list = json_object_get(all, "links");
  if (!json_is_array(list))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the key `links` is missing; expected the output of `bench comm --json`", path);
  json_array_foreach(list, i, one) CT_TRY(read_link(path, one, inside, between));
out:
  json_decref(all);
  ct_mem_free(text);
  return rc;
}
