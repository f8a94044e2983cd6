/** \file tile/pack_body.h  Packing functions for one instruction set; included by tile_body.h.
 * Module-internal. */

/* Registers per panel row. */
#define PANEL (CPU__PANEL / REG)

/* Packs a source whose lanes are contiguous. */
LOOP void pack_rows(const cpu__pack_t *p, const float *from, float *to, const int whole)
{
  vec_t sum[PANEL] = {{0}};
  for (int64_t k = 0; k < p->k; k++, to += CPU__PANEL) {
    const float *row = from + (k >> 4) * p->k16 + (k & 15) * p->k_step;
    UNROLLED
    for (int v = 0; v < PANEL; v++) {
      const float *at = row + v * REG;
      vec_t x;
      if (whole)
        x = *(const vec_mem_t *)at;
      else
        x = some(at, in_register(p->lanes, v));
      sum[v] += x;
      *(vec_mem_t *)(to + v * REG) = x;
    }
  }
  for (int v = 0; p->sums && v < PANEL; v++)
    *(vec_mem_t *)(p->sums + v * REG) += sum[v];
}

/* Transposes a square of up to REG lanes and k. */
LOOP void pack_square(const cpu__pack_t *p, const float *from, float *to, int lanes, int k)
{
  vec_t r[REG];
  if (lanes == REG && k == REG) {
    UNROLLED
    for (int i = 0; i < REG; i++)
      r[i] = *(const vec_mem_t *)(from + i * p->lane);
  } else {
    UNROLLED
    for (int i = 0; i < REG; i++)
      r[i] = some(from + (i < lanes ? i : 0) * p->lane, i < lanes ? k : 0);
  }
  turn(r);
  UNROLLED
  for (int i = 0; i < REG; i++)
    if (i < k) *(vec_mem_t *)(to + i * CPU__PANEL) = r[i];
}

/* Packs a source in which consecutive k are contiguous: transposes squares. */
static void pack_columns(const cpu__pack_t *p, const float *from, float *to)
{
  for (int64_t k = 0; k < p->k; k += REG) {
    const float *at = from + (k >> 4) * p->k16 + (k & 15);
    int n = p->k - k < REG ? (int)(p->k - k) : REG;
    for (int v = 0; v < PANEL; v++)
      pack_square(p, at + v * REG * p->lane, to + k * CPU__PANEL + v * REG,
                  in_register(p->lanes, v), n);
  }
  for (int64_t k = 0; p->sums && k < p->k; k++)
    for (int j = 0; j < CPU__PANEL; j++)
      p->sums[j] += to[k * CPU__PANEL + j];
}

static void pack(const cpu__pack_t *p, const float *from, float *to)
{
  if (p->lane == 1 && p->lanes == CPU__PANEL)
    pack_rows(p, from, to, 1);
  else if (p->lane == 1)
    pack_rows(p, from, to, 0);
  else
    pack_columns(p, from, to);
}
