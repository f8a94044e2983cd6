/* Samples in other files, and files that change: what is missing is never zeros. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

/* A block of an array without chunks is then two samples, and the cache holds two of them. */
enum { HALF = 20, ALL = 2 * HALF, WIDTH = 6000 };

static const char *path_of(const char *dir, const char *name)
{
  static char path[4][700];
  static int next;
  next = (next + 1) % 4;
  snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
  return path[next];
}

/* A reader of one file. */
static ct_reader_spec_t spec_of_file(const char *dir, const char *name)
{
  static char *names[1];
  static ct_opt_texts_t files = {names, 1};
  ct_reader_spec_t spec = spec_of(dir);
  names[0] = (char *)(uintptr_t)name;
  spec.files = &files;
  spec.cache_bytes = 0;
  return spec;
}

static int open_file(const char *dir, const char *name, ct_reader_t **r)
{
  ct_reader_spec_t spec = spec_of_file(dir, name);
  return ops->open(&spec, r);
}

/* All its samples are right. */
static void check_file(const char *dir, const char *name, int64_t samples)
{
  ct_reader_t *r;
  if (CT_ASSERT_OK(open_file(dir, name, &r)) != CT_OK) return;
  check_all(r, samples);
  ops->close(r);
}

/* ---- virtual arrays ---- */

typedef struct mapping {
  hsize_t first, rows; /* of the virtual array */
  const char *file, *array;
  hsize_t source_rows; /* that the source is said to have */
  int all;             /* 1: all of it is selected, whatever it has */
} mapping_t;

/* Virtual `images` of ALL x WIDTH bytes, and labels of it. */
static void write_virtual(const char *dir, const char *name, const mapping_t *m, int n)
{
  hsize_t dims[2] = {ALL, WIDTH}, start[2] = {0};
  hid_t file = begin_file(dir, name), space = H5Screate_simple(2, dims, NULL);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  for (int i = 0; i < n; i++) {
    hsize_t rows[2] = {m[i].rows, WIDTH}, of[2] = {m[i].source_rows, WIDTH};
    hid_t source = H5Screate_simple(2, of, NULL);
    start[0] = 0;
    if (!m[i].all) H5Sselect_hyperslab(source, H5S_SELECT_SET, start, NULL, rows, NULL);
    start[0] = m[i].first;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, rows, NULL);
    CU_ASSERT(H5Pset_virtual(list, space, m[i].file, m[i].array, source) >= 0);
    ct__h5_drop(source);
  }
  H5Sselect_all(space);
  ct__h5_drop(H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  write_labels(file, "labels", CT_I64, 1, ALL, 0);
  ct__h5_drop(list);
  ct__h5_drop(space);
  end_file(file);
}

static void write_source(const char *dir, const char *name, int64_t first, hsize_t rows)
{
  array_t a = {PLAIN, CT_U8, 2, {rows, WIDTH}, 1};
  write_shard(dir, name, &a, first);
}

static const mapping_t two_files[] = {{0, HALF, "a.src", "images", HALF, 0},
                                      {HALF, HALF, "b.src", "images", HALF, 0}};

static const char *two_sources(void)
{
  const char *dir = ct_test_dir();
  write_source(dir, "a.src", 0, HALF);
  write_source(dir, "b.src", HALF, HALF);
  write_virtual(dir, "v.h5", two_files, 2);
  return dir;
}

static void virtual_arrays_are_read(void)
{
  const char *dir = two_sources(), *other = ct_test_dir();
  check_file(dir, "v.h5", ALL);
  /* beside what the file's name is a link to; under the last part of an absolute name */
  CT_ASSERT_INT(symlink(path_of(dir, "v.h5"), path_of(other, "link.h5")), 0);
  check_file(other, "link.h5", ALL);
  mapping_t far[] = {two_files[0], two_files[1]};
  far[0].file = "/not/there/a.src";
  far[1].file = path_of(dir, "b.src");
  far[1].all = 1;
  write_virtual(dir, "far.h5", far, 2);
  check_file(dir, "far.h5", ALL);
}

/* HDF5 does not open a source that is open here in another way, and has zeros then. */
static void a_source_may_be_a_shard_too(void)
{
  const char *dir = two_sources();
  static char *names[] = {"v.h5", "a.src", "b.src"};
  static const ct_opt_texts_t files = {names, 3};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  int64_t index[ALL];
  static char x[2][ALL * WIDTH];
  spec.files = &files;
  for (int i = 0; i < ALL; i++)
    index[i] = i + ALL;
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_OK(ops->read(r, ALL, index, x[1], NULL));
  for (int i = 0; i < ALL; i++)
    index[i] = i;
  CT_ASSERT_INT(check_samples(r, ALL, index), 0);
  CT_ASSERT_OK(ops->read(r, ALL, index, x[0], NULL));
  CU_ASSERT(memcmp(x[0], x[1], sizeof x[0]) == 0);
  ops->close(r);
}

static void missing_sources_are_named(void)
{
  const char *dir = two_sources();
  ct_reader_t *r;
  mapping_t m[2] = {two_files[0], two_files[1]};
  m[1].array = "pictures";
  write_virtual(dir, "w.h5", m, 2);
  CT_ASSERT_FAILS(open_file(dir, "w.h5", &r), CT_ERR_FORMAT, "b.src: array 'pictures' not found");
  CT_ASSERT_HAS(ct_err_last()->text, "w.h5: array 'images': source of samples 20 to 39: ");
  unlink(path_of(dir, "b.src"));
  CT_ASSERT_FAILS(open_file(dir, "v.h5", &r), CT_ERR_IO, "b.src: cannot open: No such file");
  CT_ASSERT_HAS(ct_err_last()->text, "v.h5: array 'images': source of samples 20 to 39: ");
  CT_ASSERT_INT(mkfifo(path_of(dir, "b.src"), 0600), 0);
  CT_ASSERT_FAILS(open_file(dir, "v.h5", &r), CT_ERR_IO, "b.src: is a FIFO");
}

static void small_sources_are_named(void)
{
  const char *dir = two_sources();
  ct_reader_t *r;
  mapping_t m[2] = {two_files[0], two_files[1]};
  m[1].all = 1;
  write_virtual(dir, "w.h5", m, 2);
  write_source(dir, "b.src", HALF, HALF - 1);
  CT_ASSERT_FAILS(open_file(dir, "v.h5", &r), CT_ERR_FORMAT,
                  "b.src: its array has 19 elements in dim 0, but up to 20 are taken from it");
  CT_ASSERT_FAILS(open_file(dir, "w.h5", &r), CT_ERR_FORMAT,
                  "b.src: its array has 114000 elements, but 120000 are taken from it");
}

/* Rows that no mapping covers are meant so. */
static void unmapped_samples_are_fill_values(void)
{
  const char *dir = two_sources();
  static char x[WIDTH], zeros[WIDTH];
  ct_reader_t *r;
  write_virtual(dir, "half.h5", two_files, 1);
  if (CT_ASSERT_OK(open_file(dir, "half.h5", &r)) != CT_OK) return;
  CT_ASSERT_INT(check_samples(r, 2, (int64_t[]){0, HALF - 1}), 0);
  CT_ASSERT_OK(ops->read(r, 1, (int64_t[]){HALF}, x, NULL));
  CU_ASSERT(memcmp(x, zeros, WIDTH) == 0);
  ops->close(r);
}

/* The array `part` of the file itself, and a virtual array whose source is virtual. */
static void sources_of_sources(void)
{
  const char *dir = two_sources();
  mapping_t same[] = {two_files[0], {HALF, HALF, ".", "part", HALF, 0}},
            outer[] = {{0, ALL, "v.h5", "images", ALL, 0}},
            ring[] = {{0, ALL, ".", "images", ALL, 0}};
  array_t a = {PLAIN, CT_U8, 2, {HALF, WIDTH}, 1};
  ct_reader_t *r;
  write_virtual(dir, "same.h5", same, 2);
  ct__h5_lock();
  hid_t file = H5Fopen(path_of(dir, "same.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  write_array(file, "part", &a, HALF);
  end_file(file);
  check_file(dir, "same.h5", ALL);
  write_virtual(dir, "outer.h5", outer, 1);
  check_file(dir, "outer.h5", ALL);
  unlink(path_of(dir, "a.src"));
  CT_ASSERT_FAILS(open_file(dir, "outer.h5", &r), CT_ERR_IO, "a.src: cannot open: No such file");
  CT_ASSERT_HAS(ct_err_last()->text, "outer.h5: array 'images': source of samples 0 to 39: ");
  write_virtual(dir, "ring.h5", ring, 1);
  CT_ASSERT_FAILS(open_file(dir, "ring.h5", &r), CT_ERR_FORMAT, "refer to each other");
}

/* Images by an unlimited mapping: of whole samples in one file, or of blocks of 10 in numbered
 * ones, and so many labels. */
static void write_unlimited(const char *dir, const char *name, const char *from, int numbered,
                            hsize_t labels)
{
  hsize_t dims[2] = {ALL, WIDTH}, ten[2] = {10, WIDTH}, most[2] = {H5S_UNLIMITED, WIDTH};
  hsize_t start[2] = {0}, many[2] = {H5S_UNLIMITED, 1}, one[2] = {1, 1};
  hid_t file = begin_file(dir, name), list = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(2, dims, most);
  hid_t source = H5Screate_simple(2, numbered ? ten : dims, numbered ? NULL : most);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, numbered ? ten : NULL, numbered ? many : one,
                      numbered ? ten : most);
  if (!numbered) H5Sselect_hyperslab(source, H5S_SELECT_SET, start, NULL, one, most);
  CU_ASSERT(H5Pset_virtual(list, space, from, "images", source) >= 0);
  ct__h5_drop(H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  write_labels(file, "labels", CT_I64, 1, labels, 0);
  ct__h5_drop(list);
  ct__h5_drop(source);
  ct__h5_drop(space);
  end_file(file);
}

/* b-0.src, b-1.src, b-2.src; there is no b-3.src, so HDF5 says that there are 30 samples. */
static void numbered_sources(void)
{
  const char *dir = ct_test_dir();
  char name[20];
  ct_reader_t *r;
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "b-%d.src", i);
    write_source(dir, name, (int64_t)10 * i, 10);
  }
  write_unlimited(dir, "n.h5", "b-%b.src", 1, 30);
  check_file(dir, "n.h5", 30);
  write_source(dir, "b-2.src", 20, 9);
  CT_ASSERT_FAILS(open_file(dir, "n.h5", &r), CT_ERR_FORMAT, "source of samples 20 to 29: ");
  CT_ASSERT_HAS(ct_err_last()->text, "b-2.src: its array has 54000 elements, but 60000 are taken");
}

static const char *unlimited_source(void)
{
  const char *dir = ct_test_dir();
  write_source(dir, "u.src", 0, ALL);
  write_unlimited(dir, "u.h5", "u.src", 0, ALL);
  return dir;
}

/* ---- raw files ---- */

static void write_raw(const char *dir, const char *name, int64_t first, int rows, int skip)
{
  static char data[200 + ALL * WIDTH];
  memset(data, 77, sizeof data);
  for (int i = 0; i < rows * WIDTH; i++)
    data[skip + i] = (char)element(first + i / WIDTH, i % WIDTH);
  int fd = open(path_of(dir, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CT_ASSERT_INT(write(fd, data, (size_t)(skip + rows * WIDTH)), skip + rows * WIDTH);
  close(fd);
}

/* 15 samples behind 100 bytes of a.raw, the others in b.raw. */
static const char *two_raw_files(void)
{
  const char *dir = ct_test_dir();
  hsize_t dims[2] = {ALL, WIDTH};
  hid_t file = begin_file(dir, "e.h5"), space = H5Screate_simple(2, dims, NULL);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  write_raw(dir, "a.raw", 0, 15, 100);
  write_raw(dir, "b.raw", 15, ALL - 15, 0);
  H5Pset_external(list, path_of(dir, "a.raw"), 100, (hsize_t)15 * WIDTH);
  H5Pset_external(list, path_of(dir, "b.raw"), 0, H5F_UNLIMITED);
  ct__h5_drop(H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  write_labels(file, "labels", CT_I64, 1, ALL, 0);
  ct__h5_drop(list);
  ct__h5_drop(space);
  end_file(file);
  return dir;
}

static void raw_files_are_checked(void)
{
  const char *dir = two_raw_files();
  ct_reader_t *r;
  check_file(dir, "e.h5", ALL);
  write_raw(dir, "b.raw", 15, ALL - 10, 0); /* more than is needed */
  check_file(dir, "e.h5", ALL);
  CT_ASSERT_INT(truncate(path_of(dir, "b.raw"), (ALL - 15) * WIDTH - 1), 0);
  CT_ASSERT_FAILS(open_file(dir, "e.h5", &r), CT_ERR_IO,
                  "b.raw: has 149999 bytes, expected at least 150000");
  CT_ASSERT_HAS(ct_err_last()->text, "e.h5: array 'images': source of samples 15 to 39: ");
  CT_ASSERT_INT(truncate(path_of(dir, "a.raw"), 90099), 0);
  CT_ASSERT_FAILS(open_file(dir, "e.h5", &r), CT_ERR_IO,
                  "a.raw: has 90099 bytes, expected at least 90100");
  unlink(path_of(dir, "a.raw"));
  CT_ASSERT_FAILS(open_file(dir, "e.h5", &r), CT_ERR_IO, "a.raw: cannot open: No such file");
}

static void labels_may_lie_elsewhere_too(void)
{
  const char *dir = ct_test_dir(), *raw = path_of(dir, "l.raw");
  hsize_t n = ALL;
  int64_t y[ALL];
  ct_reader_t *r;
  array_t a = {PLAIN, CT_U8, 2, {ALL, WIDTH}, 1};
  for (int i = 0; i < ALL; i++)
    y[i] = i % 10;
  CT_ASSERT_OK(ct_file_write(raw, y, sizeof y));
  hid_t file = begin_file(dir, "e.h5"), space = H5Screate_simple(1, &n, NULL);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  write_array(file, "images", &a, 0);
  H5Pset_external(list, raw, 0, sizeof y);
  ct__h5_drop(H5Dcreate2(file, "labels", H5T_STD_I64LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  ct__h5_drop(list);
  ct__h5_drop(space);
  end_file(file);
  check_file(dir, "e.h5", ALL);
  for (int late = 1; late >= 0; late--) {
    int rc = late ? CT_ASSERT_OK(open_file(dir, "e.h5", &r)) : CT_OK;
    CT_ASSERT_INT(truncate(path_of(dir, "l.raw"), sizeof y - 1), 0);
    if (late && rc == CT_OK) rc = ops->read(r, 1, (int64_t[]){0}, NULL, y);
    if (late) ops->close(r);
    CT_ASSERT_FAILS(late ? rc : open_file(dir, "e.h5", &r), CT_ERR_IO,
                    "e.h5: array 'labels': source of samples 0 to 39: ");
    CT_ASSERT_HAS(ct_err_last()->text, "l.raw: has 319 bytes, expected at least 320");
  }
}

/* ---- links ---- */

static void broken_links_say_where_they_lead(void)
{
  const char *dir = ct_test_dir();
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of_file(dir, "l.h5");
  write_source(dir, "a.src", 0, ALL);
  hid_t file = begin_file(dir, "l.h5");
  write_labels(file, "labels", CT_I64, 1, ALL, 0);
  H5Lcreate_external("gone.src", "/images", file, "other", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("a.src", "/images", file, "images", H5P_DEFAULT, H5P_DEFAULT);
  hid_t type = ct__h5_type_stored(CT_U8);
  H5Tcommit2(file, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ct__h5_drop(type);
  H5Lcreate_soft("/nothing", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
  end_file(file);
  check_file(dir, "l.h5", ALL);
  spec.input = "other";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "l.h5: 'other' (data.input) is a link to '/images' of gone.src, which cannot");
  spec.input = "type";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "l.h5: 'type' (data.input) cannot be opened as an array: not a dataset");
  spec.input = "other/below";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "'other' (data.input) is a link to");
  spec.input = "images", spec.target = "soft";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "'soft' (data.target) is a link to '/nothing' of the same file, which cannot");
  /* the linked file is watched as the shard itself */
  if (CT_ASSERT_OK(open_file(dir, "l.h5", &r)) != CT_OK) return;
  CT_ASSERT_INT(check_samples(r, 1, (int64_t[]){3}), 0);
  CT_ASSERT_INT(truncate(path_of(dir, "a.src"), 9000), 0);
  CT_ASSERT_FAILS(check_samples(r, 1, (int64_t[]){39}), CT_ERR_IO, "a.src: has 9000 bytes, but");
  CT_ASSERT_HAS(ct_err_last()->text, "l.h5: array 'images': ");
  ops->close(r);
}

/* ---- files that change ---- */

/* After the first samples are read \a part is cut off in the middle of what \a name holds. */
static void cut_off(const char *dir, const char *name, const char *part)
{
  char text[100];
  ct_reader_t *r;
  struct stat st;
  if (CT_ASSERT_OK(open_file(dir, name, &r)) != CT_OK) return;
  CT_ASSERT_INT(stat(path_of(dir, part), &st), 0);
  CT_ASSERT_INT(check_samples(r, 2, (int64_t[]){0, HALF}), 0);
  CT_ASSERT_INT(truncate(path_of(dir, part), st.st_size / 2), 0);
  snprintf(text, sizeof text, "%s: has %lld bytes, but had %lld", part, (long long)st.st_size / 2,
           (long long)st.st_size);
  for (int again = 0; again < 2; again++)
    CT_ASSERT_FAILS(check_samples(r, 1, (int64_t[]){ALL - 1}), CT_ERR_IO, text);
  ops->close(r);
}

static void cut_off_files_are_told(void)
{
  static const int ways[] = {PLAIN,   CHUNKED, DEFLATED, SHUFFLED_DEFLATED,
                             CHECKED, SPLIT,   LOOSE,    SWAPPED};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    const char *dir = ct_test_dir();
    array_t a = {ways[i], CT_I32, 2, {ALL, 600}, 5};
    write_shard(dir, "a.h5", &a, 0);
    cut_off(dir, "a.h5", "a.h5");
  }
  cut_off(two_sources(), "v.h5", "b.src");
  cut_off(unlimited_source(), "u.h5", "u.src");
  cut_off(two_raw_files(), "e.h5", "b.raw");
}

static void cut_off_labels_are_told(void)
{
  const char *dir = ct_test_dir();
  int64_t y[1];
  ct_reader_t *r;
  write_source(dir, "a.h5", 0, ALL);
  if (CT_ASSERT_OK(open_file(dir, "a.h5", &r)) != CT_OK) return;
  CT_ASSERT_INT(truncate(path_of(dir, "a.h5"), 20000), 0);
  CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){0}, NULL, y), CT_ERR_IO, "a.h5: has ");
  ops->close(r);
}

/* What rank 0 has found out goes with its stamp to the others. */
static void a_file_of_another_size_is_told_by_the_other_ranks(void)
{
  const char *dir = ct_test_dir();
  void *bytes;
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of_file(dir, "a.h5");
  write_source(dir, "a.h5", 0, ALL);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->share(r, &bytes, &spec.known_bytes));
  ops->close(r);
  spec.known = bytes;
  CT_ASSERT_INT(truncate(path_of(dir, "a.h5"), 400000), 0);
  if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK)
    CT_ASSERT_FAILS(check_samples(r, 1, (int64_t[]){5}), CT_ERR_IO, "a.h5: has ");
  ops->close(r);
  ct_mem_free(bytes);
}

/* Reads a sample of each half that the cache does not hold; what that says to stderr. */
static void said(ct_reader_t *r, char *text, size_t cap)
{
  static int next;
  int ends[2], saved = dup(STDERR_FILENO);
  next = (next + 6) % HALF;
  CT_ASSERT_INT(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  CT_ASSERT_INT(check_samples(r, 2, (int64_t[]){next, HALF + next}), 0);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  ssize_t n = read(ends[0], text, cap - 1);
  text[n > 0 ? n : 0] = '\0';
  close(ends[0]);
}

static void set_time(const char *path, time_t seconds)
{
  const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  CT_ASSERT_INT(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* It may be `touch`: a warning, once. */
static void a_modified_file_is_warned_of(void)
{
  static const char *const names[] = {"v.h5", "b.src"}; /* the shard, a source */
  char text[2000];
  ct_reader_t *r;
  for (int i = 0; i < 4; i++) {
    const char *dir = two_sources();
    if (CT_ASSERT_OK(open_file(dir, "v.h5", &r)) != CT_OK) return;
    if (i >= 2) { /* it is open for reading already */
      said(r, text, sizeof text);
      CT_ASSERT_TEXT(text, "");
    }
    set_time(path_of(dir, names[i % 2]), 1000000000);
    said(r, text, sizeof text);
    if (i != 1) /* the source was not opened before */
      CT_ASSERT_HAS(text, "v.h5: file or external source changed after it was opened");
    said(r, text, sizeof text);
    CT_ASSERT_TEXT(text, "");
    ops->close(r);
  }
}

/* A node's own copy is another file, but older than the run. */
static void a_copy_of_a_node_is_nothing_to_warn_of(void)
{
  static const struct timespec over_a_second = {.tv_sec = 1, .tv_nsec = 200000000};
  const char *dir[] = {two_sources(), two_sources()}, *names = ct_test_dir();
  char text[2000];
  ct_reader_t *r;
  void *bytes;
  ct_reader_spec_t spec = spec_of(names);
  CT_ASSERT_INT(symlink(path_of(dir[0], "a.src"), path_of(names, "a.h5")), 0);
  CT_ASSERT_INT(symlink(path_of(dir[0], "b.src"), path_of(names, "b.h5")), 0);
  nanosleep(&over_a_second, NULL);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->share(r, &bytes, &spec.known_bytes));
  ops->close(r);
  spec.known = bytes;
  unlink(path_of(names, "a.h5"));
  CT_ASSERT_INT(symlink(path_of(dir[1], "a.src"), path_of(names, "a.h5")), 0);
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  said(r, text, sizeof text);
  CT_ASSERT_TEXT(text, "");
  ops->close(r);
  ct_mem_free(bytes);
}

static void another_file_of_the_name_is_warned_of(void)
{
  const char *dir = two_sources();
  char text[2000];
  void *bytes;
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of_file(dir, "v.h5");
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->share(r, &bytes, &spec.known_bytes));
  ops->close(r);
  spec.known = bytes;
  write_virtual(dir, "v.new", two_files, 2);
  CT_ASSERT_INT(rename(path_of(dir, "v.new"), path_of(dir, "v.h5")), 0);
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  said(r, text, sizeof text);
  CT_ASSERT_HAS(text, "v.h5: file or external source changed after it was opened");
  ops->close(r);
  ct_mem_free(bytes);
}

static void a_copy_has_a_stamp_of_its_own(void)
{
  const char *dir = two_sources(), *other = ct_test_dir();
  char text[2000], *data;
  size_t n;
  ct_reader_t *r;
  static char *names[] = {"a.src", "b.src"};
  static const ct_opt_texts_t files = {names, 2};
  ct_reader_spec_t spec = spec_of(dir);
  spec.files = &files;
  spec.cache_bytes = 0;
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  for (int i = 0; i < 2; i++) {
    CT_ASSERT_OK(ct_file_read(path_of(dir, names[i]), &data, &n));
    CT_ASSERT_OK(ct_file_write(path_of(other, names[i]), data, n));
    CT_ASSERT_OK(ops->move(r, i, path_of(other, names[i])));
    ct_mem_free(data);
  }
  said(r, text, sizeof text);
  CT_ASSERT_TEXT(text, "");
  set_time(path_of(other, "b.src"), 1000000000);
  said(r, text, sizeof text);
  CT_ASSERT_HAS(text, "b.src: file or external source");
  CT_ASSERT_INT(truncate(path_of(other, "a.src"), 9000), 0);
  CT_ASSERT_FAILS(check_samples(r, 4, (int64_t[]){1, 7, 13, 19}), CT_ERR_IO, "a.src: has 9000 b");
  ops->close(r);
}

static void no_memory_at_any_point(void)
{
  const char *dir = two_sources();
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t nth = 1; rc != CT_OK && nth < 100; nth++) {
    ct_reader_t *r = NULL;
    ct_mem_fail_at(nth);
    rc = open_file(dir, "v.h5", &r);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || (rc == CT_ERR_NOMEM && !r));
    ops->close(r);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(virtual_arrays_are_read),
      CT_TEST(a_source_may_be_a_shard_too),
      CT_TEST(missing_sources_are_named),
      CT_TEST(small_sources_are_named),
      CT_TEST(unmapped_samples_are_fill_values),
      CT_TEST(sources_of_sources),
      CT_TEST(numbered_sources),
      CT_TEST(raw_files_are_checked),
      CT_TEST(labels_may_lie_elsewhere_too),
      CT_TEST(broken_links_say_where_they_lead),
      CT_TEST(cut_off_files_are_told),
      CT_TEST(cut_off_labels_are_told),
      CT_TEST(a_file_of_another_size_is_told_by_the_other_ranks),
      CT_TEST(a_modified_file_is_warned_of),
      CT_TEST(a_copy_of_a_node_is_nothing_to_warn_of),
      CT_TEST(another_file_of_the_name_is_warned_of),
      CT_TEST(a_copy_has_a_stamp_of_its_own),
      CT_TEST(no_memory_at_any_point),
      CT_TEST_END,
  };
  return ct_test_main("h5_sources", tests, argc, argv);
}
