/** \file ct_cores.h  The cores that the process was started with.  Layer 0.
 *
 * With OMP_PROC_BIND, OMP_PLACES or similar variables OpenMP binds the main thread to one core
 * before main().  That thread's mask, which new threads and programs inherit, then no longer
 * describes the process.  The mask is therefore read before the constructors of libraries run. */
#ifndef CT_CORES_H
#define CT_CORES_H
enum { CT_MASK_BYTES = 1024 /**< 8192 cores: the most that Linux kernels are built for */ };

/** Local.  The cores that the launcher gave to this process, one bit each.  Returns their number;
 * 0: not known. */
int ct_cores_given(unsigned char mask[CT_MASK_BYTES]);
/** Local.  The subset of these cores that OpenMP's threads may use: if threads are bound
 * (omp_get_proc_bind()), the cores of the OpenMP places. */
int ct_cores_omp(unsigned char mask[CT_MASK_BYTES]);
/** Local.  The union of the cores that the threads of a team of \a threads are bound to; 0: OpenMP
 * binds no threads.  Starts the team. */
int ct_cores_bound(int threads, unsigned char mask[CT_MASK_BYTES]);
int ct_cores_count(const unsigned char mask[CT_MASK_BYTES]);

/** Local.  Until ct_cores_narrow() the calling thread may use all cores of the process.  Threads
 * and programs that it starts meanwhile inherit this.  \a before returns its previous mask. */
void ct_cores_widen(unsigned char before[CT_MASK_BYTES]);
void ct_cores_narrow(const unsigned char before[CT_MASK_BYTES]);

#endif
