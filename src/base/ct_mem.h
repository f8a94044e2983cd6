/** \file ct_mem.h  Host memory: aligned and counted; tests can make allocations fail.  Layer 0. */
#ifndef CT_MEM_H
#define CT_MEM_H
#include <stddef.h>
#include <stdint.h>

/** 64-byte aligned, zeroed; large blocks are page-aligned and advised to use huge pages.  NULL:
 * CT_ERR_NOMEM is recorded with the bytes and \a what.  Freed with ct_mem_free(). */
void *ct_mem_alloc(size_t bytes, const char *what);
/** The same, but records no error. */
void *ct_mem_try(size_t bytes);
/** An array of n zeroed elements; checks the multiplication. */
void *ct_mem_array(int64_t n, size_t size, const char *what);
/** realloc() for growing arrays: *p has the capacity of *cap elements of \a size.  Increases it to
 * at least \a want, by doubling; new elements are zeroed.  CT_OK or CT_ERR_NOMEM (then *p is
 * unchanged). */
int ct_mem_grow(void **p, int64_t *cap, int64_t want, size_t size);
void ct_mem_free(void *p);
char *ct_mem_strdup(const char *s);
/** Number of allocations so far.  A training step must not increase it. */
int64_t ct_mem_calls(void);
/** Number of allocations not yet freed: 0 at a clean end. */
int64_t ct_mem_live(void);
/** Makes the n-th allocation from now fail (1 = the next; 0 = never).  For tests. */
void ct_mem_fail_at(int64_t n);
/** Peak resident set of this process in bytes (getrusage). */
size_t ct_mem_peak_rss(void);
/** Resets the peak to the current size (Linux: /proc/self/clear_refs).  1: done; 0: not permitted.
 */
int ct_mem_peak_reset(void);

#endif
