/* Fuzz target: any bytes as an npy or npz file, or as one of CIFAR; and as the names of its
 * classes.
 *
 * Either they are refused with a message that names the file, or every sample is read or is bad
 * itself; nothing stays allocated. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/ct_pack_in.h"

enum { MOST = 1 << 20 /* elements of samples that are read */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(int holds, const char *what)
{
  if (holds) return;
  fprintf(stderr, "fuzz_arrays: does not hold: %s (last error: %s)\n", what, ct_err_last()->text);
  abort();
}

static void read_all(const ct_pack_source_t *in)
{
  int64_t elements = ct_shape_sample(&in->x);
  must(in->samples > 0 && elements > 0, "there are samples");
  if (elements > MOST || in->targets > MOST) return;
  void *x = calloc((size_t)elements, 8);
  float *targets = calloc((size_t)in->targets + 1, sizeof *targets);
  for (int64_t i = 0; i < in->samples && i < 100; i++) {
    char place[200];
    ct_pack_sample_t to = {.x = x, .targets = targets};
    int rc = in->read(in->state, i, &to);
    must(rc == CT_OK || rc == CT_ERR_DATA, "a sample is read or bad");
    in->place(in->state, i, place, sizeof place);
    if (in->label) must(in->label(in->state, i) < in->classes, "labels are below the classes");
  }
  free(x);
  free(targets);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
  FILE *f = fopen(path, "wb");
  must(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, "the input can be written");
}

/* A directory with a CIFAR-10 file of one sample, and the input beside it. */
static void as_names(const char *dir, const char *name, const uint8_t *data, size_t bytes)
{
  static const uint8_t sample[1 + 3 * 32 * 32] = {3};
  char samples[200], names[200];
  ct_pack_source_t in;
  snprintf(samples, sizeof samples, "%s/data_batch_1.bin", dir);
  snprintf(names, sizeof names, "%s/%s", dir, name);
  must(mkdir(dir, 0700) == 0, "a directory can be made");
  write_file(samples, sample, sizeof sample);
  write_file(names, data, bytes);
  int rc = ct_pack_open_cifar(samples, 0, &in);
  must(rc == CT_OK || strstr(ct_err_last()->text, names), "a refusal names the file");
  if (rc == CT_OK) {
    for (int i = 0; i < 10; i++)
      must(in.class_names && strlen(in.class_names[i]) < bytes, "ten names are there");
    in.close(in.state);
  }
  unlink(samples);
  unlink(names);
  rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  static const ct_shape_t as_it_is;
  char path[100];
  int64_t live = ct_mem_live();
  ct_pack_source_t in;
  snprintf(path, sizeof path, "%s/fuzz-arrays-%ld",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
  write_file(path, data, bytes);
  int is_array = bytes > 1 && (data[0] == 0x93 || data[0] == 'P');
  int rc =
      is_array ? ct_pack_open_npy(path, path, &as_it_is, &in) : ct_pack_open_cifar(path, 0, &in);
  must(rc == CT_OK || strstr(ct_err_last()->text, path) || rc == CT_ERR_NOMEM,
       "a refusal names the file");
  if (rc == CT_OK) {
    read_all(&in);
    in.close(in.state);
  }
  unlink(path);
  as_names(path, "batches.meta.txt", data, bytes);
  as_names(path, "batches.meta", data, bytes);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
