/* `predict`: writes a trained model's predictions for samples from HDF5 files or images. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "commands/predict_several.h"
#include "setup/ct_model_file.h"
#include "setup/ct_predictor.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "eval/ct_predict.h"

/* ---- the input ---- */

static int add_input(ct_opt_texts_t *list, int64_t *cap, const char *path)
{
  void *v = list->v;
  if (ct_mem_grow(&v, cap, list->n + 1, sizeof *list->v)) return CT_ERR_NOMEM;
  list->v = v;
  list->v[list->n] = ct_mem_strdup(path);
  return list->v[list->n] ? (list->n++, CT_OK) : CT_ERR_NOMEM;
}

static int by_bytes(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

enum { MOST_FOLDERS = 16 /* maximum depth; symbolic links may form cycles */ };

/* Appends the files in a folder that a reader recognizes by name, including subfolders. */
static int list_folder(ct_opt_texts_t *list, int64_t *cap, const char *folder, int depth)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  DIR *dir = opendir(folder);
  if (!dir) CT_FAIL(CT_ERR_IO, "%s: cannot be listed: %s", folder, strerror(errno));
  for (const struct dirent *e; (e = readdir(dir));) {
    int known = 0;
    CT_TRY(ct_path_join(path, sizeof path, folder, e->d_name));
    if (e->d_name[0] != '.' && depth < MOST_FOLDERS && ct_file_is_dir(path)) {
      CT_TRY(list_folder(list, cap, path, depth + 1));
      continue;
    }
    for (int i = 0; e->d_name[0] != '.' && ct_builtin_readers[i]; i++)
      known |= ct_format_has_suffix(&ct_builtin_readers[i]->format, e->d_name);
    if (known) CT_TRY(add_input(list, cap, path));
  }
out:
  if (dir) closedir(dir);
  return rc;
}

/* Appends the files of a folder, sorted by the bytes of their paths. */
static int add_folder(ct_opt_texts_t *list, int64_t *cap, const char *folder)
{
  int rc = CT_OK, before = list->n;
  CT_TRY(list_folder(list, cap, folder, 0));
  if (list->n == before) CT_FAIL(CT_ERR_USAGE, "%s: holds neither images nor HDF5 files", folder);
  qsort(list->v + before, (size_t)(list->n - before), sizeof *list->v, by_bytes);
out:
  return rc;
}

static int add_path(ct_opt_texts_t *list, int64_t *cap, const char *path)
{
  struct stat st;
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return add_folder(list, cap, path);
  return add_input(list, cap, path);
}

/* Collects --input and all arguments after the model, so that shell patterns work. */
static int list_input(const ct_args_t *a, ct_opt_texts_t *list)
{
  int rc = CT_OK;
  int64_t cap = 0;
  const char *input = ct_args_get(a, "input");
  if (input) CT_TRY(add_path(list, &cap, input));
  for (int i = 1; i < a->rests; i++)
    CT_TRY(add_path(list, &cap, a->rest[i]));
out:
  return rc;
}

static void free_input(ct_opt_texts_t *list)
{
  for (int i = 0; i < list->n; i++)
    ct_mem_free(list->v[i]);
  ct_mem_free(list->v);
}

/* ---- options ---- */

/* Returns 1 if the output is a directory, or ends with "/". */
static int is_folder(const char *output)
{
  size_t n = output ? strlen(output) : 0;
  return n && (output[n - 1] == '/' || ct_file_is_dir(output));
}

/* Reads one to three integers, such as 64x64. */
static int read_sizes(const char *option, const char *text, int64_t lo, int64_t to[CT_TILE_AXES],
                      int *n)
{
  int rc = CT_OK, end = 0;
  char number[24];
  const char *at = text;
  for (*n = 0; *n < CT_TILE_AXES && end >= 0; (*n)++) {
    size_t length = strcspn(at, "x");
    if (length >= sizeof number || ct_text_format(number, sizeof number, "%.*s", (int)length, at) ||
        ct_text_int(number, &to[*n]) != CT_OK || to[*n] < lo || to[*n] > INT32_MAX)
      break;
    end = at[length] ? 0 : -1;
    at += length + 1;
  }
  if (end >= 0)
    CT_FAIL(CT_ERR_USAGE, "predict: --%s %s: expected N, HxW or DxHxW, numbers of at least %lld",
            option, text, (long long)lo);
out:
  return rc;
}

static int read_tile(const ct_args_t *a, ct_tile_t *t)
{
  int rc = CT_OK, n;
  const char *tile = ct_args_get(a, "tile"), *overlap = ct_args_get(a, "overlap");
  if (!tile && (overlap || ct_args_get(a, "blend")))
    CT_FAIL(CT_ERR_USAGE, "predict: --%s is for --tile", overlap ? "overlap" : "blend");
  if (!tile) goto out;
  CT_TRY(read_sizes("tile", tile, 1, t->size, &t->given));
  for (int i = 0; i < t->given; i++)
    t->overlap[i] = t->size[i] / 4;
  if (!overlap) goto out;
  CT_TRY(read_sizes("overlap", overlap, 0, t->overlap, &n));
  for (int one = t->given == 1; one && t->given < n; t->given++)
    t->size[t->given] = t->size[0];
  if (n != 1 && n != t->given)
    CT_FAIL(CT_ERR_USAGE, "predict: --overlap has %d numbers, but --tile has %d", n, t->given);
  for (int i = n; i < t->given; i++)
    t->overlap[i] = t->overlap[0];
  for (int i = 0; i < t->given; i++)
    if (t->overlap[i] >= t->size[i])
      CT_FAIL(CT_ERR_USAGE, "predict: --overlap %s must be smaller than --tile %s", overlap, tile);
out:
  return rc;
}

/* Finds the value of an option in a list of words, of which the first is the default. */
static int read_word(const ct_args_t *a, const char *option, const char *const *words, int *which)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, option);
  *which = 0;
  if (!text) goto out;
  for (int i = 0; words[i]; i++)
    if (strcmp(words[i], text) == 0) *which = i;
  if (strcmp(words[*which], text) != 0)
    CT_FAIL(CT_ERR_USAGE, "predict: --%s %s: unknown; see predict --help", option, text);
out:
  return rc;
}

static int read_style(const ct_args_t *a, ct_predict_style_t *o, ct_tile_t *tile)
{
  static const char *const values[] = {"", "probabilities", "classes", "outputs", NULL};
  static const char *const blends[] = {"linear", "constant", "gaussian", NULL};
  int rc = CT_OK, which;
  int64_t top;
  CT_TRY(ct_args_int(a, "top", 1, 1, 1000, &top));
  *o = (ct_predict_style_t){.top = (int)top,
                            .names = ct_args_get(a, "names"),
                            .output = ct_args_get(a, "output"),
                            .palette = ct_args_get(a, "palette")};
  int folder = is_folder(o->output), h5 = ct__outputs_suffix(o->output, ".h5") && !folder;
  CT_TRY(read_word(a, "values", values, &which));
  o->values = (ct_predict_values_t)which;
  CT_TRY(read_word(a, "blend", blends, &which));
  o->blend = (ct_blend_kind_t)which;
  CT_TRY(read_tile(a, tile));
  if (o->values && !h5) CT_FAIL(CT_ERR_USAGE, "predict: --values is for --output FILE.h5");
  if (o->palette && !folder) CT_FAIL(CT_ERR_USAGE, "predict: --palette is for --output DIR/");
  if (tile->given && !folder && !h5)
    CT_FAIL(CT_ERR_USAGE, "predict: --tile needs --output FILE.h5 or, for masks, --output DIR/");
out:
  return rc;
}

/* ---- the command ---- */

/* Returns 1 if the only output has more values than classes or targets: values at places. */
static int is_field(const ct_setup_t *s)
{
  const ct_layer_t *l = &s->graph->layer[ct_graph_output(s->graph, 0)];
  return s->val.pixels < 2 && ct_shape_sample(&l->out) != s->cfg.model.classes;
}

/* The output of rank 0, one of these; all NULL on other ranks. */
typedef struct out {
  ct_predict_out_t *one;
  ct__outputs_t *several;
  ct__fields_t *fields;
} out_t;

static int open_out(const ct_setup_t *s, const ct_predict_style_t *style, out_t *out)
{
  if (s->topo->rank) return CT_OK;
  int several = ct_graph_outputs(s->graph) > 1 || is_field(s), folder = is_folder(style->output);
  int arrays = several || style->values || s->tile || s->val.pixels > 1;
  if (folder || (arrays && ct__outputs_suffix(style->output, ".h5")))
    return ct__fields_open(s, style, &out->fields);
  if (several) return ct__outputs_open(s, style, &out->several);
  return ct_predict_out_open(s, style, &out->one);
}

static int commit(const out_t *out)
{
  if (out->fields) return ct__fields_commit(out->fields);
  if (out->several) return ct__outputs_commit(out->several);
  return out->one ? ct_predict_out_commit(out->one) : CT_OK;
}

/* Fails if samples were skipped: the exit status must show that predictions are missing. */
static int check_lost(const out_t *out)
{
  int rc = CT_OK;
  long long lost = out->one      ? ct_predict_out_lost(out->one)
                   : out->fields ? ct__fields_lost(out->fields)
                                 : ct__outputs_lost(out->several);
  if (lost)
    CT_FAIL(CT_ERR_DATA,
            "predict: %lld sample%s could not be read and %s left out; all others are "
            "predicted",
            lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
out:
  return rc;
}

/* Makes the model for fields of another size than those of the training.  If weights depend on the
 * size, reading them fails. */
static void take_size(ct_setup_t *s)
{
  const ct_shape_t *x = &s->val.x;
  ct_opt_doubles_t *input = &s->cfg.model.input;
  if (x->ndim < 3 || input->n != x->ndim - 1 || (int64_t)input->v[0] != x->dim[1]) return;
  for (int i = 1; i < input->n; i++)
    input->v[i] = (double)x->dim[i + 1];
}

/* Makes the layer of --layer the only output. */
static int take_layer(ct_setup_t *s, const char *name)
{
  int rc = CT_OK, i = 0;
  ct_graph_t *g = s->graph;
  while (i < g->layers && strcmp(g->layer[i].name, name) != 0)
    i++;
  if (i == g->layers)
    CT_FAIL(CT_ERR_USAGE,
            "predict: --layer %s: the model has no layer of that name; `summary` lists "
            "them",
            name);
  g->outputs = 1;
  g->output[0] = i;
  s->val.pixels = 1;
  CT_TRY(ct_losses_any(&s->cfg.losses));
out:
  return rc;
}

static int predict(const ct_setup_t *s, const ct_predict_style_t *style)
{
  int rc = CT_OK;
  out_t out = {0};
  CT_TRY_ALL(s->topo, open_out(s, style, &out));
  ct_predict_to_t to = {ct_predict_out_take, out.one};
  if (out.fields) to = (ct_predict_to_t){ct__fields_take, out.fields};
  if (out.several) to = (ct_predict_to_t){ct__outputs_take, out.several};
  rc = ct_predict(s->trainer, &s->val, s->cfg.data.eval_batch, (int)s->cfg.data.workers, &to);
  int64_t unread =
      !s->topo->rank && ct_app_unread(); /* a closed pipe does not count as a failure */
  ct_agree_sum(s->topo, &unread, 1);
  if (unread) rc = CT_OK;
  if (rc != CT_OK || unread) goto out;
  CT_TRY_ALL(s->topo, commit(&out));
  CT_TRY_ALL(s->topo, s->topo->rank ? CT_OK : check_lost(&out));
out:
  ct_predict_out_close(out.one);
  ct__outputs_close(out.several);
  ct__fields_close(out.fields);
  return rc;
}

int ct_cmd_predict(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_predict_style_t style;
  ct_tile_t tile = {0};
  ct_setup_t s = {.topo = topo, .without_gradients = 1};
  ct_opt_texts_t input = {0};
  ct_weights_file_t w = {0};
  (void)status;
  CT_TRY(read_style(a, &style, &tile));
  if (tile.given) s.tile = &tile;
  CT_TRY_ALL(topo, topo->rank == 0 ? list_input(a, &input) : CT_OK);
  const ct_model_ask_t ask = {.what = a->rest[0],
                              .checkpoint = ct_args_get(a, "checkpoint"),
                              .key = ct_args_get(a, "key"),
                              .input = &input,
                              .nothing = "there is nothing to predict"};
  CT_TRY(ct_model_config(&s, a, &ask, &w));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  s.val.skip = s.cfg.data.on_error;
  take_size(&s);
  rc = ct_setup_model(&s);
  if (rc != CT_OK && s.tile) rc = ct_err_prefix(rc, "predict: --tile %s: ", ct_args_get(a, "tile"));
  CT_TRY(rc);
  if (ct_args_get(a, "layer")) CT_TRY_ALL(topo, take_layer(&s, ct_args_get(a, "layer")));
  CT_TRY(ct_predict_trainer(&s, ask.key, topo->rank == 0 ? &w : NULL));
  CT_TRY(predict(&s, &style));
out:
  ct_weights_close(&w);
  free_input(&input);
  ct_setup_close(&s);
  return rc;
}
