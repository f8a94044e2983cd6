/* Clock pings between rank 0 and the nodes. A node answers with its clock; only rank 0 measures,
 * and sends the result at the end. */
#include "comm/ct_clocks.h"

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum { PINGS = 50, ROUNDS = 4, PING = 77, HERE = 78 };
#define SHORT_S 50e-6

/* Rank 0's message: a request for the clock, or the result. */
typedef struct ask {
  int over;
  ct_clock_offset_t result;
} ask_t;

static void give(const ct_topo_t *t, const void *data, int bytes, int to, int tag)
{
  MPI_Request request;
  CT_MPI(t, MPI_Isend(data, bytes, MPI_BYTE, to, tag, t->world, &request));
  ct_mpi_wait(t, &request);
}

static void clocks_take(const ct_topo_t *t, void *data, int bytes, int from, int tag)
{
  MPI_Request request;
  CT_MPI(t, MPI_Irecv(data, bytes, MPI_BYTE, from, tag, t->world, &request));
  ct_mpi_wait(t, &request);
}

static void ping(const ct_topo_t *t, int to, ct_clock_offset_t *best)
{
  ask_t ask = {0};
  double there;
  double begin = ct_clock();
  give(t, &ask, sizeof ask, to, PING);
  clocks_take(t, &there, sizeof there, to, PING);
  double end = ct_clock(), bound = (end - begin) / 2;
  if (bound < best->bound_s) *best = (ct_clock_offset_t){there, (begin + end) / 2 - there, bound};
}

static void clocks_measure(const ct_topo_t *t, int to)
{
  ask_t ask = {.over = 1, .result.bound_s = 1e9};
  for (int round = 0; round < ROUNDS && ask.result.bound_s > SHORT_S / 2; round++)
    for (int i = 0; i < PINGS; i++)
      ping(t, to, &ask.result);
  give(t, &ask, sizeof ask, to, PING);
}

static void answer(const ct_topo_t *t, ct_clock_offset_t *out)
{
  ask_t ask;
  for (clocks_take(t, &ask, sizeof ask, 0, PING); !ask.over;
       clocks_take(t, &ask, sizeof ask, 0, PING)) {
    double now = ct_clock();
    give(t, &now, sizeof now, 0, PING);
  }
  *out = ask.result;
}

/* Rank 0 pings the nodes' first ranks in the order in which they report. */
void ct_clocks_measure(const ct_topo_t *t, ct_clock_offset_t *out)
{
  *out = (ct_clock_offset_t){.at_s = ct_clock()};
  if (t->nodes == 1) return;
  ct_heartbeat_enter("comparing the clocks of the nodes", -1);
  for (int node = 1; t->rank == 0 && node < t->nodes; node++) {
    int first;
    clocks_take(t, &first, sizeof first, MPI_ANY_SOURCE, HERE);
    clocks_measure(t, first);
  }
  if (t->rank > 0 && t->local_rank == 0) {
    give(t, &t->rank, sizeof t->rank, 0, HERE);
    answer(t, out);
  }
  ct_agree_node(t, out, sizeof *out);
}

double ct_clocks_convert(const ct_clock_offset_t at[2], double s)
{
  double between = at[1].at_s - at[0].at_s;
  double share = between > 0 ? (s - at[0].at_s) / between : 0;
  return s + at[0].offset_s + share * (at[1].offset_s - at[0].offset_s);
}
