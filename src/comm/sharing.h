/** \file sharing.h  Computes for ct_topo_open() which ranks share nodes and cores. Internal to
 * comm. Local, pure. */
#ifndef CT_COMM_SHARING_H
#define CT_COMM_SHARING_H
#include <stddef.h>

typedef struct ct__sharing_nodes {
  int index; /**< index of this rank's node; nodes are ordered by their lowest rank */
  int nodes; /**< number of nodes */
  int equal; /**< 1: all have the same number of ranks */
} ct__sharing_nodes_t;

/** Computes the nodes. \a lowest: for each of \a size ranks the lowest rank of its node. */
ct__sharing_nodes_t ct__sharing_nodes(const int *lowest, int size, int rank);

/** Returns the threads of local rank \a me: its cores divided among the local ranks whose affinity
 * masks overlap with its own, at least 1. \a masks: \a ranks masks of \a bytes bytes, one bit per
 * core. */
int ct__sharing_threads(const unsigned char *masks, size_t bytes, int ranks, int me);

#endif
