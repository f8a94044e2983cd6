/* placeholder */
#include "import/import.h"
int ct__im_match_attention(ct__im_t *t, const ct_pt2_node_t *n, int *done)
{
  (void)t;
  (void)n;
  *done = 0;
  return CT_OK;
}
