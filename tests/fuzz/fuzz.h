/** \file fuzz.h  What fuzz targets share: properties that must hold, files of the process. */
#ifndef FUZZ_H
#define FUZZ_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"

/** What a fuzzer calls, and fuzz_main.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** Ends the process if the property does not hold. */
static inline void must(int holds, const char *what)
{
  if (holds) return;
  fprintf(stderr, "fuzz: does not hold: %s (last error: %s)\n", what, ct_err_last()->text);
  abort();
}

/** A file of this process, of one of two names ("in", "out"); in memory, if there is such a
 * directory. */
static inline const char *scratch(const char *name)
{
  static char path[2][200];
  char *buf = path[name[0] == 'o'];
  const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(buf, sizeof path[0], "%s/ctrain-fuzz-%ld.%s", dir, (long)getpid(), name);
  return buf;
}

/** Writes the file anew. */
static inline void put(const char *path, const void *data, size_t bytes)
{
  FILE *f = fopen(path, "wb");
  must(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, "the input can be written");
}

/** Whether opening or reading `path` was refused: with a message that names it, and that can be
 * printed. */
static inline int refused(int rc, const char *path)
{
  const char *text = ct_err_last()->text;
  must(rc == CT_OK || (rc == CT_ERR_FORMAT && strncmp(text, path, strlen(path)) == 0),
       "a refusal names the file");
  for (const char *c = text; rc != CT_OK && *c; c++)
    must((unsigned char)*c >= ' ' && *c != 0x7f, "a refusal has no control characters");
  return rc != CT_OK;
}

#endif
