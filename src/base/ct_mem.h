/** \file ct_mem.h  Host memory: aligned and counted; tests can make allocations fail.  Layer 0. */
#ifndef CT_MEM_H
#define CT_MEM_H
#include <stddef.h>
#include <stdint.h>

/** Allocates memory that is zeroed and 64-byte aligned; large allocations are page-aligned and
 * advised to use huge pages.  NULL: CT_ERR_NOMEM is recorded with the bytes and \a what.  Freed
 * with ct_mem_free(). */
void *ct_mem_alloc(size_t bytes, const char *what);
/** Allocates memory as ct_mem_alloc() does, but records no error. */
void *ct_mem_try(size_t bytes);
/** Allocates an array of n zeroed elements of \a size bytes; checks that n * size does not
 * overflow. */
void *ct_mem_array(int64_t n, size_t size, const char *what);
/** Grows an array: *p has a capacity of *cap elements of \a size bytes, which is doubled until it
 * is at least \a want.  New elements are zeroed.  CT_ERR_NOMEM: *p is unchanged. */
int ct_mem_grow(void **p, int64_t *cap, int64_t want, size_t size);
void ct_mem_free(void *p);
char *ct_mem_strdup(const char *s);
/** Returns the number of allocations so far.  A training step must not increase it. */
int64_t ct_mem_calls(void);
/** Returns the number of allocations that are not freed yet: 0 at a clean end. */
int64_t ct_mem_live(void);
/** Makes the n-th allocation from now fail (1 = the next; 0 = never).  For tests. */
void ct_mem_fail_at(int64_t n);
/** Returns the peak resident set size of this process in bytes (getrusage). */
size_t ct_mem_peak_rss(void);
/** Returns the resident set size of this process in bytes; 0: it cannot be read (not Linux). */
size_t ct_mem_rss(void);
/** Gives freed memory that the allocator keeps back to the system. */
void ct_mem_trim(void);
/** Resets the peak to the current size (Linux: /proc/self/clear_refs).  Returns 1 if done, 0 if not
 * permitted. */
int ct_mem_peak_reset(void);

#endif
