/* Fuzz target: any bytes as a .pth file; those that begin as none does are the pickle of one.
 *
 * Either they are refused with a message that names the file, or every tensor reads the same in
 * one piece and in many, and what is written of them reads back to the same; nothing stays
 * allocated. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/unit/pth_make.h"
#include "weights/ct_weights_pth.h"

enum { MOST = 1 << 16 /* bytes of a tensor that is read */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const ct_weights_ops_t *const pth = &ct_weights_pth;

static void must(int holds, const char *what)
{
  if (holds) return;
  fprintf(stderr, "fuzz_pth: does not hold: %s (last error: %s)\n", what, ct_err_last()->text);
  abort();
}

/* Files of this process in memory, if there is such a directory. */
static const char *scratch(const char *suffix)
{
  static char path[2][200];
  char *buf = path[suffix[0] == 'o'];
  const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(buf, sizeof path[0], "%s/fuzz-pth-%ld.%s", dir, (long)getpid(), suffix);
  return buf;
}

static void put(const char *path, const uint8_t *data, size_t bytes)
{
  FILE *f = fopen(path, "wb");
  must(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, "the input can be written");
}

static size_t size_of(const ct_tensor_t *t)
{
  return (size_t)t->count * (size_t)(ct_elem_bits(t->type) / 8);
}

static int refused(int rc, const char *path)
{
  const char *text = ct_err_last()->text;
  must(rc == CT_OK || (rc == CT_ERR_FORMAT && strncmp(text, path, strlen(path)) == 0),
       "a refusal names the file");
  must(rc == CT_OK || ct_text_is_utf8(text), "a refusal is in UTF-8");
  return rc != CT_OK;
}

/* A tensor in one piece; the same in pieces of 3 elements.  NULL: it is damaged. */
static char *take(ct_weights_t *w, int i, const ct_tensor_t *t, const char *path)
{
  size_t bytes = size_of(t), size = (size_t)(ct_elem_bits(t->type) / 8);
  char *whole = malloc(bytes + 1), *parts = malloc(bytes + 1);
  int bad = refused(pth->read(w, i, 0, t->count, whole), path);
  for (int64_t first = 0; first < t->count && !bad; first += 3) {
    int64_t n = t->count - first < 3 ? t->count - first : 3;
    bad = refused(pth->read(w, i, first, n, parts + (size_t)first * size), path);
  }
  must(bad || memcmp(whole, parts, bytes) == 0, "pieces make the whole");
  free(parts);
  if (bad) free(whole);
  return bad ? NULL : whole;
}

/* Tensor i of both files is the same; `out` gets it first. */
static int copy_tensor(ct_weights_t *w, int i, ct_weights_out_t *out, const char *path)
{
  ct_tensor_t t;
  pth->tensor(w, i, &t);
  must(ct_text_is_utf8(t.name), "names are UTF-8");
  if (size_of(&t) > MOST) return 0;
  char *x = take(w, i, &t, path);
  if (x) must(pth->put(out, i, 0, t.count, x) == CT_OK, "what is read can be written");
  free(x);
  return x != NULL;
}

static void check_copy(ct_weights_t *a)
{
  ct_weights_t *b;
  must(pth->open(scratch("out"), "", &b) == CT_OK, "what is written can be opened");
  must(pth->count(a) == pth->count(b), "as many tensors are read as were written");
  for (int i = 0; i < pth->count(a); i++) {
    ct_tensor_t s, t;
    pth->tensor(a, i, &s);
    pth->tensor(b, i, &t);
    must(strcmp(s.name, t.name) == 0 && s.type == t.type && s.ndim == t.ndim &&
             (s.ndim == 0 || memcmp(s.dim, t.dim, (size_t)s.ndim * sizeof *s.dim) == 0),
         "they have the same names, types and shapes");
    char *x = take(a, i, &s, "?"), *y = take(b, i, &t, "?");
    must(memcmp(x, y, size_of(&s)) == 0, "they have the same numbers");
    free(x);
    free(y);
  }
  pth->close(b);
}

static void check_file(ct_weights_t *w, const char *path)
{
  int n = pth->count(w), whole = 1;
  ct_weights_out_t *out;
  ct_tensor_t *list = calloc((size_t)n + 1, sizeof *list);
  must(n > 0, "a file has tensors");
  for (int i = 0; i < n; i++)
    pth->tensor(w, i, &list[i]);
  must(pth->create(scratch("out"), list, n, NULL, 0, &out) == CT_OK, "a file can be written");
  for (int i = 0; i < n && whole; i++)
    whole = copy_tensor(w, i, out, path);
  if (whole) {
    must(pth->commit(out) == CT_OK, "a file can be written");
    check_copy(w);
    unlink(scratch("out"));
  } else {
    pth->discard(out);
  }
  free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_weights_t *w;
  const char *path = scratch("in");
  int file = bytes > 3 && (memcmp(data, "PK\3", 3) == 0 || memcmp(data, "\x80\2\x8a", 3) == 0);
  if (file)
    put(path, data, bytes);
  else
    must(pth_make(path, data, bytes), "the input can be written");
  int rc = pth->open(path, "", &w);
  if (!refused(rc, path)) check_file(w, path);
  if (rc == CT_OK) pth->close(w);
  unlink(path);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
