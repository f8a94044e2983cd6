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

/* ---- the command ---- */

/* Returns 1 if the only output has more values than classes or targets: values at places. */
static int is_field(const ct_setup_t *s)
{
  const ct_layer_t *l = &s->graph->layer[ct_graph_output(s->graph, 0)];
  return s->val.pixels < 2 && ct_shape_sample(&l->out) != s->cfg.model.classes;
}

/* The output of rank 0, of a model with one output or with several; both NULL on other ranks. */
typedef struct out {
  ct_predict_out_t *one;
  ct__outputs_t *several;
} out_t;

static int open_out(const ct_setup_t *s, const ct_predict_style_t *style, out_t *out)
{
  if (s->topo->rank) return CT_OK;
  if (ct_graph_outputs(s->graph) > 1 || is_field(s))
    return ct__outputs_open(s, style, &out->several);
  return ct_predict_out_open(s, style, &out->one);
}

static int commit(const out_t *out)
{
  if (out->several) return ct__outputs_commit(out->several);
  return out->one ? ct_predict_out_commit(out->one) : CT_OK;
}

/* Fails if samples were skipped: the exit status must show that predictions are missing. */
static int check_lost(const out_t *out)
{
  int rc = CT_OK;
  long long lost = out->one ? ct_predict_out_lost(out->one) : ct__outputs_lost(out->several);
  if (lost)
    CT_FAIL(CT_ERR_DATA,
            "predict: %lld sample%s could not be read and %s left out; all others are "
            "predicted",
            lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
out:
  return rc;
}

static int predict(const ct_setup_t *s, const ct_predict_style_t *style)
{
  int rc = CT_OK;
  out_t out = {0};
  CT_TRY_ALL(s->topo, open_out(s, style, &out));
  ct_predict_to_t to = {ct_predict_out_take, out.one};
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
  return rc;
}

int ct_cmd_predict(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t top;
  ct_setup_t s = {.topo = topo, .without_gradients = 1};
  ct_opt_texts_t input = {0};
  ct_weights_file_t w = {0};
  (void)status;
  CT_TRY(ct_args_int(a, "top", 1, 1, 1000, &top));
  ct_predict_style_t style = {
      .top = (int)top, .names = ct_args_get(a, "names"), .output = ct_args_get(a, "output")};
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
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_predict_trainer(&s, ask.key, topo->rank == 0 ? &w : NULL));
  CT_TRY(predict(&s, &style));
out:
  ct_weights_close(&w);
  free_input(&input);
  ct_setup_close(&s);
  return rc;
}
