/* Builds the graph from section `model` of the configuration, by a family or from the list of
 * layers.  The output must have as many values per sample as there are classes or targets; else an
 * error names the last layer. */
#include "model/ct_family.h"
#include "model/graph_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

const ct_opt_t ct_model_rows[] = {
    CT_OPT_TEXT(
        ct_model_opts_t, family, "",
        "model family: mlp, lenet, resnet, vgg, vgg_bn, densenet, mobilenet_v2, cosmoflow, "
        "lstm, vit, unet, deeplabv3plus, gpt2, llama, esm2; leave it empty if layers are given"),
    CT_OPT_INT(ct_model_opts_t, depth, "0", 0, 10000,
               "depth of the family, such as 50 (resnet); 0: its default"),
    CT_OPT_INT(ct_model_opts_t, classes, "0", 0, 1 << 30, "number of classes; 0: that of the data"),
    CT_OPT_TEXTS(ct_model_opts_t, class_names, "",
                 "names of the classes in the order of their labels, for eval and predict; empty: "
                 "those of the data; stored in checkpoints"),
    CT_OPT_DOUBLES(ct_model_opts_t, input, "",
                   "shape of a sample after transforms, such as [3, 224, 224]; empty: that of the "
                   "data; stored in checkpoints"),
    CT_OPT_TEXTS(ct_model_opts_t, inputs, "",
                 "shapes of extra inputs, such as [meta=16, wave=1x64]; empty: those of the data; "
                 "stored in checkpoints"),
    CT_OPT_DOUBLES(
        ct_model_opts_t, hidden, "0",
        "widths of the hidden layers (mlp), width of the hidden state (lstm); 0: 128; of "
        "the MLP blocks (gpt2, llama, esm2); 0: 4 * dim, llama: 8/3 of dim, rounded up to "
        "a multiple of 256"),
    CT_OPT_DOUBLE(ct_model_opts_t, dropout, "-1", -1, 0.999,
                  "drop probability of the family's dropout layers; below 0: its default"),
    CT_OPT_CHOICE(ct_model_opts_t, stem, "auto", "auto|imagenet|cifar",
                  "first layers (resnet): imagenet: 7x7 convolution with stride 2 and max-pool; "
                  "cifar: 3x3 convolution with stride 1; auto: cifar for images under 64 pixels"),
    CT_OPT_PAIR(ct_model_opts_t, patch, "4", 1, 4096,
                "height and width of a patch, in pixels (vit)"),
    CT_OPT_INT(ct_model_opts_t, dim, "64", 1, 1 << 20,
               "features of a token (vit, gpt2, llama, esm2)"),
    CT_OPT_INT(ct_model_opts_t, heads, "4", 1, 1 << 16,
               "attention heads; must divide dim (vit, gpt2, llama, esm2)"),
    CT_OPT_INT(ct_model_opts_t, mlp, "0", 0, 1 << 24,
               "hidden width of the MLP blocks (vit); 0: 4 * dim"),
    CT_OPT_CHOICE(ct_model_opts_t, head, "class", "class|field",
                  "output (vit): class: of the sample, from a class token; field: of each pixel, "
                  "without a class token"),
    CT_OPT_DOUBLES(ct_model_opts_t, widths, "[64]",
                   "channels of the first level, twice as many at each further one; or a list of "
                   "the channels of all levels (unet)"),
    CT_OPT_CHOICE(ct_model_opts_t, norm, "batch", "batch|instance|group|none",
                  "normalisation after each convolution (unet)"),
    CT_OPT_INT(ct_model_opts_t, groups, "8", 1, 1 << 24,
               "groups of channels with norm: group (unet)"),
    CT_OPT_CHOICE(ct_model_opts_t, upsample, "transposed", "transposed|linear",
                  "way up (unet): transposed convolution, or linear interpolation with "
                  "align_corners and half as many channels in the level below"),
    CT_OPT_CHOICE(
        ct_model_opts_t, padding_mode, "zeros", "zeros|reflect|replicate|circular",
        "what the padding of 3x3 convolutions holds (unet); circular: fields are periodic"),
    CT_OPT_INT(ct_model_opts_t, kv_heads, "0", 0, 1 << 16,
               "heads of keys and values, each for heads / kv_heads heads of queries (llama); 0: "
               "as many as heads"),
    CT_OPT_INT(ct_model_opts_t, head_dim, "0", 0, CT_ROPE_MOST,
               "features of a head (llama, esm2); 0: dim / heads"),
    CT_OPT_INT(ct_model_opts_t, vocab, "0", 0, 1 << 24,
               "tokens that there are (gpt2, llama, esm2); 0: the classes of the data"),
    CT_OPT_INT(
        ct_model_opts_t, context, "0", 0, 1 << 24,
        "places that gpt2's table has; most tokens of a sample (gpt2, llama, esm2); 0: those "
        "of the data's samples"),
    CT_OPT_DOUBLE(ct_model_opts_t, eps, "0", 0, 1,
                  "added by normalisations (gpt2, llama, esm2); 0: 1e-5"),
    CT_OPT_CHOICE(ct_model_opts_t, activation, "auto", "auto|gelu|gelu_tanh|relu|silu",
                  "of the MLP blocks; auto: gelu_tanh (gpt2), silu (llama), gelu (esm2); nanoGPT "
                  "has gelu"),
    CT_OPT_CHOICE(ct_model_opts_t, bias, "auto", "auto|false|true",
                  "linear layers and layer normalisations have biases; auto: yes (gpt2, esm2), no "
                  "(llama)"),
    CT_OPT_CHOICE(ct_model_opts_t, tie, "auto", "auto|false|true",
                  "the head has the weight of the embedding; auto: yes (gpt2, esm2), no (llama)"),
    CT_OPT_DOUBLE(ct_model_opts_t, rope_theta, "10000", 1e-3, 1e12,
                  "base of the frequencies of rotation (llama, esm2)"),
    CT_OPT_CHOICE(ct_model_opts_t, rope_scaling, "none", "none|linear|llama3",
                  "scaling of the frequencies for longer contexts (llama, esm2)"),
    CT_OPT_DOUBLE(ct_model_opts_t, rope_factor, "8", 1e-3, 1e6, "divisor of scaled frequencies"),
    CT_OPT_DOUBLE(ct_model_opts_t, rope_low, "1", 1e-3, 1e6,
                  "llama3: frequencies with fewer turns in rope_context are scaled"),
    CT_OPT_DOUBLE(ct_model_opts_t, rope_high, "4", 1e-3, 1e6,
                  "llama3: frequencies with more turns in rope_context are not"),
    CT_OPT_DOUBLE(ct_model_opts_t, rope_context, "8192", 1, 1e12,
                  "llama3: context of the first training"),
    CT_OPT_BOOL(ct_model_opts_t, token_dropout, "false",
                "rows of the mask token are 0, and the others are scaled (esm2)"),
    CT_OPT_INT(ct_model_opts_t, mask_id, "-1", -1, 1 << 24, "the mask token (esm2); -1: none"),
    CT_OPT_INT(ct_model_opts_t, pad_id, "-1", -1, 1 << 24,
               "token whose row of the embedding gets no gradient; -1: none"),
    CT_OPT_NODE(ct_model_opts_t, layers,
                "list of layers, in place of a family; or the number of layers (gpt2, llama, "
                "esm2)"),
    CT_OPT_PATH(ct_model_opts_t, from, "", NULL,
                "file of torch.export.save() (.pt2) to take layers and initial weights from, in "
                "place of a family"),
    CT_OPT_TEXTS(ct_model_opts_t, tied, "",
                 "further names of parameters in state dicts, NAME=PARAMETER, such as "
                 "[head.weight=tok.weight]; set by model.from"),
    CT_OPT_TEXTS(ct_model_opts_t, outputs, "",
                 "names of the layers that are outputs, up to 8, such as [class, box]; empty: the "
                 "last layer"),
    CT_OPT_END};

/* ---- the shape of a sample ---- */

int ct_model_input(const ct_model_opts_t *o, ct_shape_t *out)
{
  int rc = CT_OK;
  *out = (ct_shape_t){0};
  if (o->input.n == 0) return CT_OK;
  if (o->input.n > CT_MAX_DIMS - 1)
    CT_FAIL(CT_ERR_USAGE, "model.input: has %d numbers, a sample up to %d", o->input.n,
            CT_MAX_DIMS - 1);
  int64_t dim[CT_MAX_DIMS] = {1};
  for (int i = 0; i < o->input.n; i++) {
    double v = o->input.v[i];
    if (!(v >= 1 && v <= INT32_MAX && v == floor(v)))
      CT_FAIL(CT_ERR_USAGE, "model.input: must be integers of at least 1, not %g", v);
    dim[1 + i] = (int64_t)v;
  }
  *out = ct_shape_dims(1 + o->input.n, dim);
out:
  return rc;
}

/* Parses "NAME=3x32x32". */
static int read_input(const char *text, ct_inputs_t *in)
{
  int rc = CT_OK, dims = 1;
  int64_t dim[CT_MAX_DIMS] = {1};
  const char *at = strrchr(text, '=');
  size_t name = at ? (size_t)(at - text) : 0;
  char *end = NULL;
  for (; at && dims < CT_MAX_DIMS && (*at == '=' || *at == 'x'); at = end, dims++) {
    dim[dims] = strtoll(at + 1, &end, 10);
    if (end == at + 1 || dim[dims] < 1 || dim[dims] > INT32_MAX) break;
  }
  if (!end || *end || dims == 1 || name == 0 || name >= CT_INPUT_NAME)
    CT_FAIL(CT_ERR_USAGE, "model.inputs: '%s': expected NAME=SHAPE, such as meta=16 or wave=1x64",
            text);
  if (in->n == CT_INPUTS_EXTRA)
    CT_FAIL(CT_ERR_USAGE, "model.inputs: more than %d extra inputs", CT_INPUTS_EXTRA);
  memcpy(in->name[in->n], text, name);
  in->x[in->n++] = ct_shape_dims(dims, dim);
out:
  return rc;
}

int ct_model_inputs(const ct_model_opts_t *o, ct_inputs_t *out)
{
  int rc = CT_OK;
  *out = (ct_inputs_t){0};
  for (int i = 0; i < o->inputs.n; i++)
    CT_TRY(read_input(o->inputs.v[i], out));
out:
  return rc;
}

static int note_inputs(ct_model_opts_t *o, const ct_inputs_t *extra)
{
  ct_opt_texts_t list = {ct_mem_array(extra->n, sizeof *list.v, "names of inputs"), 0};
  if (!list.v) return CT_ERR_NOMEM;
  for (int i = 0; i < o->inputs.n; i++)
    ct_mem_free(o->inputs.v[i]);
  ct_mem_free(o->inputs.v);
  o->inputs = list;
  for (int i = 0; i < extra->n; i++) {
    char text[CT_INPUT_NAME + 80];
    ct_inputs_t one = {.n = 1, .x = {extra->x[i]}};
    memcpy(one.name[0], extra->name[i], sizeof one.name[0]);
    list.v[i] = ct_mem_strdup(ct_inputs_text(&one, text, sizeof text));
    if (!list.v[i]) return CT_ERR_NOMEM;
    o->inputs.n++;
  }
  return CT_OK;
}

static const ct_family_t *find_family(const char *name)
{
  for (int i = 0; name && ct_families[i]; i++)
    if (strcmp(ct_families[i]->name, name) == 0) return ct_families[i];
  return NULL;
}

int ct_model_note_input(ct_model_opts_t *o, const ct_shape_t *sample, const ct_inputs_t *extra)
{
  int n = sample->ndim - 1;
  const ct_family_t *f = find_family(o->family);
  if (f && f->language && !o->context && n > 0) o->context = sample->dim[1];
  double *v = ct_mem_array(n, sizeof *v, "shape of a sample");
  if (!v) return CT_ERR_NOMEM;
  for (int i = 0; i < n; i++)
    v[i] = (double)sample->dim[1 + i];
  ct_mem_free(o->input.v);
  o->input = (ct_opt_doubles_t){v, n};
  return extra && extra->n ? note_inputs(o, extra) : CT_OK;
}

/* Checks that the shapes of the data match the shapes for which the model was made. */
static int check_noted(const ct_model_opts_t *o, const ct_shape_t *input, const ct_inputs_t *extra)
{
  int rc = CT_OK;
  char have[300], want[300];
  ct_shape_t noted;
  ct_inputs_t inputs;
  CT_TRY(ct_model_inputs(o, &inputs));
  if (inputs.n && !ct_inputs_same(&inputs, extra))
    CT_FAIL(CT_ERR_USAGE,
            "model.inputs is [%s], but the extra inputs of the data are [%s]: leave it empty ([]) "
            "to take the data's",
            ct_inputs_text(&inputs, want, sizeof want), ct_inputs_text(extra, have, sizeof have));
  CT_TRY(ct_model_input(o, &noted));
  if (noted.ndim && !ct_shape_same(&noted, input))
    CT_FAIL(CT_ERR_USAGE,
            "model.input is %s, but samples are %s after their transforms: leave it empty ([]) to "
            "take the data's",
            ct__graph_sample_text(&noted, want, sizeof want),
            ct__graph_sample_text(input, have, sizeof have));
out:
  return rc;
}

/* ---- families and layers ---- */

static int unknown_family(const char *name)
{
  enum { MAX_NAMES = 32 };
  int rc, n = 0;
  size_t len = 0;
  const char *names[MAX_NAMES];
  char list[200] = "";
  for (; n < MAX_NAMES && ct_families[n]; n++) {
    names[n] = ct_families[n]->name;
    if (len < sizeof list)
      len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", n ? ", " : "", names[n]);
  }
  if (!*name) CT_FAIL(CT_ERR_USAGE, "model: give a family (%s) or layers", list);
  const char *nearest = ct_text_nearest(name, names, n);
  if (nearest)
    CT_FAIL(CT_ERR_USAGE, "model.family: unknown family '%s'; did you mean '%s'?", name, nearest);
  CT_FAIL(CT_ERR_USAGE, "model.family: unknown family '%s'; expected one of %s", name, list);
out:
  return rc;
}

static int check_depth(const ct_family_t *f, int64_t depth)
{
  int rc = CT_OK;
  char *end;
  for (const char *p = f->depths; *p; p = *end ? end + 1 : end)
    if (strtoll(p, &end, 10) == depth) return CT_OK;
  if (f->depths[0])
    CT_FAIL(CT_ERR_USAGE, "model.depth: %s has no depth %" PRId64 "; it has %s", f->name, depth,
            f->depths);
out:
  return rc;
}

int ct_model_read_numbers(ct_model_opts_t *o, const char *where)
{
  int rc = CT_OK;
  const ct_family_t *f = find_family(o->family);
  int64_t n;
  if (!f || !f->language) return CT_OK;
  if (o->vocab && !o->classes) o->classes = o->vocab;
  if (!o->layers || o->layers->kind != CT_YAML_SCALAR) return CT_OK;
  if (ct_text_int(o->layers->text, &n) != CT_OK || n < 1 || n > 10000) {
    rc = ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "model.layers: '%s' is not a number of layers, 1 to 10000", o->layers->text);
    return ct_err_location(rc, where, o->layers->line);
  }
  o->depth = n;
  ct_yaml_free(o->layers);
  o->layers = NULL;
  return CT_OK;
}

const char *ct_model_remark(const ct_model_opts_t *o, const ct_shape_t *sample)
{
  const ct_family_t *f = find_family(o->family ? o->family : "");
  return f && f->remark ? f->remark(o, sample) : NULL;
}

static int build_family(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK;
  const char *name = o->family ? o->family : "";
  const ct_family_t *f = find_family(name);
  ct_model_opts_t own = *o;
  char shape[80];
  if (!f) return unknown_family(name);
  if (!own.depth) own.depth = f->depth;
  double usual[] = {128};
  if (!f->language && own.hidden.n == 1 && own.hidden.v[0] == 0)
    own.hidden = (ct_opt_doubles_t){usual, 1};
  if (o->stem && strcmp(name, "resnet") != 0)
    CT_FAIL(CT_ERR_USAGE, "model.stem is given, but has no meaning with model.family %s", name);
  CT_TRY(check_depth(f, own.depth));
  rc = f->build(g, &own, classes);
  if (rc == CT_OK) rc = ct__graph_set_outputs(g, &o->outputs);
  if (rc == CT_OK) rc = ct__graph_check_output(g, classes);
  if (rc != CT_OK)
    ct_err_prefix(rc, "model %s for samples of %s: ", f->name,
                  ct__graph_sample_text(&g->input, shape, sizeof shape));
out:
  return rc;
}

static int check_input(const ct_shape_t *input, int64_t classes)
{
  int rc = CT_OK;
  if (input->ndim < 2 || input->ndim > CT_MAX_DIMS || input->dim[0] != 1)
    CT_FAIL(CT_ERR_ARG, "the shape of one sample must have 2 to %d dimensions, the first of them 1",
            CT_MAX_DIMS);
  for (int i = 1; i < input->ndim; i++)
    if (input->dim[i] < 1)
      CT_FAIL(CT_ERR_SHAPE, "dimension %d of the samples is %" PRId64, i, input->dim[i]);
  if (ct_shape_count(input) > CT__MAX_ELEMENTS)
    CT_FAIL(CT_ERR_SHAPE, "a sample has more than 2^36 elements");
  if (classes < 1) CT_FAIL(CT_ERR_USAGE, "model.classes: must be at least 1");
out:
  return rc;
}

/* Checks that a layer reads each input of the data; else a name in data.input would be ignored. */
static int check_inputs_read(const ct_graph_t *g)
{
  int rc = CT_OK, first = 0, extra[CT_INPUTS_EXTRA] = {0};
  for (int i = 0; i < g->layers && g->extra.n; i++) {
    for (int k = 0; k < g->layer[i].inputs; k++) {
      int in = ct_graph_extra(g->layer[i].in[k]);
      first |= g->layer[i].in[k] == -1;
      if (in >= 0) extra[in] = 1;
    }
  }
  if (g->extra.n && !first)
    CT_FAIL(CT_ERR_USAGE, "no layer reads 'input', the first of data.input");
  for (int k = 0; k < g->extra.n; k++)
    if (!extra[k])
      CT_FAIL(CT_ERR_USAGE,
              "data.input: '%s' differs in shape from the first array and is an extra input, but "
              "no layer reads it: write from: input.%s in model.layers (families have one input), "
              "or leave it out",
              g->extra.name[k], g->extra.name[k]);
out:
  return rc;
}

int ct_graph_tie(ct_graph_t *g, const char *name, const char *of)
{
  int rc = CT_OK;
  ct_tied_t tie;
  void *grown = ct_mem_array(g->ties + 1, sizeof *g->tied, "names of parameters");
  if (!grown) return CT_ERR_NOMEM;
  if (g->ties) memcpy(grown, g->tied, (size_t)g->ties * sizeof *g->tied);
  ct_mem_free(g->tied);
  g->tied = grown;
  ct_text_fit(tie.name, sizeof tie.name, "%s", name);
  tie.param = ct_graph_find_param(g, of);
  if (tie.param < 0)
    CT_FAIL(CT_ERR_USAGE, "model.tied: '%s': the model has no parameter %s", name, of);
  if (ct_graph_find_param(g, name) >= 0)
    CT_FAIL(CT_ERR_USAGE, "model.tied: '%s' is a parameter of its own", name);
  g->tied[g->ties++] = tie;
out:
  return rc;
}

/* Reads a list of "NAME=PARAMETER". */
static int read_ties(ct_graph_t *g, const ct_opt_texts_t *tied)
{
  int rc = CT_OK;
  for (int i = 0; i < tied->n; i++) {
    char name[CT_NAME_MAX];
    const char *text = tied->v[i], *at = strchr(text, '=');
    if (!at || at == text || (size_t)(at - text) >= sizeof name)
      CT_FAIL(CT_ERR_USAGE, "model.tied: '%s': expected NAME=PARAMETER", text);
    memcpy(name, text, (size_t)(at - text));
    name[at - text] = '\0';
    CT_TRY(ct_graph_tie(g, name, at + 1));
  }
out:
  return rc;
}

static int graph_make_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes,
                            const char *where)
{
  int rc, has_family = o->family && o->family[0];
  if (o->layers && !has_family) return ct__graph_read(g, o->layers, &o->outputs, classes, where);
  if (o->layers)
    rc = ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "model: give a family or layers, not both");
  else
    rc = build_family(g, o, classes);
  if (rc != CT_OK && where) ct_err_prefix(rc, "%s: ", where);
  return rc;
}

/* Returns CT_ERR_USAGE for CT_ERR_SHAPE: a shape error in the model is a configuration error. */
static int as_usage(int rc)
{
  return rc == CT_ERR_SHAPE ? ct_err_prefix(CT_ERR_USAGE, "%s", "") : rc;
}

int ct_graph_make(const ct_model_opts_t *o, const ct_shape_t *input, const ct_inputs_t *extra,
                  int64_t classes, const char *where, ct_graph_t **out)
{
  int rc = CT_OK;
  static const ct_inputs_t none;
  *out = NULL;
  ct_graph_t *g = NULL;
  if (!extra) extra = &none;
  CT_TRY(check_input(input, classes));
  for (int k = 0; k < extra->n; k++)
    CT_TRY(check_input(&extra->x[k], classes));
  rc = check_noted(o, input, extra);
  if (rc != CT_OK) return where ? ct_err_prefix(rc, "%s: ", where) : rc;
  g = ct_mem_alloc(sizeof *g, "the model");
  if (!g) return CT_ERR_NOMEM;
  g->input = ct_shape_dims(input->ndim, input->dim);
  g->input.batch = 1;
  g->extra = *extra;
  for (int k = 0; k < g->extra.n; k++)
    g->extra.x[k].batch = 1;
  CT_TRY(as_usage(graph_make_build(g, o, classes, where)));
  CT_TRY(read_ties(g, &o->tied));
  rc = check_inputs_read(g);
  if (rc != CT_OK && where) ct_err_prefix(rc, "%s: ", where);
  CT_TRY(rc);
  *out = g;
  g = NULL;
out:
  ct_graph_free(g);
  return rc;
}
