/* Encodes messages of Protocol Buffers: each field is a key (its number and encoding) and a value.
 * The length of a nested message precedes the message but is known only at its end: then the
 * message is moved to insert the length.  Nested messages are small, since large data is not stored
 * here. */
#include "base/ct_proto.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { VARINT = 0, FIXED64 = 1, DELIMITED = 2, FIXED32 = 5, MOST = 10 /* bytes of a varint */ };

/* Seven bits per byte, the lowest first. */
static int varint(uint64_t v, unsigned char out[MOST])
{
  int n = 0;
  for (; v > 0x7f; v >>= 7)
    out[n++] = (unsigned char)(v | 0x80);
  out[n++] = (unsigned char)v;
  return n;
}

static int reserve(ct_proto_t *p, int64_t bytes)
{
  void *data = p->data;
  if (!p->failed && ct_mem_grow(&data, &p->cap, p->len + bytes, 1) != CT_OK) p->failed = 1;
  p->data = data;
  return !p->failed;
}

static void append(ct_proto_t *p, const void *data, int64_t bytes)
{
  if (bytes == 0 || !reserve(p, bytes)) return;
  memcpy(p->data + p->len, data, (size_t)bytes);
  p->len += bytes;
}

static void append_varint(ct_proto_t *p, uint64_t v)
{
  unsigned char bytes[MOST];
  append(p, bytes, varint(v, bytes));
}

static void key(ct_proto_t *p, int field, int coding)
{
  append_varint(p, (uint64_t)field << 3 | (uint64_t)coding);
}

void ct_proto_int(ct_proto_t *p, int field, int64_t value)
{
  key(p, field, VARINT);
  append_varint(p, (uint64_t)value);
}

void ct_proto_float(ct_proto_t *p, int field, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  key(p, field, FIXED32);
  for (int i = 0; i < 4; i++)
    append(p, &(unsigned char){(unsigned char)(bits >> 8 * i)}, 1);
}

void ct_proto_real(ct_proto_t *p, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 8; i++)
    append(p, &(unsigned char){(unsigned char)(bits >> 8 * i)}, 1);
}

void ct_proto_double(ct_proto_t *p, int field, double value)
{
  key(p, field, FIXED64);
  ct_proto_real(p, value);
}

void ct_proto_head(ct_proto_t *p, int field, int64_t bytes)
{
  key(p, field, DELIMITED);
  append_varint(p, (uint64_t)bytes);
}

void ct_proto_bytes(ct_proto_t *p, int field, const void *data, int64_t bytes)
{
  ct_proto_head(p, field, bytes);
  append(p, data, bytes);
}

void ct_proto_text(ct_proto_t *p, int field, const char *text)
{
  ct_proto_bytes(p, field, text, (int64_t)strlen(text));
}

void ct_proto_add(ct_proto_t *p, const ct_proto_t *more)
{
  append(p, more->data, more->len);
  p->failed |= more->failed;
}

int64_t ct_proto_begin(ct_proto_t *p, int field)
{
  key(p, field, DELIMITED);
  return p->len;
}

void ct_proto_end(ct_proto_t *p, int64_t begin)
{
  unsigned char length[MOST];
  int64_t bytes = p->len - begin;
  int n = varint((uint64_t)bytes, length);
  if (!reserve(p, n)) return;
  memmove(p->data + begin + n, p->data + begin, (size_t)bytes);
  memcpy(p->data + begin, length, (size_t)n);
  p->len += n;
}

int ct_proto_done(const ct_proto_t *p)
{
  if (!p->failed) return CT_OK;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "out of memory for a message");
}

void ct_proto_clear(ct_proto_t *p)
{
  ct_mem_free(p->data);
  *p = (ct_proto_t){0};
}
