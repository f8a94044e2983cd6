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
  CT_NUMA_MAX = 64, /**< maximum number of NUMA nodes that are recorded */
  CT_NICS = 8       /**< maximum number of network cards that are recorded */
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
 * hyperthreading, two cores share a physical core. */
typedef struct ct_machine {
  char host[64];
  unsigned char mask[CT_MASK_BYTES]; /**< cores that the launcher gave to this process, one bit
                                          each */
  int cores;                         /**< number of cores in mask */
  int physical;                      /**< physical cores in mask; 0: not read */
  int online;                        /**< cores of the machine that are online */
  int allowed;                       /**< online cores that the cgroup permits */
  int numa_nodes;                    /**< NUMA nodes of the machine; 0: not known */
  int numa_cores[CT_NUMA_MAX];       /**< cores of mask on each NUMA node */
  uint64_t numa_bare;                /**< one bit for each NUMA node that has memory but no cores */
  double quota;                      /**< CPU time limit of the cgroup, in cores; 0: no limit */
  int64_t memory_total;              /**< bytes of memory of the machine */
  int64_t memory_free;               /**< bytes of it that are available to programs */
  int64_t memory_limit;              /**< memory limit of the cgroup, shared by its processes */
  int64_t address_space, stack, files, locked, core; /**< soft resource limits, see setrlimit(2) */
  int64_t shm_total, shm_free;                       /**< bytes of /dev/shm */
  int infiniband; /**< number of InfiniBand, RoCE and Omni-Path devices */
  int nics;       /**< recorded network cards, without virtual and disabled ones */
  ct_nic_t nic[CT_NICS];
  int nvidia;         /**< NVIDIA GPUs that have a device file, with or without a working driver */
  uint64_t program;   /**< hash of the build id of the program */
  uint64_t libraries; /**< hash of the build ids of its loaded libraries */
} ct_machine_t;

/** Reads a few dozen small files of /proc and /sys.  \a thorough: also one file for each core in
 * the mask, to count physical cores. */
void ct_machine_read(ct_machine_t *m, int thorough);

/** Lists the network cards of the machine whose sysfs is at \a root/sys ("": this one), InfiniBand
 * first, each kind sorted by name.  Returns their number. */
int ct_machine_nics(const char *root, ct_nic_t nic[CT_NICS]);

/** Writes the limits on the number of threads of a process: "; limits: 4096 processes (ulimit -u),
 * pids.max 512 of the cgroup"; "" if none is set. */
void ct_machine_threads(char *buf, size_t cap);

/** The file system of a directory, or of its nearest existing parent. */
typedef struct ct_volume {
  char type[32];   /**< "ext4", "nfs", "lustre" … */
  int there;       /**< 1: the directory itself exists */
  int writable;    /**< 1: files can be created in it */
  int local;       /**< 1: its type says that only this machine sees it, or that it ends with it */
  int64_t total;   /**< bytes of the file system; -1: not known */
  int64_t free;    /**< free bytes; -1: not known */
  int64_t files;   /**< number of files that can still be created; -1: not known */
  int flock_error; /**< errno of flock(2) on a new file; 0: it works */
  int fcntl_error; /**< errno of a lock by fcntl(2) on a new file; 0: it works */
  int error;       /**< errno of creating a file, if not writable */
} ct_volume_t;

/** Reads the facts about the file system of \a path.  Tests locks on a file that it creates in the
 * directory and removes at once. */
void ct_volume_read(const char *path, ct_volume_t *v);
/** Local.  Returns the stripe count of a file on Lustre: the largest one if the layout of the file
 * has several components; 0: the file is not on Lustre. */
int ct_machine_stripes(const char *path);

/** Counts the cores of \a mask on each NUMA node of the machine whose sysfs is at \a root/sys, and
 * sets a bit in \a bare for each node without any cores.  Returns the number of nodes. */
int ct__numa_cores(const char *root, const unsigned char mask[CT_MASK_BYTES], int own[CT_NUMA_MAX],
                   uint64_t *bare);

/* ---- the formats of the system's files: pure ---- */

/** Parses "0-3,8,10-11" to bits.  Returns the number of bits set. */
int ct__machine_list(const char *text, unsigned char mask[CT_MASK_BYTES]);
/** Returns the value of a key of /proc/meminfo, such as "MemAvailable:", in bytes; -1: missing. */
int64_t ct__machine_meminfo(const char *text, const char *key);
/** Finds the path of this process in a cgroup hierarchy in the text of /proc/self/cgroup.  \a
 * controller: a controller of cgroup version 1, such as "memory"; "": the hierarchy of version 2.
 * Returns 1 if found. */
int ct__machine_cgroup(const char *text, const char *controller, char *path, size_t cap);
/** Parses the limit in bytes in memory.max or memory.limit_in_bytes.  "max", and the huge numbers
 * of cgroup version 1 that mean the same, give CT_NO_LIMIT. */
int64_t ct__machine_limit(const char *text);
/** Parses cpu.max of cgroup version 2 to a number of cores: "200000 100000" is 2; 0: no limit. */
double ct__machine_quota(const char *text);
/** Finds the type of the file system with a device number in the text of /proc/self/mountinfo.
 * Returns 1 if found. */
int ct__machine_mount(const char *text, unsigned major, unsigned minor, char *type, size_t cap);
/** Parses the stripe count in the bytes of a file's attribute lustre.lov; 0: unknown format. */
int ct__machine_stripes(const uint8_t *p, size_t n);
/** Returns the name of an f_type of statfs(), such as "nfs"; NULL: unknown. */
const char *ct__machine_fs(long type);

#endif
