/* Who is late: the judgement over what the ranks answered, and its words. */
#include <stdio.h>
#include <string.h>

#include "watch/watch.h"
#include "tests/harness/ct_test.h"

enum { RANKS = 20 };

static ct__watch_state_t state[RANKS];
static ct__watch_card_t card[RANKS];
static ct__watch_verdict_t v;

/* All ranks wait in the same operation, and have done so for 100 s. */
static void all_wait(void)
{
  memset(card, 0, sizeof card);
  for (int r = 0; r < RANKS; r++) {
    snprintf(card[r].host, sizeof card[r].host, "node%d", r / 4);
    card[r].pid = 1000 + r;
    state[r] = (ct__watch_state_t){.answered = 1,
                                   .step = 7,
                                   .calls = 50,
                                   .detail = -1,
                                   .doing_s = 100,
                                   .idle_s = 100,
                                   .doing = "the step status",
                                   .seen = "runs"};
  }
}

static void silent(int r, const char *seen)
{
  state[r] = (ct__watch_state_t){0};
  snprintf(state[r].seen, sizeof state[r].seen, "%s", seen);
}

static void busy(int r)
{
  state[r].local = 1;
  snprintf(state[r].doing, sizeof state[r].doing, "forward and backward");
}

static const char *sentence(int n)
{
  static char text[600];
  ct__watch_judge(state, n, 60, &v);
  ct__watch_sentence(&v, card, state, n, text, sizeof text);
  return text;
}

static const char *line(int rank)
{
  static char text[400];
  ct__watch_line(card, state, rank, text, sizeof text);
  return text;
}

static void progress_anywhere_is_fine(void)
{
  all_wait();
  state[3].idle_s = 59;
  silent(5, "");
  ct__watch_judge(state, RANKS, 60, &v);
  CT_ASSERT_INT(v.finding, CT__WATCH_FINE);
  CT_ASSERT_NEAR(v.idle_s, 59, 0);
  CT_ASSERT_INT(v.late, 0);
}

static void who_does_not_answer_is_late(void)
{
  all_wait();
  silent(2, "is stopped by a signal (state T)");
  state[4].calls = 40; /* also behind, maybe because of rank 2 */
  CT_ASSERT_HAS(sentence(RANKS), "no rank has got any further in 100 s; rank 2 (node0, pid 1002) "
                                 "does not answer: it is stopped by a signal (state T); restart");
  CT_ASSERT_INT(v.finding, CT__WATCH_SILENT);
  CT_ASSERT_INT(v.late, 1);
  CT_ASSERT_INT(v.named[0], 2);
  CT_ASSERT_INT(v.other, 0);
  CT_ASSERT_TEXT(line(2), "rank 2 (node0, pid 1002): does not answer: it is stopped by a signal "
                          "(state T)");
  silent(2, "");
  CT_ASSERT_TEXT(line(2), "rank 2 (node0, pid 1002): does not answer");
}

static void who_has_entered_less_is_late(void)
{
  all_wait();
  state[0].calls = 49;
  busy(0);
  CT_ASSERT_HAS(sentence(RANKS), "rank 0 (node0, pid 1000) is late, in \"forward and backward\"");
  CT_ASSERT_INT(v.finding, CT__WATCH_BEHIND);
  CT_ASSERT_INT(v.late, 1);
  CT_ASSERT_INT(v.named[0], 0);
  CT_ASSERT_INT(v.other, 1);
  CT_ASSERT_TEXT(line(0),
                 "rank 0 (node0, pid 1000): step 7, in \"forward and backward\" for 100 s, "
                 "49 collective operations begun; its main thread runs");
}

static void the_file_is_named(void)
{
  char text[600];
  all_wait();
  state[3].calls = 49;
  busy(3);
  state[3].detail = 2;
  snprintf(state[3].file, sizeof state[3].file, "/data/a.h5");
  CT_ASSERT_HAS(sentence(RANKS), "rank 3 (node0, pid 1003) is late, in \"forward and backward 2\" "
                                 "(/data/a.h5); restart");
  CT_ASSERT_HAS(line(3), "step 7, in \"forward and backward 2\" (/data/a.h5) for 100 s");
  ct__watch_blocked(card, state, "rank 2 got SIGTERM", 3, text, sizeof text);
  CT_ASSERT_HAS(text, "rank 2 got SIGTERM before the first step, and the start is blocked: rank 3 "
                      "(node0, pid 1003) is in \"forward and backward 2\" (/data/a.h5), and its "
                      "main thread runs; ");
}

static void only_the_last_are_late(void)
{
  all_wait();
  state[6].calls = 48;
  state[7].calls = 49;
  state[9].calls = 48;
  CT_ASSERT_HAS(sentence(RANKS), "2 of 20 ranks are late, the first of them rank 6 (node1, pid "
                                 "1006)");
  CT_ASSERT_INT(v.late, 2);
  CT_ASSERT_INT(v.named[1], 9);
}

static void who_does_not_wait_is_late(void)
{
  all_wait();
  busy(3);
  ct__watch_judge(state, RANKS, 60, &v);
  CT_ASSERT_INT(v.finding, CT__WATCH_BUSY);
  CT_ASSERT_INT(v.late, 1);
  CT_ASSERT_INT(v.named[0], 3);
}

static void all_in_the_same(void)
{
  all_wait();
  for (int r = 0; r < RANKS; r++)
    state[r].detail = 4;
  CT_ASSERT_HAS(sentence(RANKS),
                "all 20 ranks are in \"the step status 4\": the network or a library is stuck");
  CT_ASSERT_INT(v.finding, CT__WATCH_TOGETHER);
  CT_ASSERT_INT(v.late, 0);
  CT_ASSERT_INT(v.other, 0);
  for (int r = 0; r < RANKS; r++)
    busy(r);
  CT_ASSERT_HAS(sentence(RANKS), "such as a file system is stuck");
  CT_ASSERT_HAS(sentence(1), "in 100 s; it is in \"forward and backward 4\"; restart");
}

static void many_are_counted(void)
{
  all_wait();
  for (int r = 1; r < RANKS; r++)
    silent(r, "");
  CT_ASSERT_HAS(sentence(RANKS), "19 of 20 ranks do not answer, the first of them rank 1 (node0");
  CT_ASSERT_INT(v.late, 19);
  CT_ASSERT_INT(v.named[CT__WATCH_NAMED - 1], CT__WATCH_NAMED);
}

static void states_in_words(void)
{
  static const struct {
    char letter;
    const char *in, *words;
  } row[] = {{'S', "pipe_read", "sleeps in pipe_read"},
             {'S', "0", "sleeps"},
             {'D', "nfs_wait", "sleeps uninterruptibly in nfs_wait (state D)"},
             {'T', "do_signal_stop", "is stopped by a signal (state T)"},
             {'t', "", "is stopped by a debugger (state t)"},
             {'R', "", "runs"},
             {'Z', "", "has ended (state Z)"},
             {'I', "", "is in state I"},
             {0, "", "is gone"}};
  char text[96];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ct__watch_words(row[i].letter, row[i].in, text, sizeof text);
    CT_ASSERT_TEXT(text, row[i].words);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(progress_anywhere_is_fine),
                                    CT_TEST(who_does_not_answer_is_late),
                                    CT_TEST(who_has_entered_less_is_late),
                                    CT_TEST(the_file_is_named),
                                    CT_TEST(only_the_last_are_late),
                                    CT_TEST(who_does_not_wait_is_late),
                                    CT_TEST(all_in_the_same),
                                    CT_TEST(many_are_counted),
                                    CT_TEST(states_in_words),
                                    CT_TEST_END};
  return ct_test_main("watch verdict", tests, argc, argv);
}
