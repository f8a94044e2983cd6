/* Table entries shared by all backends whose device memory is host memory, and the complete tables
 * of a backend without asynchrony. */
#include "backend/ct_host.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <string.h>

size_t ct_host_avail(ct_dev_t *dev)
{
  (void)dev;
  return SIZE_MAX;
}

size_t ct_host_used(ct_dev_t *dev)
{
  (void)dev;
  return ct_mem_rss();
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

double ct_host_joules(ct_dev_t *dev)
{
  (void)dev;
  return -1;
}

int ct_host_begin(ct_queue_t *q, int key)
{
  (void)q;
  (void)key;
  return CT_OK;
}

int ct_host_end(ct_queue_t *q, int *same)
{
  (void)q;
  *same = 1;
  return CT_OK;
}

int ct_host_capture(ct_queue_t *q)
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

/* ---- autotuning ---- */

int ct_host_tunes(ct_dev_t *dev)
{
  (void)dev;
  return 0;
}

static int no_choices(void)
{
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "this backend chooses nothing by timing");
}

int ct_host_choices(ct_dev_t *dev, void **out, size_t *bytes)
{
  (void)dev;
  *out = NULL;
  *bytes = 0;
  return no_choices();
}

int ct_host_adopt(ct_dev_t *dev, const void *choices, size_t bytes)
{
  (void)dev;
  (void)choices;
  (void)bytes;
  return no_choices();
}

/* ---- memory ---- */

static int host_alloc(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out)
{
  (void)dev;
  *out =
      ct_mem_alloc(bytes ? bytes : 1, kind == CT_MEM_DEVICE ? "device memory" : "staging memory");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void host_free(ct_dev_t *dev, ct_mem_kind_t kind, void *p)
{
  (void)dev;
  (void)kind;
  ct_mem_free(p);
}

static int host_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  (void)q;
  if (bytes) memcpy(dst, src, bytes);
  return CT_OK;
}

static int host_zero(ct_queue_t *q, void *dst, size_t bytes)
{
  (void)q;
  if (bytes) memset(dst, 0, bytes);
  return CT_OK;
}

const ct_mem_ops_t ct_host_mem = {
    .alloc = host_alloc,
    .free = host_free,
    .pin = ct_host_pin,
    .unpin = ct_host_unpin,
    .copy = host_copy,
    .zero = host_zero,
    .avail = ct_host_avail,
    .used = ct_host_used,
};

/* ---- a synchronous queue, which holds nothing ---- */

struct ct_queue {
  char none;
};

struct ct_event {
  char none;
};

static int inline_create(ct_dev_t *dev, ct_queue_t **out)
{
  (void)dev;
  *out = ct_mem_alloc(sizeof **out, "queue");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void inline_destroy(ct_queue_t *q)
{
  ct_mem_free(q);
}

static int inline_mark(ct_queue_t *q, ct_event_t **io)
{
  (void)q;
  if (!*io) *io = ct_mem_alloc(sizeof **io, "event");
  return *io ? CT_OK : CT_ERR_NOMEM;
}

static int inline_after(ct_queue_t *q, ct_event_t *ev)
{
  (void)q;
  (void)ev;
  return CT_OK;
}

static int inline_wait(ct_event_t *ev)
{
  (void)ev;
  return CT_OK;
}

static int inline_done(ct_event_t *ev)
{
  (void)ev;
  return 1;
}

static int inline_sync(ct_queue_t *q)
{
  (void)q;
  return CT_OK;
}

static void inline_unmark(ct_event_t *ev)
{
  ct_mem_free(ev);
}

const ct_queue_ops_t ct_host_inline = {
    .create = inline_create,
    .destroy = inline_destroy,
    .mark = inline_mark,
    .after = inline_after,
    .wait = inline_wait,
    .done = inline_done,
    .sync = inline_sync,
    .unmark = inline_unmark,
    .begin = ct_host_begin,
    .end = ct_host_end,
    .capture = ct_host_capture,
    .start = ct_host_start,
};
