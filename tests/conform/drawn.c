/* Compares random descriptors of every kind on the tested backend with the reference. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "tests/conform/check.h"
#include "tests/conform/draw.h"

draws_t check_drawn_range = {.seed = 1, .count = 400};
const char *check_drawn_program = "";

/* Number of cases per kind that were run, and that the backend does not support. */
typedef struct tally {
  int64_t tried[CT_OP_COUNT], refused[CT_OP_COUNT];
} tally_t;

static int is_supported(const ct_op_desc_t *d, tally_t *tally)
{
  char why[128];
  int able = tested.be->op->supports(tested.dev, d, why);
  (able ? tally->tried : tally->refused)[d->kind]++;
  return able;
}

/* ---- ops without an activation descriptor ---- */

static ct_shape_t draw_shape(dice_t *dice)
{
  ct_shape_t s =
      ct_shape((int)dice_throw(dice, 2, 5), dice_throw(dice, 1, 4), dice_throw(dice, 1, 40),
               dice_throw(dice, 1, 7), dice_throw(dice, 1, 7), dice_throw(dice, 1, 4));
  for (int i = s.ndim; i < CT_MAX_DIMS; i++)
    s.dim[i] = 1;
  return s;
}

static void try_reorder(dice_t *dice, uint64_t seed, int64_t i, tally_t *tally)
{
  static const ct_dtype_t types[] = {CT_F32, CT_F32, CT_BF16, CT_F16};
  ct_shape_t from = draw_shape(dice), to = from;
  ct_op_desc_t d;
  char text[160];
  from.dtype = types[dice_throw(dice, 0, 3)];
  to.dtype = types[dice_throw(dice, 0, 3)];
  if (from.ndim >= 4) {
    from.layout = (ct_layout_t)dice_throw(dice, 0, 3);
    to.layout = (ct_layout_t)dice_throw(dice, 0, 3);
  }
  ct_op_desc_init(&d, CT_OP_REORDER, &from, &to);
  if (!is_supported(&d, tally)) return;
  unsigned failed = draws_next(seed, i, ct_op_text(&d, text, sizeof text));
  check_reorder_of(&from, &to, dice_is(dice, 50) ? CT_FWD : CT_BWD_DATA);
  draws_done(failed);
}

static void try_optimizer(dice_t *dice, uint64_t seed, int64_t i, tally_t *tally)
{
  int which = (int)dice_throw(dice, 0, 1000), statistics = dice_is(dice, 30);
  int64_t count = dice_is(dice, 50) ? dice_throw(dice, 1, 80) : dice_throw(dice, 1, 3000);
  char text[160];
  snprintf(text, sizeof text, "%s %d, %d elements", statistics ? "gradstat" : "update", which,
           (int)count);
  unsigned failed = draws_next(seed, i, text);
  if (statistics)
    check_gradstat_of(which, count);
  else
    check_update_of(which, count);
  tally->tried[statistics ? CT_OP_GRADSTAT : CT_OP_UPDATE]++;
  draws_done(failed);
}

/* ---- one draw ---- */

static int has_ranks(const draw_t *w)
{
  const ct_op_desc_t *d = &w->c.desc;
  return d->kind == CT_OP_BNORM && d->training && d->x.dim[1] <= 64 &&
         ct_shape_count(&d->x) >= 8 * d->x.dim[1] && d->x.dtype == CT_F32 && w->data % 4 == 0;
}

static void try_draw(uint64_t seed, int64_t i, tally_t *tally)
{
  dice_t dice = {.seed = seed, .index = (uint64_t)i};
  draw_t w;
  char text[160], name[300];
  if (dice_is(&dice, 8)) {
    if (dice_is(&dice, 50))
      try_reorder(&dice, seed, i, tally);
    else
      try_optimizer(&dice, seed, i, tally);
    return;
  }
  draw_case(&dice, CT_OP_COUNT, &w);
  if (!is_supported(&w.c.desc, tally)) return;
  snprintf(name, sizeof name, "%s %s, way %d, offered %s", ct_op_text(&w.c.desc, text, sizeof text),
           ct_dtype_name(w.c.desc.x.dtype), w.way, ct_layout_name(w.offered));
  unsigned failed = draws_next(seed, i, name);
  if (check_drawn_range.count == 1) printf("# %s\n", name);
  check_trial(&w.c, w.way, w.offered, w.data);
  if (has_ranks(&w)) check_sync_bnorm(&w.c);
  draws_done(failed);
}

void check_drawn(void)
{
  const draws_t *r = &check_drawn_range;
  tally_t tally = {{0}, {0}};
  draws_begin(check_drawn_program);
  for (int64_t i = r->first; i < r->first + r->count; i++) {
    try_draw(r->seed, i, &tally);
    if (i % 5000 == 4999) printf("# %d draws\n", (int)(i + 1 - r->first));
  }
  draws_end();
  printf("# tried (not supported):");
  for (int k = 0; k < CT_OP_COUNT; k++)
    if (tally.tried[k] + tally.refused[k])
      printf(" %s %d (%d)", ct_op_name((ct_op_kind_t)k), (int)tally.tried[k],
             (int)tally.refused[k]);
  printf("\n");
}
