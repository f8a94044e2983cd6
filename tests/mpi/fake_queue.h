/** \file fake_queue.h  A backend of host memory whose queue is always done, or fails on request. */
#ifndef FAKE_QUEUE_H
#define FAKE_QUEUE_H
#include "backend/ct_backend.h"
#include "base/ct_err.h"

struct ct_queue {
  int rc; /* what sync() returns */
};
struct ct_event {
  int rc; /* what wait() returns */
};

static int wait_event(ct_event_t *ev)
{
  return ev->rc == CT_OK ? CT_OK
                         : ct_err_set(ev->rc, __FILE__, __LINE__, "the backward pass broke");
}

static int sync_queue(ct_queue_t *q)
{
  return q->rc == CT_OK ? CT_OK : ct_err_set(q->rc, __FILE__, __LINE__, "the queue broke");
}

static const ct_queue_ops_t queue_ops = {.wait = wait_event, .sync = sync_queue};
static const ct_backend_t backend = {.name = "fake", .host_memory = 1, .queue = &queue_ops};
static ct_queue_t queue;

#endif
