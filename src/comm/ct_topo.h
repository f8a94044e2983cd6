/** \file ct_topo.h  Who and where the ranks are.  Layer 1. */
#ifndef CT_TOPO_H
#define CT_TOPO_H
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "job/ct_job.h"

typedef struct ct_topo {
  MPI_Comm world; /**< owned duplicate of MPI_COMM_WORLD; errors return */
  MPI_Comm node;  /**< owned; the ranks that share memory (MPI_Comm_split_type SHARED) */
  int rank, size;
  int local_rank, local_size; /**< in node */
  int node_index, nodes;      /**< nodes numbered by their lowest world rank */
  int equal_nodes;            /**< 1: every node has the same number of ranks */
  int threads_asked;          /**< OMP_NUM_THREADS; 0: not set, or senseless */
  int threads;   /**< for this rank: its cores divided among the ranks that share them */
  double init_s; /**< seconds in MPI_Init */
  char host[64];
  ct_job_t job;           /**< as told to this rank; all 0: none */
  MPI_Datatype step_type; /**< owned; of ct_step_agree() */
  MPI_Op step_op;         /**< owned; of ct_step_agree() */
} ct_topo_t;

/** Collective.  MPI_Init_thread (FUNNELED) and everything above; sets up log and fault points.
 * Signals do what they did before, whatever MPI has in mind (ct_stop_hold()).
 * Before that it refuses N singletons: a launcher that says it started more tasks than the world
 * has (ct_launch_check()) is CT_ERR_USAGE with the cure.  MPI is finalized then, and ct_log() is
 * silent in all those tasks but the first by the launcher's own number, so that what the callers
 * log is printed once.
 *
 * threads: OMP_NUM_THREADS if set, else the cores that OpenMP may use (ct_cores_omp()), divided
 * among the local ranks whose cores overlap with this one's, at least 1.
 *
 * CTRAIN_NODE_SIZE=k, for tests: ranks that share memory are split into groups of k that count
 * as nodes of their own, so that the ways across nodes are taken inside one machine.  Rank 0's
 * value holds for all; the cores are still shared as they really are. */
int ct_topo_open(ct_topo_t *t, int *argc, char ***argv);
/** Collective.  Frees the communicators, then a barrier (every message of ours is received; MPICH
 * before 4.2 needs it) and MPI_Finalize. */
void ct_topo_close(ct_topo_t *t);

/** Collective over t.  The ranks of each \a color as a world of their own, in the order of \a key
 * (then of their ranks); color < 0: this rank is in none, and *out has size 0.  Threads, host, job
 * are those of t.  To be given back by ct_topo_unsplit(), which is collective over *out. */
int ct_topo_split(const ct_topo_t *t, int color, int key, ct_topo_t *out);
void ct_topo_unsplit(ct_topo_t *t);

/** Local.  "MPICH Version: 4.0.2": MPI's own name, without the rest of what it tells. */
void ct_topo_library(char *buf, size_t cap);
/** Local, also before MPI starts.  "ch4:ucx": how MPICH and its relatives send; "" with others. */
void ct_topo_device(char *buf, size_t cap);

#endif
