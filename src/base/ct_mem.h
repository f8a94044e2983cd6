/** \file ct_mem.h  Host memory: aligned, counted, and able to fail on request.  Layer 0. */
#ifndef CT_MEM_H
#define CT_MEM_H
#include <stddef.h>
#include <stdint.h>

/** 64-byte aligned, zeroed; large blocks are page-aligned and advised to use huge pages.  NULL with
 * CT_ERR_NOMEM recorded (it says the bytes and \a what).  Freed with ct_mem_free(). */
void *ct_mem_alloc(size_t bytes, const char *what);
/** The same without a record of an error. */
void *ct_mem_try(size_t bytes);
/** An array of n zeroed elements; checks the multiplication. */
void *ct_mem_array(int64_t n, size_t size, const char *what);
/** realloc() for growing arrays: *p holds *cap elements of \a size; makes room for \a want,
 * doubling. New elements are zeroed.  CT_OK or CT_ERR_NOMEM (then *p is unchanged). */
int ct_mem_grow(void **p, int64_t *cap, int64_t want, size_t size);
void ct_mem_free(void *p);
char *ct_mem_strdup(const char *s);
/** Allocations made so far by this process: a step must not raise it. */
int64_t ct_mem_calls(void);
/** Allocations not yet freed: 0 at a clean end. */
int64_t ct_mem_live(void);
/** Makes the n-th allocation from now fail (1 = the next; 0 = never).  For tests. */
void ct_mem_fail_at(int64_t n);
/** Peak resident set of this process in bytes (getrusage). */
size_t ct_mem_peak_rss(void);
/** Begins a new peak from here (Linux: /proc/self/clear_refs).  1: done; 0: the system does not let
 * us. */
int ct_mem_peak_reset(void);

#endif
