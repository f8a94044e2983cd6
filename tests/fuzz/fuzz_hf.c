/* Fuzz target: bytes that begin as JSON does are a config.json and the index of a set of
 * safetensors files; others are a model of llm.c.
 *
 * Either they are refused with a message that names the file, or: the section of a config.json
 * gives a config.json of the same section; an index names files without a directory; the tensors of
 * a model are inside the file.  Nothing stays allocated. */
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/fuzz/fuzz_weights.h"
#include "weights/hf/ct_hf.h"
#include "weights/llmc/ct_weights_llmc.h"
#include "weights/safetensors/safetensors.h"

static void check_config(const char *path, const uint8_t *data, size_t bytes)
{
  ct_str_t section = {0}, again = {0};
  ct_yaml_t *model = NULL;
  json_t *o = NULL;
  if (!refused(ct_hf_translate(path, (const char *)data, bytes, &section), path)) {
    must(ct_yaml_parse(section.data, section.len, path, &model) == CT_OK, "the section is YAML");
    must(ct_hf_knows(ct_yaml_find(model, "family")->text), "the family is known");
    must(ct_hf_describe(model, &o) == CT_OK, "what was read can be written");
    char *text = json_dumps(o, 0);
    must(text && ct_hf_translate(path, text, strlen(text), &again) == CT_OK, "and read again");
    must(strcmp(section.data, again.data) == 0, "to the same section");
    free(text);
  }
  json_decref(o);
  ct_yaml_free(model);
  ct_str_clear(&section);
  ct_str_clear(&again);
}

static void check_index(const char *path)
{
  ct__safetensors_set_t s;
  if (refused(ct__safetensors_set_read(path, &s), path)) return;
  must(s.files > 0, "a set has files");
  for (int i = 0; i < s.files; i++)
    must(!strchr(s.file[i], '/'), "files are beside the index");
  ct__safetensors_set_clear(&s);
}

static void check_llmc(const char *path)
{
  const ct_weights_ops_t *ops = &ct_weights_llmc;
  ct_weights_t *w;
  ct_tensor_t t;
  if (refused(ops->open(path, NULL, &w), path)) return;
  for (int i = 0; i < ops->count(w); i++) {
    ops->tensor(w, i, &t);
    char *values = malloc(size_of(&t) + 1);
    must(values && ops->read(w, i, 0, t.count, values) == CT_OK, "what was opened can be read");
    free(values);
  }
  ops->close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  const char *path = scratch("in");
  int is_json = bytes > 0 && data[0] == '{';
  put(path, data, bytes);
  if (is_json) check_config(path, data, bytes);
  if (is_json) check_index(path);
  if (!is_json) check_llmc(path);
  unlink(path);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
