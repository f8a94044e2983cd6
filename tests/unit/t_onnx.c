/* ONNX files: sound as messages and as graphs, for every kind of layer; what onnxruntime makes of
 * them is for tests/python/onnx.test.  onnx_make wrote lstm-steps.onnx, which passed there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_proto.h"
#include "onnx/ct_onnx.h"
#include "tests/harness/ct_test.h"
#include "tests/python/onnx_models.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_eight.h"
#include "tests/unit/net_run.h"

enum { CLASSES = 7, MODELS = sizeof onnx_models / sizeof *onnx_models };

static char path[CT_PATH_MAX], data_path[CT_PATH_MAX + 8];

/* ---- writing ---- */

static ct_graph_t *graph_of(const onnx_model_t *m)
{
  int64_t dim[CT_MAX_DIMS] = {1, m->dim[0], m->dim[1], m->dim[2], m->dim[3]};
  return make(m->yaml, ct_shape_dims(1 + m->dims, dim), CLASSES);
}

static const onnx_model_t *model_of(const char *name)
{
  for (int i = 0; i < MODELS; i++)
    if (strcmp(onnx_models[i].name, name) == 0) return &onnx_models[i];
  CU_FAIL_FATAL("no such model");
  return NULL;
}

/* The initial values; none of a parameter of that number. */
static int missing = -1;
static int take(void *ctx, int param, float *out)
{
  if (param == missing) return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "there is none");
  ct_graph_init_param(ctx, param, 3, out);
  return CT_OK;
}

static int write_model(const ct_graph_t *g, const ct_quant_t *quant, int external)
{
  ct_onnx_opts_t o = {.version = "test", .config = "model", .quant = quant, .external = external};
  return ct_onnx_write(g, &(ct_onnx_source_t){take, (void *)(uintptr_t)g}, &o, path);
}

/* ---- reading: fields of messages ---- */

typedef struct span {
  const unsigned char *at, *end;
} span_t;

static uint64_t varint(span_t *s)
{
  uint64_t v = 0;
  for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
    unsigned char byte = *s->at++;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return v;
  }
  CU_FAIL_FATAL("a number without an end");
  return 0;
}

/* The next field: 0 at the end.  Of numbers *value, of the rest *inside. */
static int next(span_t *s, uint64_t *value, span_t *inside)
{
  if (s->at >= s->end) return 0;
  uint64_t key = varint(s);
  size_t left;
  if ((key & 7) == 0) {
    *value = varint(s);
    return (int)(key >> 3);
  }
  uint64_t bytes = (key & 7) == 5 ? 4 : varint(s);
  left = (size_t)(s->end - s->at);
  CU_ASSERT_FATAL(((key & 7) == 2 || (key & 7) == 5) && bytes <= left);
  *inside = (span_t){s->at, s->at + bytes};
  s->at += bytes;
  return (int)(key >> 3);
}

static void text_of(span_t s, char out[200])
{
  snprintf(out, 200, "%.*s", (int)(s.end - s.at), (const char *)s.at);
}

/* ---- a graph is sound if each name is given once, and before it is read ---- */

typedef struct names {
  char (*name)[200];
  int *used, n;
} names_t;

static int find(const names_t *k, const char *name)
{
  for (int i = 0; i < k->n; i++)
    if (strcmp(k->name[i], name) == 0) return i;
  return -1;
}

static void give(names_t *k, span_t name)
{
  text_of(name, k->name[k->n]);
  CT_ASSERT_INT(find(k, k->name[k->n]), -1);
  k->used[k->n++] = 0;
}

static void node(names_t *k, span_t s)
{
  uint64_t v;
  span_t in;
  char name[200];
  for (int field; (field = next(&s, &v, &in));) {
    text_of(in, name);
    int at = field == 1 && name[0] ? find(k, name) : 0; /* "": an optional one that is not given */
    if (at < 0) CT_ASSERT_TEXT(name, "an input that nobody gave");
    if (field == 1 && name[0] && at >= 0) k->used[at] = 1;
    if (field == 2) give(k, in);
  }
}

/* A tensor has the bytes of its dims, here or within the other file, from a page on. */
static void tensor(names_t *k, span_t s, int64_t apart_bytes, int *apart)
{
  static const unsigned char size[] = {0, 4, 1, 1, 0, 0, 4, 8}; /* of float32, uint8, int8, … */
  uint64_t v, bytes = 1, type = 0, raw = 0, offset = 0, length = 0;
  span_t in = {0};
  char key[200], value[200];
  for (int field; (field = next(&s, &v, &in));) {
    if (field == 1) bytes *= v;
    if (field == 2) type = v;
    if (field == 8) give(k, in);
    if (field == 9) raw = (uint64_t)(in.end - in.at);
    if (field != 13) continue;
    span_t entry = in, part;
    for (int f; (f = next(&entry, &v, &part));)
      text_of(part, f == 1 ? key : value);
    if (strcmp(key, "location") == 0) CT_ASSERT_TEXT(value, "model.onnx.data");
    if (strcmp(key, "offset") == 0) offset = strtoull(value, NULL, 10);
    if (strcmp(key, "length") == 0) length = strtoull(value, NULL, 10);
  }
  CU_ASSERT_FATAL(type < sizeof size && size[type]);
  bytes *= size[type];
  CU_ASSERT((raw && !length) || (length && !raw));
  CT_ASSERT_INT(raw + length, bytes);
  CT_ASSERT_INT(offset % 4096, 0);
  CU_ASSERT((int64_t)(offset + length) <= apart_bytes);
  *apart += length > 0;
}

/* How many tensors lie in the other file. */
static int check_graph(span_t all, int64_t apart_bytes)
{
  enum { MOST = 4000 };
  int apart = 0;
  uint64_t v;
  span_t in, name, s = all;
  names_t k = {ct_mem_array(MOST, 200, "test"), ct_mem_array(MOST, sizeof(int), "test"), 0};
  for (int field; (field = next(&s, &v, &in));) {
    if (field == 5) tensor(&k, in, apart_bytes, &apart);
    if (field == 11 && next(&in, &v, &name) == 1) give(&k, name);
  }
  s = all;
  for (int field; (field = next(&s, &v, &in));)
    if (field == 1) node(&k, in);
  CT_ASSERT_TEXT(k.name[k.n - 1], "output");
  for (int i = 0; i < k.n - 1; i++)
    if (!k.used[i]) CT_ASSERT_TEXT(k.name[i], "a value that nobody reads");
  ct_mem_free(k.name);
  ct_mem_free(k.used);
  return apart;
}

static int check_file(int external)
{
  char *data = NULL, *other = NULL;
  size_t bytes = 0, apart_bytes = 0;
  uint64_t v, ir = 0, opset = 0;
  span_t in, graph = {0};
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  CT_ASSERT_INT(ct_file_exists(data_path), external);
  if (external) CT_ASSERT_OK(ct_file_read(data_path, &other, &apart_bytes));
  span_t s = {(unsigned char *)data, (unsigned char *)data + bytes};
  for (int field; (field = next(&s, &v, &in));) {
    if (field == 1) ir = v;
    if (field == 7) graph = in;
    if (field == 8 && next(&in, &v, &in) == 2) opset = v;
  }
  CT_ASSERT_INT(ir, 8);
  CT_ASSERT_INT(opset, 17);
  int apart = check_graph(graph, (int64_t)apart_bytes);
  ct_mem_free(data);
  ct_mem_free(other);
  return apart;
}

/* ---- the tests ---- */

static void messages_are_protocol_buffers(void)
{
  static const unsigned char expected[] = {
      0x08, 0x96, 0x01,                                           /* 1: 150 */
      0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* 2: -1 */
      0x01, 0x1d, 0x00, 0x00, 0x80, 0x3f,                         /* 3: 1.0 */
      0xa2, 0x01, 0x05, 0x22, 0x03, 'a',  'b',  'c'};             /* 20: {4: "abc"} */
  ct_proto_t p = {0}, inner = {0};
  ct_proto_int(&p, 1, 150);
  ct_proto_int(&p, 2, -1);
  ct_proto_float(&p, 3, 1);
  int64_t at = ct_proto_begin(&p, 20);
  ct_proto_text(&inner, 4, "abc");
  ct_proto_add(&p, &inner);
  ct_proto_end(&p, at);
  CT_ASSERT_OK(ct_proto_done(&p));
  CT_ASSERT_INT(p.len, sizeof expected);
  CU_ASSERT(memcmp(p.data, expected, sizeof expected) == 0);
  ct_proto_clear(&p);
  ct_proto_clear(&inner);
  at = ct_proto_begin(&p, 1); /* a length of two bytes */
  for (int i = 0; i < 100; i++)
    ct_proto_int(&p, 1, 0);
  ct_proto_end(&p, at);
  CT_ASSERT_INT(p.len, 1 + 2 + 200);
  CU_ASSERT(p.data[1] == 0xc8 && p.data[2] == 1 && p.data[3] == 8);
  ct_proto_clear(&p);
}

static void every_kind_of_layer_is_written(void)
{
  for (int i = 0; ct_layer_kinds[i]; i++) {
    int found = 0;
    for (int m = 0; m < MODELS && !found; m++)
      found = strstr(onnx_models[m].yaml, ct_layer_kinds[i]->kind) != NULL;
    if (!found || !ct_onnx_has(ct_layer_kinds[i]->op))
      CT_ASSERT_TEXT(ct_layer_kinds[i]->kind, "a kind of layer that is not written, or not tried");
  }
}

static void check_model(const onnx_model_t *m, const ct_graph_t *g, const ct_quant_t *quant)
{
  CT_ASSERT_OK(write_model(g, quant, m->external));
  int apart = check_file(m->external);
  CU_ASSERT(m->external ? apart > 0 : apart == 0);
  unlink(path);
  unlink(data_path);
}

static void files_are_sound(void)
{
  for (int i = 0; i < MODELS; i++) {
    const onnx_model_t *m = &onnx_models[i];
    if (strstr(m->yaml, "vgg")) continue; /* half a GB, of kinds that others have too */
    ct_graph_t *g = graph_of(m);
    check_model(m, g, NULL);
    if (m->eight) {
      net_eight_t eight;
      float **plain = net_trained(g);
      CT_ASSERT_OK(net_eight_make(g, plain, m->eight == 2, &eight));
      check_model(m, eight.fold.graph, &eight.quant);
      net_eight_clear(&eight);
      net_discard(g, plain);
    }
    ct_graph_free(g);
  }
}

static void the_same_bytes_as_ever(void)
{
  char golden[CT_PATH_MAX], *want = NULL, *have = NULL;
  size_t want_bytes = 0, have_bytes = 0;
  const onnx_model_t *m = model_of("lstm-steps");
  ct_graph_t *g = graph_of(m);
  ct_onnx_opts_t o = {.version = "test", .config = m->yaml};
  snprintf(golden, sizeof golden, "%s/tests/golden/lstm-steps.onnx",
           getenv("CT_SRC") ? getenv("CT_SRC") : ".");
  CT_ASSERT_OK(ct_onnx_write(g, &(ct_onnx_source_t){take, g}, &o, path));
  CT_ASSERT_OK(ct_file_read(golden, &want, &want_bytes));
  CT_ASSERT_OK(ct_file_read(path, &have, &have_bytes));
  CT_ASSERT_INT(have_bytes, want_bytes);
  CU_ASSERT(have_bytes == want_bytes && memcmp(have, want, want_bytes) == 0);
  ct_mem_free(want);
  ct_mem_free(have);
  ct_graph_free(g);
  unlink(path);
}

/* No file, nor a part of one. */
static void assert_nothing_left(void)
{
  char temporary[96];
  const char *const names[] = {path, data_path};
  for (int i = 0; i < 2; i++) {
    snprintf(temporary, sizeof temporary, "%s.tmp", names[i]);
    CU_ASSERT(!ct_file_exists(names[i]) && !ct_file_exists(temporary));
  }
}

static void write_without_memory(const ct_graph_t *g, const ct_quant_t *quant)
{
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t i = 1; rc != CT_OK; i++) {
    ct_mem_fail_at(i);
    rc = write_model(g, quant, 1);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    if (rc != CT_OK) assert_nothing_left();
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  unlink(path);
  unlink(data_path);
}

static void failures_leave_nothing(void)
{
  net_eight_t eight;
  ct_graph_t *g = graph_of(model_of("int8-steps"));
  float **plain = net_trained(g);
  CT_ASSERT_OK(net_eight_make(g, plain, 0, &eight));
  missing = 3;
  CT_ASSERT_FAILS(write_model(g, NULL, 1), CT_ERR_FORMAT, "there is none");
  missing = -1;
  assert_nothing_left();
  write_without_memory(g, NULL);
  write_without_memory(eight.fold.graph, &eight.quant);
  CT_ASSERT_FAILS(ct_onnx_write(g, &(ct_onnx_source_t){take, g}, &(ct_onnx_opts_t){.version = ""},
                                "/nowhere/model.onnx"),
                  CT_ERR_IO, "/nowhere/model.onnx.tmp: cannot create");
  net_eight_clear(&eight);
  net_discard(g, plain);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(messages_are_protocol_buffers),
                                    CT_TEST(every_kind_of_layer_is_written),
                                    CT_TEST(files_are_sound),
                                    CT_TEST(the_same_bytes_as_ever),
                                    CT_TEST(failures_leave_nothing),
                                    CT_TEST_END};
  snprintf(path, sizeof path, "%s/model.onnx", ct_test_dir());
  snprintf(data_path, sizeof data_path, "%s.data", path);
  return ct_test_main("onnx", tests, argc, argv);
}
