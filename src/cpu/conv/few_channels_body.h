/** \file conv/few_channels_body.h  The loops of conv/few_channels_loops.h for LANES channels.
 * Module-internal; may be included more than once.
 *
 * The including file defines ROWS_OF_5X5, the rows of a 5x5 kernel's gradient that fit the
 * registers, and LOOPS_TABLE, the name of the table.  It may define OF_PIXELS(loop), a faster loop
 * for plain images, and REG, the floats of a register if it has fewer than LANES.
 *
 * `const int` parameters are constants after inlining, so that accumulators are unrolled into
 * registers. */
#define PASTE_(a, b)    a##_##b
#define PASTE(a, b)     PASTE_(a, b)
#define FOR_LANES(name) PASTE(name, LANES)
#define LOOP            static inline __attribute__((always_inline))
#ifndef REG
#  define REG LANES
#endif
/* Registers per pixel. */
#define PARTS (LANES / REG)
/* Compilers unroll this many iterations by themselves, but not twice as many. */
#if PARTS > 1
#  define UNROLLED _Pragma("GCC unroll 28")
#else
#  define UNROLLED
#endif

typedef float FOR_LANES(vec) __attribute__((vector_size(REG * 4), aligned(4), may_alias));
typedef int32_t FOR_LANES(ints) __attribute__((vector_size(REG * 4)));

/* ---- correlate ---- */

/* Computes some pixels of one row of out. */
LOOP void FOR_LANES(pixels)(const cpu__few_task_t *a, const float *in, float *out, const int pixels,
                            const int step)
{
  FOR_LANES(vec) sum[14 * PARTS], *to = (FOR_LANES(vec) *)out;
  const FOR_LANES(vec) *w = (const FOR_LANES(vec) *)a->w;
  UNROLLED
  for (int p = 0; p < pixels * PARTS; p++)
    sum[p] = ((const FOR_LANES(vec) *)a->bias)[p % PARTS];
  for (int c = 0; c < a->in.channels; c++) {
    const float *from = in + c / step * a->in.group + c % step;
    for (int u = 0; u < a->kernel; u++, from += a->in.width * step)
      for (int v = 0; v < a->kernel; v++, w += PARTS)
        UNROLLED
    for (int p = 0; p < pixels * PARTS; p++)
      sum[p] += w[p % PARTS] * from[(p / PARTS + v) * step];
  }
  UNROLLED
  for (int p = 0; p < pixels * PARTS; p++)
    to[p] = a->relu ? (FOR_LANES(vec))(~(sum[p] <= 0) & (typeof(sum[p] <= 0))sum[p]) : sum[p];
}

/* Computes a whole row in groups of `pixels`.  If the row does not divide into groups, the last
 * group overlaps the one before. */
LOOP void FOR_LANES(all_pixels)(const cpu__few_task_t *a, const int pixels, const int step)
{
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t j = 0; j < a->cols; j += pixels) {
      int64_t at = j + pixels <= a->cols ? j : a->cols - pixels;
      FOR_LANES(pixels)
      (a, a->in.data + (i * a->in.width + at) * step, a->out + (i * a->cols + at) * LANES, pixels,
       step);
    }
}

/* Returns the group size with the lowest cost; a group costs its number of pixels plus 2. */
static int FOR_LANES(best_group)(int64_t cols)
{
  static const int sizes[] = {14, 12, 10, 8, 7, 4, 2, 1};
  int best = 1;
  int64_t least = INT64_MAX;
  for (int k = 0; k < 8; k++) {
    int64_t cost = (cols + sizes[k] - 1) / sizes[k] * (sizes[k] + 2);
    if (sizes[k] > cols || cost >= least) continue;
    least = cost;
    best = sizes[k];
  }
  return best;
}

LOOP void FOR_LANES(correlate_step)(const cpu__few_task_t *a, const int step)
{
  switch (FOR_LANES(best_group)(a->cols)) {
  case 14:
    FOR_LANES(all_pixels)(a, 14, step);
    break;
  case 12:
    FOR_LANES(all_pixels)(a, 12, step);
    break;
  case 10:
    FOR_LANES(all_pixels)(a, 10, step);
    break;
  case 8:
    FOR_LANES(all_pixels)(a, 8, step);
    break;
  case 7:
    FOR_LANES(all_pixels)(a, 7, step);
    break;
  case 4:
    FOR_LANES(all_pixels)(a, 4, step);
    break;
  case 2:
    FOR_LANES(all_pixels)(a, 2, step);
    break;
  default:
    FOR_LANES(all_pixels)(a, 1, step);
    break;
  }
}

static void FOR_LANES(correlate)(const cpu__few_task_t *a)
{
#ifdef OF_PIXELS
  if (a->in.step == 1) return OF_PIXELS(correlate)(a);
#endif
  if (a->in.step == 1)
    FOR_LANES(correlate_step)(a, 1);
  else if (a->in.step == 8)
    FOR_LANES(correlate_step)(a, 8);
  else
    FOR_LANES(correlate_step)(a, 16);
}

/* ---- overlap ---- */

static void FOR_LANES(overlap)(const cpu__few_strips_t *a, float *out)
{
  FOR_LANES(ints) there[PARTS];
  for (int k = 0; k < LANES; k++)
    there[k / REG][k % REG] = k < a->channels ? -1 : 0;
  for (int64_t j = 0; j < a->cols; j++)
    for (int k = 0; k < PARTS; k++) {
      FOR_LANES(vec) sum = {0};
      for (int v = 0; v < a->kernel; v++) {
        int64_t from = a->left + j - v;
        if (from < 0 || from >= a->count) continue;
        sum += ((const FOR_LANES(vec) *)(a->data + from * a->strip + v * a->channels))[k];
      }
      ((FOR_LANES(vec) *)out)[j * PARTS + k] = (FOR_LANES(vec))(there[k] & (FOR_LANES(ints))sum);
    }
}

/* ---- gradient ---- */

/* Adds some rows of the weight gradient of one channel. */
LOOP void FOR_LANES(taps)(const cpu__few_task_t *a, int c, int first, const int rows,
                          const int kernel, const int step)
{
  FOR_LANES(vec) sum[25 * PARTS];
  FOR_LANES(vec) *dw = (FOR_LANES(vec) *)a->w + (c * kernel + first) * kernel * PARTS;
  const FOR_LANES(vec) *dy = (const FOR_LANES(vec) *)a->out;
  int64_t width = a->in.width * step;
  const float *in = a->in.data + c / step * a->in.group + c % step + first * width;
  UNROLLED
  for (int k = 0; k < rows * kernel * PARTS; k++)
    sum[k] = dw[k];
  for (int64_t i = 0; i < a->rows; i++, in += width)
    for (int64_t j = 0; j < a->cols; j++, dy += PARTS)
      UNROLLED
  for (int u = 0; u < rows; u++)
    UNROLLED
  for (int v = 0; v < kernel * PARTS; v++)
    sum[u * kernel * PARTS + v] += dy[v % PARTS] * in[u * width + (j + v / PARTS) * step];
  UNROLLED
  for (int k = 0; k < rows * kernel * PARTS; k++)
    dw[k] = sum[k];
}

LOOP void FOR_LANES(gradient_step)(const cpu__few_task_t *a, const int step)
{
  for (int c = 0; c < a->in.channels; c++) {
    int u = 0;
    if (a->kernel == 3) {
      FOR_LANES(taps)(a, c, 0, 3, 3, step);
      continue;
    }
    for (; u + ROWS_OF_5X5 <= 5; u += ROWS_OF_5X5)
      FOR_LANES(taps)(a, c, u, ROWS_OF_5X5, 5, step);
    for (; u < 5; u++)
      FOR_LANES(taps)(a, c, u, 1, 5, step);
  }
}

static void FOR_LANES(gradient)(const cpu__few_task_t *a)
{
#ifdef OF_PIXELS
  if (a->in.step == 1) return OF_PIXELS(gradient)(a);
#endif
  const FOR_LANES(vec) *dy = (const FOR_LANES(vec) *)a->out;
  for (int k = 0; k < PARTS; k++) {
    FOR_LANES(vec) *bias = (FOR_LANES(vec) *)a->bias + k, sum[4] = {*bias};
    for (int64_t i = 0; i < a->rows * a->cols; i++)
      sum[i % 4] += dy[i * PARTS + k];
    *bias = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  if (a->in.step == 1)
    FOR_LANES(gradient_step)(a, 1);
  else if (a->in.step == 8)
    FOR_LANES(gradient_step)(a, 8);
  else
    FOR_LANES(gradient_step)(a, 16);
}

const cpu__few_loops_t LOOPS_TABLE = {
    .correlate = FOR_LANES(correlate),
    .overlap = FOR_LANES(overlap),
    .gradient = FOR_LANES(gradient),
};

#undef LANES
#undef REG
#undef PARTS
#undef UNROLLED
#undef ROWS_OF_5X5
#undef OF_PIXELS
#undef LOOPS_TABLE
