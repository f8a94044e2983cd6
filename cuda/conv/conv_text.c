/* Choices of convolution plans as text (choices.h). */
#include <stdio.h>

#include "base/ct_err.h"
#include "cuda/conv/conv_plan.h"

int gpu__conv_text(const gpu__conv_algo_t *algo, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(
      ct_str_add(out, "fused %d, notes %x, engine %d\n", algo->fused, algo->notes, algo->engine));
  CT_TRY(gpu__dnn_plan_write(&algo->plan, out));
out:
  return rc;
}

int gpu__conv_parse(const gpu__dnn_target_t *t, const char *text, gpu__conv_algo_t *out)
{
  gpu__conv_algo_t algo = {.fused = 0};
  int at = 0;
  if (sscanf(text, "fused %d, notes %x, engine %d\n%n", &algo.fused, &algo.notes, &algo.engine,
             &at) != 3 ||
      at == 0)
    return 0;
  if (gpu__dnn_plan_read(t, text + at, &algo.plan) != CT_OK) return 0;
  *out = algo;
  return 1;
}
