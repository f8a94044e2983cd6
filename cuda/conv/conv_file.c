/* Benchmark results of convolution passes, stored as files.
 *
 * A file contains its key as text and a hash of the plan. A file counts as missing and is rewritten
 * if it has another key (hashes in file names may collide), is truncated, or contains a plan that
 * cuDNN rejects. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "cuda/conv/conv_plan.h"

static const char first_line[] = "ctrain-hpc: plan of a convolution, 1";

static int path_of(const char *dir, const char *key, char path[CT_PATH_MAX])
{
  char name[40];
  snprintf(name, sizeof name, "conv-%016" PRIx64 ".plan", ct_hash_text(key, 0));
  return ct_path_join(path, CT_PATH_MAX, dir, name);
}

/* Returns the text after the first line, if text begins with \a line; else NULL. */
static const char *behind(const char *text, const char *line)
{
  size_t n = strlen(line);
  return text && !strncmp(text, line, n) && text[n] == '\n' ? text + n + 1 : NULL;
}

int gpu__conv_read(const gpu__dnn_target_t *t, const char *dir, const char *key,
                   gpu__conv_algo_t *out)
{
  gpu__conv_algo_t algo = {.fused = 0};
  char path[CT_PATH_MAX], *data = NULL;
  size_t bytes;
  int at = 0, read = 0;
  uint64_t hash;
  if (path_of(dir, key, path) != CT_OK || !ct_file_exists(path)) return 0;
  if (ct_file_read(path, &data, &bytes) != CT_OK) return 0;
  const char *rest = behind(behind(data, first_line), key);
  if (rest && sscanf(rest, "fused %d, notes %x, hash %16" SCNx64 "\n%n", &algo.fused, &algo.notes,
                     &hash, &at) == 3) {
    rest += at;
    read =
        at > 0 && ct_hash_text(rest, 0) == hash && gpu__dnn_plan_read(t, rest, &algo.plan) == CT_OK;
  }
  if (read) *out = algo;
  ct_mem_free(data);
  return read;
}

/* Several ranks, even on different nodes, may write the same file, so each uses its own temporary
 * file. */
int gpu__conv_write(const char *dir, const char *key, const gpu__conv_algo_t *algo)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], mine[CT_PATH_MAX], host[64] = "";
  ct_str_t json = {0}, text = {0};
  gethostname(host, sizeof host - 1);
  CT_TRY(path_of(dir, key, path));
  CT_TRY(ct_text_format(mine, sizeof mine, "%s.%s-%ld", path, host, (long)getpid()));
  CT_TRY(ct_file_mkdirs(dir));
  CT_TRY(gpu__dnn_plan_write(&algo->plan, &json));
  CT_TRY(ct_str_add(&text, "%s\n%s\nfused %d, notes %x, hash %016" PRIx64 "\n%s", first_line, key,
                    algo->fused, algo->notes, ct_hash_text(json.data, 0), json.data));
  CT_TRY(ct_file_write(mine, text.data, text.len));
  CT_TRY(ct_file_commit(mine, path));
out:
  ct_str_clear(&json);
  ct_str_clear(&text);
  return rc;
}
