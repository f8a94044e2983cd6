/* Logs how stored samples are read, since a slow access method would otherwise go unnoticed. */
#include <string.h>

#include "setup/ct_setup.h"
#include "base/ct_log.h"

static void log_reading(const char *what, const ct_reader_info_t *info)
{
  if (info->seen[0]) ct_log(CT_LOG_INFO, "%s: %s", what, info->seen);
  if (info->doubtful)
    ct_log(CT_LOG_WARN,
           "%s: the last dim is the smallest: set data.layout: nhwc if it holds the channels, else "
           "nchw",
           what);
  if (info->packed[0])
    ct_log(
        CT_LOG_INFO,
        "%s: stored numbers are converted by attributes of the array (%s), because data.cf is auto",
        what, info->packed);
}

void ct_setup_log_reading(const ct_setup_t *s, int want_train, int want_val)
{
  const ct_reader_info_t *a = &s->data.info, *b = &s->val.info;
  int alike = strcmp(a->seen, b->seen) == 0 && strcmp(a->packed, b->packed) == 0;
  if (s->cfg.data.normalize_targets)
    ct_log(CT_LOG_INFO, "data.normalize_targets: losses, metrics and predictions are of normalized "
                        "numbers, not in the units of the data");
  if (want_train) log_reading("data.train", a);
  if (want_val && !alike) log_reading("data.val", b);
}
