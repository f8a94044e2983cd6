/* The best checkpoint: which evaluation that is, and that its file stays. */
#include <math.h>

#include "base/ct_log.h"
#include "ckpt/ct_score.h"
#include "tests/unit/ckpt_fake.h"

/* ---- scores ---- */

static int take(ct_best_t *b, int kind, double value, int64_t step)
{
  ct_scores_t s = {.of = {-7, -7, -7, -7, -7}};
  s.of[kind] = value;
  return ct_best_take(b, kind, &s, step);
}

static void what_is_better_depends_on_the_score(void)
{
  static const struct {
    int kind, less_is_better;
  } kinds[] = {{CT_SCORE_LOSS, 1}, {CT_SCORE_TOP1, 0}, {CT_SCORE_TOP5, 0}, {CT_SCORE_MAE, 1}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    ct_best_t b = {0};
    int kind = kinds[i].kind, less = kinds[i].less_is_better;
    CT_ASSERT_INT(take(&b, kind, 0.5, 10), 1);
    CT_ASSERT_INT(take(&b, kind, 0.25, 20), less);
    CT_ASSERT_INT(take(&b, kind, 0.75, 30), !less);
    CT_ASSERT_INT(b.step, less ? 20 : 30);
    CT_ASSERT_INT(b.bad, less);
    CT_ASSERT_NEAR(b.value, less ? 0.25 : 0.75, 0);
  }
}

static void as_good_is_not_better(void)
{
  ct_best_t b = {0};
  CT_ASSERT_INT(take(&b, CT_SCORE_TOP1, 0, 1), 1); /* no hits are a score too */
  CT_ASSERT_INT(take(&b, CT_SCORE_TOP1, 0, 2), 0);
  CT_ASSERT_INT(take(&b, CT_SCORE_TOP1, 0, 3), 0);
  CT_ASSERT_INT(b.bad, 2);
  CT_ASSERT_INT(b.step, 1);
  CT_ASSERT_INT(take(&b, CT_SCORE_TOP1, 0.1, 4), 1);
  CT_ASSERT_INT(b.bad, 0);
}

static void not_a_number_is_no_score(void)
{
  ct_best_t b = {0};
  CT_ASSERT_INT(take(&b, CT_SCORE_LOSS, NAN, 1), 0);
  CT_ASSERT_INT(b.bad, 1);
  CT_ASSERT_INT(take(&b, CT_SCORE_LOSS, 3, 2), 1);
  CT_ASSERT_INT(take(&b, CT_SCORE_LOSS, NAN, 3), 0);
  CT_ASSERT_INT(b.bad, 1);
  CT_ASSERT_NEAR(b.value, 3, 0);
  CT_ASSERT_INT(take(&b, CT_SCORE_LOSS, 2, 4), 1);
}

static void another_score_begins_anew(void)
{
  ct_best_t b = {0};
  take(&b, CT_SCORE_TOP1, 0.9, 1);
  take(&b, CT_SCORE_TOP1, 0.8, 2);
  CT_ASSERT_INT(take(&b, CT_SCORE_OFF, 0, 3), 0);
  CT_ASSERT_INT(b.step, 1); /* it is known yet, should the key be given again */
  CT_ASSERT_INT(take(&b, CT_SCORE_MAE, 7, 4), 1);
  CT_ASSERT_INT(b.kind, CT_SCORE_MAE);
  CT_ASSERT_INT(b.step, 4);
  CT_ASSERT_INT(b.bad, 0);
}

/* The words of the options are those that are told. */
static void words_are_the_choices(void)
{
  for (int kind = CT_SCORE_OFF; kind < CT_SCORE_COUNT; kind++)
    CT_ASSERT_TEXT(ct_opt_word(ct_ckpt_rows, "best", kind), ct_score_word(kind));
}

/* ---- files ---- */

static void save_one(ct_ckpt_t *c, int64_t step, int best)
{
  const ct_ckpt_done_t *done;
  if (best) ct_ckpt_mark_best(c);
  CT_ASSERT_OK(save(c, step));
  CT_ASSERT_OK(ct_ckpt_wait(c, &done));
  CT_ASSERT_INT(done ? done->best : -1, best);
}

static void the_best_one_stays(void)
{
  const char *dir = ct_test_dir();
  ct_ckpt_t *c;
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 2, &c)) != CT_OK) return;
  save_one(c, 10, 0);
  CT_ASSERT_TEXT(content(dir, "best"), "");
  save_one(c, 20, 1);
  for (int64_t step = 30; step <= 60; step += 10)
    save_one(c, step, 0);
  CT_ASSERT_TEXT(names(dir), "best step-00000020.txt step-00000050.txt step-00000060.txt");
  CT_ASSERT_TEXT(content(dir, "best"), "step-00000020.txt\n");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000060.txt\n");
  ct_ckpt_close(c);

  /* the next start knows it too, until another one is better */
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  save_one(c, 70, 0);
  CT_ASSERT_TEXT(names(dir), "best step-00000020.txt step-00000070.txt");
  save_one(c, 80, 1);
  CT_ASSERT_TEXT(names(dir), "best step-00000080.txt");
  CT_ASSERT_TEXT(content(dir, "best"), "step-00000080.txt\n");
  ct_ckpt_close(c);
}

/* A pointer with anything else in it means nothing. */
static void a_foreign_best_does_no_harm(void)
{
  const char *dir = ct_test_dir();
  static const char *const texts[] = {"", "\n", "mine", "step-20.txt\n", "../step-00000020.txt\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put(dir, "best", texts[i]);
    CT_ASSERT_OK(SAVE_ALL(dir, 1, 20, 30));
    CT_ASSERT_TEXT(names(dir), "best step-00000030.txt");
    CT_ASSERT_TEXT(content(dir, "best"), texts[i]);
  }
}

static void going_back_goes_back_to_the_best_of_then(void)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 20, 30, 40));
  put(dir, "best", "step-00000040.txt\n");
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 40, 40));
  CT_ASSERT_TEXT(content(dir, "best"), "step-00000040.txt\n");
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 30, 20));
  CT_ASSERT_TEXT(content(dir, "best"), "step-00000020.txt\n");
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 10, 5)); /* whose file is gone */
  CT_ASSERT_TEXT(content(dir, "best"), "");
  put(dir, "best", "step-00000010.txt\n");
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 0, 0)); /* begun anew */
  CT_ASSERT_TEXT(content(dir, "best"), "");
}

static const char *found(const char *file)
{
  static const ct_store_ops_t *const stores[] = {&fake, NULL};
  static char path[CT_PATH_MAX];
  ct_ckpt_found_t c;
  if (ct_ckpt_find(stores, file, NULL, &c) != CT_OK) return ct_err_last()->text;
  snprintf(path, sizeof path, "%s", c.path + strlen(ct_test_dir()));
  ct_ckpt_found_close(&c);
  return path;
}

static void a_pointer_stands_for_what_it_names(void)
{
  char dir[500], path[600];
  snprintf(dir, sizeof dir, "%s", ct_test_dir());
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 20));
  put(dir, "best", "step-00000010.txt\n");
  snprintf(path, sizeof path, "%s/best", dir);
  CT_ASSERT_TEXT(found(path), "/step-00000010.txt");
  snprintf(path, sizeof path, "%s/latest", dir);
  CT_ASSERT_TEXT(found(path), "/step-00000020.txt");
  put(dir, "best", "step-00000077.txt\n");
  snprintf(path, sizeof path, "%s/best", dir);
  CT_ASSERT_HAS(found(path), "step-00000077.txt");
  put(dir, "best", "/model/a checkpoint of that name\nend\n");
  CT_ASSERT_TEXT(found(path), "/best");
}

/* Of the checkpoints in dir, below it. */
static const char *of_run(const char *dir, ct_ckpt_which_t which, int best_is_on)
{
  static char path[CT_PATH_MAX];
  if (ct_ckpt_of_run(&fake, dir, which, best_is_on, path, sizeof path) != CT_OK)
    return ct_err_last()->text;
  return *path ? path + strlen(dir) : path;
}

static void a_run_stands_for_its_best_or_newest(void)
{
  char dir[600];
  snprintf(dir, sizeof dir, "%s", ct_test_dir());
  for (int k = 0; k < 3; k += 2)
    CT_ASSERT_TEXT(of_run(dir, (ct_ckpt_which_t)k, 1), "");
  CT_ASSERT_HAS(of_run(dir, CT_CKPT_BEST, 1), "no best checkpoint was kept");
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 20));
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_USUAL, 1), "/step-00000020.txt"); /* none was evaluated */
  put(dir, "best", "step-00000010.txt\n");
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_USUAL, 1), "/step-00000010.txt");
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_USUAL, 0), "/step-00000020.txt");
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_BEST, 0), "/step-00000010.txt");
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_LATEST, 1), "/step-00000020.txt");
  put(dir, "best", "step-00000077.txt\n"); /* which is gone */
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_USUAL, 1), "/step-00000020.txt");
  CT_ASSERT_HAS(of_run(dir, CT_CKPT_BEST, 1), "no best checkpoint was kept");
  put(dir, "latest", "step-00000077.txt\n");
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_LATEST, 1), "/step-00000020.txt");
  put(dir, "step-00000020.txt", "damaged"); /* then the one before */
  CT_ASSERT_TEXT(of_run(dir, CT_CKPT_LATEST, 1), "/step-00000010.txt");
  CT_ASSERT_HAS(found(dir), "is a directory, expected a file");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(what_is_better_depends_on_the_score),
                                    CT_TEST(as_good_is_not_better),
                                    CT_TEST(not_a_number_is_no_score),
                                    CT_TEST(another_score_begins_anew),
                                    CT_TEST(words_are_the_choices),
                                    CT_TEST(the_best_one_stays),
                                    CT_TEST(a_foreign_best_does_no_harm),
                                    CT_TEST(going_back_goes_back_to_the_best_of_then),
                                    CT_TEST(a_pointer_stands_for_what_it_names),
                                    CT_TEST(a_run_stands_for_its_best_or_newest),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* the warnings are meant */
  return ct_test_main("the best checkpoint", tests, argc, argv);
}
