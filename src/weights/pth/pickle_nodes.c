/* The tree of nodes that a pickle was parsed into. */
#include "base/ct_mem.h"
#include "weights/pth/ct_pickle.h"

void ct_pickle_clear(ct_pickle_t *p)
{
  ct_mem_free(p->node);
  ct_mem_free(p->cell);
  ct_mem_free(p->texts);
  *p = (ct_pickle_t){.root = -1};
}

const char *ct_pickle_text(const ct_pickle_t *p, int node)
{
  return p->texts + p->node[node].value;
}

int ct_pickle_items(const ct_pickle_t *p, int node, int cap, int out[])
{
  int n = 0;
  for (int c = p->node[node].first; c >= 0 && n < cap; c = p->cell[c].next)
    out[n++] = p->cell[c].node;
  return n;
}
