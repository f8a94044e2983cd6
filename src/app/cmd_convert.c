/* `convert`: a model file in another format, by the suffix of its new name. */
#include "app/commands.h"
#include "app/convert.h"
#include "base/ct_err.h"
#include "onnx/ct_onnx.h"

int ct_cmd_convert(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  const char *in = a->rest[0], *out = a->rest[1];
  (void)topo;
  (void)status;
  if (!ct_onnx_is_name(out))
    CT_FAIL(CT_ERR_USAGE, "convert: '%s' has the suffix of no format that is written: .onnx", out);
  CT_TRY(ct_convert_onnx(in, out, a));
out:
  return rc;
}
