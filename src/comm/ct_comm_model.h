/** \file ct_comm_model.h  What collective calls cost, by the classic model: a message takes
 * alpha + bytes / B.  Layer 1.  All functions are local and pure.
 *
 * An algorithm on n ranks makes R rounds of messages one after the other and moves V bytes over
 * the busiest link for each byte of the buffer: time = R alpha + V bytes / B (Thakur, Rabenseifner
 * and Gropp, "Optimization of collective communication operations in MPICH", 2005). */
#ifndef CT_COMM_MODEL_H
#define CT_COMM_MODEL_H
#include <stdint.h>

typedef enum {
  CT_COMM_ALL_REDUCE,
  CT_COMM_REDUCE_SCATTER,
  CT_COMM_ALL_GATHER,
  CT_COMM_BROADCAST,
  CT_COMM_CALLS
} ct_comm_call_t;

typedef enum {
  CT_COMM_RING,    /**< a ring: NCCL, MPICH's ring */
  CT_COMM_HALVING, /**< halving and doubling, MPI's way for an all-reduce: n that are no powers of
                      two are folded first, which doubles the bytes */
  /** everybody with everybody, twice: ours, at any n alike.  The messages of a way are posted at
   * once, but a rank handles them one by one, and MPI may pass the way back round a ring: counted
   * as 2 (n - 1) rounds, one took 326, 330, 347 us at 4, 6 and 8 nodes with cables of 200 us. */
  CT_COMM_EXCHANGE
} ct_comm_algorithm_t;

typedef struct ct_comm_cost {
  double rounds; /**< R */
  double volume; /**< V: bytes on the busiest link for a byte of the buffer */
} ct_comm_cost_t;

/** "all_reduce", … */
const char *ct_comm_call_name(ct_comm_call_t call);
/** nccl-tests' busbw for an algbw of 1: 2 (n - 1) / n for an all-reduce, 1 for a broadcast, else
 * (n - 1) / n.  What the hardware's rate is to be compared with. */
double ct_comm_bus_factor(ct_comm_call_t call, int ranks);
/** 1 rank: nothing. */
ct_comm_cost_t ct_comm_cost(ct_comm_call_t call, ct_comm_algorithm_t a, int ranks);

enum { CT_COMM_MESSAGE = 8192 }; /**< bytes of a message from which an exchange pays off */

/** How pieces of so many bytes, of float32 in no prescribed order, are summed between \a ranks
 * ranks of different nodes: by an exchange where halving and doubling would fold and the messages
 * are not tiny, else by MPI. */
ct_comm_algorithm_t ct_comm_algorithm(int ranks, int64_t bytes);

typedef struct ct_link {
  double alpha_s;     /**< of a round */
  double bytes_per_s; /**< B */
} ct_link_t;

double ct_link_time(const ct_link_t *l, ct_comm_cost_t cost, double bytes);

typedef struct ct_link_point {
  ct_comm_cost_t cost;
  double bytes, seconds;
} ct_link_point_t;

/** Least squares of relative errors over n points; neither number gets negative (a bandwidth that
 * cannot be seen is INFINITY).  Returns the largest relative error of the fit; n >= 1, seconds > 0.
 */
double ct_link_fit(const ct_link_point_t *p, int n, ct_link_t *out);

/** Bytes of a bucket for a gradient of so many bytes, where a reduction of nothing takes \a
 * latency_s and a large one goes at \a bytes_per_s.  Each bucket costs its latency, and the first
 * cannot leave before it is full, and the last is waited for: the sum of both is least at
 *
 *     sqrt(gradient x latency x rate)
 *
 * as in any pipeline.  Rounded to a power of two from 256 KiB to 64 MiB, so that two runs seldom
 * differ. */
int64_t ct_comm_bucket(int64_t gradient, double latency_s, double bytes_per_s);

#endif
