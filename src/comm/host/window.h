/** \file window.h  Shared memory of the ranks of a node, and counters of each rank's progress.
 * Internal to comm.
 *
 * Transfers in shared memory are numbered 0, 1, 2 … in call order, identically on all ranks of the
 * node. Each rank sums one slice of each transfer and publishes two counters:
 *
 *   posted  > k   this rank's summand of transfer k is in its memory and must not be changed
 *   reduced > k   this rank has finished transfer k: it has read its slice from all ranks' memory
 *                 and written the sum to all ranks' memory
 *
 * A rank may start to sum transfer k once all ranks have posted it, and may reuse its memory once
 * all have reduced k: the memory then holds every slice of the sum, and no other rank accesses it.
 * The next transfer of that memory starts with this rank's own post. So two counters suffice and no
 * barrier is needed.
 *
 * Only the rank itself writes its counters. */
#ifndef CT_COMM_WINDOW_H
#define CT_COMM_WINDOW_H
#include <stddef.h>
#include <stdint.h>

#include "comm/ct_topo.h"

typedef struct ct__window ct__window_t;

/** A location in shared memory: base[local rank] + at is that rank's copy. */
typedef struct ct__window_location {
  float *const *base; /**< borrowed from the window */
  int64_t at;
} ct__window_location_t;

/** Collective over the world. Shares memory if every node has the same number of ranks, at least
 * two, and enough memory; else all ranks use private memory (with a warning if the reason is a
 * failure). may_share, identical on all ranks: 0 forbids sharing. tree: sum along a binary tree
 * over the local ranks, whose number is then a power of two. */
int ct__window_open(const ct_topo_t *t, int may_share, int tree, ct__window_t **out);
/** Collective over the world. Frees \a w, which may be NULL. */
void ct__window_close(ct__window_t *w);
/** Local. Notifies the other ranks and frees this rank's private data. The memory itself stays
 * until the process ends, since peers and MPI may still access it. */
void ct__window_abort(ct__window_t *w);
/** Returns 1 if memory is shared, except for allocations that did not fit. */
int ct__window_sharing(const ct__window_t *w);
/** Returns 1 if a rank on this node has called ct__window_abort(). */
int ct__window_aborted(const ct__window_t *w);

/** Collective over the world. Zeroed, 64-byte aligned memory: shared if the window shares and the
 * allocation succeeds, else private. Freed by ct__window_close(). */
int ct__window_alloc(ct__window_t *w, size_t bytes, void **out);
/** Returns 1 and the location if all of buf[0..n) is shared memory. */
int ct__window_find(const ct__window_t *w, const float *buf, int64_t n, ct__window_location_t *out);

/** Reduces [*from, *to) to slice \a index of \a slices. Slices start at multiples of a cache line
 * from *from and may be empty. */
void ct__window_cut(int64_t *from, int64_t *to, int slices, int index);
/** This rank's slice [*from, *to) of n elements; may be empty. */
void ct__window_slice(const ct__window_t *w, int64_t n, int64_t *from, int64_t *to);
/** Posts the next transfer; returns its number. */
int64_t ct__window_post(ct__window_t *w);
/** Returns 1 if all ranks of the node have posted transfer \a number. */
int ct__window_all_posted(ct__window_t *w, int64_t number);
/** Sums elements [from, from + n) over the ranks of the node in local rank order (or along the
 * tree), and writes the sum to all ranks' memory (\a everywhere) or only to this rank's. */
void ct__window_sum(ct__window_t *w, ct__window_location_t location, int64_t from, int64_t n,
                    int everywhere);
/** Copies this rank's elements [from, from + n) to the other ranks. */
void ct__window_spread(ct__window_t *w, ct__window_location_t location, int64_t from, int64_t n);
/** Marks this rank's next transfer as reduced. */
void ct__window_reduced(ct__window_t *w);
/** Returns 1 if all ranks of the node have reduced transfer \a number. */
int ct__window_all_reduced(ct__window_t *w, int64_t number);

#endif
