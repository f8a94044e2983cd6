/* What a configuration means where a command sets up its parts. */
#include <string.h>

#include "app/setup.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

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
                                    CT_TEST(threads_of_a_rank), CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("setup", tests, argc, argv);
}
