/* Copies of activations between layouts and types, compared bit by bit. */
#include "tests/conform/check.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

/* Offset of element i of the plain layout, implemented independently of the backend on purpose. */
static int64_t offset_of(const ct_shape_t *s, int64_t i)
{
  if (s->layout == CT_PLAIN) return i;
  int64_t pixels = ct_shape_sample(s) / s->dim[1], at = i % pixels;
  int64_t c = i / pixels % s->dim[1], n = i / ct_shape_sample(s);

  if (s->layout == CT_NHWC) return (n * pixels + at) * s->dim[1] + c;
  int64_t b = s->layout == CT_C8 ? 8 : 16, blocks = (s->dim[1] + b - 1) / b;
  return ((n * blocks + c / b) * pixels + at) * b + c % b;
}

/* Checks one direction of one reorder, with offsets from place(). */
void check_reorder_of(const ct_shape_t *from, const ct_shape_t *to, int pass)
{
  int64_t nx = ct_shape_padded(from), ny = ct_shape_padded(to), wrong = 0;
  void *x = ct_mem_array(nx, sizeof(float), "test"), *y = ct_mem_array(ny, sizeof(float), "test");
  float *want = ct_mem_array(ny, sizeof *want, "test");
  block_t bx, by;
  ct_op_desc_t d;
  ct_op_t *op;
  ct_op_info_t info;
  char text[160];

  for (int64_t i = 0; i < ct_shape_count(from); i++) {
    int64_t number = from->dtype == CT_F32 && to->dtype == CT_F32 ? i : i % 251; /* 8 bits */
    float v = (float)(number + 1);
    want[offset_of(to, i)] = v;
    element_put(x, from->dtype, offset_of(from, i), v);
  }
  ct_op_desc_init(&d, CT_OP_REORDER, pass == CT_FWD ? from : to, pass == CT_FWD ? to : from);
  d.passes = CT_FWD | CT_BWD_DATA;
  block_open(&bx, &tested, ct_shape_bytes(from));
  block_open(&by, &tested, ct_shape_bytes(to));
  block_put(&bx, x, bx.bytes);
  if (CT_ASSERT_OK(tested.be->op->prepare(tested.dev, &d, NULL, &op, &info)) == CT_OK) {
    ct_op_args_t a = {.pass = pass, .x = bx.mem, .y = by.mem, .dy = bx.mem, .dx = by.mem};
    if (pass == CT_FWD) a.dx = NULL;
    if (pass == CT_BWD_DATA) a.y = NULL;
    CT_ASSERT_OK(tested.be->op->run(tested.queue, op, &a));
    block_take(&by, y, by.bytes);
    for (int64_t i = 0; i < ny; i++)
      wrong += !(element_take(y, to->dtype, i) == want[i]);
    check(wrong == 0 && block_intact(&by), "%s, %s: %d elements are wrong",
          ct_op_text(&d, text, sizeof text), pass == CT_FWD ? "forward" : "backward", (int)wrong);
    CT_ASSERT_INT(info.y_layout, d.y.layout);
    tested.be->op->release(op);
  }
  block_close(&bx);
  block_close(&by);
  ct_mem_free(x);
  ct_mem_free(y);
  ct_mem_free(want);
}

/* Checks every pair of types that the backend supports, in the directions \a passes. */
static void check_reorder_types(const ct_shape_t *from, const ct_shape_t *to, int passes)
{
  static const ct_dtype_t types[] = {CT_F32, CT_BF16};

  for (int pair = 0; pair < 4; pair++) {
    ct_shape_t x = *from, y = *to;
    ct_op_desc_t d;
    char why[128];
    x.dtype = types[pair / 2];
    y.dtype = types[pair % 2];
    ct_op_desc_init(&d, CT_OP_REORDER, &x, &y);
    if (!tested.be->op->supports(tested.dev, &d, why)) continue;
    if (passes & CT_FWD) check_reorder_of(&x, &y, CT_FWD);
    if (passes & CT_BWD_DATA) check_reorder_of(&x, &y, CT_BWD_DATA);
  }
}

void check_reorders(void)
{
  static const int64_t shapes[][4] = {
      {2, 16, 3, 4}, {1, 3, 5, 7}, {3, 17, 1, 1},  {2, 8, 2, 2},    {1, 24, 1, 3},
      {2, 40, 7, 7}, {1, 1, 1, 1}, {2, 100, 9, 9}, {4, 64, 24, 24}, {4, 32, 132, 132}};

  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (int pair = 0; pair < 16; pair++) {
      const int64_t *s = shapes[i];
      ct_shape_t from = ct_shape(4, s[0], s[1], s[2], s[3]), to = from;
      from.layout = (ct_layout_t)(pair / 4);
      to.layout = (ct_layout_t)(pair % 4);
      int large =
          ct_shape_bytes(&from) > 8 << 20; /* for large tensors: one layout, and each direction
                                              twice */
      if (large && (from.layout != CT_PLAIN || is_left_out(&from, 0))) continue;
      int one = pair % 2 ? CT_FWD : CT_BWD_DATA;
      check_reorder_types(&from, &to, large ? one : CT_FWD | CT_BWD_DATA);
    }
  }
}
