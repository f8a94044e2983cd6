/* Fuzz target: any bytes as a safetensors file; those that begin as JSON does are the header of one
 * up to the first zero byte, and its data behind that.
 *
 * Either they are refused with a message that names the file, or the tensors one behind the other
 * are the data of the file, to the byte, and what is written of them reads back to the same;
 * nothing stays allocated. */
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/fuzz/fuzz_weights.h"
#include "weights/safetensors/ct_weights_safetensors.h"

static const ct_weights_ops_t *const ops = &ct_weights_safetensors;

/* What a file holds, where all can be read. */
typedef struct all {
  ct_tensor_t *list;
  char **bytes;
  int n;
} all_t;

/* The file that the input means; *header: what of the input is not data. */
static void put_meant(const char *path, const uint8_t *data, size_t bytes, size_t *header)
{
  FILE *f = fopen(path, "wb");
  int is_text = bytes > 1 && data[0] == '{' && strchr("\"} \n", data[1]);
  *header = 0;
  must(f != NULL, "the input can be written");
  if (is_text) {
    const uint8_t *zero = memchr(data, 0, bytes);
    uint64_t n = zero ? (uint64_t)(zero - data) : bytes;
    must(fwrite(&n, sizeof n, 1, f) == 1 && fwrite(data, 1, n, f) == n, "the input can be written");
    *header = (size_t)n + (zero != NULL);
  } else if (bytes >= 8) {
    uint64_t n;
    memcpy(&n, data, sizeof n);
    *header = n <= bytes - 8 ? 8 + (size_t)n : bytes;
  }
  size_t from = is_text ? *header : 0;
  must(fwrite(data + from, 1, bytes - from, f) == bytes - from && fclose(f) == 0,
       "the input can be written");
}

/* 0: some are of types that are not read. */
static int take(ct_weights_t *w, all_t *a)
{
  a->n = ops->count(w);
  a->list = calloc((size_t)a->n + 1, sizeof *a->list);
  a->bytes = calloc((size_t)a->n + 1, sizeof *a->bytes);
  for (int i = 0; i < a->n; i++) {
    ct_tensor_t *t = &a->list[i];
    ops->tensor(w, i, t);
    must(ct_text_is_utf8(t->name), "names are UTF-8");
    if (ct_elem_bits(t->type) < 8) return 0;
    a->bytes[i] = malloc(size_of(t) + 1);
    must(ops->read(w, i, 0, t->count, a->bytes[i]) == CT_OK, "what was opened can be read");
  }
  return 1;
}

static void drop(all_t *a)
{
  for (int i = 0; i < a->n; i++)
    free(a->bytes[i]);
  free(a->bytes);
  free(a->list);
}

/* Names of tensors that have another one are behind all others. */
static void check_data(const all_t *a, const uint8_t *data, size_t bytes)
{
  size_t at = 0;
  for (int i = 0; i < a->n && at < bytes; i++) {
    size_t n = size_of(&a->list[i]);
    must(n <= bytes - at && memcmp(a->bytes[i], data + at, n) == 0,
         "tensors are the data, one behind the other");
    at += n;
  }
  must(at == bytes, "tensors are all of the data");
}

static int find(const all_t *a, const char *name)
{
  int i = 0;
  while (i < a->n && strcmp(a->list[i].name, name) != 0)
    i++;
  return i;
}

static void check_copy(const all_t *a)
{
  ct_weights_t *w;
  ct_weights_out_t *o;
  all_t b = {0};
  int rc = ops->create(scratch("out"), a->list, a->n, NULL, 0, &o);
  if (rc != CT_OK) return (void)refused(rc, scratch("out")); /* a name that cannot be written */
  for (int i = 0; i < a->n; i++)
    must(ops->put(o, i, 0, a->list[i].count, a->bytes[i]) == CT_OK, "a tensor can be written");
  must(ops->commit(o) == CT_OK, "a file can be written");
  must(ops->open(scratch("out"), NULL, &w) == CT_OK, "what is written can be opened");
  must(take(w, &b) && b.n == a->n, "as many tensors are read as were written");
  for (int i = 0; i < a->n; i++) {
    const ct_tensor_t *s = &a->list[i];
    int k = find(&b, s->name);
    must(k < b.n, "no name is lost");
    must_match(s, a->bytes[i], &b.list[k], b.bytes[k]);
  }
  drop(&b);
  ops->close(w);
  unlink(scratch("out"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_weights_t *w;
  size_t header;
  const char *path = scratch("in");
  put_meant(path, data, bytes, &header);
  if (!refused(ops->open(path, NULL, &w), path)) {
    all_t a = {0};
    if (take(w, &a)) {
      check_data(&a, data + header, bytes - header);
      check_copy(&a);
    }
    drop(&a);
    ops->close(w);
  }
  unlink(path);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
