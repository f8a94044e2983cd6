/* Computes this node's index and a fair share of its cores, from data that all ranks have
 * gathered. */
#include "comm/sharing.h"

ct__sharing_nodes_t ct__sharing_nodes(const int *lowest, int size, int rank)
{
  ct__sharing_nodes_t out = {.equal = 1};
  int members = 0; /* ranks on rank 0's node */
  for (int r = 0; r < size; r++) {
    if (lowest[r] == r) {
      out.nodes++;
      out.index += r < lowest[rank];
    }
    members += lowest[r] == lowest[0];
  }
  for (int r = 0; r < size; r++) {
    if (lowest[r] != r) continue;
    int here = 0;
    for (int other = r; other < size; other++)
      here += lowest[other] == r;
    if (here != members) out.equal = 0;
  }
  return out;
}

int ct__sharing_threads(const unsigned char *masks, size_t bytes, int ranks, int me)
{
  const unsigned char *mine = masks + (size_t)me * bytes;
  int cores = 0, sharing = 0;
  for (size_t i = 0; i < bytes; i++)
    cores += __builtin_popcount(mine[i]);
  for (int r = 0; r < ranks; r++) {
    const unsigned char *other = masks + (size_t)r * bytes;
    size_t i = 0;
    while (i < bytes && !(mine[i] & other[i]))
      i++;
    sharing += i < bytes;
  }
  return sharing && cores > sharing ? cores / sharing : 1;
}
