/* The writer of data sets. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_job.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

typedef struct source {
  ct_shape_t x;
  int64_t fail_at;
  const char *input[3];
} source_t;

static int give(void *state, int64_t index, ct_pack_sample_t *to)
{
  source_t *s = state;
  if (index == s->fail_at) return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "is not a number");
  for (int64_t i = 0; i < ct_shape_sample(&s->x); i++)
    store(s->x.dtype, to->x, i, element(index, i));
  return CT_OK;
}

static int32_t label_of(void *state, int64_t index)
{
  (void)state;
  return (int32_t)(index % 10);
}

static void place_of(void *state, int64_t index, char *buf, size_t cap)
{
  (void)state;
  snprintf(buf, cap, "in.csv, row %d", (int)index);
}

static int pack_job(const char *dir, source_t *s, int64_t samples, ct_pack_job_t *job,
                    ct_pack_result_t *result)
{
  char pattern[2][700];
  ct_topo_t alone = {.size = 1};
  ct_pack_source_t src = {.x = s->x,
                          .samples = samples,
                          .classes = 10,
                          .state = s,
                          .identity = 7,
                          .inputs = s->input,
                          .label = label_of,
                          .read = give,
                          .place = place_of};
  snprintf(pattern[0], sizeof pattern[0], "%s/%s", dir, job->output);
  snprintf(pattern[1], sizeof pattern[1], "%s/%s", dir, job->rest ? job->rest : "");
  job->output = pattern[0];
  if (job->rest) job->rest = pattern[1];
  if (!job->last) job->last = INT64_MAX;
  return ct_pack_run(&alone, &src, job, result);
}

static int pack(const char *dir, const char *name, source_t *s, int64_t samples, int shards,
                int deflate)
{
  ct_pack_result_t result;
  ct_pack_job_t job = {.output = name, .shards = shards, .deflate = deflate, .force = 1};
  return pack_job(dir, s, samples, &job, &result);
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
      source_t s = {{.dtype = f32 ? CT_F32 : CT_U8, .ndim = 4, .dim = {1, 3, 16, 16}}, -1, {NULL}};
      ct_reader_t *r;
      char place[64];
      CT_ASSERT_OK(pack(dir, "t-%03d.h5", &s, 1000, 3, deflate));
      CT_ASSERT_INT(files_in(dir), 3);
      ct_reader_spec_t spec = spec_of(dir);
      CT_ASSERT_OK(ops->open(&spec, &r));
      CT_ASSERT_INT(ops->info(r)->classes, 10);
      check_all(r, 1000);
      ops->location(r, 334, place, sizeof place); /* 334 + 333 + 333 */
      CT_ASSERT_TEXT(place, "t-001.h5, sample 0");
      ops->close(r);
    }
  }
}

static void packed_features_come_back(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_F32, .ndim = 2, .dim = {1, 7}}, -1, {NULL}};
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
  source_t s = {{.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 8, 8}}, -1, {NULL}};
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
  source_t s = {{.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 8, 8}}, -1, {NULL}};
  ct_reader_t *r;
  CT_ASSERT_OK(pack(dir, "t-%d.h5", &s, 60, 3, 0));
  s.fail_at = 70;
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 90, 3, 0), CT_ERR_DATA,
                  "1 of 90 samples cannot be read");
  CT_ASSERT_FAILS(pack(dir, "u-%d.h5", &s, 90, 3, 0), CT_ERR_DATA,
                  "1 of 90 samples cannot be read");
  CT_ASSERT_INT(files_in(dir), 3);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 60);
  ops->close(r);
}

static void pack_checks_its_arguments(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 8}}, -1, {NULL}};
  CT_ASSERT_FAILS(pack(dir, "t.h5", &s, 10, 2, 0), CT_ERR_USAGE, "2 shards need a %d");
  CT_ASSERT_FAILS(pack(dir, "t-%s.h5", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%d-%d.h5", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%", &s, 10, 2, 0), CT_ERR_USAGE, "expected one %d");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 10, 11, 0), CT_ERR_USAGE, "expected 1 to 10");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 10, 2, 10), CT_ERR_USAGE, "deflate level 10");
  CT_ASSERT_FAILS(pack(dir, "t-%d.h5", &s, 0, 1, 0), CT_ERR_ARG, "no sample");
  CT_ASSERT_FAILS(pack(dir, "no/t-%d.h5", &s, 10, 2, 0), CT_ERR_IO, "No such file or directory");
  CT_ASSERT_INT(files_in(dir), 0);
}

/* Bad ones are left out of the file that they would be in; what is behind them follows. */
static void bad_samples_are_left_out(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 4}}, 25, {NULL}};
  ct_pack_job_t job = {.output = "t-%d.h5", .shards = 3, .skip_bad = 1};
  ct_pack_result_t result;
  ct_reader_t *r;
  int64_t index[] = {24, 25, 88};
  int64_t y[3];
  CT_ASSERT_OK(pack_job(dir, &s, 90, &job, &result));
  CT_ASSERT_INT(result.samples, 89);
  CT_ASSERT_INT(result.bad, 1);
  CT_ASSERT_INT(files_in(dir), 3);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_INT(ops->info(r)->samples, 89);
  CT_ASSERT_OK(ops->read(r, 3, index, NULL, y));
  CT_ASSERT_INT(y[0], 4);
  CT_ASSERT_INT(y[1], 6);
  CT_ASSERT_INT(y[2], 9);
  ops->close(r);
}

/* Two outputs have each sample once between them, of all classes alike. */
static void a_split_leaves_nothing_out(void)
{
  const char *dir = ct_test_dir();
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 4}}, -1, {NULL}};
  ct_pack_job_t job = {.output = "a-%d.h5",
                       .shards = 3,
                       .rest = "b-%d.h5",
                       .rest_shards = 2,
                       .split = 0.8,
                       .shuffle = 1,
                       .seed = 5};
  ct_pack_result_t result;
  ct_reader_t *r;
  int seen[200] = {0};
  CT_ASSERT_OK(pack_job(dir, &s, 200, &job, &result));
  CT_ASSERT_INT(result.samples, 160);
  CT_ASSERT_INT(result.rest, 40);
  CT_ASSERT_INT(files_in(dir), 5);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  for (int64_t i = 0; i < 200; i++) {
    uint8_t x[4];
    int found = -1;
    CT_ASSERT_OK(ops->read(r, 1, &i, x, NULL));
    for (int k = 0; k < 200 && found < 0; k++) {
      int same = 1;
      for (int e = 0; e < 4; e++)
        same = same && x[e] == (uint8_t)element(k, e);
      if (same && !seen[k]) found = k;
    }
    if (found >= 0) seen[found]++;
  }
  for (int k = 0; k < 200; k++)
    CT_ASSERT_INT(seen[k], 1);
  ops->close(r);
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
  source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 8}}, -1, {in[0]}};
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
      source_t s = {{.dtype = CT_U8, .ndim = 2, .dim = {1, 100}}, -1, {NULL}};
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
      CT_TEST(bad_samples_are_left_out),
      CT_TEST(a_split_leaves_nothing_out),
      CT_TEST(no_input_is_overwritten),
      CT_TEST(a_full_disk_stops_pack),
      CT_TEST_END,
  };
  return ct_test_main("pack", tests, argc, argv);
}
