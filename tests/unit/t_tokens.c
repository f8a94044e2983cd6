/* Windows of tokens in each way of storing, and files that are refused. */
#include "base/ct_mem.h"
#include "data/ct_dataset.h"
#include "tests/unit/h5_files.h"

enum { FILES = 2, IGNORED = -100 };
static const hsize_t lengths[FILES] = {5000, 57};

/* Token k of file f. */
static int64_t token(int f, int64_t k)
{
  return element(f * 1000 + k, 0);
}

static hid_t open_tokens(hid_t file, int how, hid_t type, hsize_t n)
{
  const array_t a = {how, CT_I32, 1, {n}, 50};
  hid_t list = creation_of(&a), space = H5Screate_simple(1, &n, NULL), own = H5Tcopy(type);
  if (how == SWAPPED && H5Tget_size(type) > 1) H5Tset_order(own, H5T_ORDER_BE);
  hid_t array = H5Dcreate2(file, "tokens", own, space, H5P_DEFAULT, list, H5P_DEFAULT);
  CU_ASSERT(array >= 0);
  ct__h5_drop(list);
  ct__h5_drop(own);
  ct__h5_drop(space);
  return array;
}

static void write_tokens(const char *dir, int f, int how, hid_t type, int64_t vocab)
{
  char name[20];
  hsize_t n = lengths[f];
  int64_t *ids = malloc(n * sizeof *ids);
  snprintf(name, sizeof name, "%d.h5", f);
  hid_t file = begin_file(dir, name), array = open_tokens(file, how, type, n);
  for (hsize_t k = 0; k < n; k++)
    ids[k] = token(f, (int64_t)k);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids) >= 0);
  if (vocab) CU_ASSERT(ct__h5_put_attr_int(array, "vocab", vocab));
  ct__h5_drop(array);
  end_file(file);
  free(ids);
}

static ct_reader_spec_t tokens_spec(const char *dir, int64_t context, int64_t stride, int once)
{
  ct_reader_spec_t spec = spec_of(dir);
  spec.input = spec.target = "tokens";
  spec.tokens = (ct_tokens_t){context, stride, once, IGNORED, 0};
  return spec;
}

/* Checks a window that begins at token \a first of a file, whose first \a known labels are
 * ignored. */
static int count_wrong(const ct_dataset_t *d, int64_t index, int f, int64_t first, int64_t known)
{
  int64_t context = d->x.dim[1];
  int32_t x[5000], y[5000];
  int wrong = 0;
  CT_ASSERT_OK(d->ops->read(d->reader, 1, &index, x, y));
  for (int64_t k = 0; k < context; k++) {
    wrong += x[k] != token(f, first + k);
    wrong += y[k] != (k < known ? IGNORED : token(f, first + k + 1));
  }
  return wrong;
}

/* All windows of an opened data set, forwards. */
static void check_windows(const ct_dataset_t *d, const ct_tokens_t *o)
{
  int64_t index = 0;
  for (int f = 0; f < FILES; f++) {
    int64_t n = (int64_t)lengths[f], last = n - 1 - o->context, predicted = 1, wrong = 0;
    for (int64_t at = 0, before = 0; before < last || at == 0; at += o->stride) {
      int64_t first = at < last ? at : last;
      if (!o->once && at > last) break;
      int64_t known = o->once && at > 0 ? before + o->context - first : 0;
      wrong += count_wrong(d, index++, f, first, known);
      predicted += o->context - known;
      before = first;
    }
    CT_ASSERT_INT(wrong, 0);
    if (o->once) CT_ASSERT_INT(predicted, n);
  }
  CT_ASSERT_INT(d->info.samples, index);
}

static void windows_in_each_way_of_storing(void)
{
  const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_I32LE, H5T_STD_I64LE};
  static const int ways[] = {PLAIN, CHUNKED, SHUFFLED_DEFLATED, COMPACT, SWAPPED, LOOSE};
  static const ct_tokens_t windows[] = {{8, 8, 0, 0, 0},   {8, 3, 0, 0, 0},  {8, 11, 0, 0, 0},
                                        {16, 16, 1, 0, 0}, {16, 5, 1, 0, 0}, {56, 56, 1, 0, 0}};
  for (int i = 0; i < 5 * 6 * 2; i++) {
    const char *dir = ct_test_dir();
    int way = ways[i / 2 % 6], cached = i % 2;
    for (int f = 0; f < FILES; f++)
      write_tokens(dir, f, way, types[i / 12], 0);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
      ct_dataset_t d;
      ct_reader_spec_t spec =
          tokens_spec(dir, windows[w].context, windows[w].stride, windows[w].once);
      if (!cached) spec.cache_bytes = 1000;
      if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
      CT_ASSERT_INT(d.pixels, windows[w].context);
      CT_ASSERT_INT(d.info.text_bytes, i / 12 == 0 ? 5057 : 0);
      check_windows(&d, &windows[w]);
      ct_dataset_close(&d);
    }
  }
}

static void other_ranks_open_no_file(void)
{
  const char *dir = ct_test_dir();
  ct_dataset_t d, other;
  void *bytes;
  for (int f = 0; f < FILES; f++)
    write_tokens(dir, f, PLAIN, H5T_STD_U16LE, 101);
  ct_reader_spec_t spec = tokens_spec(dir, 16, 16, 1);
  if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
  CT_ASSERT_OK(d.ops->share(d.reader, &bytes, &spec.known_bytes));
  spec.known = bytes;
  CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &other));
  CU_ASSERT(d.info.fingerprint == other.info.fingerprint);
  CT_ASSERT_INT(other.classes, 101);
  check_windows(&other, &spec.tokens);
  ct_dataset_close(&other);
  ct_dataset_close(&d);
  ct_mem_free(bytes);
}

static void refused(const ct_reader_spec_t *spec, int rc, const char *words)
{
  ct_dataset_t d;
  CT_ASSERT_INT(ct_dataset_open(&ct_reader_hdf5, spec, NULL, "t", &d), rc);
  CU_ASSERT(strstr(ct_err_last()->text, words) != NULL);
}

static void what_is_refused(void)
{
  const char *dir = ct_test_dir();
  char words[700];
  ct_dataset_t d;
  int64_t index = 3;
  int32_t x[16], y[16];
  for (int f = 0; f < FILES; f++)
    write_tokens(dir, f, PLAIN, H5T_STD_U16LE, 90);
  ct_reader_spec_t spec = tokens_spec(dir, 57, 57, 0);
  snprintf(words, sizeof words, "%s/1.h5: holds 57 tokens, expected at least 58", dir);
  refused(&spec, CT_ERR_FORMAT, words);
  spec.tokens.context = 16;
  if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
  CT_ASSERT_INT(d.ops->read(d.reader, 1, &index, x, y), CT_ERR_DATA);
  CT_ASSERT_TEXT(ct_err_last()->text, "0.h5, token 179: id 95 is not in 0 to 89 (vocabulary)");
  ct_dataset_close(&d);
  write_tokens(dir, 1, PLAIN, H5T_STD_U16LE, 91);
  refused(&spec, CT_ERR_FORMAT, "1.h5: attribute 'classes' (tokens: 'vocab') is 91, but in");
  spec.view = CT_VIEW_FILE;
  refused(&spec, CT_ERR_USAGE, "data.files: sample");
  array_t images = {PLAIN, CT_I32, 2, {20, 20}, 2};
  dir = ct_test_dir();
  write_shard(dir, "a.h5", &images, 0);
  spec = tokens_spec(dir, 4, 4, 0);
  spec.input = spec.target = "images";
  refused(&spec, CT_ERR_FORMAT, "a.h5: array 'images' has 2 dims, expected one");
  images = (array_t){PLAIN, CT_F32, 1, {20}, 2};
  write_shard(dir, "a.h5", &images, 0);
  refused(&spec, CT_ERR_FORMAT, "a.h5: array 'images' holds numbers read as float32");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(windows_in_each_way_of_storing),
                                    CT_TEST(other_ranks_open_no_file), CT_TEST(what_is_refused),
                                    CT_TEST_END};
  return ct_test_main("tokens", tests, argc, argv);
}
