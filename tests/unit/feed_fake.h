/** \file feed_fake.h  A data set whose samples are functions of their numbers, for tests of the
 * feed. */
#ifndef FEED_FAKE_H
#define FEED_FAKE_H
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "tests/harness/ct_test.h"

struct ct_reader {
  ct_reader_info_t info;
  int64_t bad_label_at, fail_at; /* sample numbers; -1: none */
  int64_t bad_label;
  double odd; /* last element of sample 5, if it is not 0 */
  atomic_int reads;
};

static double element(int64_t index, int64_t i)
{
  return (double)((index * 7 + i) % 100);
}

static void store(ct_dtype_t type, void *x, int64_t i, double value)
{
  switch (type) {
  case CT_F32:
    ((float *)x)[i] = (float)value;
    break;
  case CT_F64:
    ((double *)x)[i] = value;
    break;
  case CT_U8:
    ((uint8_t *)x)[i] = (uint8_t)value;
    break;
  case CT_I8:
    ((int8_t *)x)[i] = (int8_t)value;
    break;
  case CT_I16:
    ((int16_t *)x)[i] = (int16_t)value;
    break;
  case CT_I32:
    ((int32_t *)x)[i] = (int32_t)value;
    break;
  default:
    ((int64_t *)x)[i] = (int64_t)value;
    break;
  }
}

static int fake_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  int64_t elements = ct_shape_sample(&r->info.x);
  for (int k = 0; k < n; k++) {
    if (index[k] == r->fail_at) CT_FAIL(CT_ERR_IO, "fake sample %d is gone", (int)index[k]);
    for (int64_t i = 0; x && i < elements; i++)
      store(r->info.x.dtype, x, k * elements + i, element(index[k], i));
    if (x && r->odd != 0 && index[k] == 5)
      store(r->info.x.dtype, x, (k + 1) * elements - 1, r->odd);
    ((int64_t *)y)[k] = index[k] == r->bad_label_at ? r->bad_label : index[k] % 10;
  }
out:
  atomic_fetch_add(&r->reads, 1);
  return rc;
}

static const ct_reader_info_t *fake_info(const ct_reader_t *r)
{
  return &r->info;
}

static void fake_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  (void)r;
  snprintf(buf, cap, "fake.h5, sample %d", (int)index);
}

static void fake_close(ct_reader_t *r)
{
  ct_mem_free(r);
}

static int fake_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  ct_reader_t *r = ct_mem_alloc(sizeof *r, "a fake");
  *out = r;
  if (!r) return CT_ERR_NOMEM;
  r->info.samples = spec->samples;
  r->info.classes = spec->classes;
  r->info.x = (ct_shape_t){.dtype = CT_U8, .ndim = 4, .dim = {1, 3, 2, 5, 1}};
  r->bad_label_at = r->fail_at = -1;
  r->bad_label = 77;
  return CT_OK;
}

static const ct_reader_ops_t fake = {.format = {.name = "fake"},
                                     .open = fake_open,
                                     .info = fake_info,
                                     .read = fake_read,
                                     .location = fake_location,
                                     .close = fake_close};

static ct_dataset_t open_fake(int64_t samples)
{
  ct_dataset_t d;
  ct_reader_spec_t spec = {.samples = samples, .classes = 10};
  CT_ASSERT_OK(ct_dataset_open(&fake, &spec, NULL, "x.yaml", &d));
  return d;
}

static ct_sampler_t sampler(int64_t samples, int64_t batch)
{
  return (ct_sampler_t){.seed = 5, .samples = samples, .batch = batch, .shuffle = 1};
}

static inline void check_batch(const ct_batch_t *b, const ct_sampler_t *s, int64_t epoch,
                               int64_t cursor, int rank, int size)
{
  int64_t first, n = ct_sampler_cut(ct_sampler_batch(s, cursor), rank, size, &first);
  CU_ASSERT_FATAL(b != NULL);
  CT_ASSERT_INT(b->epoch, epoch);
  CT_ASSERT_INT(b->cursor, cursor);
  CT_ASSERT_INT(b->global, ct_sampler_batch(s, cursor));
  CT_ASSERT_INT(b->first, first);
  CT_ASSERT_INT(b->n, n);
  CT_ASSERT_INT((uintptr_t)b->x % 64, 0);
  for (int i = 0; i < b->n; i++) {
    int64_t id = ct_sampler_at(s, epoch, cursor + first + i);
    CT_ASSERT_INT(b->ids[i], id);
    CT_ASSERT_INT(b->labels[i], id % 10);
    for (int k = 0; k < 30; k++)
      CT_ASSERT_INT(b->x[30 * i + k], element(id, k));
  }
}

static inline int waits_for(atomic_int *counter, int value)
{
  for (int i = 0; i < 2000 && atomic_load(counter) < value; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return atomic_load(counter);
}

#endif
