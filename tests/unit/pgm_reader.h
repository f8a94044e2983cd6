/** \file pgm_reader.h  A second data format, as it would be added: gray images (PGM) of any size,
 * one behind the other in a file.  Sample i is of class i % 10. */
#ifndef PGM_READER_H
#define PGM_READER_H
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "data/readers/ct_reader.h"

enum { PGM_MOST = 64 };

struct ct_reader {
  ct_reader_info_t info;
  char *data;
  int64_t h[PGM_MOST], w[PGM_MOST];
  const char *pixels[PGM_MOST];
};

static inline void pgm_close(ct_reader_t *r)
{
  if (r) ct_mem_free(r->data);
  ct_mem_free(r);
}

static inline int pgm_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = CT_OK, w, h, used;
  size_t bytes;
  char path[600];
  ct_reader_t *r = ct_mem_alloc(sizeof *r, "pgm");
  *out = NULL;
  if (!r) return CT_ERR_NOMEM;
  CT_TRY(ct_path_join(path, sizeof path, spec->dir, spec->files->v[0]));
  CT_TRY(ct_file_read(path, &r->data, &bytes));
  r->info.x = (ct_shape_t){.dtype = CT_U8, .ndim = 4, .dim = {1, 1, 0, 0, 1}};
  for (const char *p = r->data; p < r->data + bytes; p += h * w) {
    int64_t i = r->info.samples++;
    if (i == PGM_MOST || sscanf(p, "P5 %d %d 255%n", &w, &h, &used) != 2)
      CT_FAIL(CT_ERR_FORMAT, "%s: image %d is none", path, (int)i);
    p += used + 1;
    r->pixels[i] = p;
    r->w[i] = w;
    r->h[i] = h;
    r->info.varies |= h != r->h[0] || w != r->w[0];
    if (h > r->info.x.dim[2]) r->info.x.dim[2] = h;
    if (w > r->info.x.dim[3]) r->info.x.dim[3] = w;
  }
  r->info.classes = 10;
  *out = r;
  r = NULL;
out:
  pgm_close(r);
  return rc;
}

static inline const ct_reader_info_t *pgm_info(const ct_reader_t *r)
{
  return &r->info;
}

static inline void pgm_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out)
{
  *out = r->info.x;
  out->dim[2] = r->h[index];
  out->dim[3] = r->w[index];
}

static inline int pgm_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  char *to = x;
  for (int i = 0; i < n; i++) {
    size_t pixels = (size_t)(r->h[index[i]] * r->w[index[i]]);
    if (x) memcpy(to, r->pixels[index[i]], pixels);
    to += x ? pixels : 0;
    if (y) ((int64_t *)y)[i] = index[i] % 10;
  }
  return CT_OK;
}

static inline void pgm_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  (void)r;
  snprintf(buf, cap, "image %d", (int)index);
}

static inline int pgm_probe(FILE *f)
{
  return fgetc(f) == 'P' && fgetc(f) == '5';
}

static const ct_reader_ops_t ct_reader_pgm = {.format = {"PGM", {".pgm"}, pgm_probe},
                                              .open = pgm_open,
                                              .info = pgm_info,
                                              .shape = pgm_shape,
                                              .read = pgm_read,
                                              .location = pgm_location,
                                              .close = pgm_close};

#endif
