/* Cuts stored samples into tiles, so that everything behind the reader (transforms, batches, ranks)
 * treats a tile as a sample. */
#include "data/readers/ct_tiles.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

struct ct_reader {
  ct_reader_info_t info;
  const ct_reader_ops_t *ops;
  ct_reader_t *of; /* owned */
  ct_tile_t tile;
  int64_t samples;
  int64_t *first; /* owned; [samples + 1], the first tile of each sample */
  pthread_mutex_t lock;
  int64_t kept; /* the sample in `stored`; -1: none */
  char *stored; /* owned; one sample as stored */
};

/* ---- where tiles are ---- */

int64_t ct_tile_count(int64_t extent, int64_t size, int64_t overlap)
{
  int64_t step = size - overlap;
  return (extent - size + step - 1) / step + 1;
}

int64_t ct_tile_start(int64_t extent, int64_t size, int64_t overlap, int64_t i)
{
  int64_t start = i * (size - overlap);
  return start + size > extent ? extent - size : start;
}

static void tiles_shape(const ct_reader_t *r, int64_t sample, ct_shape_t *out)
{
  const ct_reader_info_t *info = r->ops->info(r->of);
  *out = info->x;
  if (info->varies) r->ops->shape(r->of, sample, out);
}

static int64_t count_tiles(const ct_reader_t *r, const ct_shape_t *x)
{
  int64_t n = 1;
  for (int a = 0; a < r->tile.given; a++)
    n *= ct_tile_count(x->dim[a + 2], r->tile.size[a], r->tile.overlap[a]);
  return n;
}

void ct_tiles_at(const ct_reader_t *r, int64_t index, ct_tile_at_t *out)
{
  int64_t low = 0, high = r->samples - 1;
  while (low < high) { /* the last sample that does not begin after the tile */
    int64_t middle = (low + high + 1) / 2;
    if (r->first[middle] <= index)
      low = middle;
    else
      high = middle - 1;
  }
  *out = (ct_tile_at_t){.sample = low, .tile = index - r->first[low]};
  out->tiles = r->first[low + 1] - r->first[low];
  tiles_shape(r, low, &out->x);
  int64_t rest = out->tile;
  for (int a = r->tile.given - 1; a >= 0; a--) {
    int64_t extent = out->x.dim[a + 2], size = r->tile.size[a], overlap = r->tile.overlap[a];
    int64_t n = ct_tile_count(extent, size, overlap);
    out->start[a] = ct_tile_start(extent, size, overlap, rest % n);
    rest /= n;
  }
}

const ct_tile_t *ct_tiles_tile(const ct_reader_t *r)
{
  return &r->tile;
}

ct_reader_t *ct_tiles_of(const ct_reader_t *r, const ct_reader_ops_t **ops)
{
  *ops = r->ops;
  return r->of;
}

/* ---- opening ---- */

static void tiles_close(ct_reader_t *r)
{
  if (!r) return;
  r->ops->close(r->of);
  pthread_mutex_destroy(&r->lock);
  ct_mem_free(r->first);
  ct_mem_free(r->stored);
  ct_mem_free(r);
}

/* Gives each axis its own numbers. */
static int spread(ct_tile_t *t, int axes)
{
  int rc = CT_OK;
  if (axes < 1 || axes > CT_TILE_AXES || (t->given != 1 && t->given != axes))
    CT_FAIL(CT_ERR_USAGE, "--tile has %d numbers, but samples have %d axes of space", t->given,
            axes);
  for (int a = t->given; a < axes; a++) {
    t->size[a] = t->size[0];
    t->overlap[a] = t->overlap[0];
  }
  t->given = axes;
out:
  return rc;
}

static int find_first(ct_reader_t *r)
{
  int rc = CT_OK;
  char location[256], is[64];
  ct_shape_t x;
  r->first = ct_mem_array(r->samples + 1, sizeof *r->first, "the tiles of samples");
  CT_TRY(r->first ? CT_OK : CT_ERR_NOMEM);
  r->first[0] = 0;
  for (int64_t i = 0; i < r->samples; i++) {
    tiles_shape(r, i, &x);
    for (int a = 0; a < r->tile.given; a++) {
      if (x.dim[a + 2] >= r->tile.size[a]) continue;
      r->ops->location(r->of, i, location, sizeof location);
      CT_FAIL(CT_ERR_USAGE, "%s: has shape %s, which is smaller than a tile: --tile is %" PRId64,
              location, ct_shape_text(&x, is, sizeof is), r->tile.size[a]);
    }
    r->first[i + 1] = r->first[i] + count_tiles(r, &x);
  }
out:
  return rc;
}

/* Describes tiles, which have no labels. */
static void describe(ct_reader_t *r, const ct_reader_info_t *of)
{
  ct_reader_info_t *info = &r->info;
  *info = *of;
  info->samples = r->first[r->samples];
  info->varies = info->encoded = info->unsized = 0;
  info->targets = info->by_pixel = info->weighted = info->by_place = 0;
  info->dense_target = (ct_shape_t){0};
  info->more = (ct_inputs_t){0};
  info->unlabelled = 1;
  for (int a = 0; a < r->tile.given; a++) {
    info->x.dim[a + 2] = r->tile.size[a];
    info->fingerprint = ct_hash_int(r->tile.size[a], info->fingerprint);
    info->fingerprint = ct_hash_int(r->tile.overlap[a], info->fingerprint);
  }
}

static int open_tiles(ct_reader_t *r)
{
  int rc = CT_OK;
  const ct_reader_info_t *of = r->ops->info(r->of);
  if (of->extra.n)
    CT_FAIL(CT_ERR_USAGE, "--tile is for models with one input, but here there is input.%s too",
            of->extra.name[0]);
  if (of->unsized)
    CT_FAIL(CT_ERR_USAGE, "--tile needs the sizes of the samples, which their file does not give");
  CT_TRY(spread(&r->tile, of->x.ndim - 2));
  r->samples = of->samples;
  CT_TRY(find_first(r));
  describe(r, of);
  r->stored = ct_mem_array(ct_shape_sample(&of->x), ct_dtype_size(of->x.dtype), "a sample");
  CT_TRY(r->stored ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

int ct_tiles_open(const ct_reader_ops_t *ops, ct_reader_t *of, const ct_tile_t *tile,
                  ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = ct_mem_alloc(sizeof *r, "the tiles");
  *out = NULL;
  if (!r) ops->close(of);
  CT_TRY(r ? CT_OK : CT_ERR_NOMEM);
  *r = (ct_reader_t){.ops = ops, .of = of, .tile = *tile, .kept = -1};
  pthread_mutex_init(&r->lock, NULL);
  CT_TRY(open_tiles(r));
  *out = r;
  r = NULL;
out:
  tiles_close(r);
  return rc;
}

/* ---- reading ---- */

/* Copies one tile out of the sample that is kept: row by row, with the channels of a pixel if they
 * come last. */
static char *cut(const ct_reader_t *r, const ct_tile_at_t *at, char *to)
{
  const size_t element = ct_dtype_size(r->info.x.dtype);
  const int axes = r->tile.given, last = r->info.channels_last, lead = CT_TILE_AXES - axes;
  int64_t extent[CT_TILE_AXES] = {1, 1, 1}, size[CT_TILE_AXES] = {1, 1, 1},
          start[CT_TILE_AXES] = {0};
  for (int a = 0; a < axes; a++) {
    extent[lead + a] = at->x.dim[a + 2];
    size[lead + a] = r->tile.size[a];
    start[lead + a] = at->start[a];
  }
  const size_t pixel = element * (last ? (size_t)at->x.dim[1] : 1);
  const size_t row = (size_t)size[2] * pixel;
  for (int64_t c = 0; c < (last ? 1 : at->x.dim[1]); c++)
    for (int64_t z = 0; z < size[0]; z++)
      for (int64_t y = 0; y < size[1]; y++, to += row) {
        int64_t from = ((c * extent[0] + start[0] + z) * extent[1] + start[1] + y) * extent[2];
        memcpy(to, r->stored + (size_t)(from + start[2]) * pixel, row);
      }
  return to;
}

static int read_tile(ct_reader_t *r, int64_t index, char **to)
{
  int rc = CT_OK;
  ct_tile_at_t at;
  if (index < 0 || index >= r->info.samples)
    CT_FAIL(CT_ERR_ARG, "tile %" PRId64 " is out of range: there are %" PRId64, index,
            r->info.samples);
  ct_tiles_at(r, index, &at);
  if (at.sample != r->kept) {
    r->kept = -1;
    CT_TRY(r->ops->read(r->of, 1, &at.sample, r->stored, NULL));
    r->kept = at.sample;
  }
  *to = cut(r, &at, *to);
out:
  return rc;
}

/* Threads take turns: tiles of a sample are read in a row by one of them. */
static int tiles_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  char *to = x;
  if (y) memset(y, 0, (size_t)n * sizeof(int64_t));
  if (!x) return CT_OK;
  pthread_mutex_lock(&r->lock);
  for (int i = 0; i < n && rc == CT_OK; i++)
    rc = read_tile(r, index[i], &to);
  pthread_mutex_unlock(&r->lock);
  return rc;
}

/* ---- questions ---- */

static int tiles_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  return r->ops->share(r->of, bytes, n);
}

static const char *tiles_file(const ct_reader_t *r, int i)
{
  return r->ops->file(r->of, i);
}

static int tiles_move(ct_reader_t *r, int i, const char *path)
{
  return r->ops->move(r->of, i, path);
}

static const ct_reader_info_t *tiles_info(const ct_reader_t *r)
{
  return &r->info;
}

static void tiles_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  char sample[CT_PATH_MAX];
  ct_tile_at_t at;
  ct_tiles_at(r, index, &at);
  r->ops->location(r->of, at.sample, sample, sizeof sample);
  ct_text_fit(buf, cap, "%s, tile %" PRId64 " of %" PRId64, sample, at.tile + 1, at.tiles);
}

const ct_reader_ops_t ct_reader_tiles = {
    .format = {.name = "tiles"},
    .share = tiles_share,
    .file = tiles_file,
    .move = tiles_move,
    .info = tiles_info,
    .read = tiles_read,
    .location = tiles_location,
    .close = tiles_close,
};
