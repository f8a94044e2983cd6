#include "comm/ct_stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void note(int sig)
{
  static volatile sig_atomic_t interrupts;
  if (!asked) asked = sig;
  if (sig == SIGINT && interrupts++) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT); /* delivered on return from this handler */
  }
}

void ct_stop_setup(void)
{
  static const int signals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
  struct sigaction act = {.sa_handler = note, .sa_flags = SA_RESTART};
  sigemptyset(&act.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaddset(&act.sa_mask, signals[i]);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &act, NULL);
}

int ct_stop_asked(void)
{
  return asked;
}
