/** \file ct_zip.h  Reads the directory of a zip archive with uncompressed records. Layer 3.
 *
 * Supports what torch.save() writes: no compression, no encryption, one volume, with or without
 * zip64. Only the offsets of the records are read here (APPNOTE.TXT 6.3 of PKWARE). */
#ifndef CT_ZIP_H
#define CT_ZIP_H
#include <stdint.h>

#include "base/ct_text.h"

/** A record of the archive. */
typedef struct ct_zip_record {
  char *name;    /**< "archive/data/0" */
  int64_t at;    /**< offset of its content */
  int64_t bytes; /**< size of its content */
  int64_t plain; /**< size after decompression */
  uint32_t crc;  /**< checksum of its content; 0: unknown */
  int packed;    /**< 1: compressed or encrypted, so that its bytes cannot be read directly */
  int deflated;  /**< 1: compressed with deflate, not encrypted */
} ct_zip_record_t;

typedef struct ct_zip {
  ct_zip_record_t *record; /**< [n], sorted by name in byte order */
  int64_t n, cap;
} ct_zip_t;

enum {
  CT_ZIP_LOCAL = 0x04034b50,   /* header in front of a record */
  CT_ZIP_CENTRAL = 0x02014b50, /* its entry in the central directory */
  CT_ZIP_END = 0x06054b50,
  CT_ZIP_END64 = 0x06064b50,
  CT_ZIP_LOCATOR = 0x07064b50, /* locates the zip64 end record */
  CT_ZIP_LOCAL_BYTES = 30,     /* sizes of these headers without texts */
  CT_ZIP_CENTRAL_BYTES = 46,
  CT_ZIP_END_BYTES = 22,
  CT_ZIP_END64_BYTES = 56,
  CT_ZIP_LOCATOR_BYTES = 20,
};

/** Local. Reads the central directory of an open file of \a bytes bytes, and each record's header.
 * CT_ERR_FORMAT names the record; call ct_zip_clear() on \a out even after an error. */
int ct_zip_open(int fd, const char *path, int64_t bytes, ct_zip_t *out);
/** Local. Sorts the records; CT_ERR_FORMAT: two overlap or have the same name. */
int ct_zip_sort(ct_zip_t *z, const char *path);
void ct_zip_clear(ct_zip_t *z);
/** Finds a record by name; NULL: the archive does not contain it. */
ct_zip_record_t *ct_zip_find(const ct_zip_t *z, const char *name);

/** Read little-endian numbers at any address. */
static inline uint32_t ct_zip_u16(const unsigned char *p)
{
  return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t ct_zip_u32(const unsigned char *p)
{
  return ct_zip_u16(p) | ct_zip_u16(p + 2) << 16;
}

static inline uint64_t ct_zip_u64(const unsigned char *p)
{
  return (uint64_t)ct_zip_u32(p) | (uint64_t)ct_zip_u32(p + 4) << 32;
}

#endif
