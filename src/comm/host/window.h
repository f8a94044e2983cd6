/** \file window.h  Memory that the ranks of a node share, and how far each of them is with it.
 * Internal to comm.
 *
 * Transfers in shared memory are numbered 0, 1, 2 … in the order of the calls, alike on all
 * ranks of the node.  A rank sums one slice of each.  Every rank shows two counters to the
 * others:
 *
 *   posted  > k   my summand of transfer k is in my memory, and I keep my hands off it
 *   reduced > k   I am through with k: I have read my slice from everybody's memory and
 *                 written the sum into everybody's
 *
 * A rank may start on k once all have posted it, and may use its own memory again once all have
 * reduced k: then it holds every slice of the sum, and nobody reads or writes there any more.
 * The next transfer of that memory starts with this rank's own post.  So two counters are
 * enough, and no barrier.
 *
 * The counters of a rank are written by that rank alone. */
#ifndef CT_COMM_WINDOW_H
#define CT_COMM_WINDOW_H
#include <stddef.h>
#include <stdint.h>

#include "comm/ct_topo.h"

typedef struct ct__window ct__window_t;

/** A place in shared memory: base[local rank] + at is rank's own. */
typedef struct ct__window_place {
  float *const *base; /**< borrowed from the window */
  int64_t at;
} ct__window_place_t;

/** Collective over the world.  Shares if every node has the same number of ranks, at least two,
 * and has the memory; else all ranks fall back to private memory together (a warning says why,
 * if the reason is a failure).  may_share, the same on all ranks: 0 = it must not.  tree: sums
 * are made along a binary tree over the local ranks, of which there is a power of two. */
int ct__window_open(const ct_topo_t *t, int may_share, int tree, ct__window_t **out);
/** Collective over the world; NULL is fine. */
void ct__window_close(ct__window_t *w);
/** Local.  Tells the others, and frees what is only this rank's; the memory itself stays until
 * the process ends, for peers and MPI may still be at it. */
void ct__window_abort(ct__window_t *w);
/** 1: there is shared memory, unless there was no room for it. */
int ct__window_sharing(const ct__window_t *w);
/** 1: a peer on this node has called ct__window_abort(). */
int ct__window_aborted(const ct__window_t *w);

/** Collective over the world.  Zeroed memory, 64-byte aligned: shared if the window shares and
 * there is room, else private.  Freed by ct__window_close(). */
int ct__window_alloc(ct__window_t *w, size_t bytes, void **out);
/** 1 and the place, if all of buf[0..n) is shared memory. */
int ct__window_find(const ct__window_t *w, const float *buf, int64_t n, ct__window_place_t *out);

/** Slice number \a index of the \a slices of [*from, *to): begins whole cache lines after its
 * start; may be empty. */
void ct__window_cut(int64_t *from, int64_t *to, int slices, int index);
/** This rank's slice [*from, *to) of n elements; may be empty. */
void ct__window_slice(const ct__window_t *w, int64_t n, int64_t *from, int64_t *to);
/** Number of the next transfer, which is posted herewith. */
int64_t ct__window_post(ct__window_t *w);
/** All ranks of the node have posted transfer \a number. */
int ct__window_all_posted(ct__window_t *w, int64_t number);
/** Elements [from, from + n) of the place: the sum over the ranks of the node in the order of
 * their local ranks (or along the tree over them), written to all of them (everywhere) or to
 * this rank only. */
void ct__window_sum(ct__window_t *w, ct__window_place_t place, int64_t from, int64_t n,
                    int everywhere);
/** Copies this rank's elements [from, from + n) to the others. */
void ct__window_spread(ct__window_t *w, ct__window_place_t place, int64_t from, int64_t n);
/** This rank is through with its next transfer. */
void ct__window_reduced(ct__window_t *w);
/** All ranks of the node are through with transfer \a number. */
int ct__window_all_reduced(ct__window_t *w, int64_t number);

#endif
