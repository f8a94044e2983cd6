/* `model.from`: takes layers, the shapes of the inputs and the initial weights from a program of
 * torch.export.  Rank 0 translates the file; the resolved configuration, which all ranks get and
 * checkpoints hold, contains the layers, so only a new run needs the file. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_heartbeat.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "import/ct_import.h"
#include "setup/ct_setup.h"

/* ---- lists of texts ---- */

static int add_text(ct_opt_texts_t *list, const char *text)
{
  int64_t cap = list->n;
  if (ct_mem_grow((void **)&list->v, &cap, list->n + 1, sizeof *list->v) != CT_OK)
    return CT_ERR_NOMEM;
  list->v[list->n] = ct_mem_strdup(text);
  return list->v[list->n++] ? CT_OK : CT_ERR_NOMEM;
}

static void clear_list(ct_opt_texts_t *list)
{
  for (int i = 0; i < list->n; i++)
    ct_mem_free(list->v[i]);
  ct_mem_free(list->v);
  *list = (ct_opt_texts_t){0};
}

/* ---- layers ---- */

/* Adds a layer that only keeps a tensor for state dicts. */
static int keep_state(const ct_import_state_t *s, ct_str_t *text)
{
  int rc = CT_OK, n = s->shape.ndim ? s->shape.ndim : 1;
  const char *tail = strrchr(s->name, '.');
  if (strcmp(tail ? tail + 1 : s->name, "num_batches_tracked") == 0) return CT_OK;
  CT_TRY(ct_str_add(text, "- name: %s\n  buffer: {shape: [", s->name));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(text, "%s%lld", i ? ", " : "",
                      s->shape.ndim ? (long long)s->shape.dim[i] : 1LL));
  CT_TRY(ct_str_add(text, "]%s}\n", s->complex ? ", complex: yes" : ""));
out:
  return rc;
}

/* Replaces the name of an input in a layer's `from`. */
static int rename_input(ct_yaml_t *from, const char *was, const char *is)
{
  int rc = CT_OK;
  for (ct_yaml_t *n = from->child; n && rc == CT_OK; n = n->next)
    rc = rename_input(n, was, is);
  if (rc != CT_OK || from->kind != CT_YAML_SCALAR || strcmp(from->text, was) != 0) return rc;
  char *copy = ct_mem_strdup(is);
  if (!copy) return CT_ERR_NOMEM;
  ct_mem_free(from->text);
  from->text = copy;
  return CT_OK;
}

static int take_layers(ct_config_t *c, const ct_import_t *im)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  for (int i = 0; i < ct_import_states(im); i++)
    if (ct_import_state(im, i)->kind == CT_IMPORT_UNUSED)
      CT_TRY(keep_state(ct_import_state(im, i), &text));
  CT_TRY(ct_str_add(&text, "%s", ct_import_layers(im)));
  CT_TRY(ct_yaml_parse(text.data, text.len, c->model.from, &c->model.layers));
  clear_list(&c->model.outputs);
  for (int i = 0; i < ct_import_outputs(im); i++)
    CT_TRY(add_text(&c->model.outputs, ct_import_output(im, i)->layer));
out:
  ct_str_clear(&text);
  return rc;
}

/* Takes over what the file says about single parameters. */
static int take_states(ct_config_t *c, const ct_import_t *im)
{
  int rc = CT_OK;
  ct_str_t tie = {0};
  for (int i = 0; i < ct_import_states(im); i++) {
    const ct_import_state_t *s = ct_import_state(im, i);
    if (s->kind == CT_IMPORT_FROZEN) CT_TRY(add_text(&c->train.freeze, s->name));
    if (s->kind != CT_IMPORT_TIED) continue;
    ct_str_clear(&tie);
    CT_TRY(ct_str_add(&tie, "%s=%s", s->name, s->with));
    CT_TRY(add_text(&c->model.tied, tie.data));
  }
out:
  ct_str_clear(&tie);
  return rc;
}

/* ---- inputs ---- */

/* Gives each input of the model an array: data.input names one for each, in order; by default they
 * have the names of forward()'s arguments. */
static int take_arrays(ct_config_t *c, const ct_import_t *im)
{
  int rc = CT_OK, n = ct_import_inputs(im);
  ct_opt_texts_t *arrays = &c->data.input;
  int is_default = arrays->n == 1 && strcmp(arrays->v[0], "images") == 0;
  if (n == 1) return CT_OK;
  c->data.join_inputs = 0;
  if (is_default) {
    clear_list(arrays);
    for (int i = 0; i < n; i++)
      CT_TRY(add_text(arrays, ct_import_input(im, i)->name));
  }
  if (arrays->n != n)
    CT_FAIL(CT_ERR_USAGE, "%s: the model has %d inputs, but data.input names %d arrays",
            c->model.from, n, arrays->n);
  for (int i = 1; i < n; i++) {
    char is[CT_NAME_MAX];
    CT_TRY(ct_text_format(is, sizeof is, "input.%s", arrays->v[i]));
    for (ct_yaml_t *l = c->model.layers->child; l; l = l->next) {
      ct_yaml_t *from = l->kind == CT_YAML_MAP ? ct_yaml_find(l, "from") : NULL;
      if (from) CT_TRY(rename_input(from, ct_import_input(im, i)->from, is));
    }
  }
out:
  return rc;
}

static int is_synthetic(const ct_config_t *c)
{
  const ct_opt_texts_t *files = c->data.train.n ? &c->data.train : &c->data.val;
  return files->n && strcmp(files->v[0], "synthetic") == 0;
}

/* Synthetic labels are of the classes that the model has. */
static void take_classes(ct_config_t *c, const ct_shape_t *y)
{
  if (c->model.classes || !is_synthetic(c)) return;
  c->model.classes = c->data.classes = y->ndim > 2 ? y->dim[1] : ct_shape_sample(y);
}

/* Gives synthetic samples the shape that the model takes; and stored ones whose shape could be read
 * in two ways: N x A x B may be an image of one channel, or a sequence. */
static int take_sample_shape(ct_config_t *c, const ct_shape_t *x)
{
  if (c->data.shape.n || (x->ndim != 3 && !is_synthetic(c))) return CT_OK;
  c->data.shape.v = ct_mem_array(x->ndim - 1, sizeof *c->data.shape.v, "the shape of a sample");
  if (!c->data.shape.v) return CT_ERR_NOMEM;
  for (int i = 1; i < x->ndim; i++)
    c->data.shape.v[c->data.shape.n++] = (double)x->dim[i];
  return CT_OK;
}

static int take_shapes(ct_config_t *c, const ct_import_t *im)
{
  ct_inputs_t extra = {.n = ct_import_inputs(im) - 1};
  if (c->model.input.n || c->model.inputs.n) return CT_OK; /* the model is checked against them */
  for (int i = 0; i < extra.n; i++) {
    extra.x[i] = ct_import_input(im, i + 1)->shape;
    int rc = ct_text_format(extra.name[i], CT_INPUT_NAME, "%s", c->data.input.v[i + 1]);
    if (rc != CT_OK) return rc;
  }
  return ct_model_note_input(&c->model, &ct_import_input(im, 0)->shape, &extra);
}

/* ---- the file ---- */

static int translate(ct_config_t *c)
{
  int rc = CT_OK;
  ct_import_t *im = NULL;
  ct_heartbeat_at("translating the imported model", -1);
  rc = ct_import_open(c->model.from, &im);
  if (rc != CT_OK) return rc == CT_ERR_NOMEM ? rc : ct_err_prefix(CT_ERR_USAGE, "model.from: ");
  if (ct_import_inputs(im) < 1 || ct_import_inputs(im) > 1 + CT_INPUTS_EXTRA)
    CT_FAIL(CT_ERR_USAGE, "model.from: %s: the model has %d inputs, expected 1 to %d",
            c->model.from, ct_import_inputs(im), 1 + CT_INPUTS_EXTRA);
  CT_TRY(take_layers(c, im));
  CT_TRY(take_states(c, im));
  CT_TRY(take_arrays(c, im));
  CT_TRY(take_sample_shape(c, &ct_import_input(im, 0)->shape));
  take_classes(c, &ct_import_output(im, 0)->shape);
  CT_TRY(take_shapes(c, im));
  if (c->init.from[0]) goto out;
  ct_mem_free(c->init.from);
  c->init.from = ct_mem_strdup(c->model.from);
  if (!c->init.from) rc = CT_ERR_NOMEM;
out:
  ct_import_close(im);
  return rc;
}

/* Moves the model of an earlier run of this configuration into it. */
static void move_model(ct_config_t *c, ct_config_t *old)
{
  ct_model_opts_t own = c->model;
  c->model = old->model;
  old->model = own;
  ct_opt_texts_t freeze = c->train.freeze, input = c->data.input;
  c->train.freeze = old->train.freeze;
  old->train.freeze = freeze;
  c->data.input = old->data.input;
  old->data.input = input;
  c->data.join_inputs = old->data.join_inputs;
}

/* Without the file, takes the layers from the run directory, which an earlier start has made. */
static int take_from_run(ct_config_t *c, int *found)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_config_t old = {0};
  *found = 0;
  if (ct_path_join(path, sizeof path, c->run.dir, "config.yaml") != CT_OK) return CT_OK;
  if (!ct_file_exists(path) || ct_config_read(&old, path, NULL, 0) != CT_OK) goto out;
  *found = old.model.layers && old.model.from && strcmp(old.model.from, c->model.from) == 0;
  if (*found) move_model(c, &old);
out:
  ct_config_clear(&old);
  return rc;
}

int ct_setup_import(ct_config_t *c)
{
  int rc = CT_OK, found = 0;
  CT_TRY(ct_setup_numbers(c));
  if (!c->model.from[0] || c->model.layers) goto out; /* or it is translated already */
  if (c->model.family[0])
    CT_FAIL(CT_ERR_USAGE,
            "%s: model.family and model.from are both given: one of them makes the "
            "model",
            c->where);
  if (!ct_file_exists(c->model.from)) CT_TRY(take_from_run(c, &found));
  if (!found) CT_TRY(translate(c));
out:
  return rc;
}

/* ---- constants ---- */

static int has_constants(const ct_graph_t *g)
{
  for (int i = 0; i < g->params; i++)
    if (g->param[i].spec.buffer == CT_CONSTANT) return 1;
  return 0;
}

static int read_constant(ct_setup_t *s, const ct_import_t *im, int i, ct_constant_take_t take,
                         void *ctx)
{
  int rc = CT_OK;
  float *values = NULL;
  const ct_import_constant_t *k = ct_import_constant(im, i);
  int param = ct_graph_find_param(s->graph, k->name);
  if (param < 0) return CT_OK; /* the configuration was changed by hand */
  if (s->graph->param[param].count != ct_shape_count(&k->shape))
    CT_FAIL(CT_ERR_FORMAT, "%s: constant '%s' is not as large as in model.layers",
            s->cfg.model.from, k->name);
  values = ct_mem_array(ct_shape_count(&k->shape), sizeof *values, "a constant");
  CT_TRY(values ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_import_read(im, i, values));
  CT_TRY(take(ctx, param, values));
out:
  ct_mem_free(values);
  return rc;
}

int ct_setup_read_constants(ct_setup_t *s, ct_constant_take_t take, void *ctx)
{
  int rc = CT_OK;
  ct_import_t *im = NULL;
  if (!has_constants(s->graph) || !s->cfg.model.from[0]) return CT_OK;
  CT_TRY(ct_import_open(s->cfg.model.from, &im));
  for (int i = 0; i < ct_import_constants(im); i++)
    CT_TRY(read_constant(s, im, i, take, ctx));
out:
  ct_import_close(im);
  return rc;
}

static int set_constant(void *ctx, int param, const float *values)
{
  return ct_trainer_set(ctx, param, values);
}

int ct_setup_constants(ct_setup_t *s)
{
  int rc = CT_OK;
  if (!has_constants(s->graph) || !s->cfg.model.from[0]) return CT_OK;
  CT_TRY_ALL(s->topo,
             s->topo->rank == 0 ? ct_setup_read_constants(s, set_constant, s->trainer) : CT_OK);
  CT_TRY(ct_trainer_broadcast(s->trainer, 0));
out:
  return rc;
}

/* ---- data ---- */

int ct_setup_fit_extra(const ct_model_opts_t *o, ct_dataset_t *d)
{
  int rc = CT_OK;
  ct_inputs_t noted;
  CT_TRY(ct_model_inputs(o, &noted));
  for (int i = 0; i < noted.n; i++)
    for (int k = 0; k < d->extra.n; k++)
      if (strcmp(noted.name[i], d->extra.name[k]) == 0 && !d->info.extra_last[k] &&
          ct_shape_sample(&noted.x[i]) == ct_shape_sample(&d->extra.x[k]))
        d->extra.x[k] = noted.x[i];
out:
  return rc;
}
