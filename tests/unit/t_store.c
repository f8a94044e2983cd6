/* The checkpoint container: whole or not at all, and never wrong data. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/store/h5_seal.h"
#include "tests/harness/ct_test.h"

static const ct_store_ops_t *const ops = &ct_store_hdf5;

static const char *file_in(const char *dir, const char *name)
{
  static char path[4][600];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
  return path[turn];
}

static int exists(const char *path, const char *suffix)
{
  char full[700];
  snprintf(full, sizeof full, "%s%s", path, suffix);
  return ct_file_exists(full);
}

static ct_shape_t shape_of(ct_dtype_t type, int ndim, int64_t a, int64_t b, int64_t c)
{
  return (ct_shape_t){.dtype = type, .ndim = ndim, .dim = {a, b, c, 1, 1}};
}

static void fill(void *data, size_t bytes, unsigned seed)
{
  for (size_t i = 0; i < bytes; i++)
    ((uint8_t *)data)[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

/* Two arrays and two texts. */
static const float weights[6] = {1, 2, 3, 4, 5, 6.5f};
static const int64_t counter = 1234567890123;

static int put_small(ct_store_t *s)
{
  int rc = CT_OK;
  ct_shape_t w = shape_of(CT_F32, 2, 2, 3, 1), n = shape_of(CT_I64, 0, 1, 1, 1);
  CT_TRY(ops->put(s, "/model/layer1.0.conv1.weight", &w, weights));
  CT_TRY(ops->put_text(s, "/meta/config", "run: {seed: 1}\n"));
  CT_TRY(ops->put(s, "/model/bn1.num_batches_tracked", &n, &counter));
  CT_TRY(ops->put_text(s, "/meta/empty", ""));
out:
  return rc;
}

static int write_small(const char *path)
{
  ct_store_t *s;
  int rc = ops->create(path, &s);
  if (rc != CT_OK) return rc;
  rc = put_small(s);
  if (rc == CT_OK) return ops->commit(s);
  ops->discard(s);
  return rc;
}

/* Opens and reads everything; CT_OK only if it is all there and right. */
static int read_small(const char *path)
{
  int rc = CT_OK;
  ct_store_t *s = NULL;
  float w[6] = {0};
  int64_t n = 0;
  char *text = NULL;
  ct_shape_t shape;
  CT_TRY(ops->open(path, &s));
  CT_TRY(ops->find(s, "/model/layer1.0.conv1.weight", &shape));
  CT_TRY(ops->get(s, "/model/layer1.0.conv1.weight", &shape, w));
  CT_TRY(ops->find(s, "/model/bn1.num_batches_tracked", &shape));
  CT_TRY(ops->get(s, "/model/bn1.num_batches_tracked", &shape, &n));
  CT_TRY(ops->get_text(s, "/meta/config", &text));
  CU_ASSERT(memcmp(w, weights, sizeof w) == 0 && n == counter);
  CT_ASSERT_TEXT(text, "run: {seed: 1}\n");
out:
  ct_mem_free(text);
  ops->close(s);
  return rc;
}

/* ---- round trips ---- */

static void all_types_come_back(void)
{
  static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16, CT_F64, CT_U8,
                                     CT_I8,  CT_I16,  CT_I32, CT_I64};
  const char *path = file_in(ct_test_dir(), "types.h5");
  uint8_t data[9][480], back[480];
  char name[32];
  ct_store_t *s;
  CT_ASSERT_OK(ops->create(path, &s));
  for (int t = 0; t < 9; t++) {
    ct_shape_t shape = shape_of(types[t], 3, 3, 4, 5);
    fill(data[t], sizeof data[t], (unsigned)t); /* all bit patterns, NaN too */
    snprintf(name, sizeof name, "/a/%s", ct_dtype_name(types[t]));
    CT_ASSERT_OK(ops->put(s, name, &shape, data[t]));
  }
  CT_ASSERT_OK(ops->commit(s));
  CT_ASSERT_OK(ops->open(path, &s));
  CT_ASSERT_INT(ops->count(s), 9);
  for (int t = 0; t < 9; t++) {
    ct_shape_t shape;
    snprintf(name, sizeof name, "/a/%s", ct_dtype_name(types[t]));
    CT_ASSERT_TEXT(ops->item(s, t, &shape), name);
    CT_ASSERT_INT(shape.dtype, types[t]);
    CT_ASSERT_INT(shape.ndim, 3);
    CT_ASSERT_INT(shape.dim[2], 5);
    CT_ASSERT_OK(ops->get(s, name, &shape, back));
    CT_ASSERT_INT(memcmp(back, data[t], 60 * ct_dtype_size(types[t])), 0);
  }
  ops->close(s);
}

static void odd_shapes_come_back(void)
{
  const char *path = file_in(ct_test_dir(), "odd.h5");
  static char big[5][3 << 20],
      back[5][3 << 20]; /* more than one slab, and rows that do not divide it */
  ct_shape_t none = shape_of(CT_F32, 2, 0, 7, 1), no_columns = shape_of(CT_F32, 2, 7, 0, 1);
  ct_shape_t large = shape_of(CT_U8, 2, 5, sizeof big[0], 1);
  ct_shape_t five = {.dtype = CT_U8, .ndim = 5, .dim = {2, 1, 3, 1, 2}};
  ct_store_t *s;
  fill(big, sizeof big, 3);
  CT_ASSERT_OK(ops->create(path, &s));
  CT_ASSERT_OK(ops->put(s, "/none", &none, big));
  CT_ASSERT_OK(ops->put(s, "/no_columns", &no_columns, big));
  CT_ASSERT_OK(ops->put(s, "/x/y/z/large", &large, big));
  CT_ASSERT_OK(ops->put(s, "/five", &five, big));
  CT_ASSERT_OK(ops->commit(s));
  CT_ASSERT_OK(ops->open(path, &s));
  CT_ASSERT_OK(ops->get(s, "/none", &none, back));
  CT_ASSERT_OK(ops->get(s, "/no_columns", &no_columns, back));
  CT_ASSERT_OK(ops->get(s, "/x/y/z/large", &large, back));
  CT_ASSERT_INT(memcmp(big, back, sizeof big), 0);
  CT_ASSERT_OK(ops->get(s, "/five", &five, back));
  ops->close(s);
}

static void items_keep_their_order(void)
{
  const char *path = file_in(ct_test_dir(), "order.h5");
  static const char *const names[] = {"/z", "/a/b", "/m", "/a/a"};
  ct_shape_t one = shape_of(CT_F32, 1, 1, 1, 1), shape;
  ct_store_t *s;
  CT_ASSERT_OK(ops->create(path, &s));
  for (int i = 0; i < 4; i++) {
    CT_ASSERT_OK(ops->put(s, names[i], &one, weights));
    CT_ASSERT_OK(ops->put_text(s, i % 2 ? "/t1" : i ? "/t2" : "/t0", "x"));
    if (i == 2) break;
  }
  CT_ASSERT_OK(ops->put(s, names[3], &one, weights));
  CT_ASSERT_OK(ops->commit(s));
  CT_ASSERT_OK(ops->open(path, &s));
  CT_ASSERT_INT(ops->count(s), 4);
  for (int i = 0; i < 4; i++)
    CT_ASSERT_TEXT(ops->item(s, i, &shape), names[i]);
  CU_ASSERT(ops->item(s, 4, &shape) == NULL);
  ops->close(s);
}

static void texts_come_back(void)
{
  const char *path = file_in(ct_test_dir(), "texts.h5");
  static char large[200001];
  char *text;
  ct_store_t *s;
  memset(large, 'x', sizeof large - 1);
  CT_ASSERT_OK(ops->create(path, &s));
  CT_ASSERT_OK(ops->put_text(s, "/large", large));
  CT_ASSERT_OK(ops->put_text(s, "/empty", ""));
  CT_ASSERT_OK(ops->put_text(s, "/utf8", "\xc3\xa9t\xc3\xa9\n"));
  CT_ASSERT_OK(ops->commit(s));
  CT_ASSERT_OK(ops->open(path, &s));
  CT_ASSERT_INT(ops->count(s), 0);
  CT_ASSERT_OK(ops->get_text(s, "/large", &text));
  CU_ASSERT(strcmp(text, large) == 0);
  ct_mem_free(text);
  CT_ASSERT_OK(ops->get_text(s, "/empty", &text));
  CT_ASSERT_TEXT(text, "");
  ct_mem_free(text);
  CT_ASSERT_OK(ops->get_text(s, "/utf8", &text));
  CT_ASSERT_TEXT(text, "\xc3\xa9t\xc3\xa9\n");
  ct_mem_free(text);
  ops->close(s);
}

static void the_same_state_is_the_same_file(void)
{
  const char *dir = ct_test_dir();
  char *a, *b;
  size_t a_bytes, b_bytes;
  CT_ASSERT_OK(write_small(file_in(dir, "a.h5")));
  CT_ASSERT_OK(write_small(file_in(dir, "b.h5")));
  CT_ASSERT_OK(ct_file_read(file_in(dir, "a.h5"), &a, &a_bytes));
  CT_ASSERT_OK(ct_file_read(file_in(dir, "b.h5"), &b, &b_bytes));
  CT_ASSERT_INT(a_bytes, b_bytes);
  CU_ASSERT(a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0);
  ct_mem_free(a);
  ct_mem_free(b);
}

/* ---- whole or not at all ---- */

static void nothing_stands_there_before_commit(void)
{
  const char *path = file_in(ct_test_dir(), "c.h5");
  ct_store_t *s;
  CT_ASSERT_OK(ops->create(path, &s));
  CT_ASSERT_OK(put_small(s));
  CU_ASSERT(!exists(path, ""));
  CU_ASSERT(exists(path, ".tmp"));
  CT_ASSERT_OK(ops->commit(s));
  CU_ASSERT(exists(path, ""));
  CU_ASSERT(!exists(path, ".tmp"));
}

static void discard_leaves_the_old_file(void)
{
  const char *path = file_in(ct_test_dir(), "d.h5");
  ct_store_t *s;
  CT_ASSERT_OK(write_small(path));
  CT_ASSERT_OK(ops->create(path, &s));
  CT_ASSERT_OK(ops->put_text(s, "/x", "new"));
  ops->discard(s);
  ops->discard(NULL);
  CU_ASSERT(!exists(path, ".tmp"));
  CT_ASSERT_OK(read_small(path));
}

static void a_leftover_temporary_is_replaced(void)
{
  const char *path = file_in(ct_test_dir(), "e.h5");
  char temporary[700];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  CT_ASSERT_OK(ct_file_write(temporary, "rubbish", 7));
  CT_ASSERT_OK(write_small(path));
  CT_ASSERT_OK(read_small(path));
}

static void a_failed_put_cannot_be_committed(void)
{
  const char *path = file_in(ct_test_dir(), "f.h5");
  ct_shape_t one = shape_of(CT_F32, 1, 1, 1, 1);
  ct_store_t *s;
  CT_ASSERT_OK(ops->create(path, &s));
  CT_ASSERT_OK(ops->put(s, "/w", &one, weights));
  CT_ASSERT_FAILS(ops->put(s, "/w", &one, weights), CT_ERR_IO, "'/w': name already exists");
  CT_ASSERT_FAILS(ops->commit(s), CT_ERR_IO, "not written");
  CU_ASSERT(!exists(path, "") && !exists(path, ".tmp"));
}

static void wrong_names_are_refused(void)
{
  static const char *const names[] = {"", "/", "w", "/a/", "/a//b", "/a\nb", "/manifest"};
  const char *path = file_in(ct_test_dir(), "g.h5");
  for (int i = 0; i < 7; i++) {
    ct_store_t *s;
    CT_ASSERT_OK(ops->create(path, &s));
    CT_ASSERT_FAILS(ops->put_text(s, names[i], "x"), CT_ERR_ARG, "expected /group/name");
    ops->discard(s);
  }
}

static void no_directory(void)
{
  ct_store_t *s;
  CT_ASSERT_FAILS(ops->create("/nonexistent/x.h5", &s), CT_ERR_IO, "No such file or directory");
  CT_ASSERT_FAILS(ops->open("/nonexistent/x.h5", &s), CT_ERR_IO, "No such file or directory");
  CT_ASSERT_FAILS(ops->open(ct_test_dir(), &s), CT_ERR_IO, "");
  CU_ASSERT(s == NULL);
}

static void what_is_asked_for_must_fit(void)
{
  const char *path = file_in(ct_test_dir(), "h.h5");
  ct_shape_t shape, other = shape_of(CT_F32, 2, 3, 2, 1), type = shape_of(CT_I32, 2, 2, 3, 1);
  float w[6];
  char *text;
  ct_store_t *s;
  CT_ASSERT_OK(write_small(path));
  CT_ASSERT_OK(ops->open(path, &s));
  CT_ASSERT_FAILS(ops->find(s, "/model/fc.bias", &shape), CT_ERR_FORMAT,
                  "array '/model/fc.bias' not found");
  CT_ASSERT_FAILS(ops->get_text(s, "/meta/none", &text), CT_ERR_FORMAT,
                  "text '/meta/none' not found");
  CT_ASSERT_FAILS(ops->find(s, "/meta/config", &shape), CT_ERR_FORMAT,
                  "array '/meta/config' not found");
  CT_ASSERT_FAILS(ops->get(s, "/model/layer1.0.conv1.weight", &other, w), CT_ERR_SHAPE,
                  "is float32 2x3, expected float32 3x2");
  CT_ASSERT_FAILS(ops->get(s, "/model/layer1.0.conv1.weight", &type, w), CT_ERR_SHAPE, "int32");
  ops->close(s);
  ops->close(NULL);
}

/* ---- damage ---- */

static void write_bytes(const char *path, const char *data, size_t bytes)
{
  FILE *f = fopen(path, "wb");
  CU_ASSERT_FATAL(f != NULL);
  CU_ASSERT(fwrite(data, 1, bytes, f) == bytes);
  fclose(f);
}

static void every_flipped_byte_is_found(void)
{
  const char *path = file_in(ct_test_dir(), "flip.h5");
  char *data;
  size_t bytes;
  CT_ASSERT_OK(write_small(path));
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  int fd = open(path, O_WRONLY);
  for (size_t i = 0; i<bytes; i += i + 64> bytes ? 1 : 13) {
    char flipped = data[i] ^ (char)(1 << i % 8);
    CT_ASSERT_INT(pwrite(fd, &flipped, 1, (off_t)i), 1);
    int rc = read_small(path);
    if (rc != CT_ERR_FORMAT) CT_ASSERT_INT(rc, (int64_t)i); /* says where */
    CT_ASSERT_INT(pwrite(fd, &data[i], 1, (off_t)i), 1);
  }
  close(fd);
  CT_ASSERT_OK(read_small(path));
  ct_mem_free(data);
}

static void every_other_length_is_found(void)
{
  const char *path = file_in(ct_test_dir(), "cut.h5");
  char *data;
  size_t bytes;
  CT_ASSERT_OK(write_small(path));
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  for (size_t length = bytes - 1; length > 0;
       length -= length + 64 > bytes || length < 97 ? 1 : 97) {
    CT_ASSERT_INT(truncate(path, (off_t)length), 0);
    CT_ASSERT_INT(read_small(path), CT_ERR_FORMAT);
  }
  write_bytes(path, data, bytes);
  FILE *f = fopen(path, "ab");
  fputc('x', f);
  fclose(f);
  CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, "truncated");
  ct_mem_free(data);
}

/* A seal that fits damaged data (a program's bug, not the disk's) leaves the items' own
 * checksums. */
static void items_have_their_own_checksum(void)
{
  static const struct {
    const void *bytes;
    size_t n;
    const char *says;
  } items[] = {
      {weights, sizeof weights, "'/model/layer1.0.conv1.weight' is damaged: its checksum differs"},
      {"run: {seed: 1}\n", 15, "'/meta/config' is damaged: its checksum differs"}};
  const char *path = file_in(ct_test_dir(), "item.h5");
  for (int i = 0; i < 2; i++) {
    char *data;
    size_t bytes, at = 0;
    CT_ASSERT_OK(write_small(path));
    CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
    while (at + items[i].n < bytes && memcmp(data + at, items[i].bytes, items[i].n) != 0)
      at++;
    data[at + 5] ^= 1;
    write_bytes(path, data, bytes - 32);
    CT_ASSERT_OK(ct__h5_seal_write(path));
    CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, items[i].says);
    ct_mem_free(data);
  }
}

/* To open a FIFO would wait for a writer. */
static void what_is_no_regular_file_is_refused(void)
{
  const char *dir = ct_test_dir(), *path = file_in(dir, "pipe.h5");
  ct_store_t *s;
  CT_ASSERT_INT(mkfifo(path, 0600), 0);
  CT_ASSERT_FAILS(ops->open(path, &s), CT_ERR_IO, "pipe.h5: is a FIFO, expected a regular file");
  CT_ASSERT_FAILS(ops->open(dir, &s), CT_ERR_IO, "is a directory, expected a regular file");
}

/* Headers have checksums of HDF5's: they are changed by it, and the file is sealed again. */
static void seal_again(const char *path, hid_t file)
{
  CU_ASSERT(H5Fclose(file) >= 0);
  CT_ASSERT_OK(ct__h5_seal_write(path));
}

static void other_files_are_no_checkpoints(void)
{
  const char *path = file_in(ct_test_dir(), "other.h5");
  static const char text[] = "this is a text, and no checkpoint, though it is long enough";
  write_bytes(path, text, sizeof text);
  CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, "not a ctrain-hpc checkpoint");
  CT_ASSERT_OK(ct__h5_seal_write(path));
  CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, "cannot be read as an HDF5 file");
  /* an HDF5 file of ours, but of another kind */
  CT_ASSERT_OK(write_small(path));
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT(H5Adelete(file, "format") >= 0);
  CT_ASSERT_INT(ct__h5_put_attr_text(file, "format", "ctrain-hpc dataset 1"), 1);
  seal_again(path, file);
  CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, "its format is 'ctrain-hpc dataset 1'");
}

/* An item renamed behind our back is missing. */
static void missing_items_are_named(void)
{
  const char *path = file_in(ct_test_dir(), "missing.h5");
  const char *name = "/model/bn1.num_batches_tracked";
  CT_ASSERT_OK(write_small(path));
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT(H5Lmove(file, name, H5L_SAME_LOC, "/model/c", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  seal_again(path, file);
  CT_ASSERT_FAILS(read_small(path), CT_ERR_FORMAT, "'/model/bn1.num_batches_tracked' is missing");
}

/* ---- full disks: each attempt in a process of its own ---- */

static int write_medium(const char *path)
{
  static char data[20][3000];
  int rc = CT_OK;
  char name[32];
  ct_shape_t shape = shape_of(CT_U8, 1, sizeof data[0], 1, 1);
  ct_store_t *s = NULL;
  CT_TRY(ops->create(path, &s));
  for (int i = 0; i < 20; i++) {
    snprintf(name, sizeof name, "/w/%d", i);
    CT_TRY(ops->put(s, name, &shape, data[i]));
  }
  rc = ops->commit(s);
  s = NULL;
out:
  ops->discard(s);
  return rc;
}

/* 0: written; 1: refused as it should be; 2: anything else; 3: crashed */
static int in_child(const char *path, int64_t limit, const char *reason)
{
  int status;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    struct rlimit r = {(rlim_t)limit, (rlim_t)limit};
    signal(SIGXFSZ, SIG_IGN);
    if (limit >= 0) setrlimit(RLIMIT_FSIZE, &r);
    int rc = write_medium(path), tidy = !exists(path, ".tmp") && exists(path, "") == (rc == CT_OK);
    const char *text = ct_err_last()->text;
    int said = rc == CT_ERR_IO && strstr(text, path) && strstr(text, reason);
    /* what was given up must not hurt what comes after */
    r.rlim_cur = r.rlim_max;
    ct_store_t *s;
    if (rc != CT_OK && ops->open(path, &s) == CT_OK) tidy = 0;
    if (rc != CT_OK && !said) fprintf(stderr, "# %s: %s\n", ct_err_name(rc), text);
    _exit(!tidy ? 2 : rc == CT_OK ? 0 : said ? 1 : 2);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return 2;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

/* The limit stops it at the creation, in the data, in HDF5's own writing at the end, in the
 * seal. */
static void a_file_may_not_grow(void)
{
  struct stat st;
  const char *path = file_in(ct_test_dir(), "limit.h5");
  CT_ASSERT_OK(write_medium(path));
  CT_ASSERT_INT(stat(path, &st), 0);
  unlink(path);
  for (int64_t limit = 0; limit<st.st_size; limit += limit + 200> st.st_size ? 7 : 1501) {
    int status = in_child(path, limit, "File too large");
    if (status != 1) CT_ASSERT_INT(status, 1000 + limit); /* says where */
  }
  CT_ASSERT_INT(in_child(path, st.st_size, "-"), 0);
}

static void a_disk_is_full(void)
{
  const char *dir = ct_test_dir(), *path = file_in(dir, "full.h5");
  if (mount("none", dir, "tmpfs", 0, "size=64k") != 0) {
    ct_test_skip("a tiny file system cannot be mounted");
    return;
  }
  static char page[4096];
  const char *filler = file_in(dir, "filler");
  int refused = 0;
  for (int filled = 0; filled <= 16; filled++) {
    FILE *f = fopen(filler, "ab");
    if (filled > 0) fwrite(page, 1, sizeof page, f);
    fclose(f);
    int status = in_child(path, -1, "No space left on device");
    if (status != 0) CT_ASSERT_INT(status, 1);
    refused += status == 1;
    unlink(path);
  }
  CU_ASSERT(refused > 10);
  umount(dir);
}

/* ---- faults and memory ---- */

static void fault_points(void)
{
  static const char *const points[] = {"store.create", "store.put", "store.commit"};
  const char *path = file_in(ct_test_dir(), "fault.h5");
  char variable[64];
  for (int i = 0; i < 3; i++) {
    snprintf(variable, sizeof variable, "%s@0:1", points[i]);
    setenv("CTRAIN_FAULTS", variable, 1);
    ct_fault_setup(0);
    CT_ASSERT_FAILS(write_small(path), CT_ERR_FAULT, points[i]);
    CU_ASSERT(!exists(path, "") && !exists(path, ".tmp"));
  }
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
}

static void no_memory_at_any_point(void)
{
  const char *path = file_in(ct_test_dir(), "memory.h5");
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t nth = 1; rc != CT_OK && nth < 200; nth++) {
    ct_mem_fail_at(nth);
    rc = write_small(path);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    CU_ASSERT(exists(path, "") == (rc == CT_OK));
    CU_ASSERT(!exists(path, ".tmp"));
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
  rc = CT_ERR_NOMEM;
  for (int64_t nth = 1; rc != CT_OK && nth < 200; nth++) {
    ct_mem_fail_at(nth);
    rc = read_small(path);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(all_types_come_back),
      CT_TEST(odd_shapes_come_back),
      CT_TEST(items_keep_their_order),
      CT_TEST(texts_come_back),
      CT_TEST(the_same_state_is_the_same_file),
      CT_TEST(nothing_stands_there_before_commit),
      CT_TEST(discard_leaves_the_old_file),
      CT_TEST(a_leftover_temporary_is_replaced),
      CT_TEST(a_failed_put_cannot_be_committed),
      CT_TEST(wrong_names_are_refused),
      CT_TEST(no_directory),
      CT_TEST(what_is_asked_for_must_fit),
      CT_TEST(every_flipped_byte_is_found),
      CT_TEST(every_other_length_is_found),
      CT_TEST(items_have_their_own_checksum),
      CT_TEST(what_is_no_regular_file_is_refused),
      CT_TEST(other_files_are_no_checkpoints),
      CT_TEST(missing_items_are_named),
      CT_TEST(a_file_may_not_grow),
      CT_TEST(a_disk_is_full),
      CT_TEST(fault_points),
      CT_TEST(no_memory_at_any_point),
      CT_TEST_END,
  };
  return ct_test_main("store", tests, argc, argv);
}
