/* Records hardware, software, load and core binding of all nodes of a study: low clock rates, other
 * programs or ranks that share cores explain slow results later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "study/measure/ct_scale.h"
#include "host/ct_host_cpu.h"
#include "host/ct_energy.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "host/ct_machine.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "job/ct_launcher.h"

/* The record that a rank sends to rank 0. */
typedef struct facts {
  char host[64], kernel[64], cores[40];
  int node, bound, online;
  double memory_gib;
  uint64_t program, libraries;
  ct_cpu_t cpu;
} facts_t;

/* ---- one rank ---- */

/* Writes a core mask as "0-3,8"; a list that does not fit ends in an ellipsis. */
static void core_list(const unsigned char *mask, char *buf, size_t cap)
{
  size_t n = 0;
  buf[0] = '\0';
  for (int i = 0; i < CT_MASK_BYTES * 8; i++) {
    if (!(mask[i / 8] >> i % 8 & 1)) continue;
    int last = i;
    while (last + 1 < CT_MASK_BYTES * 8 && (mask[(last + 1) / 8] >> (last + 1) % 8 & 1))
      last++;
    char part[32];
    int more = snprintf(part, sizeof part, last > i ? "%s%d-%d" : "%s%d", n ? "," : "", i, last);
    if (n + (size_t)more + sizeof ",…" > cap) {
      snprintf(buf + n, cap - n, ",…");
      return;
    }
    memcpy(buf + n, part, (size_t)more + 1);
    n += (size_t)more;
    i = last;
  }
}

static void read_facts(const ct_topo_t *topo, facts_t *f)
{
  ct_machine_t m;
  struct utsname system;
  memset(f, 0, sizeof *f);
  ct_machine_read(&m, 0);
  uname(&system);
  snprintf(f->host, sizeof f->host, "%s", topo->host);
  snprintf(f->kernel, sizeof f->kernel, "%.63s", system.release);
  core_list(m.mask, f->cores, sizeof f->cores);
  f->node = topo->node_index;
  f->bound = m.cores;
  f->online = m.online;
  f->memory_gib = (double)m.memory_total / (1 << 30);
  f->program = m.program;
  f->libraries = m.libraries;
  ct_cpu_read("", -1, &f->cpu);
}

/* ---- all ranks ---- */

static json_t *words_or_null(const char *text)
{
  return *text ? ct_json_words(text) : json_null();
}

static json_t *number_or_null(double v, int known)
{
  return known ? json_real(v) : json_null();
}

static json_t *node_json(const facts_t *f, json_t *cores)
{
  static const char *const turbo[] = {"not known", "off", "on"};
  return json_pack("{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:s, s:o, s:s, s:f}", "host",
                   ct_json_words(f->host), "processor", words_or_null(f->cpu.model), "cores",
                   f->online, "cores of its ranks", cores, "clock_mhz",
                   number_or_null(f->cpu.mhz, f->cpu.mhz > 0), "clock_max_mhz",
                   number_or_null(f->cpu.max_mhz, f->cpu.max_mhz > 0), "governor",
                   words_or_null(f->cpu.governor), "turbo", turbo[f->cpu.turbo + 1], "load",
                   number_or_null(f->cpu.load, f->cpu.load >= 0), "kernel", f->kernel, "memory_gib",
                   f->memory_gib);
}

/* Returns a list with one object per node, in the order of node_index, with the cores of each of
 * its ranks. */
static json_t *nodes_json(const facts_t *all, int ranks, int nodes)
{
  json_t *list = json_array();
  for (int node = 0; node < nodes; node++) {
    const facts_t *first = NULL;
    json_t *cores = json_array();
    for (int r = 0; r < ranks; r++) {
      if (all[r].node != node) continue;
      if (!first) first = &all[r];
      json_array_append_new(cores, json_string(all[r].cores));
    }
    if (first)
      json_array_append_new(list, node_json(first, cores));
    else
      json_decref(cores);
  }
  return list;
}

/* Returns the number of ranks whose program or libraries differ from those of rank 0. */
static int others(const facts_t *all, int ranks)
{
  int n = 0;
  for (int r = 1; r < ranks; r++)
    n += all[r].program != all[0].program || all[r].libraries != all[0].libraries;
  return n;
}

static json_t *machine_json(const ct_topo_t *topo, const facts_t *all)
{
  ct_launcher_t launcher;
  char library[80], programs[64] = "the same on all ranks";
  int different = others(all, topo->size);
  ct_energy_t energy;
  ct_energy_read("", &energy);
  ct_launcher_read(getenv, &launcher);
  ct_topo_library(library, sizeof library);
  if (different) snprintf(programs, sizeof programs, "%d ranks differ from rank 0", different);
  return json_pack("{s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:o}", "nodes", topo->nodes, "ranks",
                   topo->size, "threads", topo->threads, "MPI", library, "launcher", launcher.name,
                   "program and libraries", programs, "energy", energy.from, "node",
                   nodes_json(all, topo->size, topo->nodes));
}

/* Collective.  Gathers the facts of every rank. *all: on rank 0 an array that the caller frees;
 * NULL on other ranks. */
static int machine_gather(const ct_topo_t *topo, facts_t **all)
{
  int rc = CT_OK;
  facts_t mine;
  *all = NULL;
  read_facts(topo, &mine);
  if (topo->rank == 0) *all = ct_mem_array(topo->size, sizeof mine, "facts of nodes");
  CT_TRY_ALL(topo, topo->rank || *all ? CT_OK : CT_ERR_NOMEM);
  ct_agree_gather(topo, &mine, sizeof mine, *all);
out:
  return rc;
}

int ct_scale_machine(const ct_topo_t *topo, json_t **out)
{
  int rc = CT_OK;
  facts_t *all;
  *out = NULL;
  CT_TRY(machine_gather(topo, &all));
  if (topo->rank == 0) *out = machine_json(topo, all);
out:
  ct_mem_free(all);
  return rc;
}

/* ---- a round ---- */

static json_t *conditions_json(const facts_t *all, int ranks)
{
  const facts_t *busiest = all;
  double slow = all->cpu.mhz, fast = slow;
  for (int r = 1; r < ranks; r++) {
    double mhz = all[r].cpu.mhz;
    if (all[r].cpu.load > busiest->cpu.load) busiest = &all[r];
    slow = mhz < slow ? mhz : slow;
    fast = mhz > fast ? mhz : fast;
  }
  json_t *o =
      json_pack("{s:f, s:o}", "load", busiest->cpu.load, "load_host", ct_json_words(busiest->host));
  if (o && slow > 0) json_object_set_new(o, "clock_mhz", json_pack("[f, f]", slow, fast));
  return o;
}

int ct_scale_conditions(const ct_topo_t *topo, json_t **out)
{
  int rc = CT_OK;
  facts_t *all;
  CT_TRY(machine_gather(topo, &all));
  if (topo->rank == 0) *out = conditions_json(all, topo->size);
out:
  ct_mem_free(all);
  return rc;
}
