/* Windows of tokens in each way of storing, and files that are refused. */
#include "base/ct_mem.h"
#include "data/ct_dataset.h"
#include "tests/unit/h5_files.h"

enum { FILES = 2, IGNORED = -100 };
#define WINDOWS(T, S, each_once)                 \
  {                                              \
    .context = T, .stride = S, .once = each_once \
  }
static const hsize_t lengths[FILES] = {5000, 57};

/* Token k of file f. */
static int64_t token(int f, int64_t k)
{
  return element(f * 1000 + k, 0);
}

/* How documents are told. */
typedef enum { NO_DOCUMENTS, BY_STARTS, BY_EOT } documents_t;
enum { EOT = 10 };
static const int64_t starts[FILES][5] = {{0, 5, 6, 100, 4999}, {0, 16, 40, 41, 43}};

static int begins(documents_t by, int f, int64_t k)
{
  int is = k == 0 || (by == BY_EOT && token(f, k - 1) == EOT);
  for (int i = 0; by == BY_STARTS && i < 5; i++)
    is |= starts[f][i] == k;
  return is;
}

static void write_starts(hid_t file, int f)
{
  hsize_t n = 5;
  hid_t space = H5Screate_simple(1, &n, NULL),
        array = H5Dcreate2(file, "document_starts", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT,
                           H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, starts[f]) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(space);
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

static void write_tokens(const char *dir, int f, int how, hid_t type, int64_t vocab, documents_t by)
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
  if (by == BY_EOT) CU_ASSERT(ct__h5_put_attr_int(array, "eot", EOT));
  if (by == BY_STARTS) write_starts(file, f);
  ct__h5_drop(array);
  end_file(file);
  free(ids);
}

static ct_reader_spec_t tokens_spec(const char *dir, int64_t context, int64_t stride, int once)
{
  ct_reader_spec_t spec = spec_of(dir);
  spec.input = spec.target = "tokens";
  spec.tokens = (ct_token_facts_t){
      .context = context, .stride = stride, .once = once, .ignored = IGNORED, .pad = -1};
  return spec;
}

/* Checks a window that begins at token \a first of a file, whose first \a known labels are
 * ignored. */
static int count_wrong(const ct_dataset_t *d, documents_t by, int64_t index, int f, int64_t first,
                       int64_t known)
{
  int64_t context = d->x.dim[1];
  int32_t x[5000], y[5000];
  int wrong = 0;
  CT_ASSERT_OK(d->ops->read(d->reader, 1, &index, x, y));
  for (int64_t k = 0; k < context; k++) {
    wrong += x[k] != token(f, first + k);
    int ignored = k < known || (by && begins(by, f, first + k + 1));
    wrong += y[k] != (ignored ? IGNORED : token(f, first + k + 1));
  }
  if (by) CT_ASSERT_OK(d->ops->extra(d->reader, 0, 1, &index, x));
  for (int64_t k = 0, begin = 0; by && k < context; k++) {
    if (begins(by, f, first + k)) begin = k;
    wrong += x[k] != begin;
  }
  return wrong;
}

/* All windows of an opened data set, forwards. */
static void check_windows(const ct_dataset_t *d, documents_t by, const ct_token_facts_t *o)
{
  int64_t index = 0;
  for (int f = 0; f < FILES; f++) {
    int64_t n = (int64_t)lengths[f], last = n - 1 - o->context, predicted = 1, wrong = 0;
    for (int64_t at = 0, before = 0; before < last || at == 0; at += o->stride) {
      int64_t first = at < last ? at : last;
      if (!o->once && at > last) break;
      int64_t known = o->once && at > 0 ? before + o->context - first : 0;
      wrong += count_wrong(d, by, index++, f, first, known);
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
  static const ct_token_facts_t windows[] = {WINDOWS(8, 8, 0),  WINDOWS(8, 3, 0),
                                             WINDOWS(8, 11, 0), WINDOWS(16, 16, 1),
                                             WINDOWS(16, 5, 1), WINDOWS(56, 56, 1)};
  for (int i = 0; i < 5 * 6; i++) {
    const char *dir = ct_test_dir();
    int way = ways[i % 6];
    for (int f = 0; f < FILES; f++)
      write_tokens(dir, f, way, types[i / 6], 0, NO_DOCUMENTS);
    for (int k = 0; k < 2 * 6; k++) {
      int w = k / 2, cached = k % 2;
      ct_dataset_t d;
      ct_reader_spec_t spec =
          tokens_spec(dir, windows[w].context, windows[w].stride, windows[w].once);
      if (!cached) spec.cache_bytes = 1000;
      if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
      CT_ASSERT_INT(d.pixels, windows[w].context);
      CT_ASSERT_INT(d.info.text_bytes, i / 6 == 0 ? 5057 : 0);
      check_windows(&d, NO_DOCUMENTS, &windows[w]);
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
    write_tokens(dir, f, PLAIN, H5T_STD_U16LE, 101, BY_STARTS);
  ct_reader_spec_t spec = tokens_spec(dir, 16, 16, 1);
  spec.tokens.documents = CT_DOCUMENTS_MASK;
  if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
  CT_ASSERT_OK(d.ops->share(d.reader, &bytes, &spec.known_bytes));
  spec.known = bytes;
  CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &other));
  CU_ASSERT(d.info.fingerprint == other.info.fingerprint);
  CT_ASSERT_INT(other.classes, 101);
  check_windows(&other, BY_STARTS, &spec.tokens);
  ct_dataset_close(&other);
  ct_dataset_close(&d);
  ct_mem_free(bytes);
}

static void documents_are_kept_apart(void)
{
  static const ct_token_facts_t windows[] = {WINDOWS(16, 16, 0), WINDOWS(40, 7, 0),
                                             WINDOWS(16, 5, 1)};
  const char *dir;
  ct_dataset_t d;
  ct_reader_spec_t spec;
  for (int i = 0; i < 2 * 2; i++) {
    documents_t by = i % 2 ? BY_STARTS : BY_EOT;
    dir = ct_test_dir();
    for (int f = 0; f < FILES; f++)
      write_tokens(dir, f, i / 2 ? CHUNKED : PLAIN, H5T_STD_U16LE, 0, by);
    for (int w = 0; w < 3; w++) {
      spec = tokens_spec(dir, windows[w].context, windows[w].stride, windows[w].once);
      spec.tokens.documents = CT_DOCUMENTS_MASK;
      if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
      CT_ASSERT_TEXT(d.extra.name[0], "first");
      check_windows(&d, by, &windows[w]);
      ct_dataset_close(&d);
    }
  }
  dir = ct_test_dir();
  write_tokens(dir, 0, PLAIN, H5T_STD_U16LE, 0, NO_DOCUMENTS);
  spec.dir = dir;
  CT_ASSERT_INT(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d), CT_ERR_USAGE);
  CU_ASSERT(strstr(ct_err_last()->text, "0.h5 has neither an array 'document_starts'") != NULL);
}

/* Checks padded samples, of ids and labels at the same or at the next places. */
static void check_padded(const ct_dataset_t *d, int rows, int same)
{
  enum { PAD = 100 };
  int64_t context = d->x.dim[1], wrong = 0;
  int32_t x[32], y[32], keys[32];
  for (int64_t i = 0; i < d->info.samples; i++) {
    int f = (int)i / 5;
    int64_t first = starts[f][i % 5], end = i % 5 < 4 ? starts[f][i % 5 + 1] : (int64_t)lengths[f];
    CT_ASSERT_OK(d->ops->read(d->reader, 1, &i, x, y));
    if (same) CT_ASSERT_OK(d->ops->extra(d->reader, 0, 1, &i, keys));
    for (int64_t k = 0; k < context + !same; k++) {
      int64_t id = rows              ? (element(i, k) < 50 ? element(i, k) : PAD)
                   : first + k < end ? token(f, first + k)
                                     : PAD;
      if (k < context) wrong += x[k] != id;
      if (k < context && same) wrong += keys[k] != (id != PAD);
      if (k >= !same) wrong += y[k - !same] != (id == PAD ? IGNORED : id);
    }
  }
  CT_ASSERT_INT(wrong, 0);
}

static void samples_are_padded(void)
{
  ct_dataset_t d;
  for (int i = 0; i < 2 * 2; i++) {
    const char *dir = ct_test_dir();
    int rows = i % 2, same = i / 2;
    int64_t ids[10 * 20];
    for (int64_t k = 0; k < 200; k++)
      ids[k] = element(k / 20, k % 20) < 50 ? element(k / 20, k % 20) : 100;
    hid_t file = rows ? begin_file(dir, "a.h5") : -1;
    if (rows) {
      hsize_t dims[2] = {10, 20};
      hid_t space = H5Screate_simple(2, dims, NULL),
            array = H5Dcreate2(file, "tokens", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT);
      CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, ids) >= 0);
      CU_ASSERT(ct__h5_put_attr_int(array, "pad", 100));
      ct__h5_drop(array);
      ct__h5_drop(space);
      end_file(file);
    }
    for (int f = 0; f < FILES && !rows; f++)
      write_tokens(dir, f, CHUNKED, H5T_STD_U16LE, 101, BY_STARTS);
    ct_reader_spec_t spec = tokens_spec(dir, rows ? 20 - !same : 30, 1, 1);
    spec.tokens.same = same;
    if (!rows) spec.tokens.documents = CT_DOCUMENTS_PAD;
    if (!rows) spec.tokens.pad = 100;
    if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
    CT_ASSERT_INT(d.info.samples, 10);
    CT_ASSERT_INT(d.extra.n, same);
    check_padded(&d, rows, same);
    ct_dataset_close(&d);
  }
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
    write_tokens(dir, f, PLAIN, H5T_STD_U16LE, 90, NO_DOCUMENTS);
  ct_reader_spec_t spec = tokens_spec(dir, 57, 57, 0);
  snprintf(words, sizeof words, "%s/1.h5: holds 57 tokens, expected at least 58", dir);
  refused(&spec, CT_ERR_FORMAT, words);
  spec.tokens.context = 16;
  if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
  CT_ASSERT_INT(d.ops->read(d.reader, 1, &index, x, y), CT_ERR_DATA);
  CT_ASSERT_TEXT(ct_err_last()->text, "0.h5, token 179: id 95 is not in 0 to 89 (vocabulary)");
  ct_dataset_close(&d);
  write_tokens(dir, 1, PLAIN, H5T_STD_U16LE, 91, NO_DOCUMENTS);
  refused(&spec, CT_ERR_FORMAT, "1.h5: attribute 'vocab' is 91, but in");
  spec.view = CT_VIEW_FILE;
  refused(&spec, CT_ERR_USAGE, "data.files: sample");
  array_t images = {PLAIN, CT_I32, 2, {20, 20}, 2};
  dir = ct_test_dir();
  write_shard(dir, "a.h5", &images, 0);
  spec = tokens_spec(dir, 4, 4, 0);
  spec.input = spec.target = "images";
  refused(&spec, CT_ERR_FORMAT, "a.h5: array 'images' has rows of 20 tokens, expected 5");
  images = (array_t){PLAIN, CT_F32, 1, {20}, 2};
  write_shard(dir, "a.h5", &images, 0);
  refused(&spec, CT_ERR_FORMAT, "a.h5: array 'images' holds numbers read as float32");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(windows_in_each_way_of_storing),
                                    CT_TEST(other_ranks_open_no_file),
                                    CT_TEST(documents_are_kept_apart),
                                    CT_TEST(samples_are_padded),
                                    CT_TEST(what_is_refused),
                                    CT_TEST_END};
  return ct_test_main("tokens", tests, argc, argv);
}
