/* Queries facts from the system, the environment and MPI. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_owner.h"
#include "comm/ct_agree.h"

/* ---- a rank ---- */

static double wall_clock(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 1: a user account of a person.  Services have lower numbers, or numbers between the two ranges
 * (dynamic users of systemd, nobody). */
static int is_person(unsigned uid)
{
  return uid >= 1000 && (uid < 60000 || uid > 65535);
}

int ct__doctor_others(const char *proc, unsigned me, char *name, size_t cap)
{
  enum { MOST = 64 };
  unsigned seen[MOST];
  int n = 0, known;
  DIR *d = opendir(proc);
  struct dirent *e;
  struct stat st;
  *name = '\0';
  while (d && n < MOST && (e = readdir(d))) {
    if (e->d_name[0] < '1' || e->d_name[0] > '9') continue; /* not a process */
    if (fstatat(dirfd(d), e->d_name, &st, 0) != 0 || st.st_uid == me || !is_person(st.st_uid))
      continue;
    for (known = 0; known < n && seen[known] != st.st_uid; known++) {
    }
    if (known == n) seen[n++] = st.st_uid;
  }
  if (d) closedir(d);
  if (n) ct_owner_name(seen[0], name, cap);
  return n;
}

static void facts_fill(const ct_doctor_env_t *env, int thorough, ct_rank_facts_t *f)
{
  char mpi[128], reason[128];
  memset(f, 0, sizeof *f); /* including padding, since it is sent as bytes */
  ct_machine_read(&f->machine, thorough);
  f->rank = env->topo->rank;
  f->node = env->topo->node_index;
  f->threads = env->threads;
  f->threads_from = env->threads_set           ? CT_THREADS_CONFIG
                    : env->topo->threads_asked ? CT_THREADS_OMP
                                               : CT_THREADS_SHARE;
  f->cpus_of_the_job = env->topo->job.cpus;
  if (thorough && env->topo->local_rank == 0)
    f->others = ct__doctor_others("/proc", geteuid(), f->other, sizeof f->other);
  ct_topo_library(mpi, sizeof mpi);
  f->mpi = ct_hash_text(mpi, 0);
  snprintf(f->no_device, sizeof f->no_device, "%s", env->no_device);
  if (!env->dev) return;
  f->on_gpu = !env->be->host_memory;
  if (!f->on_gpu) ct_cores_bound(f->threads, f->bound);
  if (!f->on_gpu && f->machine.numa_nodes > 1) ct_numa_probe(f->threads, &f->memory);
  if (f->on_gpu) f->gpus = env->be->probe(reason);
  if (f->on_gpu) env->be->identify(env->dev, &f->gpu);
}

int ct_doctor_gather(const ct_doctor_env_t *env, int thorough, ct_rank_facts_t **all)
{
  int rc = CT_OK, first = env->topo->rank == 0;
  ct_rank_facts_t *mine = ct_mem_alloc(sizeof *mine, "the facts of a rank");
  *all = first ? ct_mem_array(env->topo->size, sizeof **all, "the facts of all ranks") : NULL;
  if (!mine || (first && !*all)) rc = CT_ERR_NOMEM;
  if (rc == CT_OK) facts_fill(env, thorough, mine);
  CT_TRY(ct_agree(env->topo, rc));
  mine->clock_s = wall_clock(); /* all ranks have just left the collective call */
  ct_agree_gather(env->topo, mine, (int)sizeof *mine, *all);
out:
  ct_mem_free(mine);
  if (rc != CT_OK) {
    ct_mem_free(*all);
    *all = NULL;
  }
  return rc;
}

/* ---- the job ---- */

static const char *async_progress(void)
{
  static const char *const names[] = {"MPICH_ASYNC_PROGRESS", "MPIR_CVAR_ASYNC_PROGRESS",
                                      "MPIR_PARAM_ASYNC_PROGRESS", "I_MPI_ASYNC_PROGRESS"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value = getenv(names[i]);
    if (value && *value && !strchr("0nNfF", *value) && strcasecmp(value, "off") != 0)
      return names[i];
  }
  return NULL;
}

void ct_doctor_job(const ct_doctor_env_t *env, ct_job_facts_t *job)
{
  static const char *const levels[] = {"SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"};
  static const int numbers[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                MPI_THREAD_MULTIPLE};
  int level;
  memset(job, 0, sizeof *job);
  ct_launcher_read(getenv, &job->launch);
  job->left_s = INFINITY;
  job->batch = env->topo->job;
  job->ranks = env->topo->size;
  job->nodes = env->topo->nodes;
  job->equal_nodes = env->topo->equal_nodes;
  ct_topo_library(job->mpi, sizeof job->mpi);
  MPI_Query_thread(&level);
  for (int i = 0; i < 4; i++)
    if (numbers[i] == level) snprintf(job->thread_level, sizeof job->thread_level, "%s", levels[i]);
  snprintf(job->file_locking, sizeof job->file_locking, "%s", env->locking);
  job->async_progress = async_progress();
  job->share_gpu = env->share_gpu;
  job->wants_gpu = env->wants_gpu;
}
