/* Which bytes each action of a stream reads and writes, and whether another stream's accesses to
 * them are ordered before it (fake_cuda.h).
 *
 * Order is kept in vector clocks: every stream, every stream inside graphs, and the host are a lane.
 * An action has a number on its lane and knows, for every lane, the latest action that has completed
 * before it starts.  Actions run in some legal order, and each is compared with those that ran
 * before, so what is found depends only on the program's calls.
 *
 * Kernels are compiled with -fsanitize=thread: the compiler puts a call before each access to memory,
 * and these calls (__tsan_*) end here instead of in that library. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>

#include "tests/cuda/emu/fake.h"

typedef std::shared_ptr<const fake_who_t> who_t;

enum { READS = 1, WRITES = 2, PAGE = 4096 };

/* ---- memory of the device ---- */

/* All allocations are made from one range of addresses, each once, so that an action that comes too
 * late finds memory that is no longer allocated. */
static const size_t space_bytes = (size_t)1 << 40;
static unsigned char *space, *space_end;
static unsigned char *marks;  /* for each byte of the space: READS | WRITES by the running action */
static unsigned char *marked; /* 1: this page has marks */
static std::vector<size_t> pages; /* with marks */

static unsigned char *reserve(size_t bytes)
{
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("fake cuda: no addresses for the memory of devices");
    abort();
  }
  madvise(p, bytes, MADV_DONTDUMP);
  return (unsigned char *)p;
}

void *fake_space_new(size_t bytes)
{
  void *p;
  if (emu_has_asan) /* which finds accesses out of bounds by itself */
    return posix_memalign(&p, 256, bytes) == 0 ? p : NULL;
  if (!space) {
    space = reserve(space_bytes);
    marks = reserve(space_bytes);
    marked = reserve(space_bytes / PAGE);
    space_end = space + 256;
  }
  p = space_end;
  /* at least one page apart, which is given back as a whole */
  space_end += (bytes + 2 * PAGE - 1) / PAGE * PAGE;
  return space_end + PAGE < space + space_bytes ? p : NULL;
}

void fake_space_free(void *p, size_t bytes)
{
  if (emu_has_asan) {
    free(p);
    return;
  }
  uintptr_t first = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE, end = (uintptr_t)p + bytes;
  if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* ---- accesses of kernels ---- */

static __attribute__((noinline)) void add_page(size_t page)
{
  marked[page] = 1;
  pages.push_back(page);
}

static inline __attribute__((always_inline)) void mark(const void *p, size_t n, unsigned char how)
{
  size_t at = (size_t)((const unsigned char *)p - space);
  if (at >= space_bytes) return;
  for (size_t i = 0; i < n; i++)
    marks[at + i] |= how;
  for (size_t page = at / PAGE; page <= (at + n - 1) / PAGE && n > 0; page++)
    if (!marked[page]) add_page(page);
}

/* As mark(), of sizeof(T) bytes at once. */
template <class T>
static inline __attribute__((always_inline)) void mark_as(const void *p, unsigned char how)
{
  size_t at = (size_t)((const unsigned char *)p - space);
  if (at >= space_bytes) return;
  T was, mask;
  memset(&mask, how, sizeof mask);
  memcpy(&was, marks + at, sizeof was);
  was |= mask;
  memcpy(marks + at, &was, sizeof was);
  if (!marked[at / PAGE]) add_page(at / PAGE);
  if (!marked[(at + sizeof(T) - 1) / PAGE]) add_page((at + sizeof(T) - 1) / PAGE);
}

#ifdef FAKE_SEES_KERNELS /* else a sanitizer has these functions */
#  define ACCESSES(n, T)                    \
    void __tsan_read##n(void *p)            \
    {                                       \
      mark_as<T>(p, READS);                 \
    }                                       \
    void __tsan_write##n(void *p)           \
    {                                       \
      mark_as<T>(p, WRITES);                \
    }                                       \
    void __tsan_unaligned_read##n(void *p)  \
    {                                       \
      mark_as<T>(p, READS);                 \
    }                                       \
    void __tsan_unaligned_write##n(void *p) \
    {                                       \
      mark_as<T>(p, WRITES);                \
    }
extern "C" {
ACCESSES(1, uint8_t)
ACCESSES(2, uint16_t)
ACCESSES(4, uint32_t)
ACCESSES(8, uint64_t)
ACCESSES(16, unsigned __int128)
void __tsan_read_range(void *p, size_t n)
{
  mark(p, n, READS);
}
void __tsan_write_range(void *p, size_t n)
{
  mark(p, n, WRITES);
}
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
  mark(from, n, READS);
  mark(to, n, WRITES);
  return memcpy(to, from, n);
}
void *__tsan_memset(void *p, int v, size_t n)
{
  mark(p, n, WRITES);
  return memset(p, v, n);
}
void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
}
#endif

/* ---- clocks ---- */

static int lanes = 1; /* 0 is the host */
static std::vector<int> spare_lanes;
static fake_clock_t host_clock;
static std::vector<uint32_t> issued; /* by lane: number of the latest action */

static uint32_t of(const fake_clock_t &c, int lane)
{
  return (size_t)lane < c.size() ? c[(size_t)lane] : 0;
}

void fake_clock_join(fake_clock_t *c, const fake_clock_t &other)
{
  if (c->size() < other.size()) c->resize(other.size());
  for (size_t i = 0; i < other.size(); i++)
    (*c)[i] = std::max((*c)[i], other[i]);
}

int fake_lane_new(void)
{
  if (spare_lanes.empty()) return lanes++;
  int lane = spare_lanes.back();
  spare_lanes.pop_back();
  return lane;
}

void fake_lane_free(int lane)
{
  spare_lanes.push_back(lane);
}

void fake_clock_next(fake_clock_t *c, int lane)
{
  if (issued.size() <= (size_t)lane) issued.resize((size_t)lane + 1);
  if (c->size() <= (size_t)lane) c->resize((size_t)lane + 1);
  (*c)[(size_t)lane] = ++issued[(size_t)lane];
}

void fake_host_waited(const fake_clock_t &c)
{
  fake_clock_join(&host_clock, c);
}

const fake_clock_t &fake_host_clock(void)
{
  return host_clock;
}

/* ---- comparison ---- */

/* The accesses to a range of bytes that later ones are compared with. */
struct access_t {
  who_t who;
  uint32_t number;
};
struct range_t {
  const unsigned char *end;
  access_t write;
  std::vector<access_t> reads; /* since then, the latest of each lane */
};
static std::map<const unsigned char *, range_t> ranges; /* by first byte; they do not overlap */
static who_t now;
static char hazard[512]; /* the first one of the running action */
static int hazards;

static std::string name_of(const fake_who_t *w)
{
  return w->lane == 0 ? w->what : w->what + " on stream " + std::to_string(w->stream);
}

static void tell(const char *how, const unsigned char *at, const unsigned char *end,
                 const access_t *other, const char *other_how)
{
  const unsigned char *start = NULL;
  const fake_memory_t *m = fake_memory_of(at, &start);
  hazards++;
  if (hazard[0]) return;
  std::string first = name_of(now.get()), second = other ? name_of(other->who.get()) : "";
  if (!other)
    snprintf(hazard, sizeof hazard, "%s %s %zu bytes at %p, which are not allocated", first.c_str(),
             how, (size_t)(end - at), (const void *)at);
  else
    snprintf(hazard, sizeof hazard,
             "%s %s bytes %zu to %zu of an allocation of %zu, which %s %s, and nothing orders them",
             first.c_str(), how, m ? (size_t)(at - start) : 0, m ? (size_t)(end - start) : 0,
             m ? m->bytes : 0, second.c_str(), other_how);
  fprintf(stderr, "fake cuda: %s\n", hazard);
}

static bool is_before(const access_t &a)
{
  return !a.who || of(now->clock, a.who->lane) >= a.number;
}

/* Makes p the first byte of a range, if it lies within one. */
static void split(const unsigned char *p)
{
  auto r = ranges.upper_bound(p);
  if (r == ranges.begin()) return;
  --r;
  if (r->first == p || r->second.end <= p) return;
  range_t rest = r->second;
  r->second.end = p;
  ranges.emplace(p, std::move(rest));
}

static void add_read(range_t *r, const access_t &mine)
{
  for (access_t &a : r->reads)
    if (a.who->lane == now->lane) {
      a = mine;
      return;
    }
  r->reads.push_back(mine);
}

/* Compares an access with earlier ones of the ranges inside it, whose first is r. */
static void compare(std::map<const unsigned char *, range_t>::iterator r, const unsigned char *end,
                    bool writes)
{
  const char *how = writes ? "writes" : "reads";
  for (; r != ranges.end() && r->first < end; ++r) {
    if (!is_before(r->second.write)) tell(how, r->first, r->second.end, &r->second.write, "writes");
    for (const access_t &a : r->second.reads)
      if (writes && !is_before(a)) tell(how, r->first, r->second.end, &a, "reads");
  }
}

static void access(const unsigned char *p, const unsigned char *end, bool writes)
{
  access_t mine = {now, of(now->clock, now->lane)};
  split(p);
  split(end);
  auto r = ranges.lower_bound(p);
  compare(r, end, writes);
  if (writes) {
    r = ranges.erase(r, ranges.lower_bound(end));
    ranges.emplace_hint(r, p, range_t{end, mine, {}});
    return;
  }
  while (p < end) {
    const unsigned char *next = r != ranges.end() && r->first < end ? r->first : end;
    if (p < next) ranges.emplace_hint(r, p, range_t{next, {nullptr, 0}, {mine}});
    if (next == end) return;
    add_read(&r->second, mine);
    p = r->second.end;
    ++r;
  }
}

void fake_forget(const void *p, size_t bytes)
{
  const unsigned char *at = (const unsigned char *)p;
  split(at);
  split(at + bytes);
  ranges.erase(ranges.lower_bound(at), ranges.lower_bound(at + bytes));
}

/* ---- actions ---- */

static void clear_marks(void)
{
  for (size_t page : pages) {
    memset(marks + page * PAGE, 0, PAGE);
    marked[page] = 0;
  }
  pages.clear();
}

void fake_access_begin(const who_t &who)
{
  clear_marks(); /* of the host, if a test is compiled like a kernel */
  now = who;
  hazard[0] = '\0';
}

const fake_who_t *fake_running(void)
{
  return now.get();
}

/* Adds an access of the running action. */
static void add(const unsigned char *p, const unsigned char *end, bool writes)
{
  const unsigned char *start;
  const fake_memory_t *m = fake_memory_of(p, &start);
  if (m && end <= start + m->bytes)
    access(p, end, writes);
  else if (space && p >= space && p < space + space_bytes)
    tell(writes ? "writes" : "reads", p, end, NULL, "");
}

/* Returns the end of the bytes that have the same marks as the first one. */
static size_t same_until(size_t at, size_t end)
{
  const unsigned char how = marks[at];
  const uint64_t eight = how * UINT64_C(0x0101010101010101);
  while (at < end && at % 8 != 0 && marks[at] == how)
    at++;
  while (at % 8 == 0 && at < end && memcmp(marks + at, &eight, 8) == 0)
    at += 8;
  while (at < end && marks[at] == how)
    at++;
  return at;
}

/* Turns the marks of a kernel into accesses.  A range with both marks is written. */
static void collect_marks(void)
{
  std::sort(pages.begin(), pages.end());
  for (size_t i = 0; i < pages.size();) {
    size_t at = pages[i] * PAGE, end;
    for (end = at + PAGE; ++i < pages.size() && pages[i] * PAGE == end;)
      end += PAGE;
    while (at < end) {
      size_t from = at;
      unsigned char how = marks[at];
      at = same_until(at, end);
      if (how) add(space + from, space + at, (how & WRITES) != 0);
    }
  }
  clear_marks();
}

cudaError_t fake_access_end(void)
{
  if (fake->hazards)
    collect_marks();
  else
    clear_marks();
  now = nullptr;
  return hazard[0] ? cudaErrorIllegalAddress : cudaSuccess;
}

extern "C" void fake_cuda_access(const void *p, size_t bytes, int writes)
{
  if (!now || bytes == 0 || !fake->hazards) return;
  add((const unsigned char *)p, (const unsigned char *)p + bytes, writes != 0);
}

extern "C" int fake_cuda_sees_kernels(void)
{
#ifdef FAKE_SEES_KERNELS
  return 1;
#else
  return 0;
#endif
}

extern "C" int fake_cuda_hazards(void)
{
  return hazards;
}

void fake_access_reset(void)
{
  ranges.clear();
  clear_marks();
  now = nullptr;
  host_clock.clear();
  hazard[0] = '\0';
  hazards = 0;
}
