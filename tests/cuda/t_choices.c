/* Choices of autotuning (cuda/choices.h): the table, its file, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/choices.h"
#include "tests/harness/ct_test.h"

static const char gpu[] = "a GPU, driver 1, cuDNN 2";

static char dir[CT_PATH_MAX];

static gpu__choices_t *opened(const char *environment)
{
  gpu__choices_t *c = NULL;
  CT_ASSERT_OK(gpu__choices_open(environment, dir, &c));
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  return c;
}

static void use(const char *name)
{
  snprintf(dir, sizeof dir, "%s/%s", ct_test_dir(), name);
}

static void closed(gpu__choices_t *c)
{
  gpu__choices_save(c);
  gpu__choices_close(c);
}

/* Returns the only file of the directory. */
static void the_file(char path[CT_PATH_MAX])
{
  char **list = NULL;
  int n = 0;
  CT_ASSERT_OK(ct_file_glob(dir, "*", &list, &n));
  CT_ASSERT_INT(n, 1); /* no temporaries */
  snprintf(path, CT_PATH_MAX, "%s", n ? list[0] : "");
  ct_file_list_free(list, n);
}

static void found(const gpu__choices_t *c, const char *key, const char *value)
{
  const char *there = gpu__choices_find(c, key);
  CU_ASSERT((there == NULL) == (value == NULL));
  if (there && value) CT_ASSERT_TEXT(there, value);
}

static void choices_are_kept_in_a_file(void)
{
  use("not/there");
  gpu__choices_t *c = opened(gpu);
  found(c, "one", NULL);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  CT_ASSERT_OK(gpu__choices_add(c, "two, with a\nline end", "{\n  \"json\": 2\n}\n", 1));
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1 again", 1));
  CT_ASSERT_OK(gpu__choices_add(c, "", "", 1));
  closed(c);
  c = opened(gpu);
  found(c, "one", "1 again");
  found(c, "two, with a\nline end", "{\n  \"json\": 2\n}\n");
  found(c, "", "");
  found(c, "on", NULL);
  closed(c);
}

/* Each environment has its own file. */
static void another_environment_has_other_choices(void)
{
  use("environments");
  gpu__choices_t *c = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  closed(c);
  c = opened("a GPU, driver 1, cuDNN 3");
  found(c, "one", NULL);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "3", 1));
  closed(c);
  c = opened(gpu);
  found(c, "one", "1");
  closed(c);
}

/* What others have written meanwhile stays. */
static void processes_add_to_one_file(void)
{
  use("processes");
  gpu__choices_t *a = opened(gpu), *b = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(a, "one", "a", 1));
  CT_ASSERT_OK(gpu__choices_add(b, "one", "b", 1));
  CT_ASSERT_OK(gpu__choices_add(b, "two", "b", 1));
  closed(a);
  closed(b);
  a = opened(gpu);
  found(a, "one", "b");
  found(a, "two", "b");
  closed(a);
}

/* Every cut and every changed byte is noticed, and the next process writes the file again. */
static void a_damaged_file_is_ignored(void)
{
  char path[CT_PATH_MAX], *text = NULL;
  size_t bytes = 0;
  use("damaged");
  gpu__choices_t *c = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  CT_ASSERT_OK(gpu__choices_add(c, "two", "22", 1));
  closed(c);
  the_file(path);
  CT_ASSERT_OK(ct_file_read(path, &text, &bytes));
  CU_ASSERT_FATAL(bytes > 60);
  for (size_t i = 0; i < 2 * bytes; i++) {
    int cut = i >= bytes;
    size_t at = cut ? i - bytes : i;
    text[at] ^= 1;
    CT_ASSERT_OK(ct_file_write(path, text, cut ? at : bytes));
    text[at] ^= 1;
    c = opened(gpu);
    found(c, "one", NULL);
    found(c, "two", NULL);
    gpu__choices_close(c);
  }
  c = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  closed(c);
  c = opened(gpu);
  found(c, "one", "1");
  closed(c);
  ct_mem_free(text);
}

/* Lengths that lie, below a hash that is right. */
static void a_hostile_text_is_refused(void)
{
  static const struct {
    const char *from, *to;
  } lies[] = {{"3 1\none", "9 1\none"},
              {"3 1\none", "3 99999999999999999999\none"},
              {"3 1\none", "-3 1\none"},
              {"3 1\none", "3\none"},
              {"3 1\none", "18446744073709551615 1\none"}};
  use("hostile");
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    gpu__choices_t *c = opened(gpu);
    ct_str_t text = {0}, bad = {0};
    CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
    CT_ASSERT_OK(gpu__choices_text(c, &text));
    char *rest = strstr(text.data, lies[i].from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rest);
    ct_str_add(&bad, "%s%s", lies[i].to, rest + strlen(lies[i].from));
    ct_str_t whole = {0};
    ct_str_add(&whole, "ctrain-hpc: choices of autotuning, 1\n%s\n%016llx %zu\n%s", gpu,
               (unsigned long long)ct_hash(bad.data, bad.len, 0), bad.len, bad.data);
    CT_ASSERT_FAILS(gpu__choices_take(c, whole.data, whole.len), CT_ERR_FORMAT, "damaged");
    found(c, "one", "1");
    ct_str_clear(&text);
    ct_str_clear(&bad);
    ct_str_clear(&whole);
    gpu__choices_close(c);
  }
}

/* Rank 0's choices replace those of a rank with the same device, and are not written by it. */
static void choices_of_rank_0_are_adopted(void)
{
  ct_str_t text = {0};
  use("adopted");
  gpu__choices_t *zero = opened(gpu), *one = opened(gpu), *other = opened("another GPU");
  CT_ASSERT_OK(gpu__choices_add(zero, "op", "of rank 0", 1));
  CT_ASSERT_OK(gpu__choices_add(one, "op", "of rank 1", 1));
  CT_ASSERT_OK(gpu__choices_text(zero, &text));
  CT_ASSERT_OK(gpu__choices_take(one, text.data, text.len));
  found(one, "op", "of rank 0");
  CT_ASSERT_FAILS(gpu__choices_take(other, text.data, text.len), CT_ERR_DIFFER, "another GPU");
  found(other, "op", NULL);
  closed(other);
  CT_ASSERT_FAILS(gpu__choices_take(one, text.data, text.len - 1), CT_ERR_FORMAT, "damaged");
  ct_str_clear(&text);
  closed(zero);
  CT_ASSERT_OK(gpu__choices_add(one, "other op", "of rank 1", 1));
  closed(one);
  one = opened(gpu);
  found(one, "op", "of rank 0");
  found(one, "other op", "of rank 1");
  closed(one);
}

/* They are for the other ranks, but not for later runs. */
static void choices_without_timings_are_not_stored(void)
{
  ct_str_t text = {0};
  use("untimed");
  gpu__choices_t *c = opened(gpu), *other = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(c, "timed", "1", 1));
  CT_ASSERT_OK(gpu__choices_add(c, "not timed", "0", 0));
  CT_ASSERT_OK(gpu__choices_text(c, &text));
  CT_ASSERT_OK(gpu__choices_take(other, text.data, text.len));
  found(other, "not timed", "0");
  closed(c);
  closed(other);
  c = opened(gpu);
  found(c, "timed", "1");
  found(c, "not timed", NULL);
  closed(c);
  ct_str_clear(&text);
}

static void what_is_no_file_is_ignored(void)
{
  char path[CT_PATH_MAX];
  use("fifo");
  gpu__choices_t *c = opened(gpu);
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  closed(c);
  the_file(path);
  CT_ASSERT_INT(ct_file_remove(path), 0);
  CT_ASSERT_INT(mkfifo(path, 0600), 0);
  c = opened(gpu);
  found(c, "one", NULL);
  gpu__choices_close(c);
}

static void without_a_directory_nothing_is_stored(void)
{
  gpu__choices_t *c = NULL;
  CT_ASSERT_OK(gpu__choices_open(gpu, "", &c));
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  found(c, "one", "1");
  closed(c);
  CT_ASSERT_OK(gpu__choices_open(gpu, "/dev/null/choices", &c));
  CT_ASSERT_OK(gpu__choices_add(c, "one", "1", 1));
  found(c, "one", "1");
  closed(c); /* warns */
  found(NULL, "one", NULL);
  CT_ASSERT_OK(gpu__choices_add(NULL, "one", "1", 1));
  gpu__choices_save(NULL);
}

static void nothing_is_lost(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(choices_are_kept_in_a_file),
                                    CT_TEST(another_environment_has_other_choices),
                                    CT_TEST(processes_add_to_one_file),
                                    CT_TEST(a_damaged_file_is_ignored),
                                    CT_TEST(a_hostile_text_is_refused),
                                    CT_TEST(choices_of_rank_0_are_adopted),
                                    CT_TEST(choices_without_timings_are_not_stored),
                                    CT_TEST(what_is_no_file_is_ignored),
                                    CT_TEST(without_a_directory_nothing_is_stored),
                                    CT_TEST(nothing_is_lost),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* without the warnings */
  return ct_test_main("choices of autotuning", tests, argc, argv);
}
