/* The device of the reference backend: host memory. */
#include "ref/ct_ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ct_host.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "ref/ref.h"

static int backend_probe(char why[128])
{
  why[0] = 0;
  return 1;
}

/* CTRAIN_REF_ORDER = inline | late | random[:seed] */
static int read_order(ct_dev_t *dev)
{
  const char *text = getenv("CTRAIN_REF_ORDER");
  int64_t seed = 0;

  dev->order = CT_REF_INLINE;
  if (!text || !*text || strcmp(text, "inline") == 0) return CT_OK;
  if (strcmp(text, "late") == 0) {
    dev->order = CT_REF_LATE;
    return CT_OK;
  }
  if (strncmp(text, "random", 6) == 0 &&
      (text[6] == 0 || (text[6] == ':' && ct_text_int(text + 7, &seed) == CT_OK))) {
    dev->order = CT_REF_RANDOM;
    dev->seed = (uint64_t)seed;
    return CT_OK;
  }
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "CTRAIN_REF_ORDER is '%s', expected inline, late or random[:seed]", text);
}

static int open_device(const ct_dev_opts_t *o, ct_dev_t **out)
{
  static const char *const order[] = {"", ", work done late", ", work done in random order"};
  int rc = CT_OK;

  (void)o; /* one device, one thread, one algorithm */
  *out = NULL;
  ct_dev_t *dev = ct_mem_alloc(sizeof *dev, "reference device");
  if (!dev) return CT_ERR_NOMEM;
  CT_TRY(read_order(dev));
  snprintf(dev->description, sizeof dev->description, "reference, double sums, 1 thread%s",
           order[dev->order]);
  pthread_mutex_init(&dev->lock, NULL);
  *out = dev;
  dev = NULL;
out:
  ct_mem_free(dev);
  return rc;
}

static void close_device(ct_dev_t *dev)
{
  if (!dev) return;
  pthread_mutex_destroy(&dev->lock);
  ct_mem_free(dev);
}

static const char *backend_describe(ct_dev_t *dev)
{
  return dev->description;
}

static int mem_alloc(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out)
{
  (void)dev;
  *out = ct_mem_alloc(bytes, kind == CT_MEM_DEVICE ? "device memory" : "staging memory");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void mem_free(ct_dev_t *dev, ct_mem_kind_t kind, void *p)
{
  (void)dev;
  (void)kind;
  ct_mem_free(p);
}

static int mem_zero(ct_queue_t *q, void *dst, size_t bytes)
{
  return ct__ref_enqueue_copy(q, dst, NULL, bytes);
}

static const ct_mem_ops_t mem_ops = {.alloc = mem_alloc,
                                     .free = mem_free,
                                     .pin = ct_host_pin,
                                     .unpin = ct_host_unpin,
                                     .copy = ct__ref_enqueue_copy,
                                     .zero = mem_zero,
                                     .avail = ct_host_avail,
                                     .used = ct_host_used};

const ct_backend_t ct_backend_ref = {
    .size = sizeof(ct_backend_t),
    .name = "ref",
    .host_memory = 1,
    .probe = backend_probe,
    .open = open_device,
    .close = close_device,
    .describe = backend_describe,
    .identify = ct_host_identify,
    .joules = ct_host_joules,
    .mem = &mem_ops,
    .queue = &ct__ref_queue_ops,
    .op = &ct__ref_op_ops,
};
