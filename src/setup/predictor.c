/* A model with folded batchnorms, for prediction only.  Rank 0 reads and folds the weights and
 * broadcasts them. */
#include "setup/ct_predictor.h"

#include <string.h>

#include "setup/ct_model_file.h"
#include "setup/ct_quantized_open.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

static int read_param(const ct_param_t *p, int from, const ct_weights_file_t *w, float **out)
{
  int rc = CT_OK;
  *out = ct_mem_array(p->count, sizeof **out, "the weights");
  CT_TRY(*out ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_match_read(w, from, p, *out));
  ct_heartbeat_progress();
out:
  return rc;
}

/* The weights of the original model, and which tensor of the file each is. */
typedef struct plain {
  const ct_graph_t *g;
  const int *from;
  float **of; /* [params] */
} plain_t;

static int take_constant(void *ctx, int param, const float *values)
{
  const plain_t *p = ctx;
  if (p->from[param] >= 0) return CT_OK;
  memcpy(p->of[param], values, (size_t)p->g->param[param].count * sizeof *values);
  return CT_OK;
}

/* Constants, which state dicts lack, have their initial values or those of model.from. */
static int read_plain(ct_setup_t *s, const ct_weights_file_t *w, plain_t *p)
{
  int rc = CT_OK, constants = 0;
  for (int i = 0; i < p->g->params; i++) {
    const ct_param_t *param = &p->g->param[i];
    if (p->from[i] >= 0) {
      CT_TRY(read_param(param, p->from[i], w, &p->of[i]));
      continue;
    }
    p->of[i] = ct_mem_array(param->count, sizeof *p->of[i], "a constant");
    CT_TRY(p->of[i] ? CT_OK : CT_ERR_NOMEM);
    ct_graph_init_param(p->g, i, (uint64_t)s->cfg.run.seed, p->of[i]);
    constants++;
  }
  if (constants) CT_TRY(ct_setup_read_constants(s, take_constant, p));
out:
  return rc;
}

/* Reads all weights of the original model, then computes those of the folded model. */
static int read_weights(ct_setup_t *s, const char *key, ct_weights_file_t *w)
{
  int rc = CT_OK;
  const ct_graph_t *g = s->graph, *folded = s->fold.graph;
  float **plain = ct_mem_array(g->params, sizeof *plain, "the weights"), *own = NULL;
  ct_match_t m = {0};
  CT_TRY(plain ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_model_match(s, key, w, &m));
  CT_TRY(read_plain(s, w, &(plain_t){g, m.from, plain}));
  for (int i = 0; i < folded->params; i++) {
    own = ct_mem_array(folded->param[i].count, sizeof *own, "the weights");
    CT_TRY(own ? CT_OK : CT_ERR_NOMEM);
    ct_fold_param(&s->fold, i, (const float *const *)plain, own);
    CT_TRY(ct_trainer_set(s->trainer, i, own));
    ct_mem_free(own);
    own = NULL;
  }
out:
  ct_match_clear(&m);
  ct_mem_free(own);
  for (int i = 0; plain && i < g->params; i++)
    ct_mem_free(plain[i]);
  ct_mem_free(plain);
  return rc;
}

int ct_predict_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_ckpt_found_t found = {0};
  CT_TRY_ALL(s->topo, ct_fold_make(s->graph, &s->fold));
  CT_TRY_ALL(s->topo, w ? ct_model_store(w, &found) : CT_OK);
  if (ct_quantized_is(s->topo, &found)) {
    CT_TRY(ct_quantized_open(s, &found));
    goto out;
  }
  CT_TRY(ct_setup_trainer(s, 0));
  ct_heartbeat_at("reading the weights", -1);
  if (w && s->topo->rank == 0) rc = read_weights(s, key, w);
  CT_TRY(ct_agree(s->topo, rc));
  CT_TRY(ct_trainer_broadcast(s->trainer, 0));
  if (s->fold.norms)
    ct_log(CT_LOG_INFO, "folded %d batchnorm%s; %d layer%s", s->fold.norms,
           s->fold.norms == 1 ? "" : "s", s->fold.graph->layers,
           s->fold.graph->layers == 1 ? " is left" : "s are left");
out:
  ct_ckpt_found_close(&found);
  return rc;
}
