/** \file ct_proto.h  Writes messages of Protocol Buffers by hand: a few fields need no generated
 * code.  Layer 0.  All functions are local.
 *
 * https://protobuf.dev/programming-guides/encoding.  A message is its fields one behind the other,
 * so that what is written in two halves is as good as what is written at once.  Failures are kept:
 * whoever is done with a message asks once, by ct_proto_done(). */
#ifndef CT_PROTO_H
#define CT_PROTO_H
#include <stddef.h>
#include <stdint.h>

/** Fields of one message.  {0} is empty; freed by ct_proto_clear(). */
typedef struct ct_proto {
  unsigned char *data;
  int64_t len, cap;
  int failed; /**< 1: memory was lacking, and what follows is not taken */
} ct_proto_t;

/** An integer of any type but sint, of a bool or an enum. */
void ct_proto_int(ct_proto_t *p, int field, int64_t value);
void ct_proto_float(ct_proto_t *p, int field, float value);
void ct_proto_double(ct_proto_t *p, int field, double value);
/** A double without a field: an element of a packed list, behind ct_proto_head(). */
void ct_proto_real(ct_proto_t *p, double value);
/** Bytes, or a message that is there already. */
void ct_proto_bytes(ct_proto_t *p, int field, const void *data, int64_t bytes);
/** A text in UTF-8. */
void ct_proto_text(ct_proto_t *p, int field, const char *text);
/** The fields of another message, as they are. */
void ct_proto_add(ct_proto_t *p, const ct_proto_t *more);
/** Begins a message within the message; what is returned is for its end. */
int64_t ct_proto_begin(ct_proto_t *p, int field);
void ct_proto_end(ct_proto_t *p, int64_t begin);
/** What stands before so many bytes of a field that the caller writes to a file itself. */
void ct_proto_head(ct_proto_t *p, int field, int64_t bytes);
/** CT_OK if all of it is there; CT_ERR_NOMEM. */
int ct_proto_done(const ct_proto_t *p);
void ct_proto_clear(ct_proto_t *p);

#endif
