/* Entries of the tables that say the same for every backend whose memory is the host's. */
#include "base/ct_err.h"
#include "backend/ct_host.h"

size_t ct_host_room(ct_dev_t *dev)
{
  (void)dev;
  return SIZE_MAX;
}

int ct_host_pin(ct_dev_t *dev, void *p, size_t bytes)
{
  (void)dev;
  (void)p;
  (void)bytes;
  return CT_OK;
}

void ct_host_unpin(ct_dev_t *dev, void *p)
{
  (void)dev;
  (void)p;
}

void ct_host_identify(ct_dev_t *dev, ct_dev_id_t *out)
{
  (void)dev;
  *out = (ct_dev_id_t){.numa = -1};
}

int ct_host_begin(ct_queue_t *q, int key)
{
  (void)q;
  (void)key;
  return CT_OK;
}

int ct_host_end(ct_queue_t *q)
{
  (void)q;
  return CT_OK;
}

int ct_host_start(ct_queue_t *q, int whole)
{
  (void)q;
  (void)whole;
  return CT_OK;
}
