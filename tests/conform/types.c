/* Reduced precision (bf16, fp16) for all kinds of op, and NaN in activations. */
#include "tests/conform/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "tests/harness/ct_test.h"

/* Checks every `step`-th case of all kinds in this type. */
static void check_type(ct_dtype_t type, int step)
{
  for (int k = 0; k < CT_OP_COUNT; k++) {
    next_case_t *const *lists = kind_cases[k]->cases;
    op_case_t c;
    char why[128];
    for (int l = 0; l < 4 && lists[l]; l++)
      for (int i = 0; lists[l](i, &c); i += step) {
        ct_op_desc_type(&c.desc, type);
        if (!c.big && tested.be->op->supports(tested.dev, &c.desc, why)) check_parity(&c);
      }
  }
}

/* CT_CONFORM_STEP=3: every third case. */
void check_bf16(void)
{
  const char *step = getenv("CT_CONFORM_STEP");
  check_type(CT_BF16, step && atoi(step) > 0 ? atoi(step) : 1);
}

void check_f16(void)
{
  check_type(CT_F16, 3);
}

void check_relu_keeps_nan(void)
{
  static const struct {
    int (*next)(int, op_case_t *);
    int i; /* index of a case with a ReLU */
  } rows[] = {{case_conv, 1},   {case_conv, 8}, {case_conv, 15}, {case_linear, 3}, {case_bnorm, 1},
              {case_bnorm, 14}, {case_relu, 0}, {case_pool, 1},  {case_pool, 3},   {case_add, 1}};

  for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
    trial_t how = {"NaN", CT_FWD, 0, CT_PLAIN};
    op_case_t c;
    inputs_t in;
    outputs_t out;
    rig_t r;
    char text[160], why[128];
    rows[i / 2].next(rows[i / 2].i, &c);
    ct_op_desc_type(&c.desc, i % 2 ? CT_BF16 : CT_F32);
    if (!tested.be->op->supports(tested.dev, &c.desc, why)) continue;
    inputs_open(&in, &c.desc, 1, c.data);
    outputs_open(&out, &c.desc);
    in.x[0] = NAN;
    int found = 0;
    if (!CT_ASSERT_OK(rig_open(&r, &tested, &c.desc, &how)) && !CT_ASSERT_OK(rig_forward(&r, &in)))
      rig_take(&r, &out);
    for (int64_t k = 0; k < ct_shape_count(&c.desc.y); k++)
      found |= isnan(out.y[k]);
    check(found, "%s: the NaN is lost", ct_op_text(&c.desc, text, sizeof text));
    rig_close(&r);
    outputs_close(&out);
    inputs_close(&in);
  }
}
