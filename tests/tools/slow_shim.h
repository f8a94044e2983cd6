/** \file slow_shim.h  Of slow_shim.c, for programs that it is linked into. */
#ifndef CT_TEST_SLOW_SHIM_H
#define CT_TEST_SLOW_SHIM_H

/** Counts anew. */
void slow_shim_reset(void);
/** The most reads that were under way at once since then, and how many there were. */
int slow_shim_at_once(void);
int slow_shim_reads(void);

#endif
