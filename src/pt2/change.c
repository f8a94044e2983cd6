/* Nodes that change values: to be replaced. */
#include "pt2/pt2.h"
int ct__pt2_functional(ct__pt2_t *p)
{
  (void)p;
  return CT_OK;
}
