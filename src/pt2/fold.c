/* Constants: to be computed. */
#include "pt2/pt2.h"
int ct__pt2_fold(ct__pt2_t *p)
{
  (void)p;
  return CT_OK;
}
