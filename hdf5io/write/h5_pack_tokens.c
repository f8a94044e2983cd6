/* Writes a shard of tokens: arrays without chunks and filters, so that a window of tokens is one
 * read at an offset that is known when the file is open. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_heartbeat.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_pack.h"
#include "hdf5io/h5_glue.h"
#include "hdf5io/write/h5_pack.h"

enum { PART_BYTES = 8 << 20 }; /* HDF5's lock is released after each part */

/* Where the elements of an array come from: an open file or memory. */
typedef struct tokens_from {
  const char *name;
  hid_t type; /* as stored: little-endian */
  hid_t native;
  int64_t n;
  size_t size;
  int fd; /* -1: memory */
  const void *memory;
} tokens_from_t;

static int tokens_failed(const char *path, const char *what)
{
  char why[200];
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write %s: %s", path, what,
                    ct__h5_why(why, sizeof why));
}

/* Needs the lock. */
static hid_t tokens_create(hid_t file, const tokens_from_t *a)
{
  hsize_t n = (hsize_t)a->n;
  hid_t space = H5Screate_simple(1, &n, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation, 0); /* equal data gives equal bytes */
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  hid_t out = H5Dcreate2(file, a->name, a->type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ct__h5_drop(creation);
  ct__h5_drop(space);
  return out;
}

/* Needs the lock. */
static int tokens_put(hid_t array, hid_t native, int64_t first, int64_t rows, const void *from)
{
  hsize_t start = (hsize_t)first, n = (hsize_t)rows;
  hid_t space = H5Dget_space(array), memory = H5Screate_simple(1, &n, NULL);
  int ok = H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &n, NULL) >= 0 &&
           H5Dwrite(array, native, memory, space, H5P_DEFAULT, from) >= 0;
  ct__h5_drop(memory);
  ct__h5_drop(space);
  return ok;
}

/* Writes an array in parts; *array stays open for its attributes. */
static int tokens_array(const char *path, hid_t file, const tokens_from_t *a, char *part,
                        hid_t *array)
{
  int rc = CT_OK;
  ct__h5_lock();
  *array = tokens_create(file, a);
  if (*array < 0) rc = tokens_failed(path, a->name);
  ct__h5_unlock();
  CT_TRY(rc);
  int64_t step = PART_BYTES / (int64_t)a->size;
  for (int64_t first = 0, n; first < a->n; first += n) {
    n = a->n - first < step ? a->n - first : step;
    const char *from = a->memory ? (const char *)a->memory + (size_t)first * a->size : part;
    if (!a->memory)
      CT_TRY(ct_file_read_at(a->fd, path, first * (int64_t)a->size, part, (size_t)n * a->size));
    ct__h5_lock();
    ct_heartbeat_file(path);
    if (!tokens_put(*array, a->native, first, n, from)) rc = tokens_failed(path, a->name);
    ct__h5_unlock();
    CT_TRY(rc);
  }
out:
  return rc;
}

static int tokens_attributes(const ct_token_shard_t *s, hid_t file, hid_t tokens)
{
  int rc = CT_OK;
  char format[64];
  snprintf(format, sizeof format, "%s %d", CT__H5_PACK_KIND, CT__H5_PACK_NUMBER);
  ct__h5_lock();
  if (!ct__h5_put_attr_text(file, "format", format) ||
      !ct__h5_put_attr_int(tokens, "vocab", s->vocab) ||
      (s->eot >= 0 && !ct__h5_put_attr_int(tokens, "eot", s->eot)) ||
      (s->bytes >= 0 && !ct__h5_put_attr_int(tokens, "bytes", s->bytes)) ||
      (s->tokenizer && !ct__h5_put_attr_text(tokens, "tokenizer", s->tokenizer)))
    rc = tokens_failed(s->path, "attributes");
  ct__h5_unlock();
  return rc;
}

/* HDF5 may delay small writes until an array is closed. */
static int tokens_close(const char *path, hid_t *array)
{
  ct__h5_lock();
  int rc = *array >= 0 && H5Dclose(*array) < 0 ? tokens_failed(path, "an array") : CT_OK;
  ct__h5_unlock();
  *array = -1;
  return rc;
}

/* The constants of HDF5 call its library, so this needs the lock too. */
static void tokens_arrays(const ct_token_shard_t *s, tokens_from_t out[3])
{
  int wide = s->bits == 32;
  ct__h5_lock();
  out[0] = (tokens_from_t){"tokens",
                           wide ? H5T_STD_U32LE : H5T_STD_U16LE,
                           wide ? H5T_NATIVE_UINT32 : H5T_NATIVE_UINT16,
                           s->tokens,
                           (size_t)s->bits / 8,
                           s->fd,
                           NULL};
  out[1] = (tokens_from_t){
      "document_starts", H5T_STD_I64LE, H5T_NATIVE_INT64, s->documents, sizeof(int64_t),
      s->starts_fd,      NULL};
  out[2] =
      (tokens_from_t){"tokenizer", H5T_STD_U8LE, H5T_NATIVE_UINT8, s->blob_bytes, 1, -1, s->blob};
  ct__h5_unlock();
}

int ct_pack_write_tokens(const ct_token_shard_t *s)
{
  int rc = CT_OK;
  hid_t file = -1, array = -1;
  tokens_from_t arrays[3];
  char *part = ct_mem_alloc(PART_BYTES, "a part of a shard");
  if (!part) return CT_ERR_NOMEM;
  CT_TRY(ct__h5_create(s->path, 0, &file));
  tokens_arrays(s, arrays);
  for (int i = 0; i < (s->blob ? 3 : 2); i++) {
    CT_TRY(tokens_array(s->path, file, &arrays[i], part, &array));
    if (i == 0) CT_TRY(tokens_attributes(s, file, array));
    CT_TRY(tokens_close(s->path, &array));
  }
  hid_t done = file;
  file = -1;
  CT_TRY(ct__h5_finish(s->path, done));
out:
  tokens_close(s->path, &array);
  ct__h5_abandon(s->path, file);
  ct_mem_free(part);
  return rc;
}
