/* The configurations of a study.  All configurations use the ranks in the same order, so the ranks
 * of a smaller configuration are a subset of the ranks of a larger one: nodes are filled one after
 * another, or with --spread ranks are dealt to the nodes round-robin. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

/* ---- options ---- */

/* Parses "1,2,4". */
static int read_list(const char *flag, const char *text, int most, int out[CT_SCALE_CONFIGS],
                     int *n)
{
  int rc = CT_OK;
  for (*n = 0; *text; text += *text == ',') {
    char word[16];
    int64_t value;
    size_t len = strcspn(text, ",");
    snprintf(word, sizeof word, "%.*s", (int)(len < 15 ? len : 15), text);
    if (ct_text_int(word, &value) != CT_OK || value < 1 || value > 1000000)
      CT_FAIL(CT_ERR_USAGE, "scale: --%s: '%s': expected integers from 1 on, as 1,2,4", flag, word);
    if (most && value > most)
      CT_FAIL(CT_ERR_USAGE, "scale: --%s has %" PRId64 ", but there are %d ranks", flag, value,
              most);
    if (*n == CT_SCALE_CONFIGS)
      CT_FAIL(CT_ERR_USAGE, "scale: --%s lists more than 128 numbers", flag);
    out[(*n)++] = (int)value;
    text += len;
  }
  if (*n == 0) CT_FAIL(CT_ERR_USAGE, "scale: --%s is empty", flag);
out:
  return rc;
}

static int read_number(const ct_args_t *a, const char *flag, double otherwise, double *out)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, flag);
  *out = otherwise;
  if (!text) return CT_OK;
  if (ct_text_double(text, out) != CT_OK || !(*out >= 0))
    CT_FAIL(CT_ERR_USAGE, "scale: --%s: '%s': expected a number from 0 on", flag, text);
out:
  return rc;
}

int ct_scale_opts(const ct_args_t *a, int ranks, ct_scale_opts_t *out)
{
  int rc = CT_OK;
  const char *list = ct_args_get(a, "ranks"), *threads = ct_args_get(a, "threads"),
             *nodes = ct_args_get(a, "nodes");
  double percent;
  *out = (ct_scale_opts_t){.config = a->rest[0],
                           .weak = ct_args_get(a, "strong") == NULL,
                           .spread = ct_args_get(a, "spread") != NULL,
                           .bases = ct_args_get(a, "no-bases") == NULL,
                           .fresh = ct_args_get(a, "fresh") != NULL};
  if (ct_args_get(a, "weak") && !out->weak)
    CT_FAIL(CT_ERR_USAGE, "scale: --weak and --strong exclude each other");
  if (list) CT_TRY(read_list("ranks", list, ranks, out->ranks, &out->nranks));
  if (list && nodes) CT_FAIL(CT_ERR_USAGE, "scale: --ranks and --nodes exclude each other");
  if (nodes) CT_TRY(read_list("nodes", nodes, 0, out->ranks, &out->nranks));
  out->nodes = nodes != NULL;
  if (threads) CT_TRY(read_list("threads", threads, 0, out->threads, &out->nthreads));
  CT_TRY(ct_args_int(a, "blocks", 6, 1, CT_STUDY_ROUNDS / 5, &out->rounds));
  CT_TRY(ct_args_int(a, "steps", 50, 1, 1000000, &out->steps));
  CT_TRY(read_number(a, "error", 2, &percent));
  CT_TRY(read_number(a, "budget", 0, &out->budget_s));
  out->error = percent / 100;
out:
  return rc;
}

/* ---- the order of ranks ---- */

typedef struct spot {
  int rank, node, local;
} spot_t;

static int by_node(const void *x, const void *y)
{
  const spot_t *a = x, *b = y;
  return a->node != b->node ? (a->node > b->node) - (a->node < b->node)
                            : (a->local > b->local) - (a->local < b->local);
}

static int by_turn(const void *x, const void *y)
{
  const spot_t *a = x, *b = y;
  return a->local != b->local ? (a->local > b->local) - (a->local < b->local) : by_node(x, y);
}

int ct_scale_placement(const ct_topo_t *topo, int spread, ct_scale_placement_t *out)
{
  int rc = CT_OK;
  spot_t me = {topo->rank, topo->node_index, topo->local_rank};
  size_t bytes = (size_t)topo->size * sizeof me;
  spot_t *all = ct_mem_array(topo->size, sizeof *all, "the places of ranks");
  void *shared = all;
  *out =
      (ct_scale_placement_t){.order = ct_mem_array(topo->size, sizeof(int), "the order of ranks"),
                             .node = ct_mem_array(topo->size, sizeof(int), "the nodes of ranks")};
  CT_TRY_ALL(topo, all && out->order && out->node ? CT_OK : CT_ERR_NOMEM);
  ct_agree_gather(topo, &me, sizeof me, all);
  CT_TRY(ct_agree_bytes(topo, CT_OK, &shared, &bytes));
  qsort(shared, (size_t)topo->size, sizeof me, spread ? by_turn : by_node);
  for (int p = 0; p < topo->size; p++) {
    out->order[p] = ((spot_t *)shared)[p].rank;
    out->node[p] = ((spot_t *)shared)[p].node;
    if (out->order[p] == topo->rank) out->mine = p;
  }
out:
  if (topo->rank && shared != all) ct_mem_free(shared);
  ct_mem_free(all);
  return rc;
}

void ct_scale_placement_clear(ct_scale_placement_t *p)
{
  ct_mem_free(p->order);
  ct_mem_free(p->node);
}

/* Returns the number of nodes of the first n ranks in the order. */
static int nodes_of(const ct_scale_placement_t *p, int n)
{
  int nodes = 0;
  for (int i = 0; i < n; i++) {
    int known = 0;
    for (int j = 0; j < i && !known; j++)
      known = p->node[j] == p->node[i];
    nodes += !known;
  }
  return nodes;
}

/* ---- sizes ---- */

/* Lists the default numbers of ranks: 1, 2, 4 … ranks of a node, then 2, 4 … whole nodes, then all
 * ranks. */
static int usual_sizes(const ct_topo_t *topo, int *out)
{
  int n = 0, all = topo->size;
  int node = topo->equal_nodes ? topo->local_size : 1;
  for (int r = 1; r < node && n < CT_SCALE_CONFIGS - 1; r *= 2)
    out[n++] = r;
  for (int r = node; r < all && n < CT_SCALE_CONFIGS - 1; r *= 2)
    out[n++] = r;
  out[n++] = all;
  return n;
}

/* Lists the numbers of ranks to measure; *n: the length of the list. */
static int sizes_of(const ct_scale_opts_t *o, const ct_topo_t *topo, int *out, int *n)
{
  int rc = CT_OK;
  *n = o->nranks;
  if (!o->nranks) *n = usual_sizes(topo, out);
  for (int i = 0; i < o->nranks; i++) {
    out[i] = o->ranks[i];
    if (!o->nodes) continue;
    if (!topo->equal_nodes)
      CT_FAIL(CT_ERR_USAGE,
              "scale: --nodes needs the same number of ranks on each node; use --ranks");
    if (o->ranks[i] > topo->nodes)
      CT_FAIL(CT_ERR_USAGE, "scale: --nodes has %d; nodes of this job: %d", o->ranks[i],
              topo->nodes);
    if (o->spread && o->ranks[i] < topo->nodes)
      CT_FAIL(CT_ERR_USAGE,
              "scale: --spread uses all nodes for every configuration; use --ranks instead");
    out[i] *= topo->local_size;
  }
out:
  return rc;
}

static int is_there(const ct_scale_config_t *p, int n, const ct_scale_config_t *q)
{
  for (int i = 0; i < n; i++)
    if (p[i].kind == q->kind && p[i].ranks == q->ranks && p[i].threads == q->threads &&
        p[i].batch == q->batch && p[i].nodes == q->nodes)
      return 1;
  return 0;
}

static int plan_add(ct_scale_config_t *out, int *n, ct_scale_config_t p)
{
  if (is_there(out, *n, &p)) return CT_OK;
  if (*n == CT_SCALE_CONFIGS)
    return ct_err_set(
        CT_ERR_USAGE, __FILE__, __LINE__,
        "scale: the study has more than %d configurations; list fewer numbers of ranks",
        CT_SCALE_CONFIGS);
  out[(*n)++] = p;
  return CT_OK;
}

/* Adds the configurations without communication that explain a run: one rank alone with the same
 * local batch, and as many ranks on one node, each training by itself. */
static int add_bases(const ct_scale_config_t *run, ct_scale_config_t *out, int *n)
{
  int rc = CT_OK;
  ct_scale_config_t p = *run;
  p.batch = run->batch / run->ranks;
  p.ranks = p.nodes = p.local_ranks = 1;
  p.kind = run->ranks == 1 ? CT_STUDY_RUN : CT_STUDY_ALONE;
  ct_scale_config_t as_run = p;
  as_run.kind = CT_STUDY_RUN;
  if (!is_there(out, *n, &as_run)) CT_TRY(plan_add(out, n, p));
  if (run->local_ranks == 1 || run->nodes > 1) return CT_OK;
  p.kind = CT_STUDY_NEIGHBOURS;
  p.ranks = p.local_ranks = run->local_ranks;
  CT_TRY(plan_add(out, n, p));
out:
  return rc;
}

int ct_scale_plan(const ct_scale_opts_t *o, const ct_topo_t *topo, const ct_scale_placement_t *p,
                  int64_t batch, ct_scale_config_t *out, int *n)
{
  int rc = CT_OK, size[CT_SCALE_CONFIGS], sizes, threads = o->nthreads;
  *n = 0;
  CT_TRY(sizes_of(o, topo, size, &sizes));
  for (int t = 0; t < (threads ? threads : 1); t++)
    for (int i = 0; i < sizes; i++) {
      int ranks = size[i], nodes = nodes_of(p, ranks);
      ct_scale_config_t q = {.kind = CT_STUDY_RUN,
                             .ranks = ranks,
                             .nodes = nodes,
                             .local_ranks = (ranks + nodes - 1) / nodes,
                             .threads = threads ? o->threads[t] : 0,
                             .batch = o->weak ? batch * ranks : batch,
                             .batch_rank = o->weak ? batch : 0};
      if (!o->weak && batch < ranks)
        CT_FAIL(CT_ERR_USAGE,
                "scale: %d ranks need at least %d samples, but data.batch is %" PRId64, ranks,
                ranks, batch);
      CT_TRY(plan_add(out, n, q));
    }
  for (int i = 0, runs = *n; o->bases && i < runs; i++)
    CT_TRY(add_bases(&out[i], out, n));
out:
  return rc;
}
