/* State of processes from /proc, and the stack trace of this process's main thread. */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_hash.h"
#include "base/ct_file.h"
#include "watch/watch.h"

/* ---- /proc ---- */

/* Reads a one-line file of the kernel; empty if the file does not exist. */
static size_t proc_read_text(const char *path, char *buf, size_t cap)
{
  size_t len = ct_file_peek(path, buf, cap);
  while (len && buf[len - 1] == '\n')
    len--;
  buf[len] = '\0';
  return len;
}

/* Reads state and start time from a "stat" file, see proc(5). letter 0: the process has ended. */
static void read_stat(const char *path, char *letter, uint64_t *started)
{
  enum { STARTTIME = 19 }; /* its position, counted from the field after the state */
  char text[1024];
  unsigned long long ticks = 0;
  *letter = 0;
  *started = 0;
  if (!proc_read_text(path, text, sizeof text)) return;
  char *p = strrchr(text, ')'); /* the command name may contain spaces and parentheses */
  if (!p || p[1] != ' ') return;
  *letter = p[2];
  for (int i = 0; p && i <= STARTTIME; i++)
    p = strchr(p + 1, ' ');
  if (p && sscanf(p, "%llu", &ticks) == 1) *started = ticks;
}

static void in_words(const char *folder, char letter, char *buf, size_t cap)
{
  char path[64], where[64];
  snprintf(path, sizeof path, "%s/wchan", folder);
  proc_read_text(path, where, sizeof where);
  ct__watch_words(letter, where, buf, cap);
}

static char letter_of(const ct__watch_card_t *of)
{
  char path[64], letter;
  uint64_t started;
  snprintf(path, sizeof path, "/proc/%d/stat", of->pid);
  read_stat(path, &letter, &started);
  return started == of->started ? letter : 0;
}

void ct__watch_see(const ct__watch_card_t *of, char *buf, size_t cap)
{
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%d", of->pid);
  in_words(folder, letter_of(of), buf, cap);
}

void ct__watch_kill(const ct__watch_card_t *of)
{
  if (letter_of(of)) kill(of->pid, SIGKILL);
}

void ct__watch_see_thread(pid_t thread, char *buf, size_t cap)
{
  char folder[48], path[64], letter;
  uint64_t started;
  snprintf(folder, sizeof folder, "/proc/self/task/%d", (int)thread);
  snprintf(path, sizeof path, "%s/stat", folder);
  read_stat(path, &letter, &started);
  in_words(folder, letter, buf, cap);
}

/* Returns a hash of a namespace and the boot id: equal for two processes in the same namespace of
 * one kernel. */
static uint64_t space(const char *which)
{
  char path[32], boot[64], name[64];
  snprintf(path, sizeof path, "/proc/self/ns/%s", which);
  ssize_t n = readlink(path, name, sizeof name);
  if (n <= 0 || !proc_read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return 0;
  return ct_hash(name, (size_t)n, ct_hash_text(boot, 0));
}

void ct__watch_describe(ct__watch_card_t *card, const char *host)
{
  char letter;
  snprintf(card->host, sizeof card->host, "%s", host);
  card->pid = (int32_t)getpid();
  read_stat("/proc/self/stat", &letter, &card->started);
  card->machine = space("pid");
}

uint64_t ct__watch_network(void)
{
  return space("net");
}

/* ---- stack trace ---- */

enum {
  FRAMES = 20,
  SKIPPED = 2 /* frames of the handler itself and of the kernel's signal trampoline */
};

static pthread_t shown;
static pid_t shown_id;
static struct sigaction before;
static void *frame[FRAMES];
static atomic_int frames; /* -1: requested */

/* Returns a signal that is unlikely to be used otherwise. */
static int request(void)
{
  return SIGRTMAX - 3;
}

static void note_frames(int sig)
{
  (void)sig;
  if (atomic_load(&frames) < 0) atomic_store(&frames, backtrace(frame, FRAMES));
}

void ct__watch_stack_open(void)
{
  void *once[1];
  struct sigaction act = {.sa_handler = note_frames, .sa_flags = SA_RESTART};
  sigemptyset(&act.sa_mask);
  shown = pthread_self();
  shown_id = gettid();
  atomic_store(&frames, 0);
  (void)backtrace(once, 1); /* loads a library, which a signal handler must not do */
  sigaction(request(), &act, &before);
}

void ct__watch_stack_close(void)
{
  sigaction(request(), &before, NULL);
}

/* Writes a stack frame as "ct_train_loop+0x1f (ctrain-hpc+0x2345)"; the second part is for
 * addr2line. */
static int put_frame(void *address, char *buf, size_t cap)
{
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname) return snprintf(buf, cap, "%p\n", address);
  const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
  size_t in_file = (size_t)((char *)address - (char *)info.dli_fbase);
  if (!info.dli_sname) return snprintf(buf, cap, "%s+0x%zx\n", file, in_file);
  return snprintf(buf, cap, "%s+0x%zx (%s+0x%zx)\n", info.dli_sname,
                  (size_t)((char *)address - (char *)info.dli_saddr), file, in_file);
}

void ct__watch_stack(char *buf, size_t cap)
{
  enum { TRIES = 100 };
  static const struct timespec pause = {.tv_nsec = 10000000};
  size_t len = 0;
  atomic_store(&frames, -1);
  pthread_kill(shown, request());
  for (int i = 0; i < TRIES && atomic_load(&frames) < 0; i++)
    nanosleep(&pause, NULL);
  int n = atomic_exchange(&frames, 0);
  if (n <= 0) {
    size_t head = (size_t)snprintf(buf, cap, "no stack, the main thread does not react: it ");
    if (head < cap) ct__watch_see_thread(shown_id, buf + head, cap - head);
    return;
  }
  buf[0] = '\0';
  for (int i = SKIPPED; i < n && len + 1 < cap; i++) {
    int more = put_frame(frame[i], buf + len, cap - len);
    len += more > 0 ? (size_t)more : 0;
  }
}
