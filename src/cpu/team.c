/* Sets and tests the OpenMP team, and how its threads compute.  oneDNN's primitives are created for
 * a fixed number of threads, and some have barriers for that number: with fewer they would hang.
 * OpenMP may start fewer threads than requested because of its environment variables, and aborts
 * without a useful message if the system refuses a thread.  So the variables and the system's
 * limits are tested before anything is computed. */
#include "cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#  include <xmmintrin.h>
#endif

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "host/ct_thread.h"

enum { LEAST_STACK = 256 << 10 };

/* Only exists in LLVM's OpenMP. */
extern size_t kmp_get_stacksize_s(void) __attribute__((weak));

/* ---- subnormal numbers ---- */

/* Lets the calling thread, and threads that it starts later, compute with subnormal numbers as 0:
 * as operands and as results.  An instruction that meets one takes about 150 cycles on Intel's
 * processors, and momenta of weights without gradients decay to them and stay there.  This is never
 * undone: sums over ranks must round like those of ops, and nothing else in the program depends on
 * it (copies move bits; ct_half_float() does not meet subnormals of float32). */
static void flush_subnormals(void)
{
#if defined __x86_64__
  enum { FLUSH_RESULTS = 1 << 15, FLUSH_OPERANDS = 1 << 6, FLUSH = FLUSH_RESULTS | FLUSH_OPERANDS };
  unsigned control = _mm_getcsr();
  if ((control & FLUSH) != FLUSH) _mm_setcsr(control | FLUSH);
#elif defined __aarch64__
  const uint64_t flush = 1 << 24;
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  if (!(control & flush)) __asm__ volatile("msr fpcr, %0" : : "r"(control | flush));
#endif
}

/* ---- size ---- */

void cpu__team_use(int threads)
{
  flush_subnormals();
  omp_set_dynamic(0);
  omp_set_max_active_levels(1);
  omp_set_num_threads(threads);
}

/* ---- stacks ---- */

/* Parses "512", "512 k", "2M"; the default unit is KiB.  0: invalid. */
static size_t stack_bytes(const char *text)
{
  static const char units[] = "bkmg";
  char *end;
  unsigned long long n = strtoull(text, &end, 10);
  if (end == text) return 0;
  end += strspn(end, " \t");
  const char *unit = *end ? strchr(units, *end | 0x20) : units + 1;
  return unit ? (size_t)n << 10 * (unit - units) : 0;
}

/* Returns the stack size that GNU's OpenMP uses, and the name of its variable; 0: the system's
 * default. */
static size_t stack_asked(const char **name)
{
  static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};
  *name = kmp_get_stacksize_s ? "KMP_STACKSIZE, OMP_STACKSIZE or GOMP_STACKSIZE" : names[0];
  if (kmp_get_stacksize_s) return kmp_get_stacksize_s();
  for (int i = 0; i < 2; i++) {
    const char *text = getenv(names[i]);
    size_t bytes = text ? stack_bytes(text) : 0;
    *name = names[i];
    if (bytes) return bytes;
  }
  return 0;
}

static int check_stack(size_t bytes, const char *name)
{
  char has[32], least[32];
  if (bytes == 0 || bytes >= LEAST_STACK) return CT_OK;
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "%s gives a thread %s of stack, and %s are needed: unset it, or export "
                    "OMP_STACKSIZE=8M",
                    name, ct_text_bytes((double)bytes, has, sizeof has),
                    ct_text_bytes(LEAST_STACK, least, sizeof least));
}

/* ---- threads ---- */

static void *wait_for_all(void *lock)
{
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

/* Starts as many threads as the team will have besides this one, all at once. */
static int try_threads(int n, size_t stack)
{
  char what[80];
  int error = 0, running = 0;
  pthread_attr_t attr;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t *thread = ct_mem_array(n, sizeof *thread, "the team of threads");
  if (!thread) return CT_ERR_NOMEM;
  pthread_attr_init(&attr);
  if (stack) pthread_attr_setstacksize(&attr, stack);
  pthread_mutex_lock(&lock);
  while (running < n && !error) {
    error = pthread_create(&thread[running], &attr, wait_for_all, &lock);
    running += !error;
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < running; i++)
    pthread_join(thread[i], NULL);
  pthread_attr_destroy(&attr);
  ct_mem_free(thread);
  snprintf(what, sizeof what, "%d of the %d to compute with (OMP_NUM_THREADS, cpu.threads)",
           running + 2, n + 1);
  return error ? ct_thread_refused(error, what) : CT_OK;
}

/* Starts the team, or sets up the threads of an older one. */
static int team_size(void)
{
  int came = 0;
#pragma omp parallel
  {
    flush_subnormals();
#pragma omp single
    came = omp_get_num_threads();
  }
  return came;
}

int cpu__team_check(int threads)
{
  int rc = CT_OK;
  const char *name;
  size_t stack = stack_asked(&name);
  cpu__team_use(threads);
  if (threads == 1) return CT_OK;
  CT_TRY(check_stack(stack, name));
  if (omp_get_thread_limit() < threads)
    CT_FAIL(CT_ERR_USAGE,
            "OMP_THREAD_LIMIT allows %d thread%s, and the team has %d (OMP_NUM_THREADS, "
            "cpu.threads, or the share of the cores): unset it, or --set cpu.threads=%d",
            omp_get_thread_limit(), omp_get_thread_limit() == 1 ? "" : "s", threads,
            omp_get_thread_limit());
  CT_TRY(try_threads(threads - 1, stack));
  int came = team_size();
  if (came < threads)
    CT_FAIL(CT_ERR_USAGE,
            "OpenMP gives %d of %d threads: unset its variables that limit them (env | grep -E "
            "'^(OMP|KMP|GOMP)_'), or --set cpu.threads=%d",
            came, threads, came);
out:
  return rc;
}
