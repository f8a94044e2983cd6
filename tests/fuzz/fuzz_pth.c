/* Fuzz target: any bytes as a .pth file; those that begin as none does are the pickle of one, or,
 * if they begin with a brace, the list of a .pt2 file.
 *
 * Either they are refused with a message that names the file, or every tensor reads the same in
 * one piece and in many, and what is written of them reads back to the same; nothing stays
 * allocated. */
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/fuzz/fuzz_weights.h"
#include "tests/unit/pth_make.h"
#include "weights/pth/ct_weights_pth.h"

enum { MOST = 1 << 16 /* bytes of a tensor that is read */ };

static const ct_weights_ops_t *const pth = &ct_weights_pth;

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
    char *x = take(a, i, &s, "?"), *y = take(b, i, &t, "?");
    must_match(&s, x, &t, y);
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
    must((bytes > 0 && *data == '{' ? pt2_make : pth_make)(path, data, bytes),
         "the input can be written");
  int rc = pth->open(path, "", &w);
  if (!refused(rc, path)) check_file(w, path);
  if (rc == CT_OK) pth->close(w);
  unlink(path);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
