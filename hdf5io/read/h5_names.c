/* Class names, stored as an attribute of a data set's file: in the form of `pack`, or in that of
 * h5py with variable-length strings. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/read/h5_shard.h"

/* Appends one line; removes line breaks from the text. */
static int names_add_line(ct_str_t *out, const char *text, size_t most)
{
  int rc = CT_OK;
  size_t begin = out->len, n = strnlen(text, most);
  CT_TRY(ct_str_add(out, "%.*s", (int)n, text));
  for (size_t i = begin; i < out->len; i++)
    if (out->data[i] == '\n' || out->data[i] == '\r') out->data[i] = ' ';
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

static int read_texts(hid_t attr, hid_t type, hid_t space, int64_t n, ct_str_t *out)
{
  int rc = CT_OK, variable = H5Tis_variable_str(type) > 0;
  size_t size = variable ? sizeof(char *) : H5Tget_size(type);
  char *all = ct_mem_array(n, (int64_t)size, "names of classes");
  CT_TRY(all ? CT_OK : CT_ERR_NOMEM);
  if (H5Aread(attr, type, all) < 0) goto out; /* classes are then shown as numbers */
  for (int64_t i = 0; i < n && rc == CT_OK; i++) {
    const char *text = variable ? ((char **)(void *)all)[i] : all + (size_t)i * size;
    rc = names_add_line(out, text ? text : "", variable ? CT__H5_NAME_MOST : size);
  }
  if (variable) H5Dvlen_reclaim(type, space, H5P_DEFAULT, all);
out:
  ct_mem_free(all);
  return rc;
}

int ct__h5_class_names(hid_t file, int64_t classes, char **out)
{
  static const char attribute[] = "class_names";
  int rc = CT_OK;
  ct_str_t text = {0};
  *out = NULL;
  if (!ct__h5_has_attr(file, attribute)) return CT_OK;
  hid_t attr = H5Aopen(file, attribute, H5P_DEFAULT);
  hid_t type = attr < 0 ? -1 : H5Aget_type(attr), space = attr < 0 ? -1 : H5Aget_space(attr);
  int64_t n = space < 0 ? 0 : (int64_t)H5Sget_simple_extent_npoints(space);
  int fit = n > 0 && n == classes && H5Tget_class(type) == H5T_STRING;
  if (fit) CT_TRY(read_texts(attr, type, space, n, &text));
  if (fit && ct_text_is_utf8(text.data ? text.data : "")) {
    *out = text.data;
    text.data = NULL;
  }
out:
  ct_str_clear(&text);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return rc;
}
