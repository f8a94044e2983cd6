/* The writer of data sets. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

typedef struct source {
  ct_shape_t x;
  int64_t given, fail_at;
  const char *input[2];
} source_t;

static int give(void *state, int n, void *x, void *y)
{
  int32_t *labels = y;
  source_t *s = state;
  int64_t elements = ct_shape_sample(&s->x);
  for (int k = 0; k < n; k++, s->given++) {
    if (s->given == s->fail_at)
      return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "in.csv:12: not a number");
    for (int64_t i = 0; i < elements; i++)
      store(s->x.dtype, x, k * elements + i, element(s->given, i));
    labels[k] = (int32_t)(s->given % 10);
  }
  return CT_OK;
}

static int pack(const char *dir, const char *name, source_t *s, int64_t samples, int shards,
                int deflate)
{
  char pattern[700];
  ct_pack_source_t src = {.x = s->x,
                          .samples = samples,
                          .state = s,
                          .next = give,
                          .inputs = {s->input[0], s->input[1]}};
  snprintf(pattern, sizeof pattern, "%s/%s", dir, name);
  s->given = 0;
  return ct_pack_write(&src, pattern, shards, deflate, 10);
}

static int files_in(const char *dir)
{
  char **list;
  int n = 0;
  if (ct_file_glob(dir, "*", &list, &n) != CT_OK) return 0;
  ct_file_list_free(list, n);
  return n;
}

static void packed_data_come_back(void)
{
  for (int f32 = 0; f32 <= 1; f32++) {
    for (int deflate = 0; deflate <= 4; deflate += 4) {
      const char *dir = ct_test_dir();
      source_t s = {
          {.dtype = f32 ? CT_F32 : CT_U8, .ndim = 4, .dim = {1, 3, 16, 16}}, 0, -1, {NULL, NULL}};
      ct_reader_t *r;
      char place[64];
      CT_ASSERT_OK(pack(dir, "t-%03d.h5", &s, 1000, 3, deflate));
      CT_ASSERT_INT(files_in(dir), 3);
      ct_reader_spec_t spec = spec_of(dir);
      CT_ASSERT_OK(ops->open(&spec, &r));
      CT_ASSERT_INT(ops->info(r)->classes, 10);
      check_all(r, 1000);
      ops->place(r, 334, place, sizeof place); /* 334 + 333 + 333 */
      CT_ASSERT_TEXT(place, "t-001.h5, sample 0");
      ops->close(r);
    }
  }
}

static void packed_features_come_back(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_F32, .ndim = 2, .dim = {1, 7}}, 0, -1, {NULL, NULL}};
  ct_reader_t *r;
  CT_ASSERT_OK(pack(dir, "one.h5", &s, 5, 1, 9));
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 5);
  ops->close(r);
}

static void the_same_data_are_the_same_files(void)
{
  const char *dir = ct_test_dir();
  char path[700];
  source_t s = {{.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 8, 8}}, 0, -1, {NULL, NULL}};
  char *data[2];
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    CT_ASSERT_OK(pack(dir, i ? "b.h5" : "a.h5", &s, 100, 1, 6));
    snprintf(path, sizeof path, "%s/%s", dir, i ? "b.h5" : "a.h5");
    CT_ASSERT_OK(ct_file_read(path, &data[i], &bytes[i]));
  }
  CU_ASSERT(bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0);
  ct_mem_free(data[0]);
  ct_mem_free(data[1]);
}

static void a_failed_pack_leaves_what_was_there(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 8, 8}}, 0, -1, {NULL, NULL}};
  ct_reader_t *r;
  CT_ASSERT_OK(pack(dir, "t-%d.h5", &s, 60, 3, 0));
  s.fail_at = 70;
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 90, 3, 0), CT_ERR_FORMAT, "in.csv:12: not a number");
  CT_ASSERT_FAILS(pack(dir, "u-%d.h5", &s, 90, 3, 0), CT_ERR_FORMAT, "in.csv:12: not a number");
  CT_ASSERT_INT(files_in(dir), 3);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 60);
  ops->close(r);
}

static void pack_checks_its_arguments(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 8}}, 0, -1, {NULL, NULL}};
  CT_ASSERT_FAILS(pack(dir, "t.h5", &s, 10, 2, 0), CT_ERR_USAGE, "2 shards need a %d");
  CT_ASSERT_FAILS(pack(dir, "t-%s.h5", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%d-%d.h5", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 10, 11, 0), CT_ERR_USAGE, "expected 1 to 10");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 10, 2, 10), CT_ERR_USAGE, "deflate level 10");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 0, 1, 0), CT_ERR_ARG, "no sample");
  CT_ASSERT_FAILS(pack(dir, "no/t-%d.h5", &s, 10, 2, 0), CT_ERR_IO, "No such file or directory");
  s.x.dtype = CT_I16;
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 10, 2, 0), CT_ERR_ARG, "int16");
  CT_ASSERT_INT(files_in(dir), 0);
}

static void put(const char *path)
{
  CT_ASSERT_OK(ct_file_write(path, "1,2,0\n", 6));
}

static void expect_input_kept(const char *dir, const char *name, source_t *s, int shards)
{
  char *data;
  size_t bytes;
  int files = files_in(dir);
  CT_ASSERT_FAILS(pack(dir, name, s, 10, shards, 0), CT_ERR_USAGE, "which is read: choose another");
  CT_ASSERT_INT(files_in(dir), files);
  for (int i = 0; i < 2; i++) {
    if (!s->input[i] || CT_ASSERT_OK(ct_file_read(s->input[i], &data, &bytes)) != CT_OK) continue;
    CT_ASSERT_TEXT(data, "1,2,0\n");
    ct_mem_free(data);
  }
}

/* By whatever name: of a shard or of what is renamed to it, of a link to either. */
static void no_input_is_overwritten(void)
{
  const char *dir = ct_test_dir();
  char in[2][700], name[4][700];
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 8}}, 0, -1, {in[0], NULL}};
  for (int i = 0; i < 4; i++)
    snprintf(name[i], sizeof name[i], "%s/%s", dir,
             (const char *[]){"soft.h5", "hard.h5", "t-2.h5.tmp", "u-1.h5"}[i]);
  snprintf(in[0], sizeof in[0], "%s/in.csv", dir);
  snprintf(in[1], sizeof in[1], "%s/v-1.h5.tmp", dir);
  put(in[0]);
  put(in[1]);
  CU_ASSERT_EQUAL_FATAL(symlink("in.csv", name[0]), 0);
  CU_ASSERT_EQUAL_FATAL(link(in[0], name[1]), 0);
  CU_ASSERT_EQUAL_FATAL(symlink(name[0], name[2]), 0);
  CU_ASSERT_EQUAL_FATAL(link(in[0], name[3]), 0);
  expect_input_kept(dir, "in.csv", &s, 1);
  expect_input_kept(dir, "./in.csv", &s, 1);
  expect_input_kept(dir, "soft.h5", &s, 1);
  expect_input_kept(dir, "hard.h5", &s, 1);
  expect_input_kept(dir, "t-%d.h5", &s, 3);
  expect_input_kept(dir, "u-%d.h5", &s, 2);
  s.input[1] = in[1]; /* the second one, as a temporary */
  expect_input_kept(dir, "v-%d.h5", &s, 2);
  CT_ASSERT_OK(pack(dir, "w-%d.h5", &s, 10, 2, 0));
}

static void a_full_disk_stops_pack(void)
{
  const char *dir = ct_test_dir();
  for (rlim_t limit = 0; limit <= 120000; limit += 7000) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      struct rlimit l = {limit, limit};
      source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 100}}, 0, -1, {NULL, NULL}};
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &l);
      int rc = pack(dir, "t-%d.h5", &s, 3000, 2, 0);
      int refused = rc == CT_ERR_IO && strstr(ct_err_last()->text, "File too large");
      int files = files_in(dir);
      _exit(rc == CT_OK && files == 2 ? 0 : refused && files == 0 ? 1 : 2);
    }
    CT_ASSERT_INT(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    CU_ASSERT(limit > 0 || WEXITSTATUS(status) == 1);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(packed_data_come_back),
      CT_TEST(packed_features_come_back),
      CT_TEST(the_same_data_are_the_same_files),
      CT_TEST(a_failed_pack_leaves_what_was_there),
      CT_TEST(pack_checks_its_arguments),
      CT_TEST(no_input_is_overwritten),
      CT_TEST(a_full_disk_stops_pack),
      CT_TEST_END,
  };
  return ct_test_main("pack", tests, argc, argv);
}
