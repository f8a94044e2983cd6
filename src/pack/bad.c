/* Records samples that cannot be read.  Each rank records its own; rank 0 lists all of them at the
 * end, in the order of the samples. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "pack/job.h"

/* More are counted but not listed, since then not just some files are damaged. */
enum { MOST_BYTES = 1 << 20, DIGITS = 19 };

int ct__pack_bad_add(ct__pack_bad_t *b, int64_t position, const char *place)
{
  b->n++;
  if (b->text.len > MOST_BYTES) return CT_OK;
  return ct_str_add(&b->text, "%0*" PRId64 " %s: %s\n", DIGITS, position, place,
                    ct_err_last()->text);
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Splits \a text in place into lines, which begin with the position of the sample. */
static int log_sorted(char *text, int is_error)
{
  int rc = CT_OK;
  char **line = NULL;
  int64_t n = 0, cap = 0;
  for (char *next; *text; text = next) {
    size_t len = strcspn(text, "\n");
    next = text + len + (text[len] != 0);
    text[len] = '\0';
    CT_TRY(ct_mem_grow((void **)&line, &cap, n + 1, sizeof *line));
    line[n++] = text;
  }
  qsort(line, (size_t)n, sizeof *line, by_text);
  for (int64_t i = 0; i < n; i++)
    ct_log(is_error ? CT_LOG_ERROR : CT_LOG_WARN, "%s%s",
           is_error ? "" : "left out: ", line[i] + DIGITS + 1);
out:
  ct_mem_free(line);
  return rc;
}

int ct__pack_bad_tell(const ct_topo_t *t, const ct__pack_bad_t *b, int is_error, int64_t *total)
{
  int rc = CT_OK;
  ct_str_t all = {0};
  *total = b->n;
  ct_agree_sum(t, total, 1);
  for (int rank = 0; rank < t->size && *total && rc == CT_OK; rank++) {
    int64_t bytes = rank == t->rank ? (int64_t)b->text.len : 0;
    ct_agree_sum(t, &bytes, 1);
    char *text = ct_mem_alloc((size_t)bytes + 1, "a list of samples");
    rc = ct_agree(t, text ? CT_OK : CT_ERR_NOMEM);
    if (rc == CT_OK && rank == t->rank && bytes) memcpy(text, b->text.data, (size_t)bytes);
    if (rc == CT_OK && bytes && t->size > 1) ct_mpi_bcast(t, t->world, text, (size_t)bytes, rank);
    if (rc == CT_OK) rc = ct_agree(t, t->rank ? CT_OK : ct_str_add(&all, "%s", text));
    ct_mem_free(text);
  }
  if (rc == CT_OK && t->rank == 0 && all.len) rc = log_sorted(all.data, is_error);
  rc = ct_agree(t, rc);
  ct_str_clear(&all);
  return rc;
}
