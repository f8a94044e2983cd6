/* `convert`: writes a model file in another format, which the suffix of the new name selects. */
#include <string.h>

#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "commands/convert.h"
#include "setup/ct_model_file.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "onnx/ct_onnx.h"

/* Appends the main suffix of each writable format: ".h5, .safetensors, …". */
static int list_suffixes(ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; ct_builtin_weights[i]; i++)
    if (ct_builtin_weights[i]->create)
      CT_TRY(ct_str_add(out, "%s, ", ct_builtin_weights[i]->format.suffixes[0]));
  CT_TRY(ct_str_add(out, ".onnx"));
out:
  return rc;
}

int ct_cmd_convert(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  char in[CT_PATH_MAX];
  const char *out = a->rest[1];
  ct_str_t all = {0};
  (void)topo;
  (void)status;
  CT_TRY(ct_model_path(a->rest[0], ct_args_get(a, "checkpoint"), in, sizeof in));
  if (strcmp(in, a->rest[0]) != 0) ct_log(CT_LOG_INFO, "using the model of %s", in);
  if (ct_onnx_is_name(out)) {
    CT_TRY(ct_convert_onnx(in, out, a));
  } else if (ct_convert_is_directory(out)) {
    CT_TRY(ct_convert_hf(in, out, a));
  } else if (!ct_convert_format(out)) {
    CT_TRY(list_suffixes(&all));
    CT_FAIL(CT_ERR_USAGE, "convert: '%s' has the suffix of no format that is written: %s", out,
            all.data);
  } else if (ct_args_get(a, "external-data")) {
    CT_FAIL(CT_ERR_USAGE, "convert: --external-data is for .onnx");
  } else {
    CT_TRY(ct_convert_weights(in, out, a));
  }
out:
  ct_str_clear(&all);
  return rc;
}
