/** \file transform_list.h  A list of transforms and a sample to run it on, for tests. */
#ifndef TRANSFORM_LIST_H
#define TRANSFORM_LIST_H
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/transform/transforms.h"
#include "tests/harness/ct_test.h"

typedef struct list {
  ct_transforms_t *t;
  ct_affine_t first;
  ct_shape_t x; /* behind the list */
  float *work;
} list_t;

/* yaml: its key t is the list, v that of evaluation. */
static inline int open_shape(const char *yaml, int training, ct_dtype_t stored, ct_shape_t x,
                             list_t *l)
{
  ct_yaml_t *n = NULL;
  memset(l, 0, sizeof *l);
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {
      .list = ct_yaml_find(n, "t"), .val_list = ct_yaml_find(n, "v"), .training = training};
  l->x = x;
  ct_reader_info_t info = {.x.dtype = stored};
  int rc = ct__transforms_open(&o, "x.yaml", &info, &l->x, &l->first, &l->t);
  if (rc == CT_OK && l->t) l->work = ct_mem_array(ct__transforms_workspace(l->t), 4, "work");
  ct_yaml_free(n);
  return rc;
}

/* A training list, without its brackets, on samples of c x h x w. */
static inline void open_on(const char *list, int64_t c, int64_t h, int64_t w, list_t *l)
{
  char yaml[300];
  snprintf(yaml, sizeof yaml, "t: [%s]", list);
  CT_ASSERT_OK(open_shape(yaml, 1, CT_F32, ct_shape(4, 1, c, h, w), l));
  CU_ASSERT_FATAL(l->t != NULL);
}

static inline void close_list(list_t *l)
{
  ct__transforms_close(l->t);
  ct_mem_free(l->work);
}

/* As the conversion does. */
static inline void convert_on(const list_t *l, const float *x, int64_t n, float *to)
{
  int64_t plane = n / l->t->step[0].in.dim[1];
  for (int64_t i = 0; i < n; i++) {
    int64_t c = l->first.channels > 1 ? i / plane : 0;
    to[i] = l->first.a[c] * x[i] + l->first.b[c];
  }
}

/* What becomes of the n numbers x as sample number id. */
static inline void run_on(const list_t *l, int64_t id, const float *x, int n, float *out)
{
  convert_on(l, x, n, ct__transforms_start(l->t, l->work, out));
  ct__transforms_run(l->t, NULL, 7, 0, id, l->work, out);
}

#endif
