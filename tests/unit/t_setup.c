/* What a configuration means where a command sets up its parts. */
#include <stdio.h>
#include <string.h>

#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/unit/h5_files.h"

static int parse(ct_config_t *c, const char *text)
{
  return ct_config_parse(c, text, strlen(text), "run.yaml", NULL, 0);
}

/* A validation on what was trained on would tell nothing. */
static void made_up_validation_data_are_others(void)
{
  enum { SAMPLES = 20, ELEMENTS = 12 };
  static float x[3][SAMPLES * ELEMENTS];
  int64_t ids[SAMPLES], y[SAMPLES];
  ct_config_t c;
  if (CT_ASSERT_OK(parse(&c, "data: {train: synthetic, val: synthetic, shape: [1, 3, 4]}"))) return;
  const ct_opt_texts_t *files[] = {&c.data.train, &c.data.val, &c.data.train};
  uint64_t fingerprint[3] = {0};
  for (int i = 0; i < SAMPLES; i++)
    ids[i] = i;
  for (int k = 0; k < 3; k++) {
    ct_dataset_t d;
    if (CT_ASSERT_OK(ct_setup_open_data(&c, files[k], &d)) != CT_OK) break;
    CT_ASSERT_INT(ct_shape_sample(&d.x), ELEMENTS);
    CT_ASSERT_OK(d.ops->read(d.reader, SAMPLES, ids, x[k], y));
    fingerprint[k] = d.info.fingerprint;
    ct_dataset_close(&d);
  }
  CU_ASSERT(fingerprint[0] != fingerprint[1]);
  CU_ASSERT(fingerprint[0] == fingerprint[2]);
  for (int i = 0; i < SAMPLES; i++)
    CU_ASSERT(memcmp(x[0] + i * ELEMENTS, x[1] + i * ELEMENTS, ELEMENTS * sizeof x[0][0]) != 0);
  CU_ASSERT(memcmp(x[0], x[2], sizeof x[0]) == 0);
  ct_config_clear(&c);
}

/* Five samples of that many targets, as an array 'labels' of float32. */
static void write_targets(const char *dir, hsize_t targets)
{
  array_t x = {PLAIN, CT_F32, 4, {5, 1, 3, 4}, 1}, y = {PLAIN, CT_F32, 2, {5, targets}, 1};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &x, 0);
  write_array(file, "labels", &y, 0);
  end_file(file);
}

/* Labels here and targets there are refused, also if there are as many of the ones as of the
 * others. */
static void data_sets_must_be_alike(void)
{
  static const char made_up[] = "synthetic";
  static const struct {
    int file_trains;
    const char *word;
  } cases[] = {{0, "data.train have 0 targets, but those of data.val 3"},
               {1, "data.train have 3 targets, but those of data.val 0"}};
  const ct_topo_t alone = {.size = 1, .local_size = 1, .nodes = 1, .threads = 1};
  const char *dir = ct_test_dir();
  write_targets(dir, 3);
  for (int k = 0; k < 2; k++) {
    char text[1500], path[700];
    ct_setup_t s = {.topo = &alone};
    snprintf(path, sizeof path, "%s/a.h5", dir);
    snprintf(text, sizeof text,
             "loss: {kind: mse}\ndata: {train: %s, val: %s, shape: [1, 3, 4], classes: 3}",
             cases[k].file_trains ? path : made_up, cases[k].file_trains ? made_up : path);
    if (CT_ASSERT_OK(parse(&s.cfg, text)) != CT_OK) continue;
    CT_ASSERT_FAILS(ct_setup_data(&s, 1, 1), CT_ERR_FORMAT, cases[k].word);
    ct_dataset_close(&s.val);
    ct_dataset_close(&s.data);
    ct_config_clear(&s.cfg);
  }
}

static void threads_of_a_rank(void)
{
  static const struct {
    const char *text;
    int threads;
  } cases[] = {{"run: {seed: 1}", 6},
               {"cpu: {threads: 3}", 3},
               {"parallel: {shards: 4}", 1}, /* the bits must not depend on the cores */
               {"{cpu: {threads: 3}, parallel: {shards: 4}}", 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_config_t c;
    if (CT_ASSERT_OK(parse(&c, cases[i].text)) != CT_OK) continue;
    CT_ASSERT_INT(ct_setup_threads(&c, 6), cases[i].threads);
    ct_config_clear(&c);
  }
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(made_up_validation_data_are_others),
                                    CT_TEST(data_sets_must_be_alike), CT_TEST(threads_of_a_rank),
                                    CT_TEST(nothing_stays_allocated), CT_TEST_END};
  return ct_test_main("setup", tests, argc, argv);
}
