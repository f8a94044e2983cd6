/* Appends layers to a graph.  A layer is only added, with its parameters, once its name, inputs and
 * output shape are checked.  So every layer of a graph is valid and comes after its inputs, and
 * later code need not check again.
 *
 * Initial values are drawn from (seed, parameter name), so adding or reordering layers does not
 * change the initial values of other layers. */
#include "model/graph_build.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

/* Leaves space for the suffix of a parameter. */
enum { MAX_NAME = CT_NAME_MAX - 16 };

/* ---- layers ---- */

const char *ct__graph_sample_text(const ct_shape_t *s, char *buf, size_t cap)
{
  ct_shape_t sample = *s;
  sample.ndim--;
  memmove(sample.dim, s->dim + 1, (CT_MAX_DIMS - 1) * sizeof s->dim[0]);
  return ct_shape_text(&sample, buf, cap);
}

int ct_graph_extra(int in)
{
  return in <= CT__INPUT_EXTRA(0) ? CT__INPUT_EXTRA(0) - in : -1;
}

static const ct_shape_t *shape_of(const ct_graph_t *g, int in)
{
  int k = ct_graph_extra(in);
  if (k >= 0) return &g->extra.x[k];
  return in < 0 ? &g->input : &g->layer[in].out;
}

const ct_shape_t *ct__graph_shape(const ct_graph_t *g, int in)
{
  return in >= g->layers || ct_graph_extra(in) >= g->extra.n ? NULL : shape_of(g, in);
}

/* Returns the shapes of the inputs of a layer for one sample; ndim of others is 0. */
static void inputs_of(const ct_graph_t *g, const ct_layer_t *l, ct_shape_t in[CT_OP_INPUTS])
{
  memset(in, 0, CT_OP_INPUTS * sizeof *in);
  for (int i = 0; i < l->inputs; i++)
    in[i] = *shape_of(g, l->in[i]);
}

/* Returns the shape for a batch of n samples. */
static ct_shape_t of_batch(ct_shape_t s, int64_t n)
{
  for (int i = 0; i < s.ndim; i++)
    if (s.batch >> i & 1) s.dim[i] *= n;
  s.batch = 0;
  return s;
}

/* Says where the samples are, and selects the layer's own mask. */
static void describe_samples(const ct_layer_t *l, int layer, ct_op_desc_t *d)
{
  d->u.dropout.layer = (uint32_t)layer;
  d->u.dropout.dim = l->out.batch ? __builtin_ctz(l->out.batch) : 0;
  d->u.dropout.rows = (int)l->out.dim[d->u.dropout.dim];
}

void ct_graph_op(const ct_graph_t *g, int layer, int64_t n, ct_op_desc_t *d)
{
  const ct_layer_t *l = &g->layer[layer];
  ct_shape_t in[CT_OP_INPUTS], out = of_batch(l->out, n);
  inputs_of(g, l, in);
  ct_op_kind_t kind = l->ops->choose ? l->ops->choose(l->opts, in) : l->ops->op;
  for (int i = 0; i < l->inputs; i++)
    in[i] = of_batch(in[i], n);
  ct_op_desc_init(d, kind, l->inputs ? &in[0] : &out, &out);
  if (ct_op_is(d->kind, CT_KIND_SHAPES))
    ct_op_desc_more(d, l->inputs > 1 ? &in[1] : NULL, l->inputs > 2 ? &in[2] : NULL);
  if (l->ops->attributes) l->ops->attributes(l->opts, d);
  if (d->kind == CT_OP_RANDOM) {
    d->u.random.layer = (uint32_t)layer; /* selects the layer's own numbers */
    d->u.random.rows = l->out.dim[0] > 1 ? (int)l->out.dim[0] : 0;
  }
  if (d->kind == CT_OP_DROPOUT) describe_samples(l, layer, d);
}

int ct__graph_check_output(const ct_graph_t *g, int64_t classes)
{
  int rc = CT_OK;
  const ct_layer_t *last = &g->layer[ct_graph_output(g, 0)];
  char shape[80];
  const ct_shape_t *y = &last->out;
  int by_pixel = y->ndim > 2 && (y->dim[1] == classes || y->dim[y->ndim - 1] == classes ||
                                 classes == 1); /* one value of a pixel: N x H x W, too */
  if (ct_graph_outputs(g) > 1) return CT_OK;    /* the losses say what each must be */
  if (last->out.batch != 1)
    CT_FAIL(CT_ERR_SHAPE, "the %s layer '%s' (%s) gives %s, whose first dim does not count samples",
            g->outputs ? "output" : "last", last->name, last->ops->kind,
            ct_shape_text(&last->out, shape, sizeof shape));
  if (ct_shape_sample(&last->out) != classes && !by_pixel)
    CT_FAIL(CT_ERR_SHAPE,
            "the %s layer '%s' (%s) gives %s, but the output must be %" PRId64
            " values, one for each class or target, of a sample or of each of its pixels",
            g->outputs ? "output" : "last", last->name, last->ops->kind,
            ct__graph_sample_text(&last->out, shape, sizeof shape), classes);
out:
  return rc;
}

int ct_layer_tracks(const ct_graph_t *g, const ct_layer_t *l)
{
  return l->ops->op == CT_OP_BNORM && g->param[l->param[2]].spec.buffer != CT_CONSTANT;
}

int ct_graph_outputs(const ct_graph_t *g)
{
  return g->outputs ? g->outputs : 1;
}

int ct_graph_output(const ct_graph_t *g, int k)
{
  return g->outputs ? g->output[k] : g->layers - 1;
}

int ct_graph_is_output(const ct_graph_t *g, int layer)
{
  for (int k = 0; k < ct_graph_outputs(g); k++)
    if (ct_graph_output(g, k) == layer) return 1;
  return 0;
}

static int find_layer(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->layers; i++)
    if (strcmp(g->layer[i].name, name) == 0) return i;
  return -1;
}

int ct__graph_set_outputs(ct_graph_t *g, const ct_opt_texts_t *names)
{
  int rc = CT_OK;
  char shape[80];
  if (names->n > CT_OUTPUTS)
    CT_FAIL(CT_ERR_USAGE, "model.outputs: %d names, where a model has up to %d outputs", names->n,
            CT_OUTPUTS);
  for (int k = 0; k < names->n; k++) {
    int i = find_layer(g, names->v[k]);
    if (i < 0) CT_FAIL(CT_ERR_USAGE, "model.outputs: no layer is called '%.80s'", names->v[k]);
    for (int j = 0; j < k; j++)
      if (g->output[j] == i)
        CT_FAIL(CT_ERR_USAGE, "model.outputs: '%.80s' comes twice", names->v[k]);
    if (g->layer[i].out.batch != 1)
      CT_FAIL(CT_ERR_USAGE,
              "model.outputs: '%.80s' gives %s, whose first dim does not count the samples",
              names->v[k], ct_shape_text(&g->layer[i].out, shape, sizeof shape));
    g->output[k] = i;
  }
  g->outputs = names->n;
out:
  return rc;
}

void ct__layer_options_free(const ct_layer_ops_t *ops, void *opts)
{
  if (opts) ct_opt_clear(ops->opts, opts);
  ct_mem_free(opts);
}

int ct__layer_options(const ct_layer_ops_t *ops, const ct_yaml_t *map, const char *where,
                      void **out)
{
  int rc = CT_OK;
  *out = NULL;
  void *opts = ct_mem_alloc(ops->opts_bytes, "layer options");
  if (!opts) return CT_ERR_NOMEM;
  CT_TRY(ct_opt_defaults(ops->opts, opts));
  CT_TRY(ct_opt_read(ops->opts, opts, map, where, ops->kind, NULL));
  *out = opts;
  opts = NULL;
out:
  ct__layer_options_free(ops, opts);
  return rc;
}

/* Checks the name of a layer, which becomes part of names in files. */
static int check_name(const ct_graph_t *g, const char *name)
{
  int rc = CT_OK;
  if (!*name) CT_FAIL(CT_ERR_USAGE, "a layer's name is empty");
  if (strlen(name) > MAX_NAME)
    CT_FAIL(CT_ERR_USAGE, "a layer's name may have %d characters at most", MAX_NAME);
  for (const char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
      CT_FAIL(CT_ERR_USAGE, "a layer's name may have letters, digits, '_', '.' and '-' only");
  if (strcmp(name, "input") == 0)
    CT_FAIL(CT_ERR_USAGE, "a layer must not be called 'input', the name of the network's input");
  if (g->extra.n && strncmp(name, "input.", 6) == 0)
    CT_FAIL(CT_ERR_USAGE, "a layer's name must not begin with 'input.', the prefix of inputs");
  for (int i = 0; i < g->layers; i++)
    if (strcmp(g->layer[i].name, name) == 0)
      CT_FAIL(CT_ERR_USAGE, "there is a layer of that name already");
out:
  return rc;
}

static int check_inputs(const ct_graph_t *g, const ct_layer_t *l)
{
  int rc = CT_OK;
  static const char *const count[] = {"no input", "one input", "two inputs", "three inputs"};
  int most = l->ops->inputs, least = most - l->ops->optional;
  if (l->inputs < least)
    CT_FAIL(CT_ERR_USAGE, "takes %s, but has %s%s", count[least], count[l->inputs],
            least == 2 ? " (write from: [a, b])" : "");
  if (l->inputs > most)
    CT_FAIL(CT_ERR_USAGE, "takes %s, but has %s", count[most], count[l->inputs]);
  for (int i = 0; i < l->inputs; i++)
    if (l->in[i] == CT__NO_INPUT || l->in[i] < CT__INPUT_EXTRA(g->extra.n - 1) ||
        l->in[i] >= g->layers)
      CT_FAIL(CT_ERR_ARG, "input number %d is not a layer before it", l->in[i]);
out:
  return rc;
}

/* Gives a layer the shape of another value that its options name. */
static int resolve_like(const ct_graph_t *g, const ct_layer_ops_t *ops, void *opts)
{
  int rc = CT_OK, in = -1;
  const char *name = NULL;
  if (!ops->like) return CT_OK;
  CT_TRY(ops->like(opts, &name, NULL));
  if (!name || !*name) return CT_OK;
  for (int k = 0; k < g->extra.n && strncmp(name, "input.", 6) == 0; k++)
    if (strcmp(g->extra.name[k], name + 6) == 0) in = CT__INPUT_EXTRA(k);
  if (in == -1 && strcmp(name, "input") != 0) {
    in = find_layer(g, name);
    if (in < 0) CT_FAIL(CT_ERR_USAGE, "like: no layer before this one is called '%.80s'", name);
  }
  CT_TRY(ops->like(opts, &name, shape_of(g, in)));
out:
  return rc;
}

/* Checks that the batch of each input is dim 0, for kinds that know no other. */
static int check_batch(const ct_layer_t *l, const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[120];
  for (int i = 0; i < l->inputs && !l->ops->general; i++) {
    ct_shape_text(&in[i], shape, sizeof shape);
    if (!in[i].batch)
      CT_FAIL(CT_ERR_SHAPE, "its input, %s, is made of parameters alone, but it takes a batch",
              shape);
    if (in[i].batch != 1)
      CT_FAIL(CT_ERR_SHAPE,
              "the batch is not the first dim of its input, %s of a sample: put a `permute` layer "
              "before it",
              shape);
  }
out:
  return rc;
}

/* ---- parameters ---- */

/* Writes the name of a parameter: the given one, or the layer's name and the suffix of the slot. */
static int name_param(const ct_layer_t *l, int slot, const char *suffix, const char *given,
                      char name[CT_NAME_MAX])
{
  const char *prefix = l->ops->prefix ? l->ops->prefix(l->opts, slot) : NULL;
  if (given) return ct_text_format(name, CT_NAME_MAX, "%s", given);
  if (!prefix) prefix = l->name;
  const char *dot = *prefix && *suffix ? "." : "";
  return ct_text_format(name, CT_NAME_MAX, "%s%s%s", prefix, dot, suffix);
}

/* Makes a layer use a parameter of an earlier one. */
static int share_param(ct_graph_t *g, int param, const char *given, const ct_param_spec_t *spec)
{
  int rc = CT_OK;
  ct_param_t *p = &g->param[param];
  char has[120], wants[120];
  if (!given)
    CT_FAIL(CT_ERR_USAGE, "there is a parameter %s already; to share it, name it in `weights`",
            p->name);
  if (!ct_shape_same(&p->spec.shape, &spec->shape) || p->spec.buffer != spec->buffer)
    CT_FAIL(CT_ERR_SHAPE, "parameter %s is %s%s of layer '%s', expected %s%s", p->name,
            ct_shape_text(&p->spec.shape, has, sizeof has), p->spec.buffer ? ", a buffer," : "",
            g->layer[p->layer].name, ct_shape_text(&spec->shape, wants, sizeof wants),
            spec->buffer ? ", a buffer" : "");
  p->uses++;
out:
  return rc;
}

static int add_param(ct_graph_t *g, ct_layer_t *l, int slot, const ct_param_spec_t *spec,
                     const char *given)
{
  int rc = CT_OK;
  ct_param_t *p = &g->param[g->params];
  *p = (ct_param_t){.layer = g->layers, .uses = 1, .slot = slot, .spec = *spec};
  p->conv1d = slot == 0 && l->ops->conv1d && l->ops->conv1d(l->opts);
  CT_TRY(name_param(l, slot, spec->suffix, given, p->name));
  l->param[slot] = ct_graph_find_param(g, p->name);
  if (l->param[slot] >= 0) return share_param(g, l->param[slot], given, spec);
  p->count = ct_shape_count(&spec->shape);
  if (p->count > CT__MAX_ELEMENTS)
    CT_FAIL(CT_ERR_SHAPE, "parameter %s has more than 2^36 elements", spec->suffix);
  l->param[slot] = g->params++;
out:
  return rc;
}

static int add_params(ct_graph_t *g, ct_layer_t *l, const char *const *names)
{
  int rc = CT_OK;
  ct_shape_t in[CT_OP_INPUTS];
  ct_param_spec_t spec[CT_LAYER_PARAMS] = {{0}};
  inputs_of(g, l, in);
  l->params = l->ops->params ? l->ops->params(l->opts, in, spec) : 0;
  void *list = g->param;
  CT_TRY(ct_mem_grow(&list, &g->param_cap, g->params + l->params, sizeof *g->param));
  g->param = list;
  int given = 0, at = 0;
  while (names && given < CT_LAYER_PARAMS && names[given])
    given++;
  if (given > l->params) CT_FAIL(CT_ERR_USAGE, "has %d parameters, not %d", l->params, given);
  for (int i = 0; i < l->params; i++) {
    /* names of state dicts leave out the constants */
    int skip = given < l->params && spec[i].buffer == CT_CONSTANT && *spec[i].suffix;
    CT_TRY(add_param(g, l, i, &spec[i], names && !skip ? names[at++] : NULL));
  }
out:
  return rc;
}

/* Appends the `pad` layer that a layer needs before it, if any, and makes it the layer's input. */
static int add_pad(ct_graph_t *g, const char *name, const ct_layer_ops_t *ops, void *opts, int *in)
{
  int rc = CT_OK, id;
  char text[200], own[CT_NAME_MAX];
  const ct_layer_ops_t *pad = ct_layer_find("pad");
  ct_yaml_t *map = NULL;
  void *values;
  if (!ops->pads || *in == CT__NO_INPUT || *in < CT__INPUT_EXTRA(g->extra.n - 1) ||
      *in >= g->layers)
    return CT_OK;
  CT_TRY(ops->pads(opts, shape_of(g, *in), text, sizeof text));
  if (!text[0]) return CT_OK;
  if (!pad) CT_FAIL(CT_ERR_UNSUP, "this program has no `pad` layer for such a padding");
  CT_TRY(ct_yaml_parse(text, strlen(text), "padding", &map));
  CT_TRY(ct__layer_options(pad, map, NULL, &values));
  CT_TRY(ct_text_format(own, sizeof own, "%s.pad", name));
  CT_TRY(ct__graph_append(g, &id, own, pad, values, (const int[]){*in, CT__NO_INPUT, CT__NO_INPUT},
                          NULL));
  g->layer[id].inserted = 1;
  *in = id;
out:
  ct_yaml_free(map);
  return rc;
}

int ct__graph_append(ct_graph_t *g, int *id, const char *name, const ct_layer_ops_t *ops,
                     void *opts, const int in[CT_OP_INPUTS], const char *const *names)
{
  int rc = CT_OK;
  ct_shape_t shape[CT_OP_INPUTS];
  ct_layer_t l = {.ops = ops, .opts = opts};
  void *list = g->layer;
  for (int i = 0; i < CT_OP_INPUTS; i++) {
    l.in[i] = in[i];
    if (in[i] != CT__NO_INPUT) l.inputs = i + 1;
  }
  CT_TRY(check_name(g, name));
  CT_TRY(ct_text_format(l.name, sizeof l.name, "%s", name));
  CT_TRY(check_inputs(g, &l));
  CT_TRY(add_pad(g, name, ops, opts, &l.in[0]));
  list = g->layer;
  inputs_of(g, &l, shape);
  CT_TRY(check_batch(&l, shape));
  l.out = shape[0];
  CT_TRY(resolve_like(g, ops, opts));
  if (ops->infer) CT_TRY(ops->infer(opts, shape, &l.out));
  if (!ops->general) l.out.batch = 1;
  if (ct_shape_count(&l.out) > CT__MAX_ELEMENTS)
    CT_FAIL(CT_ERR_SHAPE, "its output has more than 2^36 elements a sample");
  CT_TRY(ct_mem_grow(&list, &g->layer_cap, g->layers + 1, sizeof *g->layer));
  g->layer = list;
  CT_TRY(add_params(g, &l, names));
  g->layer[g->layers] = l;
  opts = NULL;
  *id = g->layers++;
out:
  ct__layer_options_free(ops, opts);
  if (rc != CT_OK) ct_err_prefix(rc, "layer '%.*s' (%s): ", MAX_NAME, name, ops->kind);
  return rc;
}

void ct__graph_names(const ct_graph_t *g, const ct_layer_t *l, const char *names[CT_LAYER_PARAMS])
{
  for (int i = 0; i < CT_LAYER_PARAMS; i++)
    names[i] = i < l->params ? g->param[l->param[i]].name : NULL;
}

void ct_graph_free(ct_graph_t *g)
{
  if (!g) return;
  for (int i = 0; i < g->layers; i++)
    ct__layer_options_free(g->layer[i].ops, g->layer[i].opts);
  ct_mem_free(g->layer);
  ct_mem_free(g->param);
  ct_mem_free(g->tied);
  ct_mem_free(g);
}

/* ---- queries ---- */

int ct_graph_find_param(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->params; i++)
    if (strcmp(g->param[i].name, name) == 0) return i;
  return -1;
}

int64_t ct_graph_count(const ct_graph_t *g)
{
  int64_t n = 0;
  for (int i = 0; i < g->params; i++)
    if (!g->param[i].spec.buffer) n += g->param[i].count;
  return n;
}

/* Returns a normal random number, redrawn until it is in [-2, 2]. */
static float truncated(float scale, uint64_t seed, uint32_t sub, uint64_t i)
{
  for (uint64_t again = 0;; again++) {
    float v = scale * ct_rng_normal(seed, CT_RNG_INIT, sub, i + (again << 40));
    if (v >= -2 && v <= 2) return v;
  }
}

static float sinusoid(int64_t row, int64_t column, int64_t columns)
{
  double angle = (double)row * pow(10000, -(double)(column / 2 * 2) / (double)columns);
  return (float)(column % 2 ? cos(angle) : sin(angle));
}

void ct_graph_init_param(const ct_graph_t *g, int param, uint64_t seed, float *out)
{
  const ct_param_t *p = &g->param[param];
  const float scale = (float)p->spec.scale;
  const uint32_t sub = (uint32_t)ct_hash_text(p->name, 0);
  for (int64_t i = 0; i < p->count; i++) {
    switch (p->spec.init) {
    case CT_INIT_ZERO:
      out[i] = 0;
      break;
    case CT_INIT_ONE:
      out[i] = 1;
      break;
    case CT_INIT_FILL:
      out[i] = scale;
      break;
    case CT_INIT_UNIFORM:
      out[i] = scale * (2 * ct_rng_uniform(seed, CT_RNG_INIT, sub, (uint64_t)i) - 1);
      break;
    case CT_INIT_NORMAL:
      out[i] = scale * ct_rng_normal(seed, CT_RNG_INIT, sub, (uint64_t)i);
      break;
    case CT_INIT_TRUNC_NORMAL:
      out[i] = truncated(scale, seed, sub, (uint64_t)i);
      break;
    case CT_INIT_SINUSOID:
      out[i] = sinusoid(i / p->spec.shape.dim[1], i % p->spec.shape.dim[1], p->spec.shape.dim[1]);
      break;
    }
  }
}

static uint64_t hash_shape(const ct_shape_t *s, uint64_t h)
{
  h = ct_hash_int(s->ndim, h);
  h = ct_hash_int(s->batch, h);
  for (int i = 0; i < s->ndim; i++)
    h = ct_hash_int(s->dim[i], h);
  return h;
}

/* Hashes the op and the parameters of each layer, which its options determine. */
uint64_t ct_graph_hash(const ct_graph_t *g)
{
  uint64_t h = hash_shape(&g->input, 0);
  for (int i = 0; i < g->extra.n; i++)
    h = hash_shape(&g->extra.x[i], ct_hash_text(g->extra.name[i], h));
  for (int k = 0; k < g->outputs; k++)
    h = ct_hash_int(g->output[k], h);
  for (int i = 0; i < g->layers; i++) {
    const ct_layer_t *l = &g->layer[i];
    ct_op_desc_t d;
    ct_graph_op(g, i, 1, &d);
    h = ct_hash_text(l->name, h);
    h = ct_hash_text(l->ops->kind, h);
    h = ct_hash(l->in, sizeof l->in, h);
    h = ct_hash(l->param, (size_t)l->params * sizeof *l->param, h);
    h = ct_hash(&d, sizeof d, h);
  }
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    h = ct_hash_text(p->name, h);
    h = hash_shape(&p->spec.shape, h);
    h = ct_hash_int(p->spec.init, h);
    h = ct_hash(&p->spec.scale, sizeof p->spec.scale, h);
    h = ct_hash_int(p->spec.buffer, h);
  }
  return h;
}
