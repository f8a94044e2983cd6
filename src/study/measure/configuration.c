/* The setup of one configuration: a sub-communicator of its ranks, data, model and trainer.  Setup
 * often takes longer than a round of steps, so the setup is kept for later rounds while memory
 * allows. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "host/ct_machine.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

/* Maximum number of kept sub-communicators: MPICH has about 2000 communicators. */
enum { MOST = 64 };

/* ---- one sub-communicator ---- */

/* Reads the user's configuration file with the batch and threads of this configuration. */
static int configure(ct_setup_t *s, const ct_args_t *a, const ct_scale_config_t *p)
{
  enum { KEYS = 3 };
  int rc = CT_OK, n = a->sets;
  char key[KEYS][64];
  ct_args_t with = *a;
  int weak = p->batch_rank > 0;
  snprintf(key[0], sizeof key[0], "data.batch_per_rank=%lld",
           (long long)(weak ? p->batch_rank : 0));
  snprintf(key[1], sizeof key[1], "data.batch=%lld", (long long)p->batch);
  snprintf(key[2], sizeof key[2], "cpu.threads=%d", p->threads);
  with.set = ct_mem_array(a->sets + KEYS, sizeof *with.set, "arguments");
  CT_TRY_ALL(s->topo, with.set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < a->sets; i++)
    with.set[i] = a->set[i];
  for (int i = 0; i < (p->threads ? KEYS : KEYS - 1); i++)
    with.set[n++] = key[i];
  with.sets = n;
  CT_TRY(ct_setup_config(s, a->rest[0], &with));
out:
  ct_mem_free(with.set);
  return rc;
}

int ct_scale_group_ready(ct_scale_group_t *w, const ct_args_t *a, const ct_scale_config_t *p)
{
  int rc = CT_OK;
  ct_setup_t *s = &w->s;
  if (w->ready) {
    CT_TRY_ALL(s->topo, ct_trainer_restart(s->trainer));
    return CT_OK;
  }
  CT_TRY(configure(s, a, p));
  CT_TRY(ct_setup_device(s));
  w->avail = s->be->mem->avail(s->dev);
  CT_TRY(ct_setup_data(s, 1, 0));
  CT_TRY(ct_setup_model(s));
  CT_TRY(ct_setup_trainer(s, 1));
  CT_TRY(ct_setup_order(s, &w->order));
  CT_TRY_ALL(s->topo, ct_trainer_remember(s->trainer));
  w->ready = 1;
out:
  return rc;
}

static void close_group(ct_scale_group_t *w)
{
  if (!w) return;
  ct_setup_close(&w->s);
  if (w->single.size) ct_topo_unsplit(&w->single);
  if (w->group.size) ct_topo_unsplit(&w->group);
  ct_mem_free(w);
}

/* Collective over topo. */
static int open_group(const ct_topo_t *topo, const ct_scale_placement_t *placement,
                      const ct_scale_config_t *p, ct_scale_group_t *w)
{
  int rc = CT_OK, apart = p->kind == CT_STUDY_NEIGHBOURS;
  CT_TRY(ct_topo_split(topo, placement->mine < p->ranks ? 0 : -1, placement->mine, &w->group));
  if (!w->group.size) return CT_OK;
  if (apart) CT_TRY(ct_topo_split(&w->group, w->group.rank, 0, &w->single));
  w->s.topo = apart ? &w->single : &w->group;
out:
  return rc;
}

/* ---- kept sub-communicators ---- */

/* Returns the resident memory of this process in bytes; 0: unknown. */
static double resident(void)
{
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (!f) return 0;
  if (fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
  fclose(f);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

void ct_scale_groups_open(const ct_topo_t *topo, double share, ct_scale_groups_t *k)
{
  ct_machine_t m;
  *k = (ct_scale_groups_t){.share = share};
  ct_machine_read(&m, 0);
  int64_t free = m.memory_limit < m.memory_free ? m.memory_limit : m.memory_free;
  if (free > 0) k->limit = share * (double)free / topo->local_size;
}

void ct_scale_group_drop(ct_scale_groups_t *k, int i)
{
  ct_scale_group_t *w = k->group[i];
  if (!w) return;
  k->group[i] = NULL;
  k->kept--;
  k->bytes -= w->bytes;
  close_group(w);
}

int ct_scale_groups_close(ct_scale_groups_t *k)
{
  int n = k->kept;
  for (int i = 0; i < CT_SCALE_CONFIGS; i++)
    ct_scale_group_drop(k, i);
  return n;
}

int ct_scale_group_begin(ct_scale_groups_t *k, const ct_topo_t *topo,
                         const ct_scale_placement_t *placement, const ct_scale_config_t *p, int i,
                         ct_scale_group_t **out)
{
  int rc = CT_OK;
  ct_scale_group_t *w = k->group[i];
  *out = w;
  if (w) return CT_OK;
  w = ct_mem_alloc(sizeof *w, "a configuration of the study");
  CT_TRY_ALL(topo, w ? CT_OK : CT_ERR_NOMEM);
  w->before = resident();
  CT_TRY(open_group(topo, placement, p, w));
  *out = w;
  w = NULL;
out:
  close_group(w);
  return rc;
}

/* Returns 1 if keeping \a w would exceed the memory limit of this rank.  Device memory is checked
 * separately: the fraction 1 - k->share of the memory that was free before must still be free. */
static int is_too_much(const ct_scale_groups_t *k, const ct_scale_group_t *w)
{
  size_t avail = w->s.dev ? w->s.be->mem->avail(w->s.dev) : SIZE_MAX;
  if (k->kept >= MOST || k->bytes + w->bytes > k->limit) return 1;
  return avail != SIZE_MAX && (double)avail < (1 - k->share) * (double)w->avail;
}

int ct_scale_group_end(ct_scale_groups_t *k, const ct_topo_t *topo, ct_scale_group_t *w, int i,
                       int keep)
{
  int rc = CT_OK;
  double no = !keep;
  if (k->group[i]) {
    if (!keep) ct_scale_group_drop(k, i);
    return CT_OK;
  }
  if (w->ready) {
    double own = (double)ct_memory_total(ct_trainer_memory(w->s.trainer));
    w->bytes = fmax(own, resident() - w->before);
    if (is_too_much(k, w)) no = 1;
  }
  CT_TRY(ct_agree_doubles(topo, &no, 1, 1));
  if (no > 0) {
    close_group(w);
    return CT_OK;
  }
  k->group[i] = w;
  k->kept++;
  k->bytes += w->bytes;
out:
  return rc;
}
