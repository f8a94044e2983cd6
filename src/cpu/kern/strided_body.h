/* Loops of strided copies for elements of one size, in the type WORD of the same size; included
 * once per size.  NAME(x) adds the size to a name. */

/* Copies n elements with stride `step` to consecutive ones. */
static void NAME(copy_run)(int64_t n, const WORD *x, int64_t step, WORD *y)
{
  if (step == 1) {
    memcpy(y, x, (size_t)n * sizeof *y);
  } else if (step == 0) {
    for (int64_t i = 0; i < n; i++)
      y[i] = x[0];
  } else {
    for (int64_t i = 0; i < n; i++)
      y[i] = x[i * step];
  }
}

static void NAME(fill_run)(int64_t n, WORD value, WORD *y)
{
  for (int64_t i = 0; i < n; i++)
    y[i] = value;
}

/* A full tile: the constant sizes let the compiler unroll the loops. */
static void NAME(copy_square)(const WORD *x, int64_t step, WORD *y, int64_t pitch)
{
  WORD tile[TILE][TILE];
  for (int j = 0; j < TILE; j++)
    for (int i = 0; i < TILE; i++)
      tile[j][i] = x[j * step + i];
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++)
      y[i * pitch + j] = tile[j][i];
}

/* y[i][j] = x[j][i] for i < rows, j < n: rows of y are `pitch` apart, those of x `step`. */
static void NAME(copy_tiles)(int64_t rows, int64_t n, const WORD *x, int64_t step, WORD *y,
                             int64_t pitch)
{
  for (int64_t j = 0; j < n; j += TILE) {
    for (int64_t i = 0; i < rows; i += TILE) {
      const WORD *from = x + j * step + i;
      WORD *to = y + i * pitch + j;
      if (rows - i >= TILE && n - j >= TILE) {
        NAME(copy_square)(from, step, to, pitch);
        continue;
      }
      for (int64_t b = 0; b < ct_least(TILE, rows - i); b++)
        for (int64_t a = 0; a < ct_least(TILE, n - j); a++)
          to[b * pitch + a] = from[a * step + b];
    }
  }
}

/* Copies a row whose index moves along an edge, in pieces of equal steps. */
static void NAME(copy_edge)(const ct_walk_edge_t *e, int64_t t, int64_t step, int64_t n,
                            const WORD *x, WORD value, WORD *y)
{
  while (n > 0) {
    piece_t p = piece_of(e, t, step, n);
    if (p.place < 0)
      NAME(fill_run)(p.n, value, y);
    else
      NAME(copy_run)(p.n, x + p.place * e->stride, p.step * e->stride, y);
    t += p.n * step;
    n -= p.n;
    y += p.n;
  }
}

/* Copies rows first … end - 1. */
static void NAME(copy_rows)(const copy_t *c, const WORD *x, WORD value, WORD *y, int64_t first,
                            int64_t end)
{
  const ct_walk_t *w = &c->walk;
  int last = w->dims - 1, edge = last < 0 ? -1 : w->on[last];
  int64_t n = last < 0 ? 1 : w->size[last], step = last < 0 ? 1 : w->step[last];
  cursor_t at = cursor_at(c, first);
  for (int64_t row = first; row < end; row++, cursor_next(c, &at)) {
    int64_t from = place_of(w, &at, edge);
    if (from < 0)
      NAME(fill_run)(n, value, y + at.y);
    else if (edge >= 0)
      NAME(copy_edge)(&w->edge[edge], at.t[edge], step, n, x + from, value, y + at.y);
    else
      NAME(copy_run)(n, x + from, step, y + at.y);
  }
}

/* Transposes: part `task` of the dim along which x is contiguous, in one step of the outer
 * loops. */
static void NAME(copy_turned)(const copy_t *c, const WORD *x, WORD value, WORD *y, int64_t task)
{
  const ct_walk_t *w = &c->walk;
  int last = w->dims - 1;
  int64_t first = task % c->strips * STRIP, rows = ct_least(STRIP, w->size[c->along] - first);
  cursor_t at = cursor_at(c, task / c->strips);
  int64_t from = place_of(w, &at, -1), pitch = c->pitch[c->along];
  WORD *to = y + at.y + first * pitch;
  if (from >= 0)
    NAME(copy_tiles)(rows, w->size[last], x + from + first, w->step[last], to, pitch);
  else
    for (int64_t i = 0; i < rows; i++)
      NAME(fill_run)(w->size[last], value, to + i * pitch);
}

static void NAME(copy_all)(const copy_t *c, const void *x, WORD value, void *y)
{
  int parts = c->walk.count > CPU__PARALLEL_MIN ? PARTS : 1;
  int64_t tasks = c->along < 0 ? parts : c->outer * c->strips;
#pragma omp parallel for if (parts > 1) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    if (c->along < 0)
      NAME(copy_rows)(c, x, value, y, c->outer * i / parts, c->outer * (i + 1) / parts);
    else
      NAME(copy_turned)(c, x, value, y, i);
  }
}
