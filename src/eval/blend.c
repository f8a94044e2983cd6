/* Blending of tiles.  The tiles of a sample are all combinations of the tiles of its axes, so the
 * sum of their weights is a product over the axes, too: no map of weights is needed. */
#include "eval/ct_blend.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Converts a place of the input to one of the output; CT_ERR_USAGE if that is not whole. */
static int to_output(const ct_blend_t *b, int a, int64_t input, int64_t *output)
{
  int rc = CT_OK;
  *output = input * b->size[a] / b->tile.size[a];
  if (input * b->size[a] % b->tile.size[a])
    CT_FAIL(CT_ERR_USAGE,
            "predict: the model's output for a tile of %" PRId64 " is %" PRId64
            ", so place %" PRId64 " of the input has no whole place in the output: choose --tile "
            "and --overlap (and samples) that are multiples of %" PRId64,
            b->tile.size[a], b->size[a], input,
            b->tile.size[a] % b->size[a] ? b->tile.size[a] : b->tile.size[a] / b->size[a]);
out:
  return rc;
}

int ct_blend_open(ct_blend_t *b, ct_blend_kind_t kind, const ct_tile_t *tile, const char *name,
                  const ct_shape_t *out, const ct_shape_t *most)
{
  int rc = CT_OK;
  char is[64];
  *b = (ct_blend_t){.kind = kind, .tile = *tile};
  int scales = out->ndim == tile->given + 2;
  for (int a = 0; scales && a < tile->given; a++)
    scales = out->dim[a + 2] > 1 || tile->size[a] == 1;
  if (!scales)
    CT_FAIL(CT_ERR_USAGE,
            "predict: --tile: output '%s' of the model has shape %s, which does not scale with its "
            "input: tiles are for models that have an output for each place",
            name, ct_shape_text(out, is, sizeof is));
  for (int a = 0; a < tile->given; a++) {
    int64_t places = most->dim[a + 2] * out->dim[a + 2] / tile->size[a] + 1;
    b->size[a] = out->dim[a + 2];
    b->sum[a] = ct_mem_array(places, sizeof *b->sum[a], "the weights of tiles");
    CT_TRY(b->sum[a] ? CT_OK : CT_ERR_NOMEM);
  }
  b->row = ct_mem_array(b->size[tile->given - 1], sizeof *b->row, "the weights of a tile");
  CT_TRY(b->row ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

/* Returns the weight of the i-th place of a tile along an axis. */
static double weight(const ct_blend_t *b, int a, int64_t i)
{
  double size = (double)b->size[a], at = (double)i + 0.5;
  double overlap = (double)b->tile.overlap[a] * size / (double)b->tile.size[a];
  double far = (at - size / 2) / (size / 8);
  if (b->kind == CT_BLEND_GAUSSIAN) return exp(-far * far / 2);
  if (b->kind == CT_BLEND_CONSTANT || overlap <= 0) return 1;
  return fmin(1, fmin(at, size - at) / overlap);
}

int ct_blend_begin(ct_blend_t *b, const ct_shape_t *x)
{
  int rc = CT_OK;
  const ct_tile_t *t = &b->tile;
  for (int a = 0; a < t->given; a++) {
    int64_t extent = x->dim[a + 2], at;
    CT_TRY(to_output(b, a, extent, &b->whole[a]));
    for (int64_t i = 0; i < b->whole[a]; i++)
      b->sum[a][i] = 0;
    for (int64_t k = 0; k < ct_tile_count(extent, t->size[a], t->overlap[a]); k++) {
      CT_TRY(to_output(b, a, ct_tile_start(extent, t->size[a], t->overlap[a], k), &at));
      for (int64_t i = 0; i < b->size[a]; i++)
        b->sum[a][at + i] += weight(b, a, i);
    }
  }
out:
  return rc;
}

void ct_blend_add(ct_blend_t *b, int64_t channels, const int64_t start[CT_TILE_AXES],
                  const float *tile, float *whole)
{
  const int axes = b->tile.given, lead = CT_TILE_AXES - axes;
  int64_t size[CT_TILE_AXES] = {1, 1, 1}, all[CT_TILE_AXES] = {1, 1, 1}, at[CT_TILE_AXES] = {0};
  for (int a = 0; a < axes; a++) {
    size[lead + a] = b->size[a];
    all[lead + a] = b->whole[a];
    at[lead + a] = start[a] * b->size[a] / b->tile.size[a];
  }
  for (int64_t x = 0; x < size[2]; x++)
    b->row[x] = weight(b, axes - 1, x) / b->sum[axes - 1][at[2] + x];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t z = 0; z < size[0]; z++)
      for (int64_t y = 0; y < size[1]; y++, tile += size[2]) {
        const int64_t place[] = {z, y};
        float *to = whole + ((c * all[0] + at[0] + z) * all[1] + at[1] + y) * all[2] + at[2];
        double outer = 1;
        for (int a = 0; a < axes - 1; a++) {
          int64_t i = place[lead + a];
          outer *= weight(b, a, i) / b->sum[a][at[lead + a] + i];
        }
        for (int64_t x = 0; x < size[2]; x++)
          to[x] += (float)(outer * b->row[x]) * tile[x];
      }
}

void ct_blend_close(ct_blend_t *b)
{
  for (int a = 0; a < CT_TILE_AXES; a++)
    ct_mem_free(b->sum[a]);
  ct_mem_free(b->row);
  *b = (ct_blend_t){0};
}
