/* An archive as torch.save() has it around any pickle, with storages '0' and '1' of 64 bytes, which
 * count from 0: for tests of the reader.  Checksums are 0, as torch.save() writes them when it is
 * told not to compute them. */
#ifndef PTH_MAKE_H
#define PTH_MAKE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/pth/ct_zip.h"

static inline void pth_number(FILE *f, int bytes, uint64_t value)
{
  for (int i = 0; i < bytes; i++)
    fputc((int)(value >> (8 * i) & 0xff), f);
}

/* What a record's header and its line in the list have in common, and its name. */
static inline void pth_head(FILE *f, uint32_t mark, const char *name, size_t bytes, long at)
{
  int line = mark == CT_ZIP_CENTRAL;
  pth_number(f, 4, mark);
  pth_number(f, line ? 2 : 0, 20);
  pth_number(f, 8, 20); /* version, flags, method, time */
  pth_number(f, 2, 33);
  pth_number(f, 4, 0); /* no checksum */
  pth_number(f, 4, bytes);
  pth_number(f, 4, bytes);
  pth_number(f, 4, strlen(name));
  pth_number(f, line ? 8 : 0, 0);
  pth_number(f, line ? 2 : 0, 0);
  pth_number(f, line ? 4 : 0, (uint64_t)at);
  fputs(name, f);
}

/* 1: it was written. */
static inline int pth_make(const char *path, const void *pickle, size_t bytes)
{
  enum { N = 3 };
  static const char *const name[N] = {"x/data.pkl", "x/data/0", "x/data/1"};
  unsigned char data[64];
  long at[N];
  for (int i = 0; i < 64; i++)
    data[i] = (unsigned char)i;
  remove(path);
  FILE *f = fopen(path, "wb");
  if (!f) return 0;
  for (int i = 0; i < N; i++) {
    size_t n = i == 0 ? bytes : sizeof data;
    at[i] = ftell(f);
    pth_head(f, CT_ZIP_LOCAL, name[i], n, 0);
    fwrite(i == 0 ? pickle : data, 1, n, f);
  }
  long list = ftell(f);
  for (int i = 0; i < N; i++)
    pth_head(f, CT_ZIP_CENTRAL, name[i], i == 0 ? bytes : sizeof data, at[i]);
  long end = ftell(f);
  pth_number(f, 4, CT_ZIP_END);
  pth_number(f, 4, 0);
  pth_number(f, 2, N);
  pth_number(f, 2, N);
  pth_number(f, 4, (uint64_t)(end - list));
  pth_number(f, 4, (uint64_t)list);
  pth_number(f, 2, 0);
  return fclose(f) == 0;
}

#endif
