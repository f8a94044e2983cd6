/** \file ct_machine.h  What the system gives this process: cores, memory, limits, a directory.
 * Layer 0.
 *
 * Everything is local, and never fails: what the system does not tell is "not known". */
#ifndef CT_MACHINE_H
#define CT_MACHINE_H
#include <stddef.h>
#include <stdint.h>

#include "host/ct_cores.h"

enum {
  CT_NUMA_MAX = 64, /**< NUMA nodes that are told apart */
  CT_NICS = 8       /**< network cards that are told */
};

/** A network card. */
typedef struct ct_nic {
  char name[24];  /**< "mlx5_0", "eth0" */
  int numa;       /**< the NUMA node that it is connected to; -1: not known */
  int infiniband; /**< 1: InfiniBand, RoCE or Omni-Path */
} ct_nic_t;

#define CT_NO_LIMIT INT64_MAX

/** Plain data of a fixed size: ranks send it to each other as bytes.  Bytes and counts are -1 where
 * they are not known, limits CT_NO_LIMIT where there is none.  A core is what Linux calls a CPU:
 * with hyperthreading two of them are one physical core. */
typedef struct ct_machine {
  char host[64];
  unsigned char mask[CT_MASK_BYTES]; /**< the cores that this process was given, one bit each */
  int cores;                         /**< in mask */
  int physical;                      /**< physical cores in mask; 0: not looked at */
  int online;                        /**< cores of the machine that are switched on */
  int allowed;                       /**< of these, those that the cgroup lets it use */
  int numa_nodes;                    /**< of the machine; 0: not known */
  int numa_cores[CT_NUMA_MAX];       /**< how many of mask lie on each NUMA node */
  double quota;                      /**< cores' worth of time that the cgroup has; 0: no limit */
  int64_t memory_total, memory_free; /**< of the machine; free: what programs can still get */
  int64_t memory_limit;              /**< of the cgroup, which the processes in it share */
  int64_t address_space, stack, files, locked, core; /**< resource limits (soft) */
  int64_t shm_total, shm_free;                       /**< of /dev/shm */
  int infiniband; /**< InfiniBand, RoCE or Omni-Path devices of the machine */
  int nics;       /**< network cards that are told; nothing that is virtual or switched off */
  ct_nic_t nic[CT_NICS];
  int nvidia; /**< NVIDIA GPUs whose device files are there, with or without a working driver */
  uint64_t program, libraries; /**< of this program and of all that it has loaded: build numbers */
} ct_machine_t;

/** Reads a few dozen small files of /proc and /sys.  \a thorough: also one for each core in the
 * mask, to tell physical cores. */
void ct_machine_read(ct_machine_t *m, int thorough);

/** The network cards of the machine whose sysfs is at \a root/sys ("": this one), InfiniBand first,
 * each kind by name.  How many. */
int ct_machine_nics(const char *root, ct_nic_t nic[CT_NICS]);

/** "; limits: 4096 processes (ulimit -u), pids.max 512 of the cgroup": what keeps a process from
 * having more threads; "" if nothing is limited. */
void ct_machine_threads(char *buf, size_t cap);

/** A directory, or the nearest one above it that is there. */
typedef struct ct_volume {
  char type[32];                /**< file system: "ext4", "nfs", "lustre" … */
  int there;                    /**< 1: the directory itself exists */
  int writable;                 /**< 1: a file could be made in it */
  int local;                    /**< 1: of this machine alone, or gone with it, by its type */
  int64_t total, free, files;   /**< bytes, and how many files can be made; -1: not known */
  int flock_error, fcntl_error; /**< errno of a lock of either kind on a new file; 0: it works */
  int error;                    /**< errno, if not writable */
} ct_volume_t;

/** Makes a file in it to try locks, and removes it at once. */
void ct_volume_read(const char *path, ct_volume_t *v);
/** Local.  Over how many storage targets of Lustre a file is spread, its widest part if it has
 * several; 0: it does not lie on Lustre. */
int ct_machine_stripes(const char *path);

/* ---- the formats of the system's files: pure ---- */

/** "0-3,8,10-11" to bits; how many there are. */
int ct__machine_list(const char *text, unsigned char mask[CT_MASK_BYTES]);
/** "MemAvailable:" of /proc/meminfo in bytes; -1: not there. */
int64_t ct__machine_meminfo(const char *text, const char *key);
/** The path of this process in a cgroup hierarchy, of /proc/self/cgroup: that of a version 1 \a
 * controller
 * ("memory"), or of version 2 with "".  1 if found. */
int ct__machine_cgroup(const char *text, const char *controller, char *path, size_t cap);
/** A limit of bytes: memory.max or memory.limit_in_bytes.  "max" and the huge numbers that version
 * 1 writes are CT_NO_LIMIT. */
int64_t ct__machine_limit(const char *text);
/** cpu.max of version 2: "200000 100000" is 2 cores; 0: no limit. */
double ct__machine_quota(const char *text);
/** Type of the file system with a device number, of /proc/self/mountinfo.  1 if found. */
int ct__machine_mount(const char *text, unsigned major, unsigned minor, char *type, size_t cap);
/** Stripes of a file by the bytes of its attribute lustre.lov; 0: they are none that is known. */
int ct__machine_stripes(const uint8_t *p, size_t n);
/** "nfs" for the f_type that statfs() says; NULL: a number that has no name here. */
const char *ct__machine_fs(long type);

#endif
