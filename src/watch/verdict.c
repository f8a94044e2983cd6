/* Determines which ranks are late, and formats the messages about them. */
#include <stdio.h>
#include <string.h>

#include "watch/watch.h"

typedef struct ranks {
  int answered, local;
  int64_t fewest; /* minimum of the collective operations entered, over the ranks */
  int64_t most;   /* maximum of the collective operations entered */
  double idle_s;
} ranks_t;

static ranks_t verdict_count(const ct__watch_state_t *state, int n)
{
  ranks_t c = {0};
  for (int r = 0; r < n; r++) {
    const ct__watch_state_t *s = &state[r];
    if (!s->answered) continue;
    if (c.answered++ == 0 || s->idle_s < c.idle_s) c.idle_s = s->idle_s;
    if (c.answered == 1 || s->calls < c.fewest) c.fewest = s->calls;
    if (c.answered == 1 || s->calls > c.most) c.most = s->calls;
    c.local += s->local;
  }
  return c;
}

static int is_late(const ct__watch_state_t *s, ct__watch_finding_t finding, int64_t fewest)
{
  switch (finding) {
  case CT__WATCH_SILENT:
    return !s->answered;
  case CT__WATCH_BEHIND:
    return s->calls == fewest;
  case CT__WATCH_BUSY:
    return s->local;
  default:
    return 0;
  }
}

void ct__watch_judge(const ct__watch_state_t *state, int n, double limit_s,
                     ct__watch_verdict_t *out)
{
  ranks_t c = verdict_count(state, n);
  *out = (ct__watch_verdict_t){.other = -1, .idle_s = c.idle_s};
  if (c.idle_s < limit_s)
    out->finding = CT__WATCH_FINE;
  else if (c.answered < n)
    out->finding = CT__WATCH_SILENT;
  else if (c.fewest < c.most)
    out->finding = CT__WATCH_BEHIND;
  else if (c.local > 0 && c.local < n)
    out->finding = CT__WATCH_BUSY;
  else
    out->finding = CT__WATCH_TOGETHER;
  for (int r = 0; r < n; r++) {
    if (!is_late(&state[r], out->finding, c.fewest)) {
      if (out->other < 0) out->other = r;
      continue;
    }
    if (out->late < CT__WATCH_NAMED) out->named[out->late] = r;
    out->late++;
  }
}

enum { WORK_CAP = 400 };

/* Names the operation: for example "the all-reduce of a bucket 3", or "opening a data set"
 * (/data/train-001.h5). */
static void name_work(const ct__watch_state_t *s, char *buf, size_t cap)
{
  char number[24] = "";
  const char *open = s->file[0] ? " (" : "", *close = s->file[0] ? ")" : "";
  if (s->detail >= 0) snprintf(number, sizeof number, " %lld", (long long)s->detail);
  snprintf(buf, cap, "\"%s%s\"%s%s%s", s->doing, number, open, s->file, close);
}

void ct__watch_line(const ct__watch_card_t *card, const ct__watch_state_t *state, int rank,
                    char *buf, size_t cap)
{
  const ct__watch_state_t *s = &state[rank];
  char work[WORK_CAP];
  name_work(s, work, sizeof work);
  int len = snprintf(buf, cap, "rank %d (%s, pid %d): ", rank, card[rank].host, card[rank].pid);
  if (len < 0 || (size_t)len >= cap) return;
  if (s->answered)
    snprintf(buf + len, cap - (size_t)len,
             "step %lld, in %s for %.0f s, %lld collective operations begun; its main thread %s",
             (long long)s->step, work, s->doing_s, (long long)s->calls, s->seen);
  else
    snprintf(buf + len, cap - (size_t)len, "does not answer%s%s", s->seen[0] ? ": it " : "",
             s->seen);
}

/* Names the late ranks or the cause. */
static void blame(const ct__watch_verdict_t *v, const ct__watch_card_t *card,
                  const ct__watch_state_t *state, int n, char *buf, size_t cap)
{
  char work[WORK_CAP];
  int first = v->named[0];
  name_work(&state[v->late ? first : 0], work, sizeof work);
  if (v->finding == CT__WATCH_TOGETHER && n == 1)
    snprintf(buf, cap, "it is in %s", work);
  else if (v->finding == CT__WATCH_TOGETHER)
    snprintf(buf, cap, "all %d ranks are in %s: %s", n, work,
             state[0].local ? "a shared resource such as a file system is stuck"
                            : "the network or a library is stuck");
  else if (v->late > 1)
    snprintf(buf, cap, "%d of %d ranks %s, the first of them rank %d (%s, pid %d)", v->late, n,
             v->finding == CT__WATCH_SILENT ? "do not answer" : "are late", first, card[first].host,
             card[first].pid);
  else if (v->finding == CT__WATCH_SILENT)
    snprintf(buf, cap, "rank %d (%s, pid %d) does not answer%s%s", first, card[first].host,
             card[first].pid, state[first].seen[0] ? ": it " : "", state[first].seen);
  else
    snprintf(buf, cap, "rank %d (%s, pid %d) is late, in %s", first, card[first].host,
             card[first].pid, work);
}

void ct__watch_sentence(const ct__watch_verdict_t *v, const ct__watch_card_t *card,
                        const ct__watch_state_t *state, int n, char *buf, size_t cap)
{
  char who[WORK_CAP + 200];
  blame(v, card, state, n, who, sizeof who);
  snprintf(buf, cap,
           "the run hangs: no rank has got any further in %.0f s; %s; restart it to resume from "
           "the last checkpoint",
           v->idle_s, who);
}

void ct__watch_blocked(const ct__watch_card_t *card, const ct__watch_state_t *state,
                       const char *request, int rank, char *buf, size_t cap)
{
  char work[WORK_CAP];
  name_work(&state[rank], work, sizeof work);
  snprintf(
      buf, cap,
      "%s before the first step, and the start is blocked: rank %d (%s, pid %d) is in %s, and its "
      "main thread %s; start it again when that is mended: nothing is lost",
      request, rank, card[rank].host, card[rank].pid, work, state[rank].seen);
}

void ct__watch_words(char letter, const char *sleeps_in, char *buf, size_t cap)
{
  int known = sleeps_in[0] && strcmp(sleeps_in, "0") != 0;
  const char *in = known ? " in " : "", *where = known ? sleeps_in : "";
  switch (letter) {
  case 0:
    snprintf(buf, cap, "is gone");
    break;
  case 'R':
    snprintf(buf, cap, "runs");
    break;
  case 'S':
    snprintf(buf, cap, "sleeps%s%s", in, where);
    break;
  case 'D':
    snprintf(buf, cap, "sleeps uninterruptibly%s%s (state D)", in, where);
    break;
  case 'T':
    snprintf(buf, cap, "is stopped by a signal (state T)");
    break;
  case 't':
    snprintf(buf, cap, "is stopped by a debugger (state t)");
    break;
  case 'Z':
  case 'X':
    snprintf(buf, cap, "has ended (state %c)", letter);
    break;
  default:
    snprintf(buf, cap, "is in state %c%s%s", letter, in, where);
  }
}
