/** \file ct_machine.h  The resources that this process has: cores, memory, limits, network cards,
 * file systems.  Layer 0.
 *
 * All functions are local and never fail: a value that cannot be read is "not known". */
#ifndef CT_MACHINE_H
#define CT_MACHINE_H
#include <stddef.h>
#include <stdint.h>

#include "host/ct_cores.h"

enum {
  CT_NUMA_MAX = 64, /**< NUMA nodes that are recorded */
  CT_NICS = 8       /**< network cards that are recorded */
};

/** A network card. */
typedef struct ct_nic {
  char name[24];  /**< "mlx5_0", "eth0" */
  int numa;       /**< NUMA node that it is connected to; -1: not known */
  int infiniband; /**< 1: InfiniBand, RoCE or Omni-Path */
} ct_nic_t;

#define CT_NO_LIMIT INT64_MAX

/** Plain data of a fixed size: ranks exchange it as bytes.  Unknown sizes and counts are -1; a
 * limit that is not set is CT_NO_LIMIT.  A core is a CPU in the sense of Linux: with
 * hyperthreading, two of them share a physical core. */
typedef struct ct_machine {
  char host[64];
  unsigned char mask[CT_MASK_BYTES]; /**< cores that the launcher gave to this process, one bit
                                          each */
  int cores;                         /**< in mask */
  int physical;                      /**< physical cores in mask; 0: not read */
  int online;                        /**< cores of the machine that are online */
  int allowed;                       /**< online cores that the cgroup permits */
  int numa_nodes;                    /**< of the machine; 0: not known */
  int numa_cores[CT_NUMA_MAX];       /**< cores of mask on each NUMA node */
  double quota;                      /**< CPU time limit of the cgroup, in cores; 0: no limit */
  int64_t memory_total, memory_free; /**< of the machine; free: available to programs */
  int64_t memory_limit;              /**< of the cgroup, shared by all its processes */
  int64_t address_space, stack, files, locked, core; /**< resource limits (soft) */
  int64_t shm_total, shm_free;                       /**< of /dev/shm */
  int infiniband; /**< number of InfiniBand, RoCE and Omni-Path devices */
  int nics;       /**< recorded network cards, without virtual and disabled ones */
  ct_nic_t nic[CT_NICS];
  int nvidia; /**< NVIDIA GPUs that have a device file, with or without a working driver */
  uint64_t program, libraries; /**< build ids of the program and of its loaded libraries, hashed */
} ct_machine_t;

/** Reads a few dozen small files of /proc and /sys.  \a thorough: also one file for each core in
 * the mask, to count physical cores. */
void ct_machine_read(ct_machine_t *m, int thorough);

/** Lists the network cards of the machine whose sysfs is at \a root/sys ("": this one), InfiniBand
 * first, each kind sorted by name.  Returns their number. */
int ct_machine_nics(const char *root, ct_nic_t nic[CT_NICS]);

/** Text on the limits of a process' threads: "; limits: 4096 processes (ulimit -u), pids.max 512 of
 * the cgroup"; "" if there are none. */
void ct_machine_threads(char *buf, size_t cap);

/** The file system of a directory, or of its nearest existing parent. */
typedef struct ct_volume {
  char type[32];                /**< "ext4", "nfs", "lustre" … */
  int there;                    /**< 1: the directory itself exists */
  int writable;                 /**< 1: files can be created in it */
  int local;                    /**< 1: by its type, visible on this machine only or lost with it */
  int64_t total, free, files;   /**< bytes, and number of files that can be created; -1: not
                                     known */
  int flock_error, fcntl_error; /**< errno of such a lock on a new file; 0: it works */
  int error;                    /**< errno, if not writable */
} ct_volume_t;

/** Tests locks on a file that it creates in the directory and removes at once. */
void ct_volume_read(const char *path, ct_volume_t *v);
/** Local.  Stripe count of a file on Lustre, the largest one if its layout has several components;
 * 0: not on Lustre. */
int ct_machine_stripes(const char *path);

/* ---- the formats of the system's files: pure ---- */

/** Parses "0-3,8,10-11" to bits.  Returns the number of bits set. */
int ct__machine_list(const char *text, unsigned char mask[CT_MASK_BYTES]);
/** Value of a key of /proc/meminfo, such as "MemAvailable:", in bytes; -1: missing. */
int64_t ct__machine_meminfo(const char *text, const char *key);
/** Path of this process in a cgroup hierarchy, from /proc/self/cgroup: that of a \a controller of
 * version 1 ("memory"), or that of version 2 for "".  1 if found. */
int ct__machine_cgroup(const char *text, const char *controller, char *path, size_t cap);
/** A limit in bytes from memory.max or memory.limit_in_bytes.  "max" and the huge numbers of
 * version 1 are CT_NO_LIMIT. */
int64_t ct__machine_limit(const char *text);
/** Cores from cpu.max of version 2: "200000 100000" is 2 cores; 0: no limit. */
double ct__machine_quota(const char *text);
/** Type of the file system with a device number, from /proc/self/mountinfo.  1 if found. */
int ct__machine_mount(const char *text, unsigned major, unsigned minor, char *type, size_t cap);
/** Stripe count from the bytes of a file's attribute lustre.lov; 0: unknown format. */
int ct__machine_stripes(const uint8_t *p, size_t n);
/** Name of an f_type of statfs(), such as "nfs"; NULL: unknown. */
const char *ct__machine_fs(long type);

#endif
