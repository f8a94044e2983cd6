/* Random numbers (ct_random.h). */
#include "backend/ct_random.h"
#include "base/ct_err.h"
#include "cpu/kern/loops.h"

enum { RANDOM_PIECE = 4096 /* elements per task; a multiple of CT_DROPOUT_BLOCK */ };

static void random_piece(const ct_random_draw_t *draw, int64_t position, int64_t first,
                         int64_t count, ct_dtype_t t, void *y)
{
  float v[CT_DROPOUT_BLOCK];
  for (int64_t i = 0; i < count; i++) {
    int64_t k = i % CT_DROPOUT_BLOCK;
    if (k == 0) ct_random_values(draw, position, (first + i) / CT_DROPOUT_BLOCK, v);
    if (t == CT_BF16)
      ((uint16_t *)y)[i] = ct_bf16_of(v[k]);
    else
      ((float *)y)[i] = v[k];
  }
}

static int random_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_op_desc_t *d = &op->desc;
  int64_t rows = d->u.random.rows > 1 ? d->u.random.rows : 1;
  int64_t sample = ct_shape_sample(&d->y) * rows;
  int64_t pieces = (sample + RANDOM_PIECE - 1) / RANDOM_PIECE, tasks = d->y.dim[0] / rows * pieces;
  ct_random_draw_t draw =
      ct_random_make(a->seed, a->step, d->u.random.layer, d->u.random.kind, d->u.random.p);

#pragma omp parallel for if (tasks > 1) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    int64_t n = i / pieces, first = i % pieces * RANDOM_PIECE, rest = sample - first;
    random_piece(&draw, a->first + n, first, rest < RANDOM_PIECE ? rest : RANDOM_PIECE, d->y.dtype,
                 cpu__at(a->y, n * sample + first, d->y.dtype));
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__random = {
    .size = sizeof(ct_op_t), .bf16 = 1, .plain = 1, .run = random_run};
