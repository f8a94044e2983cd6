/** \file ct_cores.h  The cores that the process was started with.  Layer 0.
 *
 * With OMP_PROC_BIND, OMP_PLACES or similar variables OpenMP binds the main thread to one core
 * before main().  The mask of the main thread, which new threads and programs inherit, then no
 * longer describes the process.  Therefore the mask is read before the constructors of libraries
 * run. */
#ifndef CT_CORES_H
#define CT_CORES_H
enum { CT_MASK_BYTES = 1024 /**< 8192 cores: the maximum that Linux kernels are built for */ };

/** Local.  Sets \a mask to the cores that the launcher gave to this process, one bit each.  Returns
 * their number; 0: not known. */
int ct_cores_given(unsigned char mask[CT_MASK_BYTES]);
/** Local.  Sets \a mask to the subset of ct_cores_given() that OpenMP's threads may use: if threads
 * are bound (omp_get_proc_bind()), the cores of the OpenMP places.  Returns their number. */
int ct_cores_omp(unsigned char mask[CT_MASK_BYTES]);
/** Local.  Starts an OpenMP team of \a threads and sets \a mask to the cores that its threads are
 * bound to.  Returns their number; 0: OpenMP does not bind threads. */
int ct_cores_bound(int threads, unsigned char mask[CT_MASK_BYTES]);
int ct_cores_count(const unsigned char mask[CT_MASK_BYTES]);

/** Local.  Lets the calling thread use all cores of the process until ct_cores_narrow(); threads
 * and programs that it starts in between inherit the wider mask.  ct_cores_widen() stores the
 * previous mask of the thread in \a before, and ct_cores_narrow() restores it. */
void ct_cores_widen(unsigned char before[CT_MASK_BYTES]);
void ct_cores_narrow(const unsigned char before[CT_MASK_BYTES]);

#endif
