/* Reads the stripe count of a file on Lustre from its extended attribute.  The bytes are
 * lov_user_md_v1, _v3 or lov_comp_md_v1 (lustre_user.h): little-endian numbers without gaps. */
#include <sys/types.h>
#include <sys/xattr.h>

#include "host/ct_machine.h"

enum { PLAIN_V1 = 0x0BD10BD0, PLAIN_V3 = 0x0BD30BD0, COMPOSITE = 0x0BD60BD0 };
enum { PLAIN_HEAD = 32, PLAIN_COUNT = 28 };                          /* a plain layout */
enum { HEAD = 32, ENTRIES = 14, ENTRY = 48, FLAGS = 4, PLACE = 24 }; /* a composite layout */
enum { IN_USE = 0x10 };                                              /* LCME_FL_INIT */

static uint32_t stripes_number(const uint8_t *p, int bytes)
{
  uint32_t v = 0;
  for (int i = bytes - 1; i >= 0; i--)
    v = v << 8 | p[i];
  return v;
}

static int plain(const uint8_t *p, size_t n)
{
  uint32_t magic = n >= PLAIN_HEAD ? stripes_number(p, 4) : 0;
  return magic == PLAIN_V1 || magic == PLAIN_V3 ? (int)stripes_number(p + PLAIN_COUNT, 2) : 0;
}

/* Returns the largest count among the initialized components: the first component often has only
 * one stripe. */
int ct__machine_stripes(const uint8_t *p, size_t n)
{
  int most = 0;
  if (n < HEAD || stripes_number(p, 4) != COMPOSITE) return plain(p, n);
  size_t entries = stripes_number(p + ENTRIES, 2);
  for (size_t i = 0; i < entries && HEAD + (i + 1) * ENTRY <= n; i++) {
    const uint8_t *e = p + HEAD + i * ENTRY;
    size_t at = stripes_number(e + PLACE, 4);
    if (!(stripes_number(e + FLAGS, 4) & IN_USE) || at >= n) continue;
    int stripes = plain(p + at, n - at);
    if (stripes > most) most = stripes;
  }
  return most;
}

int ct_machine_stripes(const char *path)
{
  uint8_t room[65536];
  ssize_t n = getxattr(path, "lustre.lov", room, sizeof room);
  return n > 0 ? ct__machine_stripes(room, (size_t)n) : 0;
}
