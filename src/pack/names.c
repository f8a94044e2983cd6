/* The names of shards: final, while they are written, and when they are complete but others are
 * not.  The last kind of name ends in a hash of everything that determines the file, so a restarted
 * run knows which files it may reuse. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "pack/job.h"

#define DONE ".done-"

/* Finds the single %d of a pattern (or with a width: %03d), or NULL; CT_ERR_USAGE: there are
 * several, or other conversions. */
static int find_number(const char *pattern, const char **number, int *width)
{
  *number = NULL;
  for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 1, '%')) {
    const char *d = p + 1;
    int digits = 0;
    for (; isdigit((unsigned char)*d) && digits < 100; d++)
      digits = 10 * digits + (*d - '0');
    if (*d != 'd' || *number || digits > 20)
      return ct_err_set(
          CT_ERR_USAGE, __FILE__, __LINE__,
          "output '%s': expected one %%d for the number of the shard (train-%%03d.h5)", pattern);
    *number = p;
    *width = digits;
  }
  return CT_OK;
}

int ct__pack_name(const ct__pack_shard_t *s, char *path, size_t cap)
{
  int rc = CT_OK, width = 0;
  const char *number;
  CT_TRY(find_number(s->pattern, &number, &width));
  if (!number && s->of > 1)
    CT_FAIL(CT_ERR_USAGE, "output '%s': %d shards need a %%d in their name (train-%%03d.h5)",
            s->pattern, s->of);
  if (!number)
    CT_TRY(ct_text_format(path, cap, "%s", s->pattern));
  else
    CT_TRY(ct_text_format(path, cap, "%.*s%0*d%s", (int)(number - s->pattern), s->pattern, width,
                          s->number, strchr(number, 'd') + 1));
out:
  return rc;
}

static int name_with(const ct__pack_shard_t *s, const char *end, char *path, size_t cap)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  CT_TRY(ct__pack_name(s, name, sizeof name));
  CT_TRY(ct_text_format(path, cap, "%s%s", name, end));
out:
  return rc;
}

int ct__pack_name_tmp(const ct__pack_shard_t *s, char *path, size_t cap)
{
  return name_with(s, ".tmp", path, cap);
}

int ct__pack_name_done(const ct__pack_shard_t *s, char *path, size_t cap)
{
  char end[64];
  snprintf(end, sizeof end, DONE "%016" PRIx64 "-%" PRId64, s->hash, s->bad);
  return name_with(s, end, path, cap);
}

/* ---- checking that no input is overwritten ---- */

static int check_inputs(const char *const *input, const char *path)
{
  int rc = CT_OK;
  for (; input && *input; input++)
    if (ct_file_same(path, *input))
      CT_FAIL(CT_ERR_USAGE, "output '%s' is the file '%s', which is read: choose another name",
              path, *input);
out:
  return rc;
}

int ct__pack_names_check(const char *const *inputs, const ct__pack_shard_t *shard, int n)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], first[CT_PATH_MAX];
  CT_TRY(ct__pack_name(&shard[0], first, sizeof first));
  for (int i = 0; i < n; i++) {
    CT_TRY(ct__pack_name(&shard[i], path, sizeof path));
    if (i && shard[i].number == 0 && strcmp(path, first) == 0)
      CT_FAIL(CT_ERR_USAGE, "pack: --output and --rest are both '%s'", path);
    CT_TRY(check_inputs(inputs, path));
    CT_TRY(ct__pack_name_tmp(&shard[i], path, sizeof path));
    CT_TRY(check_inputs(inputs, path));
  }
out:
  return rc;
}

/* ---- shards of an interrupted run ---- */

/* Parses "train-003.h5.done-0123456789abcdef-0" for a shard of that name: the hash and the number
 * of bad samples. */
static int is_done(const char *entry, const char *name, uint64_t *hash, int64_t *bad)
{
  size_t n = strlen(name);
  int used = 0;
  if (strncmp(entry, name, n) != 0 || strncmp(entry + n, DONE, strlen(DONE)) != 0) return 0;
  entry += n + strlen(DONE);
  return sscanf(entry, "%16" SCNx64 "-%" SCNd64 "%n", hash, bad, &used) == 2 && used > 17 &&
         !entry[used] && *bad >= 0;
}

static void look_at(ct__pack_shard_t *s, const char *dir, const char *entry, const char *name,
                    int clean)
{
  uint64_t hash;
  int64_t bad;
  char path[CT_PATH_MAX];
  if (!is_done(entry, name, &hash, &bad)) return;
  if (hash == s->hash)
    s->bad = bad;
  else if (clean && ct_path_join(path, sizeof path, dir, entry) == CT_OK)
    ct_file_remove(path);
}

/* Searches the entries of a shard's directory; all shards of a pattern are in one directory. */
static int look_for(ct__pack_shard_t *s, int clean)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX], dir[CT_PATH_MAX];
  const struct dirent *entry;
  CT_TRY(ct__pack_name(s, name, sizeof name));
  CT_TRY(ct_path_dir(dir, sizeof dir, name));
  const char *slash = strrchr(name, '/');
  DIR *d = opendir(dir);
  if (!d) goto out; /* writing will report the error */
  while ((entry = readdir(d)))
    look_at(s, dir, entry->d_name, slash ? slash + 1 : name, clean);
  closedir(d);
out:
  return rc;
}

int ct__pack_find_done(ct__pack_shard_t *shard, int n, int clean, int *found)
{
  int rc = CT_OK;
  *found = 0;
  for (int i = 0; i < n; i++) {
    CT_TRY(look_for(&shard[i], clean));
    *found += shard[i].bad >= 0;
  }
out:
  return rc;
}

/* ---- files that are there ---- */

/* Finds a file with the number after the last shard, from an earlier job with more shards: readers
 * of the pattern would read it too. */
static int find_further(const ct__pack_shard_t *last, char *path, size_t cap)
{
  int width;
  const char *number;
  ct__pack_shard_t next = *last;
  next.number = last->of;
  return find_number(last->pattern, &number, &width) == CT_OK && number &&
         ct__pack_name(&next, path, cap) == CT_OK && ct_file_exists(path);
}

int ct__pack_names_free(ct__pack_shard_t *shard, int n, int force)
{
  int rc = CT_OK, found = 0, there = 0;
  char path[CT_PATH_MAX], first[CT_PATH_MAX] = "";
  for (int i = 0; i < n; i++) {
    CT_TRY(ct__pack_name(&shard[i], path, sizeof path));
    if (ct_file_exists(path) && there++ == 0) memcpy(first, path, sizeof first);
    if (shard[i].number != shard[i].of - 1 || !find_further(&shard[i], path, sizeof path)) continue;
    if (!force)
      CT_FAIL(CT_ERR_USAGE,
              "output '%s': %s exists, from an earlier pack into more files: remove those, or "
              "choose another name",
              shard[i].pattern, path);
    ct_log(CT_LOG_WARN,
           "%s exists, from an earlier pack into more files: remove it, unless it belongs to this "
           "data set",
           path);
  }
  if (there && !force) CT_TRY(ct__pack_find_done(shard, n, 0, &found));
  if (there && !force && !found)
    CT_FAIL(CT_ERR_USAGE,
            "output: %s is there already%s: give --force to replace it, or another name", first,
            there > 1 ? ", and others" : "");
out:
  return rc;
}

/* ---- the end ---- */

int ct__pack_rename(const ct__pack_shard_t *shard, int n)
{
  int rc = CT_OK, done = 0;
  char temporary[CT_PATH_MAX], path[CT_PATH_MAX];
  for (; done < n; done++) {
    CT_TRY(ct__pack_name(&shard[done], path, sizeof path));
    CT_TRY(ct__pack_name_done(&shard[done], temporary, sizeof temporary));
    CT_TRY(ct_file_commit(temporary, path));
  }
out:
  for (int i = 0; rc != CT_OK && i < done; i++)
    if (ct__pack_name(&shard[i], path, sizeof path) == CT_OK) ct_file_remove(path);
  return rc;
}

void ct__pack_remove(const ct__pack_shard_t *shard, int n)
{
  char path[CT_PATH_MAX];
  for (int i = 0; i < n; i++) {
    if (ct__pack_name_tmp(&shard[i], path, sizeof path) == CT_OK) ct_file_remove(path);
    if (shard[i].bad >= 0 && ct__pack_name_done(&shard[i], path, sizeof path) == CT_OK)
      ct_file_remove(path);
  }
}
