/* Opens a file, translates it, and gives the results. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

/* ---- inputs ---- */

static int open_refuse(const ct__im_t *t, const char *fmt, const char *name)
{
  ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, fmt, name);
  return ct_err_prefix(CT_ERR_UNSUP, "%s: ", t->g->path);
}

/* Returns the index of the only dim that is the batch; -1: there is none, or not one of size N. */
static int open_batch_dim(const ct_pt2_value_t *v)
{
  int found = -1;
  for (int i = 0; i < v->ndim; i++) {
    if (!v->dim[i].batch) continue;
    if (found >= 0 || v->dim[i].n != 1) return -1;
    found = i;
  }
  return found;
}

/* Returns the name of an input in the layers. */
static const char *open_from(ct__im_t *t, int i, const char *name)
{
  if (i == 0) return "input";
  const char *from = ct__im_format(t, "input.%.60s", name);
  for (char *c = (char *)(uintptr_t)from; c && *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_-", *c) && c != from + 5) *c = '_';
  return from;
}

/* Makes the layer of an input: a sample has its batch in dim 0, and at least one dim more. */
static int open_input(ct__im_t *t, int i)
{
  int rc = CT_OK, value = t->g->input[i], layer, at, dims[CT_MAX_DIMS];
  const ct_pt2_value_t *v = &t->g->value[value];
  ct_import_input_t *in = &t->input[i];
  ct_shape_t s;
  CT_TRY(ct__im_shape(t, value, &s));
  at = open_batch_dim(v);
  if (at < 0)
    return open_refuse(t,
                       "input '%s': its shape does not have the batch size as one of its dims: "
                       "export with dynamic_shapes that names this dim for each input",
                       v->name);
  in->name = v->name;
  in->from = open_from(t, i, v->name);
  if (!in->from) return CT_ERR_NOMEM;
  in->integer = v->type != CT_ELEM_F32 && v->type != CT_ELEM_F64 && v->type != CT_ELEM_F16 &&
                v->type != CT_ELEM_BF16;
  in->shape = ct_shape_dims(s.ndim > 1 ? s.ndim : 2, s.dim);
  memmove(in->shape.dim + 1, in->shape.dim, (size_t)at * sizeof s.dim[0]);
  in->shape.dim[0] = 1;
  in->shape.batch = 1;
  CT_TRY(ct__im_add(t, &layer, "", &in->shape, 0, NULL, NULL));
  t->layer[layer].text = in->from;
  if (s.ndim == 1) {
    CT_TRY(ct__im_reshape(t, layer, &s, &layer));
  } else {
    for (int k = 0; k < s.ndim; k++)
      dims[k] = k == at ? 0 : k < at ? k + 1 : k;
    CT_TRY(ct__im_permute(t, layer, dims, &layer));
  }
  t->value[value].layer = layer;
out:
  return rc;
}

static int open_inputs(ct__im_t *t)
{
  int rc = CT_OK;
  if (!t->g->dynamic)
    return open_refuse(t,
                       "%s: export with torch.export.export(model, inputs, dynamic_shapes=...), "
                       "where dim 0 of each input is torch.export.Dim(\"batch\")",
                       "the batch size was fixed at export");
  t->input = ct__im_alloc(t, t->g->inputs, sizeof *t->input);
  if (!t->input) return CT_ERR_NOMEM;
  for (int i = 0; i < t->g->inputs; i++) {
    const ct_pt2_value_t *v = &t->g->value[t->g->input[i]];
    if (v->becomes >= 0) return open_refuse(t, "input '%s' is changed by the model", v->name);
    CT_TRY(open_input(t, i));
  }
out:
  return rc;
}

/* ---- outputs ---- */

static int open_outputs(ct__im_t *t)
{
  int rc = CT_OK;
  t->output = ct__im_alloc(t, t->g->outputs, sizeof *t->output);
  if (!t->output) return CT_ERR_NOMEM;
  for (int i = 0; i < t->g->outputs; i++) {
    const ct_pt2_output_t *o = &t->g->output[i];
    int layer;
    if (o->value < 0)
      return open_refuse(t, "output '%s' is not a tensor: leave it out of what forward() returns",
                         o->name);
    CT_TRY(ct__im_operand(t, o->value, &layer));
    t->layer[layer].live = 1;
    if (t->layer[layer].kind && !*t->layer[layer].kind)
      return open_refuse(t, "output '%s' is an input", o->name);
    t->output[i].name = o->name;
    t->output[i].shape = t->layer[layer].shape;
  }
out:
  return rc;
}

/* Gives each output a layer of its own: not an input, and not that of another output. */
static int open_output_layers(ct__im_t *t)
{
  int rc = CT_OK;
  for (int i = 0; i < t->g->outputs; i++) {
    int layer;
    CT_TRY(ct__im_operand(t, t->g->output[i].value, &layer));
    t->output[i].layer = t->layer[layer].name;
  }
out:
  return rc;
}

/* ---- constants and the state dict ---- */

static int open_constants(ct__im_t *t)
{
  t->constant = ct__im_alloc(t, t->layers, sizeof *t->constant);
  t->constant_layer = ct__im_alloc(t, t->layers, sizeof *t->constant_layer);
  if (!t->constant || !t->constant_layer) return CT_ERR_NOMEM;
  for (int i = 0; i < t->layers; i++) {
    const ct__im_layer_t *l = &t->layer[i];
    if (!l->live || !ct__im_is(t, i, "constant")) continue;
    t->constant_layer[t->constants] = i;
    t->constant[t->constants++] = (ct_import_constant_t){l->name, l->shape};
    t->facts.folded += l->data || t->g->value[l->value].kind == CT_PT2_FOLDED;
  }
  return CT_OK;
}

/* Marks the values that live layers have as parameters. */
static void open_mark_states(const ct__im_t *t, char *used)
{
  for (int i = 0; i < t->layers; i++) {
    const ct__im_layer_t *l = &t->layer[i];
    if (l->live && l->value >= 0) used[l->value] = 1;
    for (int k = 0; l->live && k < l->weights; k++)
      used[l->weight[k]] = 1;
  }
}

static int open_states(ct__im_t *t)
{
  int rc = CT_OK;
  char *used = ct__im_alloc(t, t->g->values, 1);
  t->state = ct__im_alloc(t, 2 * (int64_t)t->g->states, sizeof *t->state);
  if (!t->state || !used) return CT_ERR_NOMEM;
  open_mark_states(t, used);
  for (int i = 0; i < t->g->states; i++) {
    int value = t->g->state[i], root = ct__im_root(t, value);
    const ct_pt2_value_t *v = &t->g->value[value];
    ct_import_state_t s = {.name = v->state, .shape = ct_shape(1, 1), .complex = v->pairs};
    int64_t dim[CT_MAX_DIMS] = {0};
    for (int k = 0; k < v->ndim && k < CT_MAX_DIMS; k++)
      dim[k] = v->dim[k].n;
    if (v->ndim <= CT_MAX_DIMS) s.shape = ct_shape_dims(v->ndim, dim);
    int parameter = v->kind == CT_PT2_PARAMETER;
    t->facts.narrowed += parameter && v->type == CT_ELEM_F64;
    if (!parameter && !v->persistent) continue;
    s.kind = CT_IMPORT_TIED;
    s.with = t->g->value[root].state;
    if (root != value) t->state[t->states++] = s;
    s.with = NULL;
    s.kind = CT_IMPORT_UNUSED;
    if (root == value && !used[value]) t->state[t->states++] = s;
    s.kind = CT_IMPORT_FROZEN;
    if (root == value && used[value] && parameter && !v->trained) t->state[t->states++] = s;
  }
  return rc;
}

/* ---- the handle ---- */

static int open_run(ct__im_t *t)
{
  int rc = CT_OK;
  t->value = ct__im_alloc(t, t->g->values, sizeof *t->value);
  if (!t->value) return CT_ERR_NOMEM;
  for (int i = 0; i < t->g->values; i++)
    t->value[i] = (ct__im_value_t){.layer = -1, .uniform = -1};
  CT_TRY(open_inputs(t));
  CT_TRY(ct__im_translate(t));
  CT_TRY(open_outputs(t));
  ct__im_mark(t);
  CT_TRY(ct__im_check(t));
  for (int i = 0; i < t->g->inputs; i++)
    t->input[i].used = 0;
  for (int i = 0; i < t->layers; i++)
    for (int k = 0; k < t->g->inputs; k++)
      if (t->layer[i].text == t->input[k].from) t->input[k].used |= t->layer[i].live;
  CT_TRY(ct__im_name(t));
  CT_TRY(ct__im_write(t));
  CT_TRY(open_output_layers(t));
  CT_TRY(open_constants(t));
  CT_TRY(open_states(t));
  t->facts.torch = t->g->torch;
  t->facts.batch = t->g->batch;
  t->facts.autocast = t->g->autocast;
out:
  return rc;
}

int ct_import_open(const char *path, ct_import_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct__im_t *t = ct_mem_alloc(sizeof *t, "translation of a program");
  if (!t) return CT_ERR_NOMEM;
  t->at = -1;
  CT_TRY(ct_pt2_open(path, &t->g));
  rc = open_run(t);
  if (rc == CT_ERR_UNSUP && strncmp(ct_err_last()->text, t->g->path, strlen(t->g->path)) != 0)
    ct_err_prefix(rc, "%s: ", t->g->path); /* a shape of an input or output */
  CT_TRY(rc);
  *out = t;
  t = NULL;
out:
  ct_import_close(t);
  return rc;
}

void ct_import_close(ct_import_t *im)
{
  if (!im) return;
  ct__im_free(im);
  ct_pt2_close(im->g);
  ct_mem_free(im);
}

const char *ct_import_layers(const ct_import_t *im)
{
  return im->text.data ? im->text.data : "";
}

int ct_import_inputs(const ct_import_t *im)
{
  return im->g->inputs;
}

const ct_import_input_t *ct_import_input(const ct_import_t *im, int i)
{
  return &im->input[i];
}

int ct_import_outputs(const ct_import_t *im)
{
  return im->g->outputs;
}

const ct_import_output_t *ct_import_output(const ct_import_t *im, int i)
{
  return &im->output[i];
}

int ct_import_constants(const ct_import_t *im)
{
  return im->constants;
}

const ct_import_constant_t *ct_import_constant(const ct_import_t *im, int i)
{
  return &im->constant[i];
}

int ct_import_read(const ct_import_t *im, int i, float *to)
{
  const ct__im_layer_t *l = &im->layer[im->constant_layer[i]];
  if (!l->data) return ct_pt2_floats(im->g, l->value, to);
  memcpy(to, l->data, (size_t)ct_shape_count(&l->shape) * sizeof *to);
  return CT_OK;
}

int ct_import_states(const ct_import_t *im)
{
  return im->states;
}

const ct_import_state_t *ct_import_state(const ct_import_t *im, int i)
{
  return &im->state[i];
}

const ct_import_facts_t *ct_import_facts(const ct_import_t *im)
{
  return &im->facts;
}
