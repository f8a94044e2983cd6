/* Arrays of HDF5 files as the reader gives them, as samples and as labels or targets: for
 * check_cf.py.
 *
 *     read_arrays CACHE_BYTES OUT FILE ARRAY [FILE ARRAY ...]
 *
 * writes for each array: float64 count and numbers of all samples, then the same of all labels or
 * targets (0 of none), or -1 and nothing where it is refused; the reason goes to stderr. */
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "weights/ct_elem.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

static void put(FILE *out, const double *v, int64_t n)
{
  double count = (double)n;
  fwrite(&count, sizeof count, 1, out);
  if (n > 0) fwrite(v, sizeof *v, (size_t)n, out);
}

/* In an order that is not the file's. */
static int read_array(FILE *out, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  char *x = NULL, *y = NULL;
  double *v = NULL;
  CT_TRY(ops->open(spec, &r));
  const ct_reader_info_t *info = ops->info(r);
  int64_t n = info->samples, sample = ct_shape_sample(&info->x);
  int64_t values = info->unlabelled || info->by_pixel ? 0 : info->targets ? info->targets : 1;
  size_t bytes = (size_t)sample * ct_dtype_size(info->x.dtype);
  size_t label = info->targets ? (size_t)values * sizeof(float) : sizeof(int64_t);
  x = ct_mem_array(n, bytes, "samples");
  y = ct_mem_array(n, label + 8, "labels");
  v = ct_mem_array(n * (sample + values), sizeof *v, "numbers");
  CT_TRY(x && y && v ? CT_OK : CT_ERR_NOMEM);
  for (int64_t i = 0; i < n; i++) {
    int64_t index = i % 2 ? n - 1 - i / 2 : i / 2;
    CT_TRY(ops->read(r, 1, &index, x + (size_t)index * bytes,
                     values ? y + (size_t)index * label : NULL));
  }
  ct_elem_doubles(ct_elem_of_dtype(info->x.dtype), x, n * sample, v);
  put(out, v, n * sample);
  for (int64_t i = 0; i < n * values; i++)
    v[i] = info->targets ? (double)((const float *)(const void *)y)[i]
                         : (double)((const int64_t *)(const void *)y)[i];
  put(out, v, n * values);
out:
  ops->close(r);
  ct_mem_free(x);
  ct_mem_free(y);
  ct_mem_free(v);
  return rc;
}

int main(int argc, char **argv)
{
  FILE *out = argc > 4 ? fopen(argv[2], "wb") : NULL;
  if (!out) return 2;
  for (int i = 3; i + 1 < argc; i += 2) {
    ct_opt_texts_t files = {&argv[i], 1};
    ct_reader_spec_t spec = {.dir = "/",
                             .files = &files,
                             .input = argv[i + 1],
                             .target = argv[i + 1],
                             .cache_bytes = atoll(argv[1]),
                             .threads = 1};
    if (read_array(out, &spec) == CT_OK) continue;
    fprintf(stderr, "%s\n", ct_err_last()->text);
    spec.target = ""; /* integers of several dims are no labels */
    if (read_array(out, &spec) != CT_OK) {
      fprintf(stderr, "%s\n", ct_err_last()->text);
      put(out, NULL, -1);
    }
  }
  return fclose(out) != 0;
}
