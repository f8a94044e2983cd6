/* Files of a newer version of this program: named as such, with both versions, and never passed
 * over for older ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweep/ct_sweep.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_mem.h"
#include "ckpt/ct_ckpt.h"
#include "config.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/ct_pack.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/store/h5_seal.h"
#include "telemetry/ct_runlog.h"
#include "study/model/ct_study.h"
#include "tests/harness/ct_test.h"

enum { SEAL = 32 };

static char dir[500]; /* of the whole program */

static const char *file_in(const char *name)
{
  static char path[4][600];
  static int turn;
  turn = (turn + 1) % 4;
  if (!dir[0]) snprintf(dir, sizeof dir, "%s", ct_test_dir());
  snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
  return path[turn];
}

static void write_checkpoint(const char *path, const char *versions)
{
  ct_store_t *s;
  float w[3] = {1, 2, 3};
  ct_shape_t shape = {.dtype = CT_F32, .ndim = 1, .dim = {3, 1, 1, 1, 1}};
  CT_ASSERT_OK(ct_store_hdf5.create(path, &s));
  CT_ASSERT_OK(ct_store_hdf5.put(s, "/model/w", &shape, w));
  if (versions) CT_ASSERT_OK(ct_store_hdf5.put_text(s, "/meta/versions", versions));
  CT_ASSERT_OK(ct_store_hdf5.commit(s));
}

/* Gives the root another attribute `format`. */
static void set_format(const char *path, const char *format)
{
  ct__h5_lock();
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  H5Adelete(file, "format");
  CU_ASSERT(ct__h5_put_attr_text(file, "format", format));
  ct__h5_drop(file);
  ct__h5_unlock();
}

/* A checkpoint as a version writes it that has another format inside. */
static void write_newer(const char *path, const char *format, const char *versions)
{
  char *text;
  size_t bytes;
  write_checkpoint(path, versions);
  CT_ASSERT_OK(ct_file_read(path, &text, &bytes));
  CT_ASSERT_INT(truncate(path, (off_t)bytes - SEAL), 0);
  ct_mem_free(text);
  set_format(path, format);
  CT_ASSERT_OK(ct__h5_seal_write(path));
}

static void fails_newer(const char *path, int rc, const char *format, const char *by)
{
  const char *text = ct_err_last()->text;
  CT_ASSERT_INT(rc, CT_ERR_NEWER);
  if (rc != CT_ERR_NEWER) return;
  CU_ASSERT(strncmp(text, path, strlen(path)) == 0);
  CU_ASSERT(strstr(text, "made by a newer version of ctrain-hpc") != NULL);
  CU_ASSERT(strstr(text, format) != NULL);
  CU_ASSERT(strstr(text, PACKAGE_VERSION) != NULL);
  CU_ASSERT(!by || strstr(text, by) != NULL);
}

static void checkpoints(void)
{
  ct_store_t *s = NULL;
  const char *path = file_in("newer.h5");
  write_newer(path, "ctrain-hpc checkpoint 7", "ctrain-hpc 9.8.7; MPICH");
  fails_newer(path, ct_store_hdf5.open(path, &s), "'ctrain-hpc checkpoint 7'",
              "(ctrain-hpc 9.8.7)");
  CU_ASSERT(s == NULL);
  write_newer(path, "ctrain-hpc checkpoint 12", NULL);
  fails_newer(path, ct_store_hdf5.open(path, &s), "'ctrain-hpc checkpoint 12'", NULL);
  write_newer(path, "ctrain-hpc checkpoint 1", NULL);
  CT_ASSERT_OK(ct_store_hdf5.open(path, &s));
  ct_store_hdf5.close(s);
  write_newer(path, "ctrain-hpc checkpoint one", NULL);
  CT_ASSERT_FAILS(ct_store_hdf5.open(path, &s), CT_ERR_FORMAT,
                  "expected 'ctrain-hpc checkpoint 1'");
}

static void seals(void)
{
  char *text;
  size_t bytes;
  int is_checkpoint = 0;
  ct_store_t *s = NULL;
  const char *path = file_in("sealed.h5");
  write_checkpoint(path, NULL);
  CT_ASSERT_OK(ct_file_read(path, &text, &bytes));
  text[bytes - SEAL + 15] = '2';
  CT_ASSERT_OK(ct_file_write(path, text, bytes));
  fails_newer(path, ct_store_hdf5.open(path, &s), "'ctrain-hpc seal 2'", NULL);
  CT_ASSERT_OK(ct_h5_is_checkpoint(path, &is_checkpoint));
  CU_ASSERT(is_checkpoint);
  text[bytes - SEAL + 15] = 'x';
  CT_ASSERT_OK(ct_file_write(path, text, bytes));
  CT_ASSERT_FAILS(ct_store_hdf5.open(path, &s), CT_ERR_FORMAT, "is not a ctrain-hpc checkpoint");
  ct_mem_free(text);
}

/* A run that a newer version has gone on with does not go on from before that. */
static void the_newest_is_not_passed_over(void)
{
  char path[CT_PATH_MAX];
  ct_store_t *s = NULL;
  CT_ASSERT_OK(ct_file_mkdirs(file_in("run")));
  write_checkpoint(file_in("run/step-00000010.h5"), NULL);
  CT_ASSERT_OK(ct_ckpt_newest(file_in("run"), &ct_store_hdf5, &s, path, sizeof path));
  ct_store_hdf5.close(s);
  write_newer(file_in("run/step-00000020.h5"), "ctrain-hpc checkpoint 2", NULL);
  fails_newer(file_in("run/step-00000020.h5"),
              ct_ckpt_newest(file_in("run"), &ct_store_hdf5, &s, path, sizeof path), "checkpoint 2",
              NULL);
  CU_ASSERT(s == NULL);
}

static int read_pixel(void *state, int64_t index, ct_pack_sample_t *to)
{
  (void)state;
  *(uint8_t *)to->x = (uint8_t)index;
  return CT_OK;
}

static int32_t label_of(void *state, int64_t index)
{
  (void)state;
  return (int32_t)(index % 2);
}

static int open_data(const char *path)
{
  char *name[] = {(char *)(uintptr_t)path};
  ct_opt_texts_t files = {.v = name, .n = 1};
  ct_reader_t *r = NULL;
  ct_reader_spec_t spec = {.files = &files, .dir = "/", .input = "images", .target = "labels"};
  int rc = ct_reader_hdf5.open(&spec, &r);
  ct_reader_hdf5.close(r);
  return rc;
}

static void data_sets(void)
{
  static const int64_t index[4] = {0, 1, 2, 3};
  int64_t bad = 0;
  const char *path = file_in("data.h5");
  ct_pack_source_t src = {.x = {.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 1, 1, 1}},
                          .samples = 4,
                          .classes = 2,
                          .label = label_of,
                          .read = read_pixel};
  ct_pack_shard_t shard = {.path = path, .index = index, .samples = 4, .classes = 2};
  CT_ASSERT_OK(ct_pack_write_shard(&src, &shard, &bad));
  CT_ASSERT_OK(open_data(path));
  set_format(path, "ctrain-hpc dataset 2");
  fails_newer(path, open_data(path), "'ctrain-hpc dataset 2'", NULL);
  set_format(path, "somebody's 2"); /* which is no business of ours */
  CT_ASSERT_OK(open_data(path));
}

static void lines(void)
{
  json_t *runs = NULL;
  int64_t n = 0;
  ct_study_t study;
  ct_runlog_t log;
  char line[300];
  snprintf(line, sizeof line, "%s\n",
           "{\"event\":\"study\",\"format\":3,\"version\":\"9.8.7\",\"launch\":0}");
  CT_ASSERT_OK(ct_file_write(file_in("points.jsonl"), line, strlen(line)));
  fails_newer(file_in("points.jsonl"), ct_study_read(dir, &study), "'ctrain-hpc study 3'",
              "(9.8.7)");

  snprintf(line, sizeof line, "%s\n",
           "{\"event\":\"start\",\"format\":2,\"versions\":\"ctrain-hpc 9.8.7; MPICH\"}");
  CT_ASSERT_OK(ct_file_write(file_in("metrics.jsonl"), line, strlen(line)));
  CT_ASSERT_OK(ct_runlog_open(dir, &log));
  fails_newer(file_in("metrics.jsonl"), ct_runlog_more(&log, &n), "'ctrain-hpc metrics 2'",
              "(ctrain-hpc 9.8.7)");
  ct_runlog_close(&log);

  CT_ASSERT_OK(ct_file_write(file_in("base.yaml"), "", 0));
  snprintf(line, sizeof line, "%s\n",
           "{\"format\":2,\"name\":\"a\",\"set\":{},\"state\":\"done\"}");
  CT_ASSERT_OK(ct_file_write(file_in("runs.jsonl"), line, strlen(line)));
  fails_newer(file_in("runs.jsonl"), ct_sweep_read(dir, &runs), "'ctrain-hpc sweep 2'", NULL);
  CU_ASSERT(runs == NULL);
  /* of before there were numbers */
  CT_ASSERT_OK(ct_format_line("f", 0, "ctrain-hpc sweep", 1, NULL));
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(checkpoints), CT_TEST(seals), CT_TEST(the_newest_is_not_passed_over),
      CT_TEST(data_sets),   CT_TEST(lines), CT_TEST_END};
  return ct_test_main("newer", tests, argc, argv);
}
