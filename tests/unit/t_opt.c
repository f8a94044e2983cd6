/* Option tables: every type, defaults, ranges, messages, dump, help. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "conf/ct_opt.h"
#include "tests/harness/ct_test.h"

typedef struct all {
  int64_t steps;
  double lr;
  int nesterov;
  char *name;
  int device;
  ct_opt_texts_t files;
  ct_opt_doubles_t mean;
  int64_t kernel[2];
  ct_yaml_t *layers;
  int64_t epochs;
} all_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(all_t, steps, "10", 0, 1000, "steps to do"),
    CT_OPT_DOUBLE(all_t, lr, "0.1", 0, 1e18, "learning rate"),
    CT_OPT_BOOL(all_t, nesterov, "false", "Nesterov momentum"),
    CT_OPT_TEXT(all_t, name, "digits", "name of the run"),
    CT_OPT_CHOICE(all_t, device, "auto", "auto|cpu|ref", "where the arithmetic is done"),
    CT_OPT_TEXTS(all_t, files, "[a-*.h5, b.h5]", "files of the dataset"),
    CT_OPT_DOUBLES(all_t, mean, "0.5", "mean of each channel"),
    CT_OPT_PAIR(all_t, kernel, "3", 1, 64, "height and width of the kernel, pixels"),
    CT_OPT_NODE(all_t, layers, "layers of the model"),
    CT_OPT_INT(all_t, epochs, NULL, 1, 1e18, "passes over the dataset"),
    CT_OPT_END};

static ct_yaml_t *parsed(const char *text)
{
  ct_yaml_t *n = NULL;
  CT_ASSERT_OK(ct_yaml_parse(text, strlen(text), "t.yaml", &n));
  return n;
}

/* Defaults, then the keys of a text, into values that are all 0. */
static int read_rows(const ct_opt_t *of, const char *section, const char *text, void *values)
{
  ct_yaml_t *map = parsed(text);
  CT_ASSERT_OK(ct_opt_defaults(of, values));
  int rc = ct_opt_read(of, values, map, "t.yaml", section, NULL);
  ct_yaml_free(map);
  return rc;
}

static int read_text(const char *text, all_t *v)
{
  *v = (all_t){0};
  return read_rows(rows, "optim", text, v);
}

static void expect_refused(const char *text, const char *message)
{
  all_t v;
  CT_ASSERT_FAILS(read_text(text, &v), CT_ERR_USAGE, message);
  ct_opt_clear(rows, &v);
}

static void defaults_of_every_type(void)
{
  all_t v = {0};
  int64_t live = ct_mem_live();
  CT_ASSERT_OK(ct_opt_defaults(rows, &v));
  CT_ASSERT_INT(v.steps, 10);
  CT_ASSERT_NEAR(v.lr, 0.1, 0);
  CT_ASSERT_INT(v.nesterov, 0);
  CT_ASSERT_TEXT(v.name, "digits");
  CT_ASSERT_INT(v.device, 0);
  CU_ASSERT_EQUAL_FATAL(v.files.n, 2);
  CT_ASSERT_TEXT(v.files.v[0], "a-*.h5");
  CT_ASSERT_TEXT(v.files.v[1], "b.h5");
  CU_ASSERT_EQUAL_FATAL(v.mean.n, 1);
  CT_ASSERT_NEAR(v.mean.v[0], 0.5, 0);
  CT_ASSERT_INT(v.kernel[0], 3);
  CT_ASSERT_INT(v.kernel[1], 3);
  CU_ASSERT_PTR_NULL(v.layers);
  CT_ASSERT_INT(v.epochs, 0);
  ct_opt_clear(rows, &v);
  CT_ASSERT_INT(ct_mem_live(), live);
  CT_ASSERT_INT(v.steps, 0);
  CU_ASSERT_PTR_NULL(v.name);
}

static void reads_every_type(void)
{
  all_t v;
  CT_ASSERT_OK(read_text("steps: 20\nlr: 1e-3\nnesterov: On\nname: 'true'\ndevice: ref\n"
                         "files: one.h5\nmean: [1, -2.5]\nkernel: [5, 7]\n"
                         "layers: [conv, {relu: {}}]\nepochs: 3\n",
                         &v));
  CT_ASSERT_INT(v.steps, 20);
  CT_ASSERT_NEAR(v.lr, 1e-3, 0);
  CT_ASSERT_INT(v.nesterov, 1);
  CT_ASSERT_TEXT(v.name, "true");
  CT_ASSERT_INT(v.device, 2);
  CU_ASSERT_EQUAL_FATAL(v.files.n, 1);
  CT_ASSERT_TEXT(v.files.v[0], "one.h5");
  CU_ASSERT_EQUAL_FATAL(v.mean.n, 2);
  CT_ASSERT_NEAR(v.mean.v[1], -2.5, 0);
  CT_ASSERT_INT(v.kernel[0], 5);
  CT_ASSERT_INT(v.kernel[1], 7);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.layers);
  CT_ASSERT_INT(ct_yaml_count(v.layers), 2);
  CT_ASSERT_INT(v.epochs, 3);
  ct_opt_clear(rows, &v);
}

static void reads_null_in_place_of_a_number_as_its_default(void)
{
  all_t v;
  CT_ASSERT_OK(read_text("steps: null\nlr: ~\ndevice: null\nkernel: null\nepochs: 1\n", &v));
  CT_ASSERT_INT(v.steps, 10);
  CU_ASSERT_DOUBLE_EQUAL(v.lr, 0.1, 0);
  CT_ASSERT_INT(v.device, 0);
  CT_ASSERT_INT(v.kernel[1], 3);
  ct_opt_clear(rows, &v);
  expect_refused("epochs: null\n", "optim.epochs: expected an integer, found 'null'");
  expect_refused("epochs: 1\nlr:\n", "optim.lr: expected a number, found nothing");
}

static void reads_nothing_as_empty(void)
{
  all_t v;
  CT_ASSERT_OK(read_text("name:\nfiles: []\nmean: null\nlayers: ~\nepochs: 1\n", &v));
  CT_ASSERT_TEXT(v.name, "");
  CT_ASSERT_INT(v.files.n, 0);
  CT_ASSERT_INT(v.mean.n, 0);
  CU_ASSERT_PTR_NULL(v.layers);
  ct_opt_clear(rows, &v);
  CT_ASSERT_OK(read_text("name: 123\nfiles: [1, 2.5]\nepochs: 1\n", &v));
  CT_ASSERT_TEXT(v.name, "123");
  CT_ASSERT_TEXT(v.files.v[1], "2.5");
  ct_opt_clear(rows, &v);
}

static void unknown_keys(void)
{
  expect_refused("epochs: 1\nlrr: 2\n", "t.yaml:2: optim.lrr: unknown key; did you mean 'lr'?");
  expect_refused("learning_rate: 2\n", "optim.learning_rate: unknown key; did you mean 'lr'?");
  expect_refused("nestrov: 2\n", "t.yaml:1: optim.nestrov: unknown key; did you mean 'nesterov'?");
  expect_refused("zzzzzzzz: 2\n",
                 "optim.zzzzzzzz: unknown key; the keys here are: steps, lr, nesterov, name");
}

/* What float32 would take for 0 or infinity. */
static void numbers_that_no_float_holds(void)
{
  all_t v;
  expect_refused("lr: 1e-300\n", "t.yaml:1: optim.lr: must be 0 or, but for its sign, between "
                                 "1.18e-38 and 3.4e+38, not 1e-300");
  expect_refused("lr: 1e300\n", "optim.lr: must be 0 or");
  expect_refused(
      "mean: [1, -1e39]\n",
      "optim.mean: must be 0 or, but for its sign, between 1.18e-38 and 3.4e+38, not -1e39");
  CT_ASSERT_OK(read_text("lr: 1.2e-38\nmean: [0, -3.4e38]\nepochs: 1\n", &v));
  ct_opt_clear(rows, &v);
}

/* More than anything that looks at all of them for each could do. */
static void many_items(void)
{
  enum { MANY = 400000 };
  all_t v;
  ct_str_t text = {0};
  CT_ASSERT_OK(ct_str_add(&text, "epochs: 1\nmean: [1"));
  for (int i = 1; i < MANY; i++)
    CT_ASSERT_INT(ct_str_add(&text, ", %d", i), CT_OK);
  CT_ASSERT_OK(ct_str_add(&text, "]\n"));
  CT_ASSERT_OK(read_text(text.data, &v));
  CT_ASSERT_INT(v.mean.n, MANY);
  ct_yaml_t *map = ct_opt_dump(rows, &v, NULL), *mean = map ? ct_yaml_find(map, "mean") : NULL;
  CT_ASSERT_INT(mean ? ct_yaml_count(mean) : 0, MANY);
  ct_yaml_free(map);
  ct_opt_clear(rows, &v);
  ct_str_clear(&text);
}

typedef struct named {
  char *name;
} named_t;
static const ct_opt_t named_rows[] = {CT_OPT_NAME(named_t, name, "train", "name of the run"),
                                      CT_OPT_END};

static int read_name(const char *text, named_t *v)
{
  *v = (named_t){0};
  return read_rows(named_rows, "run", text, v);
}

/* The name of a file or directory, beside others of its kind. */
static void names(void)
{
  static const char *const bad[] = {
      "..",   ".",         "",           "\"\"",      "null",          "a/b", "/",
      "../x", "\"a\\nb\"", "\"\\e[2J\"", "\"\\x7F\"", "!!binary /w==", "[a]", "{a: b}"};
  static const char *const good[][2] = {
      {"a.b", "a.b"}, {"...", "..."}, {"'null'", "null"}, {"a b", "a b"}, {"\xC3\xA9", "\xC3\xA9"}};
  char text[300];
  named_t v;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    snprintf(text, sizeof text, "\nname: %s\n", bad[i]);
    CT_ASSERT_FAILS(read_name(text, &v), CT_ERR_USAGE, "t.yaml:2: run.name: expected a plain name");
    ct_opt_clear(named_rows, &v);
  }
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    snprintf(text, sizeof text, "name: %s\n", good[i][0]);
    CT_ASSERT_OK(read_name(text, &v));
    CT_ASSERT_TEXT(v.name, good[i][1]);
    ct_opt_clear(named_rows, &v);
  }
  snprintf(text, sizeof text, "name: %0256d\n", 1);
  CT_ASSERT_FAILS(read_name(text, &v), CT_ERR_USAGE, "up to 255 bytes");
  ct_opt_clear(named_rows, &v);
}

static void wrong_types(void)
{
  expect_refused("\nsteps: many\n", "t.yaml:2: optim.steps: expected an integer, found 'many'");
  expect_refused("steps: '5'\n", "optim.steps: expected an integer, found the text \"5\"");
  expect_refused("steps: 1.5\n", "optim.steps: expected an integer, found '1.5'");
  expect_refused("steps: [5]\n", "optim.steps: expected an integer, found a list");
  expect_refused("lr:\n", "optim.lr: expected a number, found nothing");
  expect_refused("lr: 0.1x\n", "optim.lr: expected a number, found '0.1x'");
  expect_refused("lr: {a: 1}\n", "optim.lr: expected a number, found a map");
  expect_refused("nesterov: 1\n", "optim.nesterov: expected true or false, found '1'");
  expect_refused("nesterov: 'true'\n", "expected true or false, found the text \"true\"");
  expect_refused("name: [a]\n", "optim.name: expected text, found a list");
  expect_refused("device: gpu\n", "optim.device: expected one of auto, cpu, ref, found 'gpu'");
  expect_refused("device: cp\n", "expected one of auto, cpu, ref, found 'cp'");
  expect_refused("files: [[a]]\n", "optim.files: expected text or a list of texts, found a list");
  expect_refused("files: {a: b}\n", "optim.files: expected text or a list of texts, found a map");
  expect_refused("mean: [1, x]\n", "optim.mean: expected a number, found 'x'");
  expect_refused("kernel: [1, 2, 3]\n", "optim.kernel: expected an integer or a list of two");
  expect_refused("kernel: [1, x]\n", "optim.kernel: expected an integer, found 'x'");
  expect_refused("- a\n", "t.yaml:1: optim: expected keys and values, such as {steps: ..., lr: "
                          "..., nesterov: ..., name: "
                          "..., device: ..., files: ..., mean: ...}, found a list");
  expect_refused("text\n", "device: ..., files: ..., mean: ...}, found 'text'");
}

static void ranges(void)
{
  expect_refused("epochs: 1\nsteps: 1001\n",
                 "t.yaml:2: optim.steps: must be between 0 and 1000, not 1001");
  expect_refused("steps: -1\n", "must be between 0 and 1000, not -1");
  expect_refused("steps: 99999999999999999999\n", "must be between 0 and 1000, not 9999");
  expect_refused("lr: -0.5\n", "optim.lr: must be at least 0, not -0.5");
  expect_refused("kernel: [3, 65]\n", "optim.kernel: must be between 1 and 64, not 65");
  all_t v;
  CT_ASSERT_OK(read_text("steps: 1000\nkernel: [1, 64]\nlr: 0\nepochs: 1\n", &v));
  ct_opt_clear(rows, &v);
}

static void required_and_absent(void)
{
  all_t v = {0};
  expect_refused("steps: 1\n", "t.yaml:1: optim.epochs: missing; this key is required");
  expect_refused("", "t.yaml:1: optim.epochs: missing");
  CT_ASSERT_FAILS(ct_opt_read(rows, &v, NULL, "t.yaml", "optim", NULL), CT_ERR_USAGE, "epochs");
  /* a table without required keys takes an absent or empty section */
  static const ct_opt_t optional[] = {CT_OPT_INT(all_t, steps, "1", 0, 9, "steps"), CT_OPT_END};
  ct_yaml_t *map = parsed("optim:\n");
  CT_ASSERT_OK(ct_opt_read(optional, &v, NULL, "t.yaml", "optim", NULL));
  CT_ASSERT_OK(ct_opt_read(optional, &v, map->child, "t.yaml", "optim", NULL));
  CT_ASSERT_INT(map->child->used, 1);
  ct_yaml_free(map);
}

static void keys_of_others_and_used_marks(void)
{
  static const char *const also[] = {"groups", NULL};
  all_t v = {0};
  ct_yaml_t *map = parsed("mean: [1]\ngroups: [2]\nlayers: [3]\nepochs: 1\n");
  CT_ASSERT_OK(ct_opt_defaults(rows, &v));
  CT_ASSERT_OK(ct_opt_read(rows, &v, map, "t.yaml", "", also));
  CT_ASSERT_INT(map->used, 1);
  CT_ASSERT_INT(ct_yaml_find(map, "mean")->used, 1);
  CT_ASSERT_INT(ct_yaml_find(map, "mean")->child->used, 1);
  CT_ASSERT_INT(ct_yaml_find(map, "groups")->used, 0);
  CT_ASSERT_INT(ct_yaml_find(map, "layers")->used, 1);
  CT_ASSERT_INT(ct_yaml_find(map, "layers")->child->used, 0);
  CT_ASSERT_OK(ct_yaml_set(map, "group", "1"));
  CT_ASSERT_FAILS(ct_opt_read(rows, &v, map, "t.yaml", "", also), CT_ERR_USAGE,
                  "--set: group: unknown key; did you mean 'groups'?");
  CT_ASSERT_FAILS(ct_opt_read(rows, &v, map, NULL, NULL, also), CT_ERR_USAGE, "group: unknown key");
  ct_yaml_free(map);
  ct_opt_clear(rows, &v);
}

static void expect_same(const all_t *a, const all_t *b)
{
  CT_ASSERT_INT(a->steps, b->steps);
  CU_ASSERT(a->lr == b->lr);
  CT_ASSERT_INT(a->nesterov, b->nesterov);
  CT_ASSERT_TEXT(a->name, b->name);
  CT_ASSERT_INT(a->device, b->device);
  CU_ASSERT_EQUAL_FATAL(a->files.n, b->files.n);
  for (int i = 0; i < a->files.n; i++)
    CT_ASSERT_TEXT(a->files.v[i], b->files.v[i]);
  CU_ASSERT_EQUAL_FATAL(a->mean.n, b->mean.n);
  for (int i = 0; i < a->mean.n; i++)
    CU_ASSERT(a->mean.v[i] == b->mean.v[i]);
  CT_ASSERT_INT(a->kernel[0], b->kernel[0]);
  CT_ASSERT_INT(a->kernel[1], b->kernel[1]);
  CT_ASSERT_INT(!a->layers, !b->layers);
}

static void dump_reads_back(void)
{
  static const char *const texts[] = {
      "epochs: 1\n",
      "lr: 0.1000000000000000055\nname: 'null'\nfiles: ['', '~', '[x]', 12, 'a: b']\nepochs: 7\n",
      "lr: 3.0000000000000004e-7\nname: '1.5'\nfiles: []\nmean: []\nkernel: [1, 2]\nepochs: 1\n",
      "nesterov: yes\nname: \"two\\nlines\"\ndevice: cpu\nlayers: {a: [1]}\nepochs: 2\n"};
  for (int i = 0; i < 4; i++) {
    all_t a, b;
    ct_str_t text = {0};
    CT_ASSERT_OK(read_text(texts[i], &a));
    ct_yaml_t *n = ct_opt_dump(rows, &a, "optim");
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    CT_ASSERT_TEXT(n->key, "optim");
    CT_ASSERT_OK(ct_yaml_dump(n, 0, &text));
    CT_ASSERT_OK(read_text(text.data, &b));
    expect_same(&a, &b);
    ct_yaml_free(n);
    ct_str_clear(&text);
    ct_opt_clear(rows, &a);
    ct_opt_clear(rows, &b);
  }
}

static void dump_is_readable(void)
{
  all_t v;
  ct_str_t text = {0};
  CT_ASSERT_OK(read_text("epochs: 2\nlr: 1e-4\nname: ''\n", &v));
  ct_yaml_t *n = ct_opt_dump(rows, &v, NULL);
  CT_ASSERT_OK(ct_yaml_dump(n, 0, &text));
  CT_ASSERT_TEXT(text.data, "steps: 10\n"
                            "lr: 0.0001\n"
                            "nesterov: false\n"
                            "name: \"\"\n"
                            "device: auto\n"
                            "files: [a-*.h5, b.h5]\n"
                            "mean: [0.5]\n"
                            "kernel: [3, 3]\n"
                            "epochs: 2\n");
  ct_yaml_free(n);
  ct_str_clear(&text);
  ct_opt_clear(rows, &v);
}

/* Other readers of YAML would take it for a number or a truth value. */
static void dump_quotes_what_is_text(void)
{
  all_t v;
  ct_str_t text = {0};
  CT_ASSERT_OK(read_text("epochs: 2\nname: '1e3'\nfiles: ['12', 'true', '~', a.h5]\n", &v));
  ct_yaml_t *n = ct_opt_dump(rows, &v, NULL);
  CT_ASSERT_OK(ct_yaml_dump(n, 0, &text));
  CT_ASSERT_HAS(text.data, "name: \"1e3\"\n");
  CT_ASSERT_HAS(text.data, "files: [\"12\", \"true\", \"~\", a.h5]\n");
  ct_yaml_free(n);
  ct_str_clear(&text);
  ct_opt_clear(rows, &v);
}

typedef struct either {
  double size;
  int64_t count;
} either_t;

/* A number, or a word. */
static void words_of_numbers(void)
{
  static const ct_opt_t of[] = {
      CT_OPT_DOUBLE_OR(either_t, size, "0", 0, 8, "auto|none", "how large"), CT_OPT_END};
  static const ct_opt_t whole[] = {CT_OPT_INT_OR(either_t, count, "0", 0, 8, "auto", "how many"),
                                   CT_OPT_END};
  static const char *const texts[] = {"size: auto\n", "size: none\n", "size: 2.5\n", "{}\n"};
  static const double values[] = {-1, -2, 2.5, 0};
  ct_str_t text = {0};
  either_t v;
  for (int i = 0; i < 4; i++) {
    v = (either_t){0};
    CT_ASSERT_OK(read_rows(of, "bucket", texts[i], &v));
    CU_ASSERT(v.size == values[i]);
    ct_yaml_t *n = ct_opt_dump(of, &v, "bucket");
    CT_ASSERT_OK(ct_yaml_dump(n, 0, &text));
    ct_yaml_free(n);
    CT_ASSERT_TEXT(text.data, i < 3 ? texts[i] : "size: 0\n");
    ct_str_clear(&text);
  }
  CT_ASSERT_FAILS(read_rows(of, "bucket", "size: aut\n", &v), CT_ERR_USAGE,
                  "bucket.size: expected a number or auto|none, found 'aut'");
  CT_ASSERT_FAILS(read_rows(of, "bucket", "size: 'auto'\n", &v), CT_ERR_USAGE, "found the text");
  CT_ASSERT_FAILS(read_rows(of, "bucket", "size: -1\n", &v), CT_ERR_USAGE, "between 0 and 8");
  CT_ASSERT_OK(ct_opt_help(of, "bucket", &text));
  CT_ASSERT_HAS(text.data, "  bucket.size: NUMBER|auto|none ");
  ct_str_clear(&text);
  v = (either_t){0};
  CT_ASSERT_OK(read_rows(whole, "bucket", "count: auto\n", &v));
  CT_ASSERT_INT(v.count, -1);
  ct_yaml_t *n = ct_opt_dump(whole, &v, "bucket");
  CT_ASSERT_OK(ct_yaml_dump(n, 0, &text));
  ct_yaml_free(n);
  CT_ASSERT_OK(ct_opt_help(whole, "bucket", &text));
  CT_ASSERT_HAS(text.data, "count: auto\n  bucket.count: INTEGER|auto ");
  ct_str_clear(&text);
  CT_ASSERT_OK(read_rows(whole, "bucket", "count: 3\n", &v));
  CT_ASSERT_INT(v.count, 3);
  CT_ASSERT_FAILS(read_rows(whole, "bucket", "count: 2.5\n", &v), CT_ERR_USAGE,
                  "bucket.count: expected an integer or auto, found '2.5'");
}

static void help_text(void)
{
  ct_str_t text = {0};
  CT_ASSERT_OK(ct_opt_help(rows, "optim", &text));
  CT_ASSERT_HAS(text.data, "  optim.lr: NUMBER                    learning rate; at least 0"
                           " (default 0.1)\n");
  CT_ASSERT_HAS(text.data, "  optim.device: auto|cpu|ref  ");
  CT_ASSERT_HAS(text.data, "passes over the dataset; at least 1 (required)\n");
  CT_ASSERT_HAS(text.data, "between 1 and 64 (default 3)\n");
  CT_ASSERT_HAS(text.data, "layers of the model\n");
  ct_str_clear(&text);
}

static void words_of_choices(void)
{
  CT_ASSERT_TEXT(ct_opt_word(rows, "device", 1), "cpu");
  CT_ASSERT_TEXT(ct_opt_word(rows, "device", 2), "ref");
  CT_ASSERT_TEXT(ct_opt_word(rows, "device", 3), "?");
  CT_ASSERT_TEXT(ct_opt_word(rows, "device", -1), "?");
  CT_ASSERT_TEXT(ct_opt_word(rows, "none", 0), "?");
}

static void out_of_memory_anywhere(void)
{
  ct_yaml_t *map = parsed("epochs: 1\nfiles: [a, b]\nmean: [1, 2]\nlayers: [x]\nname: y\n");
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM, n = 0;
  while (rc == CT_ERR_NOMEM && n < 500) {
    all_t v = {0};
    ct_yaml_t *dump = NULL;
    ct_mem_fail_at(++n);
    rc = ct_opt_defaults(rows, &v);
    if (rc == CT_OK) rc = ct_opt_read(rows, &v, map, "t.yaml", "optim", NULL);
    if (rc == CT_OK && !(dump = ct_opt_dump(rows, &v, "optim"))) rc = CT_ERR_NOMEM;
    ct_mem_fail_at(0);
    ct_yaml_free(dump);
    ct_opt_clear(rows, &v);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
  CU_ASSERT(n > 40);
  ct_yaml_free(map);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(defaults_of_every_type),
                                    CT_TEST(reads_every_type),
                                    CT_TEST(reads_null_in_place_of_a_number_as_its_default),
                                    CT_TEST(reads_nothing_as_empty),
                                    CT_TEST(unknown_keys),
                                    CT_TEST(wrong_types),
                                    CT_TEST(numbers_that_no_float_holds),
                                    CT_TEST(many_items),
                                    CT_TEST(names),
                                    CT_TEST(ranges),
                                    CT_TEST(required_and_absent),
                                    CT_TEST(keys_of_others_and_used_marks),
                                    CT_TEST(dump_reads_back),
                                    CT_TEST(dump_is_readable),
                                    CT_TEST(dump_quotes_what_is_text),
                                    CT_TEST(words_of_numbers),
                                    CT_TEST(help_text),
                                    CT_TEST(words_of_choices),
                                    CT_TEST(out_of_memory_anywhere),
                                    CT_TEST_END};
  return ct_test_main("opt", tests, argc, argv);
}
