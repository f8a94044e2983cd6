/* What `doctor` says of samples: by facts that are made up. */
#include <string.h>

#include "base/ct_mem.h"
#include "doctor/ct_doctor.h"
#include "tests/harness/ct_test.h"

static ct_findings_t found;
static ct_surveys_t l;

static const ct_finding_t *find(const char *key)
{
  for (int i = 0; i < found.n; i++)
    if (strcmp(found.list[i].key, key) == 0) return &found.list[i];
  return NULL;
}

static int by_hdf5;
static double wait_s; /* of steps of 0.2 s */

static void judge(void)
{
  static ct_rank_facts_t facts;
  static ct_job_facts_t job;
  job = (ct_job_facts_t){.ranks = 1, .nodes = 1, .has_config = 1, .surveys = &l};
  job.data = (ct_data_facts_t){.samples = 50, .batch = 8, .files = 2, .by_hdf5 = by_hdf5};
  job.data.steps = wait_s > 0 ? 20 : 0;
  job.data.workers = 2;
  job.data.step_s = 0.2;
  job.data.wait_s = wait_s;
  CT_ASSERT_OK(ct_doctor_judge(&facts, &job, &found));
}

static void expect(const char *key, int level, const char *what)
{
  const ct_finding_t *f = find(key);
  CT_ASSERT_TEXT(f ? f->key : "nothing", key);
  if (!f) return;
  CT_ASSERT_INT(f->level, level);
  CT_ASSERT_HAS(f->what, what);
}

static void begin(void)
{
  l = (ct_surveys_t){.train = {.samples = 50, .looked = 50, .classes = 3, .channels = 2},
                     .val = {.samples = 20, .looked = 10, .classes = 3, .channels = 2}};
  l.train.numbers[1] = l.val.numbers[1] = 9;
  l.train.mean[1] = 0.5;
  l.train.std[1] = 0.25;
  l.val.mean[1] = 0.6;
}

static void what_is_good(void)
{
  ct_str_t text = {0};
  begin();
  judge();
  expect("samples", CT_FINDING_OK, "all samples that were read");
  CT_ASSERT_OK(ct_survey_normalize(&l.train, &text));
  CT_ASSERT_TEXT(text.data, "normalize: {mean: [0, 0.5], std: [1, 0.25]}");
  ct_str_clear(&text);
}

static void what_is_bad(void)
{
  begin();
  l.val.mean[1] = 0.3;
  l.train.odd = (ct_survey_count_t){2, "t.h5, sample 5"};
  l.train.twice = (ct_survey_count_t){1, "t.h5, sample 9"};
  l.val.twice = (ct_survey_count_t){3, "v.h5, sample 4"};
  l.train.empty = 1;
  l.val.empty = 2; /* not all were looked at */
  l.val.label = (ct_survey_count_t){4, "v.h5, sample 1"};
  l.train.unread = (ct_survey_count_t){1, "t.h5: array 'images', sample 6: cannot be read"};
  l.train.weight = (ct_survey_count_t){1, "t.h5, sample 2"};
  l.shared = (ct_survey_count_t){1, "v.h5, sample 3"};
  by_hdf5 = 1;
  judge();
  by_hdf5 = 0;
  expect("by_hdf5", CT_FINDING_NOTE, "1 of 2 files of data.train are read by the HDF5 library");
  expect("drift", CT_FINDING_NOTE, "channel 1 of data.val is 0.80 standard deviations");
  expect("not_finite", CT_FINDING_BAD, "data.train: 2 samples with NaN or infinity, such as t.h5");
  expect("duplicates", CT_FINDING_NOTE,
         "1 sample is a copy of other samples, such as t.h5, sample 9");
  expect("val_duplicates", CT_FINDING_NOTE,
         "3 samples are copies of other samples (of the samples read)");
  expect("leak", CT_FINDING_BAD, "1 sample of data.val is also in data.train, such as v.h5");
  expect("empty_classes", CT_FINDING_NOTE, "data.train: 1 of 3 classes have no sample");
  expect("val_labels", CT_FINDING_BAD, "data.val: 4 samples with a label that is not a class");
  expect("weights", CT_FINDING_BAD, "1 sample with a weight that is negative or not finite, such");
  expect("unreadable", CT_FINDING_BAD, "sample 6: cannot be read");
  CU_ASSERT(find("val_empty_classes") == NULL);
  CU_ASSERT(find("samples") == NULL);
}

static void bars(void)
{
  ct_survey_t s = {.classes = 3};
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 2), 2);
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 3), 3);
  s.classes = 16;
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 15), 15);
  s.classes = 17; /* two in a bar */
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 8), 16);
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 9), 17);
  s.classes = 1000;
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 1), 63);
  CT_ASSERT_INT(ct_survey_bar_begin(&s, 16), 1000);
}

static void steps_that_wait(void)
{
  begin();
  wait_s = 0.019; /* less than a tenth */
  judge();
  CU_ASSERT(find("data_wait") == NULL);
  wait_s = 0.07;
  judge();
  wait_s = 0;
  expect("data_wait", CT_FINDING_NOTE, "would wait 35 % of its time for data: 70 ms of 200");
  const ct_finding_t *f = find("data_wait");
  CT_ASSERT_HAS(f ? f->cure : "", "--set data.workers=4");
}

static int no_versions(const char *separator, ct_str_t *out)
{
  return ct_str_add(out, "none%s", separator);
}

static void report(ct_str_t *out)
{
  static ct_rank_facts_t facts;
  ct_job_facts_t job = {.ranks = 1, .nodes = 1, .has_config = 1, .surveys = &l};
  judge();
  ct_str_clear(out);
  CT_ASSERT_OK(ct_doctor_report(&facts, &job, &found, no_versions, out));
}

static void what_is_told(void)
{
  ct_str_t text = {0};
  begin();
  l.train.bars = 3;
  l.train.bar[0] = 40;
  l.train.bar[2] = 10;
  l.train.io_s[CT_IO_READ] = 0.5;
  l.train.io_bytes[CT_IO_READ] = 1 << 20;
  l.train.io_s[CT_IO_DECOMPRESS] = 2;
  l.train.io_bytes[CT_IO_DECOMPRESS] = 3 << 20;
  report(&text);
  CT_ASSERT_HAS(text.data,
                "a thread reads 2.0 MiB/s and decompresses them at 1.5 MiB/s, to 3.00 times");
  CT_ASSERT_HAS(text.data, "label  0                      40  ##########");
  CT_ASSERT_HAS(text.data, "label  1                       0  \n");
  CT_ASSERT_HAS(text.data, "label  2                      10  ##########\n");
  CT_ASSERT_HAS(text.data, "samples per class");
  l.train.classes = 100;
  l.train.bars = 15;
  l.train.by_pixel = 1;
  report(&text);
  CT_ASSERT_HAS(text.data, "labels 0 to 6 ");
  CT_ASSERT_HAS(text.data, "labels 98 to 99 ");
  CT_ASSERT_HAS(text.data, "pixels per class");
  ct_str_clear(&text);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(what_is_good),
                                    CT_TEST(what_is_bad),
                                    CT_TEST(bars),
                                    CT_TEST(steps_that_wait),
                                    CT_TEST(what_is_told),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("survey", tests, argc, argv);
}
