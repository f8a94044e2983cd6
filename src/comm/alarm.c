/* Sends an error to all other ranks, which probe for it. No receive is posted in advance, since
 * normally no message arrives. */
#include "comm/ct_alarm.h"

#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum { TAG = 2 };

struct ct_alarm {
  const ct_topo_t *t;   /* borrowed */
  MPI_Comm comm;        /* owned */
  MPI_Request *request; /* owned; one per rank */
  int raised;
  ct_err_info_t mine, heard;
};

int ct_alarm_open(const ct_topo_t *t, ct_alarm_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_alarm_t *a = ct_mem_alloc(sizeof *a, "the alarm");
  if (a) {
    a->comm = MPI_COMM_NULL;
    a->t = t;
    a->request = ct_mem_array(t->size, sizeof *a->request, "the alarm");
  }
  CT_TRY_ALL(t, a && a->request ? CT_OK : CT_ERR_NOMEM);
  for (int r = 0; r < t->size; r++)
    a->request[r] = MPI_REQUEST_NULL;
  if (t->size > 1) CT_MPI(t, MPI_Comm_dup(t->world, &a->comm));
  *out = a;
  a = NULL;
out:
  if (a) ct_mem_free(a->request);
  ct_mem_free(a);
  return rc;
}

void ct_alarm_raise(ct_alarm_t *a)
{
  if (a->raised || a->heard.code != CT_OK) return;
  a->raised = 1;
  a->mine = *ct_err_last();
  if (a->mine.rank < 0) a->mine.rank = a->t->rank;
  for (int r = 0; r < a->t->size; r++)
    if (r != a->t->rank)
      CT_MPI(a->t,
             MPI_Isend(&a->mine, (int)sizeof a->mine, MPI_BYTE, r, TAG, a->comm, &a->request[r]));
}

/* Returns 1 if a message has arrived. */
static int receive(ct_alarm_t *a, ct_err_info_t *out)
{
  int there = 0;
  MPI_Status status;
  if (a->t->size == 1) return 0;
  CT_MPI(a->t, MPI_Iprobe(MPI_ANY_SOURCE, TAG, a->comm, &there, &status));
  if (there)
    CT_MPI(a->t, MPI_Recv(out, (int)sizeof *out, MPI_BYTE, status.MPI_SOURCE, TAG, a->comm,
                          MPI_STATUS_IGNORE));
  return there;
}

int ct_alarm_heard(ct_alarm_t *a)
{
  if (a->heard.code == CT_OK) receive(a, &a->heard);
  if (a->heard.code != CT_OK) ct_err_put(&a->heard);
  return a->heard.code;
}

/* Closes without waiting: small messages have normally been sent already; if one has not, its
 * buffer is kept for MPI and leaked. */
void ct_alarm_close(ct_alarm_t *a, int alone)
{
  int sent = 1, done;
  if (!a) return;
  while (receive(a, &a->heard)) /* MPI complains about messages that are never received */
    ;
  for (int r = 0; a->raised && r < a->t->size; r++) {
    CT_MPI(a->t, MPI_Test(&a->request[r], &done, MPI_STATUS_IGNORE));
    sent &= done;
  }
  if (!alone && a->comm != MPI_COMM_NULL) MPI_Comm_free(&a->comm);
  if (!sent) return;
  ct_mem_free(a->request);
  ct_mem_free(a);
}
