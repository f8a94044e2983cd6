/** \file ct_topo.h  The ranks and how they are placed on nodes. Layer 1. */
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
  int local_rank;    /**< rank within the node */
  int local_size;    /**< number of ranks on the node */
  int node_index;    /**< nodes are numbered by their lowest world rank */
  int nodes;         /**< number of nodes */
  int equal_nodes;   /**< 1: every node has the same number of ranks */
  int threads_asked; /**< OMP_NUM_THREADS; 0: not set, or invalid */
  int threads;       /**< threads of this rank: its cores divided among the ranks that share them */
  double init_s;     /**< duration of MPI_Init */
  char host[64];
  ct_job_t job;           /**< the batch job as seen by this rank; all 0: none */
  MPI_Datatype step_type; /**< owned; type of the step status */
  MPI_Op step_op;         /**< owned; reduction of the step status */
} ct_topo_t;

/** Collective. Calls MPI_Init_thread (FUNNELED) and fills in the struct; sets up the log and fault
 * points. Signal handlers are left as they were before MPI_Init (ct_stop_hold()). First it rejects
 * N singletons: if the launcher started more tasks than the world has (ct_launcher_check()),
 * CT_ERR_USAGE with the remedy. MPI is finalized then, and ct_log() is silent in all but one of
 * those tasks, so that the caller's message is printed once.
 *
 * threads: OMP_NUM_THREADS if set, else the cores that OpenMP may use (ct_cores_omp()), divided
 * among the local ranks whose cores overlap with this rank's, at least 1.
 *
 * CTRAIN_NODE_SIZE=k, for tests: ranks that share memory are split into groups of k that count as
 * separate nodes, so that inter-node code runs on one machine. Rank 0's value counts for all; cores
 * are still shared as on the real node. */
int ct_topo_open(ct_topo_t *t, int *argc, char ***argv);
/** Collective. Frees the communicators, then runs a barrier (so that all our messages are received;
 * MPICH before 4.2 needs it) and MPI_Finalize. */
void ct_topo_close(ct_topo_t *t);

/** Collective over t. Splits the ranks by \a color into sub-communicators, ordered by \a key, then
 * by rank; color < 0: this rank is in none, and *out has size 0. Threads, host and job are copied
 * from t. Free it by ct_topo_unsplit(), which is collective over *out. */
int ct_topo_split(const ct_topo_t *t, int color, int key, ct_topo_t *out);
void ct_topo_unsplit(ct_topo_t *t);

/** Local. Writes name and version of the MPI library to buf, such as "MPICH Version: 4.0.2". */
void ct_topo_library(char *buf, size_t cap);
/** Local, also before MPI_Init. Writes the network module of MPICH and its derivatives to buf, such
 * as "ch4:ucx"; "" for other libraries. */
void ct_topo_device(char *buf, size_t cap);

#endif
