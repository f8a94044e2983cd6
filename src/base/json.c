/* JSON is jansson's; here is what several writers of it want alike: results of commands, the lines
 * of metrics.jsonl, the report of doctor. */
#include "base/ct_json.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"

json_t *ct_json_words(const char *text)
{
  char *copy = ct_text_utf8_copy(text);
  json_t *o = json_string(copy);
  ct_mem_free(copy);
  return o;
}

static int add_chunk(const char *text, size_t bytes, void *out)
{
  return ct_str_add(out, "%.*s", (int)bytes, text);
}

int ct_json_add(const json_t *o, ct_str_t *out)
{
  int rc = CT_OK;
  if (!o || json_dump_callback(o, add_chunk, out, JSON_INDENT(2)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory to write JSON");
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}
