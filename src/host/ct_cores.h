/** \file ct_cores.h  The cores that the process was started with.  Layer 0.
 *
 * With OMP_PROC_BIND, OMP_PLACES or their like OpenMP binds the main thread to one core before
 * main(): from then on that thread's mask, which new threads and programs inherit, says nothing of
 * the process.  The mask is therefore read before the constructors of libraries run. */
#ifndef CT_CORES_H
#define CT_CORES_H
enum { CT_MASK_BYTES = 1024 /**< 8192 cores: the most that Linux kernels are built for */ };

/** Local.  The cores that the launcher gave to this process, one bit each; how many.  0: the system
 * did not tell. */
int ct_cores_given(unsigned char mask[CT_MASK_BYTES]);
/** Local.  Those of them that OpenMP's threads may use: where they are bound (omp_get_proc_bind()),
 * the cores of its places. */
int ct_cores_omp(unsigned char mask[CT_MASK_BYTES]);
/** Local.  The cores that a team of \a threads is bound to, together; 0: OpenMP binds no threads.
 * Starts the team. */
int ct_cores_bound(int threads, unsigned char mask[CT_MASK_BYTES]);
int ct_cores_count(const unsigned char mask[CT_MASK_BYTES]);

/** Local.  From here to ct_cores_narrow() the calling thread may use all cores that the process was
 * given, and what it starts does too: threads of libraries, another program.  \a before: its mask
 * until now. */
void ct_cores_widen(unsigned char before[CT_MASK_BYTES]);
void ct_cores_narrow(const unsigned char before[CT_MASK_BYTES]);

#endif
