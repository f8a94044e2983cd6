/* The list of findings: the same finding on several nodes is listed once. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

void ct__doctor_add(ct_findings_t *out, int level, const char *key, const ct__doctor_node_t *node,
                    const char *cure, const char *fmt, ...)
{
  ct_finding_t *f = out->list, *end = out->list + out->n;
  while (f < end && (strcmp(f->key, key) != 0 || f->level != level))
    f++;
  if (f < end) { /* found before, on another node or for another rank of this node */
    f->nodes += node && f->node != node->index;
    f->node = node ? node->index : f->node;
    return;
  }
  if (out->n == CT_FINDINGS_MAX) return;
  out->n++;
  *f = (ct_finding_t){
      .level = level, .key = key, .node = node ? node->index : -1, .nodes = node != NULL};
  if (node) memcpy(f->host, node->rank[0]->machine.host, sizeof f->host);
  va_list args;
  va_start(args, fmt);
  ct_text_vfit(f->what, sizeof f->what, fmt, args);
  va_end(args);
  snprintf(f->cure, sizeof f->cure, "%s", cure);
}

int ct_doctor_count(const ct_findings_t *f, int level)
{
  int n = 0;
  for (int i = 0; i < f->n; i++)
    n += f->list[i].level == level;
  return n;
}
