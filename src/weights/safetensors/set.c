/* Sets of safetensors files: an index states which file holds each tensor.
 *
 * The index is that of a "sharded checkpoint" in https://huggingface.co/docs/transformers. Its
 * total_size is ignored, since writers disagree about what it counts. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "weights/safetensors/safetensors.h"

enum { MAX_FILES = 500 }; /* all are open at the same time */

static int add_file(const char *path, ct__safetensors_set_t *s, const char *tensor, const json_t *o)
{
  int rc = CT_OK;
  const char *name = json_string_value(o);
  if (!name || !ct_text_is_name(name))
    CT_FAIL(CT_ERR_FORMAT, "%s: the file of '%s' is '%.100s', expected a plain name", path, tensor,
            name ? name : "");
  for (int i = s->files - 1; i >= 0; i--)
    if (strcmp(s->file[i], name) == 0) return CT_OK;
  if (s->files == MAX_FILES)
    CT_FAIL(CT_ERR_FORMAT, "%s: names more than %d files", path, MAX_FILES);
  s->file[s->files] = ct_mem_strdup(name);
  CT_TRY(s->file[s->files] ? CT_OK : CT_ERR_NOMEM);
  s->files++;
out:
  return rc;
}

int ct__safetensors_set_read(const char *path, ct__safetensors_set_t *out)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes;
  json_t *root = NULL, *v;
  const char *name;
  *out = (ct__safetensors_set_t){0};
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &text, &bytes));
  if (bytes > CT__SAFETENSORS_HEADER)
    CT_FAIL(CT_ERR_FORMAT, "%s: an index of %zu bytes, expected up to %d", path, bytes,
            CT__SAFETENSORS_HEADER);
  CT_TRY(ct__safetensors_json(path, text, bytes, &root));
  out->map = json_incref(json_object_get(root, "weight_map"));
  if (!json_is_object(out->map))
    CT_FAIL(CT_ERR_FORMAT, "%s: expected an object weight_map from tensor names to file names",
            path);
  out->file = ct_mem_array(MAX_FILES, sizeof *out->file, "names of files");
  CT_TRY(out->file ? CT_OK : CT_ERR_NOMEM);
  json_object_foreach(out->map, name, v) CT_TRY(add_file(path, out, name, v));
  if (out->files == 0) CT_FAIL(CT_ERR_FORMAT, "%s: its weight_map is empty", path);
out:
  json_decref(root);
  ct_mem_free(text);
  if (rc != CT_OK) ct__safetensors_set_clear(out);
  return rc;
}

int ct__safetensors_set_check(const char *path, const ct__safetensors_set_t *s,
                              const ct__safetensors_list_t *l)
{
  int rc = CT_OK;
  json_t *missing = json_copy(s->map);
  const char *name;
  json_t *v;
  CT_TRY(missing ? CT_OK : CT_ERR_NOMEM);
  for (int64_t i = 0; i < l->n; i++) {
    const ct__safetensors_entry_t *e = &l->entry[i];
    const char *file = json_string_value(json_object_get(missing, e->name));
    if (!file || strcmp(file, s->file[e->part]) != 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is stored in '%s', but the index %s", path, e->name,
              s->file[e->part],
              json_object_get(s->map, e->name) ? "names another file" : "does not list it");
    json_object_del(missing, e->name);
  }
  json_object_foreach(missing, name, v)
      CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is not in '%s'", path, name, json_string_value(v));
out:
  json_decref(missing);
  return rc;
}

void ct__safetensors_set_clear(ct__safetensors_set_t *s)
{
  for (int i = 0; i < s->files; i++)
    ct_mem_free(s->file[i]);
  ct_mem_free(s->file);
  json_decref(s->map);
  *s = (ct__safetensors_set_t){0};
}
