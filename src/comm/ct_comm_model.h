/** \file ct_comm_model.h  Cost model of collective calls: a message takes alpha + bytes / B.
 * Layer 1. All functions are local and pure.
 *
 * An algorithm on n ranks takes R rounds of messages, one after another, and moves V bytes over the
 * busiest link per byte of the buffer: time = R alpha + V bytes / B (Thakur, Rabenseifner and
 * Gropp, "Optimization of collective communication operations in MPICH", 2005). */
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
  CT_COMM_RING,    /**< ring: NCCL, MPICH's ring */
  CT_COMM_HALVING, /**< recursive halving and doubling, MPI's algorithm for an all-reduce. If n is
                      not a power of two, ranks are folded first, which doubles the bytes */
  /** our own exchange (host/exchange.h): all-to-all twice, for any n. The messages of each
   * all-to-all are posted at once, but a rank handles them one by one, and MPI may return the sums
   * around a ring. Counted as 2 (n - 1) rounds: one exchange took 326, 330 and 347 us on 4, 6 and 8
   * nodes with link latencies of 200 us. */
  CT_COMM_EXCHANGE
} ct_comm_algorithm_t;

typedef struct ct_comm_cost {
  double rounds; /**< R */
  double volume; /**< V: bytes on the busiest link per byte of the buffer */
} ct_comm_cost_t;

/** Returns the name of a call: "all_reduce", "reduce_scatter" and so on. */
const char *ct_comm_call_name(ct_comm_call_t call);
/** Returns the ratio of busbw to algbw in nccl-tests: 2 (n - 1) / n for an all-reduce, 1 for a
 * broadcast, else (n - 1) / n. busbw is comparable to the hardware's bandwidth. */
double ct_comm_bus_factor(ct_comm_call_t call, int ranks);
/** Returns the cost of a call with an algorithm; 0 for 1 rank. */
ct_comm_cost_t ct_comm_cost(ct_comm_call_t call, ct_comm_algorithm_t a, int ranks);

enum { CT_COMM_MESSAGE = 8192 }; /**< message size in bytes from which an exchange pays off */

/** Returns the algorithm for summing chunks of \a bytes float32 bytes, in any order, over \a ranks
 * ranks on different nodes: an exchange if halving and doubling would have to fold and the messages
 * are not tiny, else MPI. */
ct_comm_algorithm_t ct_comm_algorithm(int ranks, int64_t bytes);

typedef struct ct_link {
  double alpha_s;     /**< latency of a round */
  double bytes_per_s; /**< B */
} ct_link_t;

double ct_link_time(const ct_link_t *l, ct_comm_cost_t cost, double bytes);

typedef struct ct_link_point {
  ct_comm_cost_t cost;
  double bytes, seconds;
} ct_link_point_t;

/** Fits a link to n points by least squares of the relative errors. Neither parameter becomes
 * negative; a bandwidth that cannot be resolved is INFINITY. Returns the largest relative error of
 * the fit. n >= 1, seconds > 0. */
double ct_link_fit(const ct_link_point_t *p, int n, ct_link_t *out);

/** Returns the bucket size in bytes for a gradient of \a gradient bytes, given the latency of a
 * reduction and the bandwidth of large ones. Each bucket costs its latency; the first cannot be
 * sent before it is full, and the last one is waited for. The sum of both is minimal at
 *
 *     sqrt(gradient x latency x bandwidth)
 *
 * as in any pipeline. Rounded to a power of two from 256 KiB to 64 MiB, so that repeated runs
 * rarely differ. */
int64_t ct_comm_bucket(int64_t gradient, double latency_s, double bytes_per_s);

#endif
