/* Reads tar files, header by header.  A header is used only if its checksum is right, and members
 * may not exceed the file. */
#include "pack/tar.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

enum {
  BLOCK = 512,
  NAME = 0,
  NAME_BYTES = 100,
  SIZE = 124,
  SIZE_BYTES = 12,
  SUM = 148,
  SUM_BYTES = 8,
  TYPE = 156,
  LINK = 157,
  MAGIC = 257,
  PREFIX = 345,
  PREFIX_BYTES = 155,
  MOST_EXTRA = 1 << 20 /* limit of a pax header or long name, in bytes */
};

/* The extended headers before a member, which change it. */
typedef struct extra {
  char name[CT_PATH_MAX]; /**< "": none */
  char link[CT_PATH_MAX]; /**< "": none */
  int64_t bytes;          /**< -1: none */
} extra_t;

static int damaged(const ct__tar_t *t, const char *what)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: the header at byte %" PRId64 " %s: %s",
                    t->path, t->at, what,
                    t->archive ? "an archive ends before it, and no other one follows"
                               : "no tar file, or a damaged one");
}

/* \a name: "": not known yet. */
static int refused(const ct__tar_t *t, const char *name, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: the member %s%sat byte %" PRId64 " %s",
                    t->path, name, *name ? " " : "", t->at, why);
}

static int no_end(const ct__tar_t *t)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s: ends after '%s' without the end-of-archive blocks: it is truncated",
                    t->path, t->last);
}

/* Parses octal digits up to a blank or NUL, or a GNU binary number. -1: neither. */
static int64_t number_of(const unsigned char *p, int n)
{
  int64_t value = 0;
  int i = 0;
  if (p[0] & 0x80) {
    if (p[0] != 0x80) return -1; /* negative or too large */
    for (i = 1; i < n; i++) {
      if (value >> 54) return -1;
      value = value << 8 | p[i];
    }
    return value;
  }
  while (i < n && p[i] == ' ')
    i++;
  for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
    value = value << 3 | (p[i] - '0');
  return i < n && p[i] && p[i] != ' ' ? -1 : value;
}

/* Old programs computed the sum with signed characters. */
static int sum_is_right(const unsigned char *block)
{
  int64_t want = number_of(block + SUM, SUM_BYTES), plain = 0, with_sign = 0;
  for (int i = 0; i < BLOCK; i++) {
    int c = i >= SUM && i < SUM + SUM_BYTES ? ' ' : block[i];
    plain += c;
    with_sign += c < 128 ? c : c - 256;
  }
  return want == plain || want == with_sign;
}

static int is_zero(const unsigned char *block)
{
  for (int i = 0; i < BLOCK; i++)
    if (block[i]) return 0;
  return 1;
}

static int read_block(const ct__tar_t *t, unsigned char *block)
{
  int rc = CT_OK;
  if (t->bytes - t->at < BLOCK)
    return *t->last && !t->archive ? no_end(t) : damaged(t, "is cut off");
  CT_TRY(ct_file_read_at(t->fd, t->path, t->at, block, BLOCK));
out:
  return rc;
}

/* ---- extended headers before a member ---- */

#define SPARSE "is of a sparse file, which is not read: make the archive without --sparse"

/* Copies a name of n bytes. */
static int tar_take_text(const ct__tar_t *t, const char *text, int64_t n, char *to)
{
  if (n < 1 || n >= CT_PATH_MAX || memchr(text, 0, (size_t)n))
    return damaged(t, "has an invalid name");
  memcpy(to, text, (size_t)n);
  to[n] = '\0';
  return CT_OK;
}

/* Parses "KEY=VALUE" of n bytes; only path, linkpath and size are used. */
static int take_record(const ct__tar_t *t, const char *key, int64_t n, extra_t *out)
{
  int rc = CT_OK;
  char size[24];
  if (n > 5 && memcmp(key, "path=", 5) == 0) return tar_take_text(t, key + 5, n - 5, out->name);
  if (n > 9 && memcmp(key, "linkpath=", 9) == 0) return tar_take_text(t, key + 9, n - 9, out->link);
  if (n > 11 && memcmp(key, "GNU.sparse.", 11) == 0) return refused(t, "", SPARSE);
  if (n <= 5 || n >= 25 || memcmp(key, "size=", 5) != 0) return CT_OK;
  CT_TRY(ct_text_format(size, sizeof size, "%.*s", (int)(n - 5), key + 5));
  if (ct_text_int(size, &out->bytes) != CT_OK || out->bytes < 0)
    return damaged(t, "has an invalid size");
out:
  return rc;
}

/* Parses a sequence of "LENGTH KEY=VALUE\n". */
static int take_pax(const ct__tar_t *t, const char *text, int64_t bytes, extra_t *out)
{
  int rc = CT_OK;
  for (int64_t at = 0, length; at < bytes; at += length) {
    int64_t digits = 0;
    for (length = 0; at + digits < bytes && digits < 9; digits++) {
      char c = text[at + digits];
      if (c < '0' || c > '9') break;
      length = 10 * length + (c - '0');
    }
    if (length <= digits + 1 || length > bytes - at || text[at + digits] != ' ' ||
        text[at + length - 1] != '\n')
      return damaged(t, "has a malformed pax record");
    CT_TRY(take_record(t, text + at + digits + 1, length - digits - 2, out));
  }
out:
  return rc;
}

static int take_extra(const ct__tar_t *t, const ct__tar_member_t *m, extra_t *out)
{
  int rc = CT_OK;
  char *text = NULL;
  if (m->type == 'g') return CT_OK; /* for the whole archive */
  if (m->bytes > MOST_EXTRA) return damaged(t, "has an invalid name");
  text = ct_mem_alloc((size_t)m->bytes + 1, "a header of a tar file");
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(ct_file_read_at(t->fd, t->path, m->at, text, (size_t)m->bytes));
  if (m->type == 'x')
    CT_TRY(take_pax(t, text, m->bytes, out));
  else
    CT_TRY(tar_take_text(t, text, (int64_t)strnlen(text, (size_t)m->bytes),
                         m->type == 'L' ? out->name : out->link));
out:
  ct_mem_free(text);
  return rc;
}

/* ---- a member ---- */

static int take_name(const ct__tar_t *t, const unsigned char *block, ct__tar_member_t *m)
{
  const char *name = (const char *)block + NAME, *prefix = (const char *)block + PREFIX;
  /* GNU's format has times in the field where ustar has the prefix of the name */
  int has_prefix = memcmp(block + MAGIC, "ustar\0", 6) == 0 && *prefix;
  if (has_prefix)
    return ct_text_format(m->name, sizeof m->name, "%.*s/%.*s", PREFIX_BYTES, prefix, NAME_BYTES,
                          name);
  if (!*name) return damaged(t, "has no name");
  return ct_text_format(m->name, sizeof m->name, "%.*s", NAME_BYTES, name);
}

static int is_extra(char type)
{
  return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

/* Links, devices, folders and FIFOs have no content, whatever their size field says.  By POSIX,
 * unknown types have content, as do GNU's folders of incremental archives ('D'). */
static int has_content(char type)
{
  return type < '1' || type > '6';
}

static int check_type(const ct__tar_t *t, const ct__tar_member_t *m)
{
  if (m->type == 'S') return refused(t, m->name, SPARSE);
  if (m->type == 'M')
    return refused(t, m->name, "is the rest of a file of another volume: make one archive of all");
  if (m->type == 'N') return refused(t, m->name, "is of a format that is not read: old GNU names");
  return CT_OK;
}

/* Returns 1 if a name has no control characters: names appear in messages on terminals. */
static int can_be_printed(const char *name)
{
  for (; *name; name++)
    if ((unsigned char)*name < ' ' || *name == 0x7f) return 0;
  return 1;
}

static int take_names(const ct__tar_t *t, const unsigned char *block, const extra_t *extra,
                      ct__tar_member_t *m)
{
  int rc = CT_OK, is_member = !is_extra(m->type);
  if (*extra->name && is_member)
    memcpy(m->name, extra->name, sizeof m->name);
  else
    CT_TRY(take_name(t, block, m));
  if (*extra->link && is_member)
    memcpy(m->link, extra->link, sizeof m->link);
  else
    CT_TRY(ct_text_format(m->link, sizeof m->link, "%.*s", NAME_BYTES, (const char *)block + LINK));
  if (!can_be_printed(m->name) || !can_be_printed(m->link))
    return damaged(t, "has an invalid name");
out:
  return rc;
}

static int take_header(ct__tar_t *t, const unsigned char *block, const extra_t *extra,
                       ct__tar_member_t *m)
{
  int rc = CT_OK;
  if (!sum_is_right(block)) return damaged(t, "has a wrong checksum");
  m->type = block[TYPE] ? (char)block[TYPE] : '0';
  m->archive = t->archive;
  CT_TRY(take_names(t, block, extra, m));
  CT_TRY(check_type(t, m));
  m->bytes = number_of(block + SIZE, SIZE_BYTES);
  if (extra->bytes >= 0 && !is_extra(m->type)) m->bytes = extra->bytes;
  if (m->bytes < 0) return damaged(t, "has an invalid size");
  if (!has_content(m->type)) m->bytes = 0;
  m->at = t->at + BLOCK;
  if (m->bytes > t->bytes - m->at)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: '%s' of %" PRId64 " bytes extends past the end of the file, which is truncated",
            t->path, m->name, m->bytes);
  t->at = m->at + (m->bytes + BLOCK - 1) / BLOCK * BLOCK;
out:
  return rc;
}

/* Skips zero blocks, after which another archive may follow.  *more: 1 if another archive
 * follows. */
static int skip_zeros(ct__tar_t *t, int *more)
{
  int rc = CT_OK;
  unsigned char part[16 * BLOCK];
  *more = 0;
  while (t->at < t->bytes && !*more) {
    int64_t left = t->bytes - t->at, i = 0;
    int64_t n = left < (int64_t)sizeof part ? left : (int64_t)sizeof part;
    CT_TRY(ct_file_read_at(t->fd, t->path, t->at, part, (size_t)n));
    while (i < n && !part[i])
      i++;
    *more = i < n;
    t->at += *more ? i / BLOCK * BLOCK : n;
  }
  t->archive += *more;
out:
  return rc;
}

int ct__tar_next(ct__tar_t *t, ct__tar_member_t *out)
{
  int rc = CT_OK, more;
  unsigned char block[BLOCK];
  extra_t extra = {.bytes = -1};
  for (;;) {
    *out = (ct__tar_member_t){0};
    int is_alone = *extra.name || *extra.link || extra.bytes >= 0; /* an extended header without its
                                                                      member */
    if (t->at >= t->bytes) return is_alone ? damaged(t, "is missing") : no_end(t);
    CT_TRY(read_block(t, block));
    if (is_zero(block)) {
      if (is_alone) return damaged(t, "is missing");
      CT_TRY(skip_zeros(t, &more));
      if (!more) return CT_OK;
      continue;
    }
    CT_TRY(take_header(t, block, &extra, out));
    memcpy(t->last, out->name, sizeof t->last);
    if (!is_extra(out->type)) return CT_OK;
    CT_TRY(take_extra(t, out, &extra));
  }
out:
  return rc;
}

/* ---- the file ---- */

int ct__tar_open(const char *path, ct__tar_t *out)
{
  int rc = CT_OK;
  struct stat info;
  unsigned char start[4] = {0};
  *out = (ct__tar_t){.fd = -1, .path = path};
  CT_TRY(ct_file_regular(path));
  out->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (out->fd < 0 || fstat(out->fd, &info) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened", path);
  out->bytes = info.st_size;
  if (out->bytes >= (int64_t)sizeof start)
    CT_TRY(ct_file_read_at(out->fd, path, 0, start, sizeof start));
  if (memcmp(start, "\x1f\x8b", 2) == 0 || memcmp(start, "\x28\xb5\x2f\xfd", 4) == 0 ||
      memcmp(start, "BZh", 3) == 0 || memcmp(start, "\xfd\x37zX", 4) == 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is compressed, so that its members cannot be reached: decompress it first", path);
  if (out->bytes < BLOCK) CT_FAIL(CT_ERR_FORMAT, "%s: is not a tar file", path);
out:
  return rc;
}

void ct__tar_close(ct__tar_t *t)
{
  if (t->fd >= 0) close(t->fd);
  t->fd = -1;
}
