/* Command lines: what is an option, an argument or a mistake, and what is said of mistakes. */
#include <stdio.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

static const ct_flag_t flags[] = {{"steps", "N", "how many"},
                                  {"set", "KEY=VALUE", "a key"},
                                  {"json", NULL, "as JSON"},
                                  {"log", "LEVEL", "how much"},
                                  {0}};
static const ct_command_t copy = {
    .name = "copy", .args = "FILE", .help = "Copies", .min = 1, .max = 1, .flags = flags};

/* argv from words between blanks; static storage. */
static int parse(ct_args_t *a, const char *line)
{
  static char text[300], *argv[20];
  int argc = 0;
  snprintf(text, sizeof text, "%s", line);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
    argv[argc++] = word;
  argv[argc] = NULL;
  return ct_args_parse(a, &copy, argc, argv);
}

static void options_and_arguments_mix(void)
{
  ct_args_t a;
  int64_t steps;
  if (CT_ASSERT_OK(parse(&a, "copy --steps 5 x.yaml --json --set a.b=1 --set=c=d")) != CT_OK)
    return;
  CT_ASSERT_INT(a.rests, 1);
  CT_ASSERT_TEXT(a.rest[0], "x.yaml");
  CT_ASSERT_OK(ct_args_int(&a, "steps", 20, 1, 9, &steps));
  CT_ASSERT_INT(steps, 5);
  CU_ASSERT_PTR_NOT_NULL(ct_args_get(&a, "json"));
  CU_ASSERT_PTR_NULL(ct_args_get(&a, "log"));
  CT_ASSERT_INT(a.sets, 2);
  CT_ASSERT_TEXT(a.set[0], "a.b=1");
  CT_ASSERT_TEXT(a.set[1], "c=d");
  ct_args_clear(&a);
}

static void what_was_not_given_has_its_default(void)
{
  ct_args_t a;
  int64_t steps;
  if (CT_ASSERT_OK(parse(&a, "copy x")) != CT_OK) return;
  CT_ASSERT_OK(ct_args_int(&a, "steps", 20, 1, 9, &steps));
  CT_ASSERT_INT(steps, 20);
  ct_args_clear(&a);
}

static void check_refused(const char *line, const char *word)
{
  ct_args_t a;
  CT_ASSERT_FAILS(parse(&a, line), CT_ERR_USAGE, word);
}

static void mistakes_name_the_nearest(void)
{
  check_refused("copy x --step2 3", "copy: unknown option --step2; did you mean --steps?");
  check_refused("copy x --stepps=3", "unknown option --stepps; did you mean --steps?");
  check_refused("copy x --hepl", "did you mean --help?");
  check_refused("copy x --quite-another",
                "unknown option --quite-another; see ctrain-hpc copy --help");
  check_refused("copy x -q", "unknown option -q; see ctrain-hpc copy --help");
  check_refused("copy x --steps", "copy: --steps needs a value");
  check_refused("copy x --json=3", "copy: --json takes no value");
  check_refused("copy x --help=3", "copy: --help takes no value");
  check_refused("copy x --jsonn", "unknown option --jsonn; did you mean --json?");
  check_refused("copy x --lr 0.1", "--lr; for the key optim.lr write --set KEY=VALUE");
  check_refused("copy x --learning-rate=1", "for the key optim.lr write");
  check_refused("copy x --kind=1", "the key optim.kind or schedule.kind or loss.kind write");
  check_refused("copy optim.lr=0.1",
                "copy: 'optim.lr=0.1' is not a file; for the key optim.lr write");
  check_refused("copy", "an argument is missing: ctrain-hpc copy FILE");
  check_refused("copy x y", "unexpected argument 'y'");
}

static void integers_have_a_range(void)
{
  ct_args_t a;
  int64_t steps;
  static const char *const bad[] = {"copy x --steps 10", "copy x --steps 0", "copy x --steps 2x"};
  for (int i = 0; i < 3; i++) {
    if (CT_ASSERT_OK(parse(&a, bad[i])) != CT_OK) return;
    CT_ASSERT_FAILS(ct_args_int(&a, "steps", 1, 1, 9, &steps), CT_ERR_USAGE,
                    "--steps must be an integer between 1 and 9");
    ct_args_clear(&a);
  }
  static const char *const good[] = {"copy x --steps 1", "copy x --steps 9"};
  for (int i = 0; i < 2; i++) {
    if (CT_ASSERT_OK(parse(&a, good[i])) != CT_OK) return;
    CT_ASSERT_OK(ct_args_int(&a, "steps", 5, 1, 9, &steps));
    CT_ASSERT_INT(steps, i == 0 ? 1 : 9);
    ct_args_clear(&a);
  }
}

static void help_needs_no_arguments(void)
{
  ct_args_t a;
  ct_str_t text = {0};
  if (CT_ASSERT_OK(parse(&a, "copy --help")) != CT_OK) return;
  CT_ASSERT_INT(a.help, 1);
  ct_args_clear(&a);
  CT_ASSERT_OK(ct_args_help(&copy, &text));
  CT_ASSERT_HAS(text.data, "Usage: ctrain-hpc copy FILE [options]");
  CT_ASSERT_HAS(text.data, "--steps N");
  CT_ASSERT_HAS(text.data, "how many");
  ct_str_clear(&text);
}

static void commands_are_found_by_name(void)
{
  const ct_command_t *c;
  CT_ASSERT_OK(ct_command_find("train", &c));
  CT_ASSERT_TEXT(c->name, "train");
  CT_ASSERT_FAILS(ct_command_find("trian", &c), CT_ERR_USAGE,
                  "unknown command 'trian'; did you mean 'train'?");
  CT_ASSERT_FAILS(ct_command_find("xyzzyxyz", &c), CT_ERR_USAGE, "see ctrain-hpc --help");
}

static void every_command_has_its_help(void)
{
  for (const ct_command_t *c = ct_commands; c->name; c++) {
    ct_str_t text = {0};
    CT_ASSERT_OK(ct_args_help(c, &text));
    CT_ASSERT_HAS(text.data, c->help);
    for (const ct_flag_t *f = c->flags; f->name; f++)
      CT_ASSERT_HAS(text.data, f->help);
    ct_str_clear(&text);
  }
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(options_and_arguments_mix),
                                    CT_TEST(what_was_not_given_has_its_default),
                                    CT_TEST(mistakes_name_the_nearest),
                                    CT_TEST(integers_have_a_range),
                                    CT_TEST(help_needs_no_arguments),
                                    CT_TEST(commands_are_found_by_name),
                                    CT_TEST(every_command_has_its_help),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("args", tests, argc, argv);
}
