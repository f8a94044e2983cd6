/* From a configuration or a model file to a trainer that predicts.  Rank 0 reads both, and the
 * weights, folds them, and gives them to all. */
#include "app/predict.h"

#include <string.h>

#include "app/builtin.h"
#include "app/quantized.h"
#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "weights/ct_init.h"

/* ---- configuration ---- */

static int is_model_file(const char *path)
{
  enum { MOST = 16 };
  const ct_format_t *formats[MOST];
  int n = 0, row;
  char meant[CT_PATH_MAX]; /* latest, best: what they name */
  while (n < MOST && ct_builtin_weights[n]) {
    formats[n] = &ct_builtin_weights[n]->format;
    n++;
  }
  if (ct_ckpt_follow(path, meant, sizeof meant) != CT_OK) return 0;
  return ct_format_find(formats, n, meant, &row) == CT_OK;
}

/* data.val becomes the input, which has no labels. */
static int take_input(ct_config_t *c, const ct_opt_texts_t *input)
{
  int rc = CT_OK;
  char cwd[CT_PATH_MAX], path[CT_PATH_MAX];
  ct_opt_texts_t *files = &c->data.val;
  if (input->n == 0) return CT_OK;
  CT_TRY(ct_file_cwd(cwd, sizeof cwd));
  for (int i = 0; i < files->n; i++)
    ct_mem_free(files->v[i]);
  ct_mem_free(files->v);
  files->n = 0;
  files->v = ct_mem_array(input->n, sizeof *files->v, "the input");
  CT_TRY(files->v ? CT_OK : CT_ERR_NOMEM);
  for (; files->n < input->n; files->n++) {
    const char *name = input->v[files->n];
    int made_up = strcmp(name, "synthetic") == 0;
    CT_TRY(ct_path_join(path, sizeof path, cwd, name));
    files->v[files->n] = ct_mem_strdup(made_up ? name : path);
    CT_TRY(files->v[files->n] ? CT_OK : CT_ERR_NOMEM);
  }
  while (c->data.target.n) /* none is read */
    ct_mem_free(c->data.target.v[--c->data.target.n]);
  c->data.weight[0] = '\0';
out:
  return rc;
}

/* What the data told the training run: predictions need not see all classes, nor any data. */
static int take_facts(ct_config_t *c, const ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_config_t old = {0};
  const char *text = w->ops->text(w->w, "config");
  if (!text || (c->model.classes && c->model.input.n)) return CT_OK;
  CT_TRY(ct_config_parse(&old, text, strlen(text), "configuration in the model file", NULL, 0));
  if (!c->model.classes) c->model.classes = old.model.classes;
  if (!c->model.input.n) { /* moved */
    c->model.input = old.model.input;
    old.model.input = (ct_opt_doubles_t){0};
  }
out:
  ct_config_clear(&old);
  return rc;
}

/* Samples that are made up need a shape, and flat ones may have one; of several inputs it would not
 * be that of an array. */
static int copy_doubles(const ct_opt_doubles_t *from, ct_opt_doubles_t *to)
{
  if (from->n == 0) return CT_OK;
  to->v = ct_mem_array(from->n, sizeof *to->v, "the shape of a sample");
  if (!to->v) return CT_ERR_NOMEM;
  memcpy(to->v, from->v, (size_t)from->n * sizeof *to->v);
  to->n = from->n;
  return CT_OK;
}

/* The newest checkpoint of the run directory is looked for by its store, and read as weights. */
static int open_weights(const ct_config_t *c, const char *file, ct_weights_file_t *w)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  ct_ckpt_found_t newest = {0};
  if (!file) {
    CT_TRY(ct_path_join(dir, sizeof dir, c->run.dir, "checkpoints"));
    CT_TRY(ct_ckpt_find(ct_builtin_stores, NULL, dir, &newest));
    if (!newest.store)
      CT_FAIL(CT_ERR_USAGE, "%s: there is no checkpoint; name one with --checkpoint FILE", dir);
    file = newest.path;
  }
  CT_TRY(ct_weights_open(ct_builtin_weights, file, NULL, w));
  const char *remark = w->ops->remark(w->w);
  ct_log(CT_LOG_INFO, "weights of %s%s%s", file, remark ? ": " : "", remark ? remark : "");
out:
  ct_ckpt_found_close(&newest);
  return rc;
}

/* A model file has its configuration in it, in which all paths are absolute. */
static int parse_model_file(ct_setup_t *s, const ct_args_t *a, const char *path,
                            ct_weights_file_t *w)
{
  int rc = CT_OK;
  CT_TRY(open_weights(&s->cfg, path, w));
  const char *text = w->ops->text(w->w, "config");
  if (!text)
    CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration: give one, and the file by --checkpoint",
            path);
  CT_TRY(ct_config_parse(&s->cfg, text, strlen(text), path, a->set, a->sets));
out:
  return rc;
}

/* Rank 0. */
static int read_all(ct_setup_t *s, const ct_args_t *a, const char *what, const char *checkpoint,
                    const ct_opt_texts_t *input, ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_config_t *c = &s->cfg;
  int alone = is_model_file(what);
  if (alone && checkpoint && *checkpoint)
    CT_FAIL(CT_ERR_USAGE, "%s is a model file itself: not with --checkpoint", what);
  if (alone)
    CT_TRY(parse_model_file(s, a, what, w));
  else
    CT_TRY(ct_setup_parse(c, what, a));
  ct_opt_clear(ct_parallel_rows, &c->parallel); /* how a run's ranks shared the work is no matter */
  CT_TRY(ct_opt_defaults(ct_parallel_rows, &c->parallel));
  CT_TRY(take_input(c, input));
  CT_TRY(ct_setup_resolve(c, s->topo->size, 0));
  if (c->data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "%s: data.val is not set: there is nothing to predict", c->where);
  if (!alone && !(checkpoint && !*checkpoint)) CT_TRY(open_weights(c, checkpoint, w));
  if (w->ops) CT_TRY(take_facts(c, w));
  if (!c->data.shape.n && c->data.input.n < 2)
    CT_TRY(copy_doubles(&c->model.input, &c->data.shape));
out:
  return rc;
}

int ct_predict_config(ct_setup_t *s, const ct_args_t *a, const char *what, const char *checkpoint,
                      const ct_opt_texts_t *input, ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  ct_beat_at("reading the configuration", -1);
  if (s->topo->rank == 0) rc = read_all(s, a, what, checkpoint, input, w);
  if (s->topo->rank == 0 && rc == CT_OK) rc = ct_config_dump(&s->cfg, &text);
  CT_TRY(ct_setup_share_config(s, what, rc, &text));
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- weights ---- */

/* Which tensor is whose, by the rules of `init` as they are without a word: all must fit. */
static int match(const ct_setup_t *s, const ct_weights_file_t *w, ct_match_t *m)
{
  int rc = CT_OK;
  ct_init_opts_t strict = {0};
  CT_TRY(ct_opt_defaults(ct_init_rows, &strict));
  CT_TRY(ct_match_make(w, s->graph, &strict, m));
  CT_TRY(ct_match_judge(m, &strict, w->path));
out:
  ct_opt_clear(ct_init_rows, &strict);
  return rc;
}

static int read_param(const ct_param_t *p, int from, const ct_weights_file_t *w, float **out)
{
  int rc = CT_OK;
  *out = ct_mem_array(p->count, sizeof **out, "the weights");
  CT_TRY(*out ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_weights_floats(w, from, *out));
  ct_beat_progress();
out:
  return rc;
}

/* All of the whole model's weights, then the folded one's. */
static int read_weights(ct_setup_t *s, const ct_weights_file_t *w)
{
  int rc = CT_OK;
  const ct_graph_t *g = s->graph, *folded = s->fold.graph;
  float **plain = ct_mem_array(g->params, sizeof *plain, "the weights"), *own = NULL;
  ct_match_t m = {0};
  CT_TRY(plain ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(match(s, w, &m));
  for (int i = 0; i < g->params; i++)
    CT_TRY(read_param(&g->param[i], m.from[i], w, &plain[i]));
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

/* Rank 0: the file's store, if it is a checkpoint's. */
static int open_store(const ct_weights_file_t *w, ct_ckpt_found_t *out)
{
  if (!w || w->ops != &ct_weights_hdf5) return CT_OK;
  return ct_ckpt_find(ct_builtin_stores, w->path, NULL, out);
}

int ct_predict_trainer(ct_setup_t *s, const ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_ckpt_found_t found = {0};
  CT_TRY_ALL(s->topo, ct_fold_make(s->graph, &s->fold));
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? open_store(w, &found) : CT_OK);
  if (ct_quantized_is(s->topo, &found)) {
    CT_TRY(ct_quantized_open(s, &found));
    goto out;
  }
  CT_TRY(ct_setup_trainer(s, 0));
  ct_beat_at("reading the weights", -1);
  if (w && s->topo->rank == 0) rc = read_weights(s, w);
  CT_TRY(ct_agree(s->topo, rc));
  CT_TRY(ct_trainer_broadcast(s->trainer, 0));
  ct_log(CT_LOG_INFO, "folded %d batchnorm%s; %d layer%s", s->fold.norms,
         s->fold.norms == 1 ? "" : "s", s->fold.graph->layers,
         s->fold.graph->layers == 1 ? " is left" : "s are left");
out:
  ct_ckpt_found_close(&found);
  return rc;
}
