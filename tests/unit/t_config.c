/* Configurations from YAML to values and back: defaults, ranges, what is refused and with which
 * words, that the dump of one reads back to it, and what a hash depends on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup/ct_config.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

#define FILE_NAME "run.yaml"
static const char usual[] = "run: {name: try, seed: 7}\n"
                            "data: {train: 'train-*.h5', val: [a.h5, /abs/b.h5], batch: 32}\n"
                            "transforms:\n"
                            "  - to_tensor\n"
                            "  - normalize: {mean: [0.5], std: [0.25]}\n"
                            "model: {family: resnet, depth: 18}\n"
                            "optim: {lr: 0.2, weight_decay: 1e-4}\n";

static int parse(ct_config_t *c, const char *text, const char *set)
{
  return ct_config_parse(c, text, strlen(text), FILE_NAME, &set, set != NULL);
}

/* Parses and resolves for two ranks. */
static int parse_run(ct_config_t *c, const char *text, const char *set)
{
  int rc = CT_OK;
  CT_TRY(parse(c, text, set));
  CT_TRY(ct_config_resolve(c, "/home/me", 2));
  CT_TRY(ct_config_check(c, 2, 1));
out:
  if (rc != CT_OK) ct_config_clear(c);
  return rc;
}

static uint64_t hash_of(const char *text, const char *set)
{
  ct_config_t c;
  uint64_t h = 0;
  if (CT_ASSERT_OK(parse_run(&c, text, set)) != CT_OK) return 0;
  CT_ASSERT_OK(ct_config_hash(&c, &h));
  ct_config_clear(&c);
  return h;
}

static uint64_t hash_with(const char *set)
{
  return hash_of(usual, set);
}

/* ---- reading ---- */

static void values_and_defaults(void)
{
  ct_config_t c;
  if (CT_ASSERT_OK(parse(&c, usual, NULL)) != CT_OK) return;
  CT_ASSERT_TEXT(c.run.name, "try");
  CT_ASSERT_INT(c.run.seed, 7);
  CT_ASSERT_INT(c.data.batch, 32);
  CT_ASSERT_INT(c.data.val.n, 2);
  CT_ASSERT_INT(ct_yaml_count(c.transforms), 2);
  CT_ASSERT_TEXT(c.model.family, "resnet");
  CT_ASSERT_NEAR(c.optim.lr, 0.2, 0);
  CT_ASSERT_NEAR(c.optim.momentum, 0.9, 0);
  CT_ASSERT_INT(c.device, CT_DEVICE_AUTO);
  CT_ASSERT_INT(c.checkpoint.keep, 3);
  ct_config_clear(&c);
}

static void nothing_is_all_defaults(void)
{
  ct_config_t c;
  if (CT_ASSERT_OK(parse(&c, "", NULL)) != CT_OK) return;
  CT_ASSERT_INT(c.train.epochs, 10);
  CU_ASSERT_PTR_NULL(c.transforms);
  ct_config_clear(&c);
}

static void the_command_line_wins(void)
{
  static const char *const set[] = {"optim.lr=0.5", "device=ref", "data.val=", "run.seed=9"};
  ct_config_t c;
  if (CT_ASSERT_OK(ct_config_parse(&c, usual, strlen(usual), FILE_NAME, set, 4)) != CT_OK) return;
  CT_ASSERT_NEAR(c.optim.lr, 0.5, 0);
  CT_ASSERT_INT(c.device, CT_DEVICE_REF);
  CT_ASSERT_INT(c.data.val.n, 0);
  CT_ASSERT_INT(c.run.seed, 9);
  ct_config_clear(&c);
}

static void check_refused(const char *text, const char *set, const char *word)
{
  ct_config_t c;
  CT_ASSERT_FAILS(parse(&c, text, set), CT_ERR_USAGE, word);
}

static void mistakes_name_file_line_and_nearest(void)
{
  check_refused("run: {}\noptims: {lr: 1}\n", NULL,
                "run.yaml:2: optims: unknown key; did you mean 'optim'?");
  check_refused("optim:\n  lrr: 1\n", NULL,
                "run.yaml:2: optim.lrr: unknown key; did you mean 'lr'?");
  check_refused("devise: cpu\n", NULL, "did you mean 'device'?");
  check_refused("cuda: {allow_tf32: true}\n", NULL, "did you mean 'train.amp: tf32'?");
  check_refused("device: tpu\n", NULL, "run.yaml:1: device: expected one of auto, cpu, cuda, ref");
  check_refused("optim: {lr: fast}\n", NULL, "optim.lr: expected a number");
  check_refused("optim: {momentum: 2}\n", NULL, "optim.momentum: must be between 0 and 1");
  check_refused("optim: 3\n", NULL, "optim");
  check_refused("- 1\n", NULL, "run.yaml:1: expected sections");
  check_refused("a: [\n", NULL, "run.yaml:2: not valid YAML");
}

/* cuda.tf32 is in checkpoints of earlier versions. */
static void a_former_key(void)
{
  static const struct {
    const char *text;
    int tf32;
  } former[] = {{"cuda: {tf32: true}\n", 1},
                {"cuda: {tf32: false}\n", 0},
                {"cuda: {tf32: true, autotune: false}\ntrain: {amp: off}\n", 1},
                {"cuda: {tf32: true}\ntrain: {amp: bf16}\n", 0}};
  for (size_t i = 0; i < sizeof former / sizeof *former; i++) {
    ct_config_t c;
    if (CT_ASSERT_OK(parse(&c, former[i].text, NULL)) != CT_OK) return;
    CT_ASSERT_INT(ct_train_opts_tf32(&c.train), former[i].tf32);
    ct_config_clear(&c);
  }
}

static void mistakes_on_the_command_line(void)
{
  check_refused(usual, "optim.lr", "--set optim.lr: expected KEY=VALUE");
  check_refused(usual, "=3", "expected KEY=VALUE");
  check_refused(usual, "optim.lrr=3", "--set: optim.lrr: unknown key; did you mean 'lr'?");
  check_refused(usual, "optim.lr=[1", "not valid YAML");
  check_refused(usual, "run.name.x=1", "is not a map");
  check_refused(usual, "run.name=..", "--set: run.name: expected a plain name");
  check_refused("run:\n  name: a/b\n", NULL, "run.yaml:2: run.name: expected a plain name");
  char longer[400] = "optim.";
  memset(longer + 6, 'k', 300);
  strcpy(longer + 306, "=1");
  check_refused(usual, longer, "expected a dotted key");
}

/* ---- resolving and checking ---- */

static void places_become_absolute(void)
{
  ct_config_t c;
  if (CT_ASSERT_OK(parse_run(&c, usual, NULL)) != CT_OK) return;
  CT_ASSERT_TEXT(c.data.train.v[0], "/home/me/train-*.h5");
  CT_ASSERT_TEXT(c.data.val.v[0], "/home/me/a.h5");
  CT_ASSERT_TEXT(c.data.val.v[1], "/abs/b.h5");
  CT_ASSERT_TEXT(c.run.dir, "/home/me/runs/try");
  ct_config_clear(&c);
  if (CT_ASSERT_OK(parse_run(&c, "data: {train: synthetic}\nrun: {dir: here}\n", NULL)) != CT_OK)
    return;
  CT_ASSERT_TEXT(c.data.train.v[0], "synthetic");
  CT_ASSERT_TEXT(c.run.dir, "/home/me/here");
  ct_config_clear(&c);
}

/* What a directory is called must not be read as a pattern. */
static void magic_in_a_directory_is_quoted(void)
{
  char dir[600], file[700], **list = NULL;
  int n = 0;
  ct_config_t c;
  snprintf(dir, sizeof dir, "%s/a[1]*", ct_test_dir());
  snprintf(file, sizeof file, "%s/x-0.h5", dir);
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_file_write(file, "", 0));
  if (CT_ASSERT_OK(parse(&c, "data: {train: 'x-*.h5', val: x-0.h5}\n", NULL)) != CT_OK) return;
  CT_ASSERT_OK(ct_config_resolve(&c, dir, 1));
  for (int i = 0; i < 2; i++) {
    CT_ASSERT_OK(ct_file_glob("", (i ? c.data.val : c.data.train).v[0], &list, &n));
    CT_ASSERT_INT(n, 1);
    CT_ASSERT_TEXT(n ? list[0] : "", file);
    ct_file_list_free(list, n);
  }
  ct_config_clear(&c);
}

/* ---- files ---- */

static const char *set_dir(void)
{
  static char real[CT_PATH_MAX];
  if (!*real) CU_ASSERT_PTR_NOT_NULL(realpath(ct_test_dir(), real));
  return real;
}

static const char *file_of(const char *name, const char *text)
{
  static char path[4][2 * CT_PATH_MAX];
  static int next;
  char *p = path[next++ % 4], dir[CT_PATH_MAX];
  snprintf(p, 2 * CT_PATH_MAX, "%s/%s", set_dir(), name);
  CT_ASSERT_OK(ct_path_dir(dir, sizeof dir, p));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_file_write(p, text, strlen(text)));
  return p;
}

static const char *below(const char *name)
{
  static char path[4][2 * CT_PATH_MAX];
  static int next;
  char *p = path[next++ % 4];
  snprintf(p, 2 * CT_PATH_MAX, "%s/%s", set_dir(), name);
  return p;
}

/* A path belongs to the file in which it stands, on the command line to the current directory. */
static void files_include_files(void)
{
  ct_config_t c;
  const char *set[] = {"init.from=w.h5", "run.dir=$CT_T_DIR/r$$1"};
  setenv("CT_T_DIR", "sub", 1);
  file_of("site/base.yaml", "include: more/deep.yaml\n"
                            "data: {train: t.h5, batch: 8}\n"
                            "optim: {lr: 0.5, momentum: 0.7}\n");
  file_of("site/more/deep.yaml", "data: {val: '${CT_T_DIR}/v.h5', batch: 4, workers: 3}\n");
  file_of("second.yaml", "data: {workers: 5}\nmodel: {family: lenet, classes: 3}\n");
  const char *path = file_of("main.yaml", "include: [site/base.yaml, second.yaml]\n"
                                          "x-rates: &rates {lr: 0.25}\n"
                                          "optim: {<<: *rates, weight_decay: 1}\n"
                                          "sim: {times: times.json}\n");
  if (CT_ASSERT_OK(ct_config_read(&c, path, set, 2)) != CT_OK) return;
  CT_ASSERT_OK(ct_config_resolve(&c, "/home/me", 1));
  CT_ASSERT_TEXT(c.data.train.v[0], below("site/t.h5"));
  CT_ASSERT_TEXT(c.data.val.v[0], below("site/more/sub/v.h5"));
  CT_ASSERT_TEXT(c.sim.times, below("times.json"));
  CT_ASSERT_TEXT(c.init.from, "/home/me/w.h5");
  CT_ASSERT_TEXT(c.run.dir, "/home/me/sub/r$1");
  CT_ASSERT_INT(c.data.batch, 8);
  CT_ASSERT_INT(c.data.workers, 5); /* the last one of the list counts most */
  CU_ASSERT_DOUBLE_EQUAL(c.optim.lr, 0.25, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.optim.momentum, 0.7, 0);
  CT_ASSERT_TEXT(c.model.family, "lenet");
  ct_str_t dump = {0};
  CT_ASSERT_OK(ct_config_dump(&c, &dump));
  ct_config_clear(&c);
  CT_ASSERT_OK(ct_config_parse(&c, dump.data, dump.len, "dump", NULL, 0));
  CT_ASSERT_TEXT(c.run.dir, "/home/me/sub/r$1"); /* a dollar stays one */
  ct_str_clear(&dump);
  ct_config_clear(&c);
  unsetenv("CT_T_DIR");
}

static void expect_no_file(const char *text, const char *message)
{
  ct_config_t c;
  CT_ASSERT_FAILS(ct_config_read(&c, file_of("bad.yaml", text), NULL, 0), CT_ERR_USAGE, message);
}

static void mistakes_in_included_files_name_them(void)
{
  ct_config_t c;
  file_of("in.yaml", "data:\n  batch: 8\n  bacth: 3\n");
  expect_no_file("include: in.yaml\n", "in.yaml:3: data.bacth: unknown key; did you mean 'batch'?");
  file_of("in.yaml", "data: {batch: 0}\n");
  expect_no_file("\n\ninclude: in.yaml\n", "in.yaml:1: data.batch: must be");
  file_of("in.yaml", "data: [\n");
  expect_no_file("include: in.yaml\n", "in.yaml:2: not valid YAML");
  expect_no_file("\ninclude: bad.yaml\n", "bad.yaml:2: include: more than 16 files");
  expect_no_file("include: [{a: 1}]\n", "bad.yaml:1: include: expected the name of a file");
  expect_no_file("include:\n", "bad.yaml:1: include: expected the name of a file");
  expect_no_file("include: $CT_T_NONE/x\n", "include: the variable CT_T_NONE is not set");
  expect_no_file("data: {train: $CT_T_NONE/x}\n",
                 "bad.yaml:1: data.train: the variable CT_T_NONE is not set");
  CT_ASSERT_FAILS(ct_config_read(&c, file_of("bad.yaml", "\ninclude: none.yaml\n"), NULL, 0),
                  CT_ERR_IO, "bad.yaml:2: include: ");
  CT_ASSERT_FAILS(parse(&c, "include: x.yaml\n", NULL), CT_ERR_USAGE, "include: unknown key");
}

static void a_directory_stands_for_the_configuration_in_it(void)
{
  ct_config_t c;
  file_of("empty/x.yaml", "data: {batch: 7}\n");
  CT_ASSERT_FAILS(ct_config_read(&c, below("empty"), NULL, 0), CT_ERR_IO,
                  "/empty: is a directory without config.yaml, expected a file or a run's");
  file_of("run/config.yaml", "data: {batch: 7, train: t.h5}\n");
  if (CT_ASSERT_OK(ct_config_read(&c, below("run"), NULL, 0)) != CT_OK) return;
  CT_ASSERT_INT(c.data.batch, 7);
  CT_ASSERT_TEXT(c.where, below("run/config.yaml"));
  CT_ASSERT_TEXT(c.data.train.v[0], below("run/t.h5"));
  ct_config_clear(&c);
  CT_ASSERT_FAILS(ct_config_read(&c, file_of("bad.yaml", "include: run\n"), NULL, 0), CT_ERR_IO,
                  "is a directory, expected a regular file");
}

/* Another kind on the command line, or above an included file. */
static void another_kind_leaves_out_what_it_has_not(void)
{
  ct_config_t c;
  const char *text = "optim: {kind: sgd, lr: 0.1, momentum: 0.8, nesterov: true}\n"
                     "schedule: {kind: multistep, milestones: [3], gamma: 0.5}\n";
  if (CT_ASSERT_OK(parse(&c, text, "optim.kind=adamw")) != CT_OK) return;
  CU_ASSERT_DOUBLE_EQUAL(c.optim.momentum, 0.9, 0); /* the default */
  CU_ASSERT_DOUBLE_EQUAL(c.optim.lr, 0.1, 0);
  CT_ASSERT_OK(ct_optim_check(&c.optim));
  CT_ASSERT_OK(ct_schedule_check(&c.schedule));
  ct_config_clear(&c);
  if (CT_ASSERT_OK(parse(&c, text, "schedule.kind=step")) != CT_OK) return;
  CT_ASSERT_INT(c.schedule.milestones.n, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.schedule.gamma, 0.5, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.optim.momentum, 0.8, 0);
  ct_config_clear(&c);
  if (CT_ASSERT_OK(parse(&c, text, "optim={kind: adam}")) != CT_OK) return;
  CU_ASSERT_DOUBLE_EQUAL(c.optim.lr, 0.1, 0); /* the default of a section that is set as a whole */
  CT_ASSERT_OK(ct_optim_check(&c.optim));
  ct_config_clear(&c);
  file_of("sgd.yaml", text);
  const char *path = file_of("adam.yaml", "include: sgd.yaml\noptim: {kind: adam}\n");
  if (CT_ASSERT_OK(ct_config_read(&c, path, NULL, 0)) != CT_OK) return;
  CT_ASSERT_OK(ct_optim_check(&c.optim));
  ct_config_clear(&c);
  /* given together, or for the kind that is there: a mistake to be told */
  if (CT_ASSERT_OK(parse(&c, "optim: {kind: adam}\n", "optim.momentum=0.5")) != CT_OK) return;
  CT_ASSERT_FAILS(ct_optim_check(&c.optim), CT_ERR_USAGE, "optim.momentum is given, but");
  ct_config_clear(&c);
}

static void the_global_batch_follows_from_the_ranks(void)
{
  ct_config_t c;
  if (CT_ASSERT_OK(parse_run(&c, usual, "data.batch_per_rank=10")) != CT_OK) return;
  CT_ASSERT_INT(c.data.batch, 20);
  CT_ASSERT_INT(c.data.eval_batch, 20);
  ct_config_clear(&c);
}

static void check_unfit(const char *set, const char *word)
{
  ct_config_t c;
  CT_ASSERT_FAILS(parse_run(&c, usual, set), CT_ERR_USAGE, word);
}

static void keys_that_do_not_fit_together(void)
{
  ct_config_t c;
  check_unfit("parallel.mode=single", "run.yaml: parallel.mode is single, but there are 2 ranks");
  check_unfit("optim={nesterov: true, momentum: 0}", "nesterov");
  check_unfit("schedule.warmup_epochs=10.5", "is 10.5, more than train.epochs, which is 10");
  check_unfit("data.batch_per_rank=600000000",
              "with 2 ranks a step has more than 1000000000 samples");
  check_unfit("data.target=", "data.target is empty");
  check_unfit("model.layers=[relu]", "model.family and model.layers");
  check_unfit("train={clip_norm: 1, clip_value: 1}", "both given");
  static const char *const no_norms[] = {"0", "-2", "nan", "two"};
  for (int i = 0; i < 4; i++) {
    char set[64], word[64];
    snprintf(set, sizeof set, "train.clip_norm_type=%s", no_norms[i]);
    snprintf(word, sizeof word, "train.clip_norm_type is '%s', expected a number above 0, or inf",
             no_norms[i]);
    check_unfit(set, word);
  }
  check_unfit("train.sync_bn=0", "train.sync_bn is '0', expected off, world, node");
  static const char by_steps[] = "data: {train: a.h5}\nmodel: {family: mlp}\ntrain: {steps: 5}\n"
                                 "schedule: {warmup_epochs: 11}\n"; /* it need not end */
  if (CT_ASSERT_OK(parse_run(&c, by_steps, NULL)) == CT_OK) ct_config_clear(&c);
  if (CT_ASSERT_OK(parse(&c, usual, "parallel.mode=single")) != CT_OK) return;
  CT_ASSERT_OK(ct_config_check(&c, 1, 1));
  ct_config_clear(&c);
  if (CT_ASSERT_OK(parse(&c, usual, "data.target=")) != CT_OK) return;
  CT_ASSERT_OK(ct_config_check(&c, 1, 0)); /* samples alone */
  CT_ASSERT_FAILS(ct_config_check(&c, 1, 1), CT_ERR_USAGE, "data.target is empty");
  ct_config_clear(&c);
}

/* ---- dump, hash, differences ---- */

static void the_dump_reads_back_to_the_same(void)
{
  ct_config_t c, again;
  ct_str_t first = {0}, second = {0};
  uint64_t a = 0, b = 1;
  if (CT_ASSERT_OK(parse_run(&c, usual, NULL)) != CT_OK) return;
  CT_ASSERT_OK(ct_config_dump(&c, &first));
  CT_ASSERT_HAS(first.data, "warmup_epochs: 0");
  CT_ASSERT_HAS(first.data, "train: [/home/me/train-*.h5]");
  if (CT_ASSERT_OK(parse_run(&again, first.data, NULL)) == CT_OK) {
    CT_ASSERT_OK(ct_config_dump(&again, &second));
    CT_ASSERT_TEXT(second.data, first.data);
    CT_ASSERT_OK(ct_config_hash(&c, &a));
    CT_ASSERT_OK(ct_config_hash(&again, &b));
    CU_ASSERT_TRUE(a == b);
    ct_config_clear(&again);
  }
  ct_config_clear(&c);
  ct_str_clear(&first);
  ct_str_clear(&second);
}

static void the_hash_knows_what_matters(void)
{
  static const char *const matters[] = {"val_transforms=[to_tensor]",
                                        "run.seed=8",
                                        "data.batch=16",
                                        "model.depth=34",
                                        "optim.lr=0.3",
                                        "train.epochs=11",
                                        "transforms=[to_tensor]",
                                        "data.train=x.h5",
                                        "schedule.kind=step",
                                        "parallel.shards=4",
                                        "train.amp=bf16"};
  static const char *const does_not[] = {
      "run.name=other", "run.dir=/else",        "run.log_every=3",
      "data.workers=4", "checkpoint.keep=9",    "cpu.threads=3",
      "device=ref",     "parallel.bucket_mb=2", "parallel.zero=1"};
  uint64_t h = hash_with(NULL);
  for (int i = 0; i < 11; i++)
    if (hash_with(matters[i]) == h) CT_ASSERT_TEXT("the same hash", matters[i]);
  for (int i = 0; i < 9; i++) {
    if (hash_with(does_not[i]) != h) CT_ASSERT_TEXT("another hash", does_not[i]);
  }
  /* the same list, of another key */
  CU_ASSERT(hash_of("data: {train: a.h5}", "transforms=[to_tensor]") !=
            hash_of("data: {train: a.h5}", "val_transforms=[to_tensor]"));
}

static void differences_are_listed(void)
{
  ct_config_t c, old;
  ct_str_t dump = {0}, told = {0};
  if (CT_ASSERT_OK(parse_run(&old, usual, NULL)) != CT_OK) return;
  CT_ASSERT_OK(ct_config_dump(&old, &dump));
  CT_ASSERT_OK(ct_config_differences(&old, dump.data, &told));
  CT_ASSERT_INT(told.len, 0);
  static const char *const set[] = {"data.batch=128", "run.name=x", "transforms=[to_tensor]"};
  if (CT_ASSERT_OK(ct_config_parse(&c, dump.data, dump.len, FILE_NAME, set, 3)) == CT_OK) {
    CT_ASSERT_OK(ct_config_differences(&c, dump.data, &told));
    CT_ASSERT_TEXT(told.data ? told.data : "",
                   "transforms was another; data.batch was 32 and is 128");
    ct_config_clear(&c);
  }
  ct_config_clear(&old);
  ct_str_clear(&dump);
  ct_str_clear(&told);
}

static void a_key_that_the_old_one_lacks_is_no_difference(void)
{
  ct_config_t c;
  ct_str_t told = {0};
  if (CT_ASSERT_OK(parse_run(&c, usual, NULL)) != CT_OK) return;
  CT_ASSERT_OK(ct_config_differences(&c, "optim: {lr: 0.1}\n", &told));
  CT_ASSERT_TEXT(told.data ? told.data : "", "optim.lr was 0.1 and is 0.2");
  ct_config_clear(&c);
  ct_str_clear(&told);
}

static void the_help_has_every_key(void)
{
  ct_str_t help = {0};
  CT_ASSERT_OK(ct_config_help(&help));
  CT_ASSERT_HAS(help.data, "device: auto|cpu|cuda|ref");
  CT_ASSERT_HAS(help.data, "optim.lr: NUMBER");
  CT_ASSERT_HAS(help.data, "schedule.kind: constant|step|multistep");
  CT_ASSERT_HAS(help.data, "cpu.threads: INTEGER");
  CT_ASSERT_HAS(help.data, "normalize");
  CT_ASSERT_HAS(help.data, "resnet");
  CT_ASSERT_HAS(help.data, "conv2d");
  ct_str_clear(&help);
}

/* Every allocation fails once: an error, and nothing is lost. */
static void no_memory_is_an_error(void)
{
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t n = 1; rc != CT_OK && n < 5000; n++) {
    ct_config_t c;
    ct_str_t dump = {0};
    ct_mem_fail_at(n);
    rc = parse_run(&c, usual, "optim.lr=0.5");
    if (rc == CT_OK) {
      rc = ct_config_dump(&c, &dump);
      ct_config_clear(&c);
    }
    ct_str_clear(&dump);
    if (rc != CT_OK) CT_ASSERT_INT(rc, CT_ERR_NOMEM);
  }
  ct_mem_fail_at(0);
  CT_ASSERT_INT(rc, CT_OK);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(values_and_defaults),
                                    CT_TEST(nothing_is_all_defaults),
                                    CT_TEST(the_command_line_wins),
                                    CT_TEST(mistakes_name_file_line_and_nearest),
                                    CT_TEST(a_former_key),
                                    CT_TEST(mistakes_on_the_command_line),
                                    CT_TEST(places_become_absolute),
                                    CT_TEST(magic_in_a_directory_is_quoted),
                                    CT_TEST(files_include_files),
                                    CT_TEST(mistakes_in_included_files_name_them),
                                    CT_TEST(a_directory_stands_for_the_configuration_in_it),
                                    CT_TEST(another_kind_leaves_out_what_it_has_not),
                                    CT_TEST(the_global_batch_follows_from_the_ranks),
                                    CT_TEST(keys_that_do_not_fit_together),
                                    CT_TEST(the_dump_reads_back_to_the_same),
                                    CT_TEST(the_hash_knows_what_matters),
                                    CT_TEST(differences_are_listed),
                                    CT_TEST(a_key_that_the_old_one_lacks_is_no_difference),
                                    CT_TEST(the_help_has_every_key),
                                    CT_TEST(no_memory_is_an_error),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("config", tests, argc, argv);
}
