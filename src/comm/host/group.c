/* All-reduce of a few doubles over a group of ranks.
 *
 * Inside a node the ranks of a group write to boxes in shared memory. A box has two message
 * buffers, used alternately, and a counter of the messages that its rank has posted. A rank reads
 * message k only after all ranks have posted it; then all have finished message k - 1, and its
 * buffer may be reused. So one counter suffices and no barrier is needed.
 *
 * Otherwise MPI_Iallreduce is used, which gives all ranks the same result (MPI 3.1, 5.9.6). */
#include <stdatomic.h>
#include <string.h>

#include "base/ct_mem.h"
#include "comm/host/comm_mpi.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum {
  ROOM = 4112, /* doubles per message: batchnorm over 2048 channels needs 4097 */
  LINES = 128  /* two cache lines: the hardware prefetches pairs */
};

typedef struct box {
  _Alignas(LINES) atomic_int_fast64_t posted;
  _Alignas(LINES) double message[2][ROOM];
} box_t;

struct ct_group {
  ct_comm_t *c;  /* borrowed */
  MPI_Comm comm; /* owned */
  int rank, size;
  box_t **box;    /* owned; per rank of the group; NULL: over MPI */
  int64_t posted; /* messages posted by this rank */
  ct_group_t *next;
};

/* ---- creation and destruction ---- */

static void free_group(ct_group_t *g, int aborted)
{
  if (!g) return;
  if (!aborted && g->comm != MPI_COMM_NULL) MPI_Comm_free(&g->comm);
  ct_mem_free(g->box);
  ct_mem_free(g);
}

void ct__comm_groups_free(ct_comm_t *c, int aborted)
{
  while (c->groups) {
    ct_group_t *g = c->groups;
    c->groups = g->next;
    free_group(g, aborted);
  }
}

/* Translates the group's ranks to local ranks; 0 if one of them is on another node. */
static int local_ranks(const ct_group_t *g, int *local)
{
  const ct_topo_t *t = g->c->t;
  MPI_Group here, node;
  int inside = 1;
  CT_MPI(t, MPI_Comm_group(g->comm, &here));
  CT_MPI(t, MPI_Comm_group(t->node, &node));
  for (int r = 0; r < g->size; r++) {
    CT_MPI(t, MPI_Group_translate_ranks(here, 1, &r, node, &local[r]));
    if (local[r] == MPI_UNDEFINED) inside = 0;
  }
  MPI_Group_free(&here);
  MPI_Group_free(&node);
  return inside;
}

/* Locates the group's boxes, if all of them are in this node's shared memory. */
static void find_boxes(ct_group_t *g, box_t *mine, int *local)
{
  ct__window_location_t location;
  int64_t floats = (int64_t)(sizeof *mine / sizeof(float));
  int inside = local_ranks(g, local);
  if (!inside || !ct__window_find(g->c->window, (float *)mine, floats, &location)) {
    ct_mem_free(g->box);
    g->box = NULL;
    return;
  }
  for (int r = 0; r < g->size; r++)
    g->box[r] = (void *)location.base[local[r]];
}

static int join(ct_comm_t *c, int color, ct_group_t *g)
{
  int rc = CT_OK;
  int *local = NULL;
  void *mine;
  CT_MPI(c->t, MPI_Comm_split(c->t->world, color, c->t->rank, &g->comm));
  CT_MPI(c->t, MPI_Comm_rank(g->comm, &g->rank));
  CT_MPI(c->t, MPI_Comm_size(g->comm, &g->size));
  CT_TRY(ct__window_alloc(c->window, sizeof(box_t), &mine));
  g->box = ct_mem_array(g->size, sizeof *g->box, "a group of ranks");
  local = ct_mem_array(g->size, sizeof *local, "a group of ranks");
  CT_TRY_ALL(c->t, g->box && local ? CT_OK : CT_ERR_NOMEM); /* also makes sure that all boxes are
                                                               zeroed */
  find_boxes(g, mine, local);
out:
  ct_mem_free(local);
  return rc;
}

int ct__comm_group(ct_comm_t *c, int color, ct_group_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_group_t *g = ct_mem_alloc(sizeof *g, "a group of ranks");
  if (g) *g = (ct_group_t){.c = c, .comm = MPI_COMM_NULL, .size = 1};
  CT_TRY_ALL(c->t, g ? CT_OK : CT_ERR_NOMEM);
  if (color < 0)
    rc = ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a group of ranks has the number %d", color);
  CT_TRY_ALL(c->t, rc);
  if (c->t->size > 1) CT_TRY(join(c, color, g));
  g->next = c->groups;
  c->groups = g;
  *out = g;
  g = NULL;
out:
  free_group(g, 0);
  return rc;
}

/* ---- all-reduce ---- */

static int all_posted(const ct_group_t *g)
{
  for (int r = 0; r < g->size; r++)
    if (atomic_load_explicit(&g->box[r]->posted, memory_order_acquire) < g->posted) return 0;
  return 1;
}

static int sum_in_boxes(ct_group_t *g, double *buf, int n)
{
  int rc = CT_OK;
  int half = (int)(g->posted++ % 2);
  memcpy(g->box[g->rank]->message[half], buf, (size_t)n * sizeof *buf);
  atomic_store_explicit(&g->box[g->rank]->posted, g->posted, memory_order_release);
  for (unsigned turn = 1; !all_posted(g); turn++)
    CT_TRY(ct__comm_turn(g->c, turn));
  memcpy(buf, g->box[0]->message[half], (size_t)n * sizeof *buf);
  for (int r = 1; r < g->size; r++)
    for (int i = 0; i < n; i++)
      buf[i] += g->box[r]->message[half][i];
out:
  return rc;
}

static int sum_over_mpi(ct_group_t *g, double *buf, int n)
{
  MPI_Request request;
  CT_MPI(g->c->t, MPI_Iallreduce(MPI_IN_PLACE, buf, n, MPI_DOUBLE, MPI_SUM, g->comm, &request));
  return ct__comm_wait(g->c, &request);
}

int ct__comm_group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n)
{
  int rc = CT_OK;
  int own = g->c->be->queue->sync(q); /* continue on error: the other ranks wait for this one */
  ct__comm_count(g->c, n * (int64_t)sizeof *buf, 2 * (g->size - 1), g->size);
  for (int64_t at = 0; g->size > 1 && at < n; at += ROOM) {
    int len = n - at < ROOM ? (int)(n - at) : ROOM;
    CT_TRY(g->box ? sum_in_boxes(g, buf + at, len) : sum_over_mpi(g, buf + at, len));
  }
out:
  return own != CT_OK ? own : rc;
}
