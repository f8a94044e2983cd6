/* Parsers of files of /proc and /sys: pure functions of the text, so that tests can use files of
 * other machines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ct_machine.h"

int ct__machine_list(const char *text, unsigned char mask[CT_MASK_BYTES])
{
  int count = 0;
  memset(mask, 0, CT_MASK_BYTES);
  while (*text) {
    char *end;
    long first = strtol(text, &end, 10), last = first;
    if (end == text) break;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    for (long i = first; i >= 0 && i <= last && i < CT_MASK_BYTES * 8; i++) {
      count += !(mask[i / 8] >> i % 8 & 1);
      mask[i / 8] |= (unsigned char)(1 << i % 8);
    }
    text = end + (*end == ',');
  }
  return count;
}

int64_t ct__machine_meminfo(const char *text, const char *key)
{
  size_t len = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, key, len) == 0) return strtoll(line + len, NULL, 10) * 1024;
  }
  return -1;
}

/* Returns 1 if \a word is one of the words between commas. */
static int has_word(const char *words, size_t len, const char *word)
{
  size_t n = strlen(word);
  for (const char *p = words, *end = words + len; p <= end;) {
    const char *comma = memchr(p, ',', (size_t)(end - p));
    size_t here = (size_t)((comma ? comma : end) - p);
    if (here == n && memcmp(p, word, n) == 0) return 1;
    p += here + 1;
  }
  return 0;
}

/* A line is "4:memory:/slurm/job_1", or "0::/user.slice" of version 2. */
int ct__machine_cgroup(const char *text, const char *controller, char *path, size_t cap)
{
  for (const char *line = text; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *words = strchr(line, ':'), *end = line + strcspn(line, "\n");
    const char *colon = words && words < end ? strchr(words + 1, ':') : NULL;
    if (!colon || colon > end) continue;
    if (!has_word(words + 1, (size_t)(colon - words - 1), controller)) continue;
    snprintf(path, cap, "%.*s", (int)(end - colon - 1), colon + 1);
    return 1;
  }
  return 0;
}

int64_t ct__machine_limit(const char *text)
{
  char *end;
  long long bytes = strtoll(text, &end, 10);
  /* in version 1 the largest number, rounded down to a page, means no limit */
  return end == text || bytes >= CT_NO_LIMIT - (1 << 20) ? CT_NO_LIMIT : bytes;
}

double ct__machine_quota(const char *text)
{
  double quota, period;
  return sscanf(text, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0 ? quota / period
                                                                                  : 0;
}

/* A line is "36 35 98:0 /root /mount/point options more - ext4 /dev/root options". */
int ct__machine_mount(const char *text, unsigned major, unsigned minor, char *type, size_t cap)
{
  for (const char *line = text; line && *line; line = strchr(line, '\n')) {
    unsigned ma, mi;
    line += *line == '\n';
    const char *end = line + strcspn(line, "\n"), *dash = strstr(line, " - ");
    if (sscanf(line, "%*u %*u %u:%u", &ma, &mi) != 2 || ma != major || mi != minor) continue;
    if (!dash || dash > end) continue;
    snprintf(type, cap, "%.*s", (int)strcspn(dash + 3, " \n"), dash + 3);
    return 1;
  }
  return 0;
}

/* The numbers of linux/magic.h, and those of file systems outside the kernel. */
const char *ct__machine_fs(long type)
{
  static const struct {
    unsigned long number;
    const char *name;
  } known[] = {{0xEF53, "ext4"},         {0x58465342, "xfs"},     {0x9123683E, "btrfs"},
               {0x2FC12FC1, "zfs"},      {0x01021994, "tmpfs"},   {0x858458F6, "ramfs"},
               {0x794C7630, "overlay"},  {0x6969, "nfs"},         {0x0BD00BD0, "lustre"},
               {0x47504653, "gpfs"},     {0x19830326, "beegfs"},  {0x00C36400, "ceph"},
               {0x20030528, "orangefs"}, {0xFF534D42, "cifs"},    {0xFE534D42, "smb2"},
               {0x5346414F, "afs"},      {0x65735546, "fuse"},    {0x01021997, "9p"},
               {0xAAD7AAEA, "panfs"},    {0x73717368, "squashfs"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].number == ((unsigned long)type & 0xFFFFFFFF)) return known[i].name;
  return NULL;
}
