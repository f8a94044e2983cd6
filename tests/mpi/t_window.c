/* The memory that the ranks of a node share: parts, sums, what is given to the others, counters,
 * room. */
#include <dlfcn.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/ct_mem.h"
#include "comm/ct_mpi.h"
#include "comm/host/window.h"
#include "tests/harness/ct_test_mpi.h"

static const ct_topo_t *const t = &ct_test_topo;

enum { COUNT = 5003, SKIPPED = 32 }; /* several blocks; floats at the start that are not in it */

static float element(int local_rank, int64_t i)
{
  return (float)((local_rank + 1) * (i % 997));
}

static float sum_of(int64_t i)
{
  float sum = 0;
  for (int r = 0; r < t->local_size; r++)
    sum += element(r, i);
  return sum;
}

static void all_here(void)
{
  ct_mpi_barrier(t, t->node);
}

/* ---- room: what /dev/shm says when it is asked ---- */

static double shm_room; /* bytes; 0: what it really has */

int statvfs(const char *path, struct statvfs *out)
{
  int (*real)(const char *, struct statvfs *) =
      (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs");
  if (shm_room == 0 || strcmp(path, "/dev/shm") != 0) return real(path, out);
  *out = (struct statvfs){.f_bsize = 1 << 20, .f_frsize = 4096, .f_bfree = 1 << 30};
  out->f_bavail = (fsblkcnt_t)(shm_room / 4096);
  return 0;
}

/* ---- parts ---- */

static void parts_cover_the_whole(void)
{
  for (int parts = 1; parts <= 9; parts++)
    for (int64_t n = 0; n <= 300; n++) {
      int64_t next = SKIPPED;
      for (int k = 0; k < parts; k++) {
        int64_t from = SKIPPED, to = SKIPPED + n;
        ct__window_cut(&from, &to, parts, k);
        CU_ASSERT(from == next && from <= to);
        CU_ASSERT(from == to || from % 16 == 0);
        CU_ASSERT(to - from <= (n + parts - 1) / parts + 15);
        next = to;
      }
      CT_ASSERT_INT(next, SKIPPED + n);
    }
}

/* ---- sums ---- */

static ct__window_t *open_window(int tree)
{
  ct__window_t *w = NULL;
  CT_ASSERT_OK(ct__window_open(t, 1, tree, &w));
  CU_ASSERT_PTR_NOT_NULL_FATAL(w);
  CU_ASSERT(ct__window_sharing(w));
  return w;
}

static float *alloc(ct__window_t *w, int64_t n)
{
  void *p = NULL;
  CT_ASSERT_OK(ct__window_alloc(w, (size_t)n * sizeof(float), &p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  return p;
}

static void fill(float *v)
{
  for (int64_t i = 0; i < COUNT; i++)
    v[i] = element(t->local_rank, i);
}

/* How many of v[0, COUNT) are not the sum; elsewhere than in [from, to) not what this rank had. */
static int64_t wrong(const float *v, int64_t from, int64_t to)
{
  int64_t n = 0;
  for (int64_t i = 0; i < COUNT; i++)
    n += v[i] != (i >= from && i < to ? sum_of(i) : element(t->local_rank, i));
  return n;
}

static void every_rank_gets_every_slice(void)
{
  int trees = (t->local_size & (t->local_size - 1)) == 0;
  for (int tree = 0; tree <= trees; tree++) {
    ct__window_t *w = open_window(tree);
    float *v = alloc(w, SKIPPED + COUNT) + SKIPPED;
    ct__window_location_t place;
    int64_t from, to;
    CU_ASSERT_FATAL(ct__window_find(w, v, COUNT, &place));
    ct__window_slice(w, COUNT, &from, &to);
    CU_ASSERT(from < to);
    fill(v);
    all_here();
    ct__window_sum(w, place, from, to - from, 1);
    all_here();
    CT_ASSERT_INT(wrong(v, 0, COUNT), 0);
    all_here();
    fill(v);
    all_here();
    ct__window_sum(w, place, from, to - from, 0); /* first only to this rank … */
    all_here();
    CT_ASSERT_INT(wrong(v, from, to), 0);
    all_here();
    ct__window_spread(w, place, from, to - from); /* … which then gives it to the others */
    all_here();
    CT_ASSERT_INT(wrong(v, 0, COUNT), 0);
    ct__window_close(w);
  }
}

static void only_what_is_shared_is_found(void)
{
  ct__window_t *w = open_window(0);
  float *a = alloc(w, 64), *b = alloc(w, COUNT), own[4];
  ct__window_location_t place;
  CU_ASSERT(ct__window_find(w, a, 64, &place) && place.at == 0);
  CU_ASSERT(place.base[t->local_rank] == a);
  CU_ASSERT(ct__window_find(w, b + 7, COUNT - 7, &place) && place.at == 7);
  CU_ASSERT(place.base[t->local_rank] == b);
  CU_ASSERT(!ct__window_find(w, b + 7, COUNT - 6, &place));
  CU_ASSERT(!ct__window_find(w, own, 4, &place));
  ct__window_close(w);
}

/* ---- counters ---- */

static void a_transfer_waits_for_the_last_rank(void)
{
  ct__window_t *w = open_window(0);
  int last = t->local_rank == t->local_size - 1;
  for (int64_t number = 0; number < 3; number++) {
    if (!last) CT_ASSERT_INT(ct__window_post(w), number);
    if (!last) ct__window_reduced(w);
    all_here();
    CU_ASSERT(!ct__window_all_posted(w, number) && !ct__window_all_reduced(w, number));
    all_here();
    if (last) CT_ASSERT_INT(ct__window_post(w), number);
    all_here();
    CU_ASSERT(ct__window_all_posted(w, number) && !ct__window_all_reduced(w, number));
    all_here();
    if (last) ct__window_reduced(w);
    all_here();
    CU_ASSERT(ct__window_all_reduced(w, number) && !ct__window_all_posted(w, number + 1));
    all_here();
  }
  ct__window_close(w);
}

/* ---- where there is no room ---- */

/* Four MiB for each rank of the node, and one for MPI: all of it has to be there. */
static void memory_that_is_not_there_is_not_shared(void)
{
  enum { MIB = 1 << 20, FLOATS = 4 * MIB / 4 };
  const double all = (4.0 * t->local_size + 1) * MIB, page = 4096;
  const struct {
    double room;
    int shared;
  } cases[] = {{all + 2 * page * t->local_size, 1}, {all - page, 0}, {5.0 * MIB, 0}};
  for (int k = 0; k < 3; k++) {
    ct__window_t *w = open_window(0);
    ct__window_location_t place;
    shm_room = cases[k].room;
    float *v = alloc(w, FLOATS);
    shm_room = 0;
    CT_ASSERT_INT(ct__window_find(w, v, FLOATS, &place), cases[k].shared);
    v[0] = v[FLOATS - 1] = 1; /* there is memory all the same */
    ct__window_close(w);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(parts_cover_the_whole),
                                    CT_TEST(every_rank_gets_every_slice),
                                    CT_TEST(only_what_is_shared_is_found),
                                    CT_TEST(a_transfer_waits_for_the_last_rank),
                                    CT_TEST(memory_that_is_not_there_is_not_shared),
                                    CT_TEST_END};
  return ct_test_mpi_main("shared window", tests, argc, argv);
}
