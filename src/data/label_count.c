/* Counts labels.  Class numbers with gaps are allowed, but seldom intended. */
#include "data/ct_label_count.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

int ct_label_count_add(ct_label_count_t *c, int64_t label)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&c->seen, &c->cap, label / 8 + 1, 1));
  unsigned char *byte = &c->seen[label / 8], bit = (unsigned char)(1 << label % 8);
  if (*byte & bit) return CT_OK;
  *byte |= bit;
  if (c->different++ == 0 || label < c->lowest) c->lowest = label;
  if (label > c->highest) c->highest = label;
out:
  return rc;
}

void ct_label_count_warn(const ct_label_count_t *c, const char *of)
{
  int64_t classes = c->highest + 1;
  if (c->different == 0) return;
  if (2 * c->different < classes)
    ct_log(CT_LOG_WARN,
           "%s: labels from %" PRId64 " to %" PRId64 " have only %" PRId64
           " different values, so %" PRId64 " of %" PRId64
           " classes have no sample: number the classes from 0, or set model.classes",
           of, c->lowest, c->highest, c->different, classes - c->different, classes);
  else if (c->lowest > 0)
    ct_log(CT_LOG_WARN,
           "%s: labels go from %" PRId64 " to %" PRId64 ", and none is 0: classes count from 0, so "
           "that there are %" PRId64 "; if labels count from %" PRId64 ", subtract %" PRId64,
           of, c->lowest, c->highest, classes, c->lowest, c->lowest);
}

void ct_label_count_clear(ct_label_count_t *c)
{
  ct_mem_free(c->seen);
  *c = (ct_label_count_t){0};
}
