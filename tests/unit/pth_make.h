/* Archives as torch.save() and torch.export.save() write them, around any pickle or list, with two
 * storages of 64 bytes, which count from 0: for tests of the reader.  Checksums are 0, as
 * torch.save() writes them when it is told not to compute them. */
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

/* A record of an archive. */
typedef struct pth_record {
  const char *name;
  const void *data;
  size_t bytes;
} pth_record_t;

/* Writes an archive of n records.  1: it was written. */
static inline int pth_zip(const char *path, const pth_record_t *r, int n)
{
  enum { MOST = 16 };
  long at[MOST];
  remove(path);
  FILE *f = n <= MOST ? fopen(path, "wb") : NULL;
  if (!f) return 0;
  for (int i = 0; i < n; i++) {
    at[i] = ftell(f);
    pth_head(f, CT_ZIP_LOCAL, r[i].name, r[i].bytes, 0);
    fwrite(r[i].data, 1, r[i].bytes, f);
  }
  long list = ftell(f);
  for (int i = 0; i < n; i++)
    pth_head(f, CT_ZIP_CENTRAL, r[i].name, r[i].bytes, at[i]);
  long end = ftell(f);
  pth_number(f, 4, CT_ZIP_END);
  pth_number(f, 4, 0);
  pth_number(f, 2, (uint64_t)n);
  pth_number(f, 2, (uint64_t)n);
  pth_number(f, 4, (uint64_t)(end - list));
  pth_number(f, 4, (uint64_t)list);
  pth_number(f, 2, 0);
  return fclose(f) == 0;
}

/* The bytes of storages, which count from 0. */
static inline const unsigned char *pth_count64(void)
{
  static unsigned char data[64];
  for (int i = 0; i < 64; i++)
    data[i] = (unsigned char)i;
  return data;
}

/* 1: it was written. */
static inline int pth_make(const char *path, const void *pickle, size_t bytes)
{
  const unsigned char *data = pth_count64();
  const pth_record_t r[] = {
      {"x/data.pkl", pickle, bytes}, {"x/data/0", data, 64}, {"x/data/1", data, 64}};
  return pth_zip(path, r, 3);
}

/* An archive as torch.export.save() has it around a list of weights, with the records 'weight_0'
 * and 'weight_1'.  1: it was written. */
static inline int pt2_make(const char *path, const void *list, size_t bytes)
{
  const unsigned char *data = pth_count64();
  const pth_record_t r[] = {{"x/archive_format", "pt2", 3},
                            {"x/archive_version", "0", 1},
                            {"x/byteorder", "little", 6},
                            {"x/data/weights/model_weights_config.json", list, bytes},
                            {"x/data/weights/weight_0", data, 64},
                            {"x/data/weights/weight_1", data, 64}};
  return pth_zip(path, r, 6);
}

/* An archive as torch.export.save() has it around a program, with two weights "w" and "v" of 16
 * numbers, and a constant "c" of 4.  1: it was written. */
static inline int pt2_program(const char *path, const void *program, size_t bytes)
{
#define PT2_TENSOR(name, file, size)                                             \
  "\"" name "\":{\"path_name\":\"" file                                          \
  "\",\"is_param\":true,\"use_pickle\":false,\"tensor_meta\":"                   \
  "{\"dtype\":7,\"sizes\":[{\"as_int\":" size "}],\"strides\":[{\"as_int\":1}]," \
  "\"storage_offset\":{\"as_int\":0},\"layout\":7}}"
  static const char weights[] =
      "{\"config\":{" PT2_TENSOR("w", "weight_0", "16") "," PT2_TENSOR("v", "weight_0", "16") "}}";
  static const char constants[] = "{\"config\":{" PT2_TENSOR("c", "tensor_0", "4") "}}";
  const unsigned char *data = pth_count64();
  const pth_record_t r[] = {
      {"x/archive_format", "pt2", 3},
      {"x/archive_version", "0", 1},
      {"x/byteorder", "little", 6},
      {"x/models/model.json", program, bytes},
      {"x/data/weights/model_weights_config.json", weights, sizeof weights - 1},
      {"x/data/constants/model_constants_config.json", constants, sizeof constants - 1},
      {"x/data/weights/weight_0", data, 64},
      {"x/data/constants/tensor_0", data, 16}};
  return pth_zip(path, r, 8);
}

#endif
