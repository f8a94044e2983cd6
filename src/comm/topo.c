/* Start and end of MPI, and the description of this rank: its node, its threads, its job. Launcher
 * misconfigurations are detected here, before any computation. */
#include "comm/ct_topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "host/ct_cores.h"
#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "comm/sharing.h"
#include "job/ct_launcher.h"
#include "job/ct_stop.h"

void ct_topo_library(char *buf, size_t cap)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int len;
  MPI_Get_library_version(text, &len);
  text[strcspn(text, "\n,")] = '\0';
  for (char *p = text; *p; p++)
    if (*p == '\t') *p = ' ';
  snprintf(buf, cap, "%.*s", (int)cap - 1, text);
}

void ct_topo_device(char *buf, size_t cap)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int len;
  MPI_Get_library_version(text, &len);
  const char *at = strstr(text, "Device:");
  if (at) at += strlen("Device:"), at += strspn(at, " \t");
  snprintf(buf, cap, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
}

static int check_launch(void)
{
  char library[80];
  int rank, size, speaker;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ct_topo_library(library, sizeof library);
  int rc = ct_launcher_check(getenv, size, library, &speaker);
  if (rc != CT_OK) ct_log_setup(speaker ? 0 : 1, 1, CT_LOG_INFO);
  return rc;
}

/* Reads CTRAIN_NODE_SIZE; 0: not set. */
static int64_t test_node_size(const ct_topo_t *t)
{
  const char *text = getenv("CTRAIN_NODE_SIZE");
  int64_t k;
  if (!text || ct_text_int(text, &k) != CT_OK || k < 1) k = 0;
  CT_MPI(t, MPI_Bcast(&k, 1, MPI_INT64_T, 0, t->world));
  return k;
}

/* Communicator of the ranks that share memory according to the hardware. */
static MPI_Comm shared_ranks(const ct_topo_t *t)
{
  MPI_Comm comm;
  CT_MPI(t, MPI_Comm_split_type(t->world, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &comm));
  return comm;
}

static void split_nodes(ct_topo_t *t, MPI_Comm shared)
{
  int64_t k = test_node_size(t);
  int index;
  CT_MPI(t, MPI_Comm_rank(shared, &index));
  CT_MPI(t, MPI_Comm_split(shared, k ? (int)(index / k) : 0, index, &t->node));
  CT_MPI(t, MPI_Comm_rank(t->node, &t->local_rank));
  CT_MPI(t, MPI_Comm_size(t->node, &t->local_size));
}

static int number_nodes(ct_topo_t *t)
{
  int rc = CT_OK, mine = t->rank;
  int *lowest = ct_mem_array(t->size, sizeof *lowest, "the list of nodes");
  CT_TRY_ALL(t, lowest ? CT_OK : CT_ERR_NOMEM);
  CT_MPI(t, MPI_Bcast(&mine, 1, MPI_INT, 0, t->node));
  CT_MPI(t, MPI_Allgather(&mine, 1, MPI_INT, lowest, 1, MPI_INT, t->world));
  ct__sharing_nodes_t n = ct__sharing_nodes(lowest, t->size, t->rank);
  t->node_index = n.index;
  t->nodes = n.nodes;
  t->equal_nodes = n.equal;
out:
  ct_mem_free(lowest);
  return rc;
}

/* Returns the first number of OMP_NUM_THREADS ("8", or "8,2" with nested levels); 0: not set or
 * invalid. */
static int threads_asked(void)
{
  const char *text = getenv("OMP_NUM_THREADS");
  long n = text ? strtol(text, NULL, 10) : 0;
  return n > 0 && n < 8192 ? (int)n : 0;
}

static int count_threads(ct_topo_t *t, MPI_Comm shared)
{
  int rc = CT_OK, ranks, me;
  unsigned char mine[CT_MASK_BYTES];
  CT_MPI(t, MPI_Comm_size(shared, &ranks));
  CT_MPI(t, MPI_Comm_rank(shared, &me));
  unsigned char *masks = ct_mem_array(ranks, CT_MASK_BYTES, "the affinity masks of this node");
  CT_TRY_ALL(t, masks ? CT_OK : CT_ERR_NOMEM);
  /* If OpenMP's cores are unknown the mask stays empty, which results in one thread. */
  ct_cores_omp(mine);
  CT_MPI(t, MPI_Allgather(mine, CT_MASK_BYTES, MPI_BYTE, masks, CT_MASK_BYTES, MPI_BYTE, shared));
  t->threads_asked = threads_asked();
  t->threads =
      t->threads_asked ? t->threads_asked : ct__sharing_threads(masks, CT_MASK_BYTES, ranks, me);
out:
  ct_mem_free(masks);
  return rc;
}

int ct_topo_open(ct_topo_t *t, int *argc, char ***argv)
{
  int rc = CT_OK, provided;
  unsigned char cores[CT_MASK_BYTES];
  MPI_Comm shared = MPI_COMM_NULL;
  ct_stop_held_t held;
  *t = (ct_topo_t){.world = MPI_COMM_NULL,
                   .node = MPI_COMM_NULL,
                   .step_type = MPI_DATATYPE_NULL,
                   .step_op = MPI_OP_NULL};
  double start = ct_clock();
  ct_stop_hold(&held);
  ct_cores_widen(cores);                                       /* for MPI's own threads */
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided); /* on errors MPI aborts by default */
  ct_cores_narrow(cores);
  ct_stop_release(&held);
  t->init_s = ct_clock() - start;
  CT_TRY(check_launch());

  CT_MPI(t, MPI_Comm_dup(MPI_COMM_WORLD, &t->world));
  CT_MPI(t, MPI_Comm_set_errhandler(t->world, MPI_ERRORS_RETURN));
  CT_MPI(t, MPI_Comm_rank(t->world, &t->rank));
  CT_MPI(t, MPI_Comm_size(t->world, &t->size));
  ct_log_setup(t->rank, t->size, CT_LOG_INFO);
  ct_fault_setup(t->rank);
  ct__step_status_open(t);
  ct_job_read(getenv, &t->job);
  gethostname(t->host, sizeof t->host - 1);

  shared = shared_ranks(t);
  split_nodes(t, shared);
  CT_TRY(number_nodes(t));
  CT_TRY(count_threads(t, shared));
  if (provided < MPI_THREAD_FUNNELED)
    CT_FAIL(CT_ERR_COMM, "the MPI library does not support threads (MPI_THREAD_FUNNELED)");
out:
  if (shared != MPI_COMM_NULL) MPI_Comm_free(&shared);
  if (rc != CT_OK) ct_topo_close(t);
  return rc;
}

void ct_topo_unsplit(ct_topo_t *t)
{
  ct__step_status_close(t);
  if (t->node != MPI_COMM_NULL) MPI_Comm_free(&t->node);
  if (t->world != MPI_COMM_NULL) MPI_Comm_free(&t->world);
}

int ct_topo_split(const ct_topo_t *t, int color, int key, ct_topo_t *out)
{
  int rc = CT_OK;
  *out = *t;
  out->size = 0;
  out->world = out->node = MPI_COMM_NULL;
  out->step_type = MPI_DATATYPE_NULL;
  out->step_op = MPI_OP_NULL;
  CT_MPI(t, MPI_Comm_split(t->world, color < 0 ? MPI_UNDEFINED : color, key, &out->world));
  CT_MPI(t, MPI_Comm_split(t->node, color < 0 ? MPI_UNDEFINED : color, key, &out->node));
  if (color < 0) return CT_OK;
  CT_MPI(t, MPI_Comm_rank(out->world, &out->rank));
  CT_MPI(t, MPI_Comm_size(out->world, &out->size));
  CT_MPI(t, MPI_Comm_rank(out->node, &out->local_rank));
  CT_MPI(t, MPI_Comm_size(out->node, &out->local_size));
  ct__step_status_open(out);
  CT_TRY(number_nodes(out));
out:
  if (rc != CT_OK) ct_topo_unsplit(out);
  return rc;
}

void ct_topo_close(ct_topo_t *t)
{
  ct_topo_unsplit(t);
  ct_mpi_finalize();
}
