/* Threads of the emulator (emu.h).  All threads of a launch run on fibers: separate stacks,
 * switched by longjmp.  A fiber runs one thread after another, so a kernel without barriers needs
 * no switch.  A waiting thread keeps its fiber until it resumes, and another fiber runs the next
 * threads.  The host's stack only starts the first fiber; control returns to it at the end, or from
 * any fiber after a fault. */
#undef _FORTIFY_SOURCE /* its checked longjmp rejects other stacks */
#include "tests/cuda/emu/emu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN 1
#  endif
#endif
#if defined(WITH_ASAN)
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>
#else
#  define WITH_ASAN                                           0
#  define __sanitizer_start_switch_fiber(fake, stack, bytes)  ((void)0)
#  define __sanitizer_finish_switch_fiber(fake, stack, bytes) ((void)(fake))
#  define __sanitizer_set_death_callback(f)                   ((void)(f))
#  define __asan_poison_memory_region(p, bytes)               ((void)0)
#  define __asan_unpoison_memory_region(p, bytes)             ((void)0)
#endif

const bool emu_has_asan = WITH_ASAN;

enum {
  MAX_THREADS = 1024, /* limit per block */
  WARP = 32,
  STACK_BYTES = 128 * 1024,
  GUARD_BYTES = 4096,
  SHARED_BYTES = 48 * 1024, /* static shared memory per block */
  SHARED_APART = 64,        /* gap between two arrays, so that ASan detects an index out of
                               bounds */
  SHARED_ARRAYS = 64
};

typedef struct fiber {
  unsigned char *stack;
  size_t bytes;
  int started;
  jmp_buf at;
  void *fake; /* ASan's fake stack */
} fiber_t;

typedef enum { RUNS, WAITS_BLOCK, WAITS_WARP, ENDED } state_t;

typedef struct thread {
  state_t state;
  uint3 index;
  fiber_t *fiber; /* fiber of a suspended thread */
  const char *file;
  int line;
  /* arguments of its warp operation */
  emu_join_t what;
  unsigned mask;
  int lane; /* requested source lane */
  uint64_t value, result;
} thread_t;

/* A permutation of 0 … n-1: visits each number once, in steps of constant size. */
typedef struct walk {
  int64_t n, at, step, left;
} walk_t;

emu_thread_t emu_now;
uint64_t emu_block_number;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { ASCENDING, DESCENDING, RANDOM, UNKNOWN } order = UNKNOWN;
static uint64_t seed;

static fiber_t host, fibers[MAX_THREADS + 1], *idle[MAX_THREADS + 1], *current, *before;
static int nfibers, idles;

static const emu_kernel_t *kernel; /* running kernel, or NULL */
static const void *arguments;
static thread_t threads[MAX_THREADS];
static int nthreads, self, ended, handed;
static walk_t blocks, fresh;   /* blocks and threads not started yet */
static int ready[MAX_THREADS]; /* ring buffer of threads that can resume */
static unsigned ready_first, ready_count;
static int joined, votes, voted; /* __syncthreads: threads waiting, their votes; result of the
                                    last one */
static unsigned waiting[MAX_THREADS / WARP]; /* per warp: mask of lanes that wait for other lanes */
alignas(256) static unsigned char shared[SHARED_BYTES + SHARED_ARRAYS * SHARED_APART];
static size_t shared_used, shared_sum;
static int faulty;
static char fault[512];

/* ---- order ---- */

static uint64_t draw(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

void emu_order(const char *text)
{
  if (!text) text = getenv("CTRAIN_EMU_ORDER");
  if (!text) text = "random";
  order = strcmp(text, "asc") == 0 ? ASCENDING : strcmp(text, "desc") == 0 ? DESCENDING : RANDOM;
  const char *colon = strchr(text, ':');
  seed = (colon ? strtoull(colon + 1, NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
}

static int64_t divisor(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void walk_set(walk_t *w, int64_t n)
{
  w->n = w->left = n;
  w->at = order == DESCENDING ? n - 1 : 0;
  w->step = order == DESCENDING ? n - 1 : 1;
  if (order != RANDOM || n == 1) return;
  w->at = (int64_t)(draw() % (uint64_t)n);
  w->step = 1 + (int64_t)(draw() % (uint64_t)n);
  while (divisor(w->step, n) != 1)
    w->step++;
}

static int64_t walk_on(walk_t *w)
{
  int64_t at = w->at;
  w->left--;
  w->at += w->step;
  if (w->at >= w->n) w->at = (w->at) % w->n;
  return at;
}

/* ---- fibers ---- */

static void fiber_main(void);

static void start(fiber_t *f)
{
  static ucontext_t context; /* static, since its stack frame may be abandoned without return */
  f->started = 1;
  getcontext(&context);
  context.uc_stack.ss_sp = f->stack;
  context.uc_stack.ss_size = f->bytes;
  context.uc_link = NULL;
  makecontext(&context, fiber_main, 0);
  setcontext(&context);
}

/* Tells ASan that a stack switch is complete. */
static void arrive(void *fake)
{
  const void *stack = NULL;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake, &stack, &bytes);
  if (before != &host) return;
  host.stack = (unsigned char *)stack; /* target of the return to the host's stack */
  host.bytes = bytes;
}

static __attribute__((noinline)) void switch_to(fiber_t *to)
{
  fiber_t *from = before = current;
  current = to;
  __sanitizer_start_switch_fiber(&from->fake, to->stack, to->bytes);
  if (!_setjmp(from->at)) {
    if (to->started) _longjmp(to->at, 1);
    start(to);
  }
  arrive(current->fake);
}

/* Returns an idle fiber, or a new one.  Stacks start at different cache lines. */
static fiber_t *idle_fiber(void)
{
  if (idles > 0) return idle[--idles];
  fiber_t *f = &fibers[nfibers++];
  size_t bytes = STACK_BYTES + GUARD_BYTES;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0) {
    perror("emu: no memory for a stack");
    abort();
  }
  f->stack = (unsigned char *)p + GUARD_BYTES;
  f->bytes = STACK_BYTES - (size_t)(nfibers % 64) * 64;
  return f;
}

/* Discards all fibers after a fault; no suspended thread resumes. */
static void abandon_fibers(void)
{
  idles = 0;
  for (int i = nfibers - 1; i >= 0; i--) {
    fibers[i].started = 0;
    __asan_unpoison_memory_region(fibers[i].stack, fibers[i].bytes);
    idle[idles++] = &fibers[i];
  }
}

/* ---- faults ---- */

static void record_fault(const thread_t *t, const char *file, int line, const char *what)
{
  snprintf(fault, sizeof fault, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u), %s:%d: %s",
           kernel->name, blockIdx.x, blockIdx.y, blockIdx.z, t->index.x, t->index.y, t->index.z,
           file, line, what);
  fprintf(stderr, "emu: %s\n", fault);
  faulty = 1;
}

[[noreturn]] static void leave(void)
{
  switch_to(&host);
  abort(); /* never reached: this fiber is never resumed */
}

void emu_fail(const char *file, int line, const char *format, ...)
{
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  record_fault(&threads[self], file, line, what);
  leave();
}

/* Adds kernel, block and thread to the sanitizer's report. */
static void tell_thread(void)
{
  if (kernel)
    fprintf(stderr, "emu: kernel %s, block (%u, %u, %u), thread (%u, %u, %u)\n", kernel->name,
            blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

static const char *name_of(emu_join_t what)
{
  static const char *const name[] = {"__syncthreads", "__syncwarp", "a shuffle", "a ballot"};
  return name[what];
}

/* Reports a deadlock: t waits for u, and no thread can run. */
[[noreturn]] static void fail_stalled(const thread_t *t, const thread_t *u)
{
  char what[256];
  const char *kind = t->state == WAITS_BLOCK ? "__syncthreads" : name_of(t->what);
  if (u->state == ENDED) {
    snprintf(what, sizeof what, "%s waits for thread (%u, %u, %u), which has ended", kind,
             u->index.x, u->index.y, u->index.z);
  } else {
    snprintf(what, sizeof what, "%s waits for thread (%u, %u, %u), which is at %s:%d", kind,
             u->index.x, u->index.y, u->index.z, u->file, u->line);
  }
  record_fault(t, t->file, t->line, what);
  leave();
}

[[noreturn]] static void explain_stall(void)
{
  for (int i = 0; i < nthreads; i++) {
    const thread_t *t = &threads[i];
    if (t->state != WAITS_WARP) continue;
    for (int lane = 0; lane < WARP; lane++)
      if (t->mask >> lane & 1 && !(waiting[i / WARP] >> lane & 1))
        fail_stalled(t, &threads[i / WARP * WARP + lane]);
  }
  for (int i = 0; i < nthreads; i++)
    for (int k = 0; k < nthreads; k++)
      if (threads[i].state == WAITS_BLOCK && threads[k].state != WAITS_BLOCK)
        fail_stalled(&threads[i], &threads[k]);
  abort(); /* never reached: a deadlock has a waiting thread */
}

/* ---- threads ---- */

static void begin_block(void)
{
  int64_t i = walk_on(&blocks);
  dim3 grid = kernel->grid;
  blockIdx.x = (unsigned)(i % grid.x);
  blockIdx.y = (unsigned)(i / grid.x % grid.y);
  blockIdx.z = (unsigned)(i / grid.x / grid.y);
  walk_set(&fresh, nthreads);
  ended = 0;
  emu_block_number++;
  __asan_poison_memory_region(shared, shared_used);
  shared_used = shared_sum = 0;
}

/* Returns the next thread to run; -1: the launch is complete. */
static int next(void)
{
  if (ready_count > 0 && (fresh.left == 0 || (order == RANDOM && draw() & 1))) {
    int t = ready[ready_first++ % MAX_THREADS];
    ready_count--;
    return t;
  }
  if (fresh.left == 0) {
    if (ended < nthreads) explain_stall();
    if (blocks.left == 0) return -1;
    begin_block();
  }
  int t = (int)walk_on(&fresh);
  threads[t].fiber = NULL;
  return t;
}

static void run_fresh(int t)
{
  thread_t *me = &threads[t];
  dim3 dim = kernel->block;
  unsigned x = (unsigned)t, y = 0, z = 0;
  self = t;
  me->state = RUNS;
  if (dim.x != (unsigned)nthreads) {
    x = (unsigned)t % dim.x;
    y = (unsigned)t / dim.x % dim.y;
    z = (unsigned)t / dim.x / dim.y;
  }
  threadIdx.x = me->index.x = x; /* member by member, since copying a struct just after writing
                                    its parts is slow */
  threadIdx.y = me->index.y = y;
  threadIdx.z = me->index.z = z;
  kernel->body(arguments);
  me->state = ENDED;
  ended++;
}

static void fiber_main(void)
{
  arrive(NULL);
  for (;;) {
    int t = handed;
    do {
      run_fresh(t);
      t = next();
    } while (t >= 0 && !threads[t].fiber);
    idle[idles++] = current;
    switch_to(t < 0 ? &host : threads[t].fiber);
  }
}

/* Suspends the running thread until it is in the ready ring. */
static void park(void)
{
  int me = self;
  threads[me].fiber = current;
  int t = next();
  if (threads[t].fiber) {
    if (t != me) switch_to(threads[t].fiber);
  } else {
    handed = t;
    switch_to(idle_fiber());
  }
  self = me;
  threads[me].state = RUNS;
  threadIdx = threads[me].index;
}

static void release(int t)
{
  ready[(ready_first + ready_count++) % MAX_THREADS] = t;
}

/* ---- joins ---- */

int emu_lane(void)
{
  return self % WARP;
}

static bool is_here(const char *file, int line, const char *other_file, int other_line)
{
  return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

static void wait_at(state_t state, const char *file, int line)
{
  threads[self].state = state;
  threads[self].file = file;
  threads[self].line = line;
}

int emu_join_block(int vote, const char *file, int line)
{
  static const char *first_file;
  static int first_line;
  if (joined++ == 0) {
    first_file = file;
    first_line = line;
    votes = 0;
  } else if (!is_here(file, line, first_file, first_line)) {
    emu_fail(file, line, "__syncthreads, but other threads of the block are at %s:%d", first_file,
             first_line);
  }
  votes += vote;
  if (joined < nthreads) {
    wait_at(WAITS_BLOCK, file, line);
    park();
    return voted;
  }
  joined = 0;
  voted = votes;
  walk_t others;
  walk_set(&others, nthreads);
  while (others.left > 0) {
    int t = (int)walk_on(&others);
    if (t != self) release(t);
  }
  return voted;
}

static void check_mask(emu_join_t what, unsigned mask, int lane, const char *file, int line)
{
  int me = self % WARP;
  if (!(mask >> me & 1))
    emu_fail(file, line, "%s: lane %d is not in its own mask %08x", name_of(what), me, mask);
  if (!(mask >> lane & 1))
    emu_fail(file, line, "%s from lane %d, which is not in the mask %08x", name_of(what), lane,
             mask);
  int lanes = nthreads - self / WARP * WARP;
  if (lanes < WARP && mask >> lanes)
    emu_fail(file, line, "%s with the mask %08x in a warp of %d threads", name_of(what), mask,
             lanes);
}

/* All lanes of the mask have arrived: computes the result of each, and marks all but this one
 * ready. */
static void complete(emu_join_t what, unsigned mask, const char *file, int line)
{
  thread_t *warp = &threads[self / WARP * WARP];
  uint64_t ballot = 0;
  for (int i = 0; i < WARP; i++) {
    const thread_t *t = &warp[i];
    if (!(mask >> i & 1)) continue;
    if (t->what != what || t->mask != mask || !is_here(file, line, t->file, t->line))
      emu_fail(file, line,
               "%s with the mask %08x, but lane %d is in %s with the mask %08x at %s:%d",
               name_of(what), mask, i, name_of(t->what), t->mask, t->file, t->line);
    ballot |= t->value << i;
  }
  walk_t lanes;
  walk_set(&lanes, WARP);
  while (lanes.left > 0) {
    int i = (int)walk_on(&lanes);
    if (!(mask >> i & 1)) continue;
    warp[i].result = what == EMU_BALLOT ? ballot : warp[warp[i].lane].value;
    if (&warp[i] != &threads[self]) release(self / WARP * WARP + i);
  }
  waiting[self / WARP] &= ~mask;
}

uint64_t emu_join_warp(emu_join_t what, unsigned mask, uint64_t value, int lane, const char *file,
                       int line)
{
  thread_t *me = &threads[self];
  unsigned *others = &waiting[self / WARP];
  check_mask(what, mask, lane, file, line);
  wait_at(WAITS_WARP, file, line);
  me->what = what;
  me->mask = mask;
  me->value = value;
  me->lane = lane;
  *others |= 1u << self % WARP;
  if ((*others & mask) == mask) {
    complete(what, mask, file, line);
    me->state = RUNS;
  } else {
    park();
  }
  return me->result;
}

/* ---- shared memory ---- */

unsigned char *emu_shared_new(emu_shared_t *place, size_t bytes, const char *file, int line)
{
  size_t aligned = (bytes + 15) / 16 * 16;
  shared_sum += aligned;
  if (shared_sum > SHARED_BYTES || shared_used + aligned + SHARED_APART > sizeof shared)
    emu_fail(file, line, "more than %d bytes of shared memory", SHARED_BYTES);
  place->at = shared + shared_used;
  place->block = emu_block_number;
  shared_used += aligned + SHARED_APART;
  __asan_unpoison_memory_region(place->at, bytes);
  memset(place->at, 0xff, bytes);
  return place->at;
}

/* ---- launches ---- */

const char *emu_fault(void)
{
  return fault;
}

int emu_run(const emu_kernel_t *k, const void *args)
{
  pthread_mutex_lock(&lock);
  if (order == UNKNOWN) emu_order(NULL);
  __sanitizer_set_death_callback(tell_thread);
  kernel = k;
  arguments = args;
  blockDim = k->block;
  gridDim = k->grid;
  nthreads = (int)(k->block.x * k->block.y * k->block.z);
  walk_set(&blocks, (int64_t)k->grid.x * k->grid.y * k->grid.z);
  begin_block();
  faulty = joined = 0;
  ready_count = 0;
  memset(waiting, 0, sizeof waiting);
  host.started = 1;
  current = &host;
  handed = next();
  switch_to(idle_fiber());
  if (faulty) abandon_fibers();
  kernel = NULL;
  int rc = faulty;
  pthread_mutex_unlock(&lock);
  return rc;
}
