/** \file ct_proto.h  Writes messages of Protocol Buffers without generated code.  Layer 0.  All
 * functions are local.
 *
 * https://protobuf.dev/programming-guides/encoding.  A message is a sequence of fields, so it may
 * be written in several buffers.  Failures are recorded: call ct_proto_done() once at the end. */
#ifndef CT_PROTO_H
#define CT_PROTO_H
#include <stddef.h>
#include <stdint.h>

/** Fields of one message.  {0} is an empty message; freed by ct_proto_clear(). */
typedef struct ct_proto {
  unsigned char *data;
  int64_t len, cap;
  int failed; /**< 1: out of memory; further calls do nothing */
} ct_proto_t;

/** Appends a field: an integer of any type except sint, a bool or an enum. */
void ct_proto_int(ct_proto_t *p, int field, int64_t value);
void ct_proto_float(ct_proto_t *p, int field, float value);
void ct_proto_double(ct_proto_t *p, int field, double value);
/** Appends a double without a field number: an element of a packed list, after ct_proto_head(). */
void ct_proto_real(ct_proto_t *p, double value);
/** Appends a field with bytes or an encoded message. */
void ct_proto_bytes(ct_proto_t *p, int field, const void *data, int64_t bytes);
/** Appends a field with a text in UTF-8. */
void ct_proto_text(ct_proto_t *p, int field, const char *text);
/** Appends the fields of another message. */
void ct_proto_add(ct_proto_t *p, const ct_proto_t *more);
/** Begins a nested message; pass the result to ct_proto_end(). */
int64_t ct_proto_begin(ct_proto_t *p, int field);
void ct_proto_end(ct_proto_t *p, int64_t begin);
/** Appends the tag and length of a field; the caller writes its \a bytes bytes to a file itself. */
void ct_proto_head(ct_proto_t *p, int field, int64_t bytes);
/** Returns CT_OK if the message is complete, or CT_ERR_NOMEM. */
int ct_proto_done(const ct_proto_t *p);
void ct_proto_clear(ct_proto_t *p);

#endif
