/* Makes a resolved configuration, an open weight file and a trainer from a configuration, a run
 * directory or a model file.  Rank 0 reads configuration and weights and broadcasts them. */
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_model_file.h"
#include "setup/ct_quantized_open.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"

/* ---- configuration ---- */

static int is_model_file(const char *path)
{
  enum { MOST = 16 };
  const ct_format_t *formats[MOST];
  int n = 0, row;
  char meant[CT_PATH_MAX]; /* target of the links `latest` and `best` */
  while (n < MOST && ct_builtin_weights[n]) {
    formats[n] = &ct_builtin_weights[n]->format;
    n++;
  }
  if (ct_ckpt_follow(path, meant, sizeof meant) != CT_OK) return 0;
  return ct_format_find(formats, n, meant, &row) == CT_OK;
}

/* Replaces data.val by the unlabelled input files. */
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
  while (c->data.target.n) /* removes the targets: the input is unlabelled */
    ct_mem_free(c->data.target.v[--c->data.target.n]);
  c->data.weight[0] = '\0';
out:
  return rc;
}

/* Takes facts that training found in its data: the number of classes, their names, and the input
 * shape.  New samples need not contain all classes, and predictions may run without data. */
static int take_facts(ct_config_t *c, const ct_weights_file_t *w, int with_input)
{
  int rc = CT_OK;
  ct_config_t old = {0};
  const char *text = w->ops->text(w->w, "config");
  with_input = with_input && !c->model.input.n;
  if (!text || (c->model.classes && c->model.class_names.n && !with_input)) return CT_OK;
  CT_TRY(ct_config_parse(&old, text, strlen(text), "configuration in the model file", NULL, 0));
  if (!c->model.classes) c->model.classes = old.model.classes;
  if (!c->model.class_names.n && old.model.class_names.n == c->model.classes) { /* moved */
    c->model.class_names = old.model.class_names;
    old.model.class_names = (ct_opt_texts_t){0};
  }
  if (with_input) { /* moved */
    c->model.input = old.model.input;
    old.model.input = (ct_opt_doubles_t){0};
  }
out:
  ct_config_clear(&old);
  return rc;
}

/* Returns 1 if samples of the input get their shape from the model: synthetic samples, and flat
 * samples with as many values as the model's input.  Other samples keep their stored shape, which
 * the transforms may change.  If the input cannot be opened, its reader reports the error later. */
static int has_no_shape(const ct_config_t *c)
{
  int64_t shape[CT_MAX_DIMS - 1], row, count = 1;
  ct_reader_spec_t spec;
  ct_reader_t *r = NULL;
  int flat = 0;
  ct_opt_texts_t first = {.v = c->data.val.v, .n = c->data.val.n ? 1 : 0};
  if (first.n == 0 || strcmp(first.v[0], "synthetic") == 0) return 1;
  if (ct_data_spec(&c->data, &first, "/", 0, shape, &spec) != CT_OK) return 0;
  spec.target = "";
  if (ct_reader_find(ct_builtin_readers, &spec, &row) != CT_OK) return 0;
  const ct_reader_ops_t *ops = ct_builtin_readers[row];
  if (ops == &ct_reader_images || ops->open(&spec, &r) != CT_OK) return 0;
  const ct_shape_t *x = &ops->info(r)->x;
  for (int i = 0; i < c->model.input.n; i++)
    count *= (int64_t)c->model.input.v[i];
  flat = x->ndim == 2 && c->model.input.n > 1 && x->dim[1] == count;
  ops->close(r);
  return flat;
}

/* Copies the model's input shape to the shape of samples. */
static int copy_doubles(const ct_opt_doubles_t *from, ct_opt_doubles_t *to)
{
  if (from->n == 0) return CT_OK;
  to->v = ct_mem_array(from->n, sizeof *to->v, "the shape of a sample");
  if (!to->v) return CT_ERR_NOMEM;
  memcpy(to->v, from->v, (size_t)from->n * sizeof *to->v);
  to->n = from->n;
  return CT_OK;
}

/* Parses the configuration that a model file contains; all its paths are absolute. */
static int parse_model_file(ct_setup_t *s, const ct_args_t *a, const char *path,
                            ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_weights_config(w, &text));
  if (!text.len)
    CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration: give one, and the file by --checkpoint",
            path);
  CT_TRY(ct_config_parse(&s->cfg, text.data, text.len, path, a->set, a->sets));
out:
  ct_str_clear(&text);
  return rc;
}

/* Finds the model file if \a ask names a run directory or a model file.  Then *alone is 1: the
 * configuration is read from that file. */
static int find_model(const ct_model_ask_t *ask, char *path, size_t cap, int *alone)
{
  int rc = CT_OK;
  const char *checkpoint = ask->checkpoint && *ask->checkpoint ? ask->checkpoint : NULL;
  int is_run = ct_file_is_dir(ask->what);
  *alone = is_run ? !checkpoint || ct_model_is_word(checkpoint) : is_model_file(ask->what);
  if (!*alone) goto out;
  if (!is_run && checkpoint)
    CT_FAIL(CT_ERR_USAGE, "%s is a model file itself: not with --checkpoint", ask->what);
  CT_TRY(ct_model_path(ask->what, checkpoint, path, cap));
out:
  return rc;
}

/* Rank 0.  Reads the configuration and opens the weight file. */
static int read_model(ct_setup_t *s, const ct_args_t *a, const ct_model_ask_t *ask,
                      ct_weights_file_t *w)
{
  int rc = CT_OK, alone;
  ct_config_t *c = &s->cfg;
  char path[CT_PATH_MAX];
  CT_TRY(find_model(ask, path, sizeof path, &alone));
  if (alone) {
    CT_TRY(ct_weights_peek(ct_builtin_weights, path, ask->key, w));
    CT_TRY(parse_model_file(s, a, path, w));
  } else {
    CT_TRY(ct_setup_parse(c, ask->what, a));
  }
  ct_opt_clear(ct_parallel_rows, &c->parallel); /* the parallel strategy of the training run does
                                                   not matter */
  CT_TRY(ct_opt_defaults(ct_parallel_rows, &c->parallel));
  if (ask->input) CT_TRY(take_input(c, ask->input));
  CT_TRY(ct_setup_resolve(c, s->topo->size, !ask->input && !ask->without_data));
  if (c->data.val.n == 0 && !ask->without_data)
    CT_FAIL(CT_ERR_USAGE, "%s: data.val is not set: %s", c->where, ask->nothing);
  if (!alone && !(ask->checkpoint && !*ask->checkpoint)) {
    CT_TRY(ct_model_path_of_run(c, ask->checkpoint, path, sizeof path));
    CT_TRY(ct_weights_peek(ct_builtin_weights, path, ask->key, w));
  }
  if (w->ops) CT_TRY(take_facts(c, w, ask->input || ask->without_data));
  if (ask->input && !c->data.shape.n && c->data.input.n < 2 && has_no_shape(c))
    CT_TRY(copy_doubles(&c->model.input, &c->data.shape));
out:
  return rc;
}

int ct_model_config(ct_setup_t *s, const ct_args_t *a, const ct_model_ask_t *ask,
                    ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  ct_heartbeat_at("reading the configuration", -1);
  if (s->topo->rank == 0) rc = read_model(s, a, ask, w);
  if (s->topo->rank == 0 && rc == CT_OK) rc = ct_config_dump(&s->cfg, &text);
  CT_TRY(ct_setup_share_config(s, ask->what, rc, &text));
out:
  ct_str_clear(&text);
  return rc;
}

int ct_model_graph(const ct_config_t *c, int64_t length, ct_graph_t **out)
{
  int rc = CT_OK;
  double size = (double)length;
  ct_model_opts_t o = c->model;
  ct_shape_t x = ct_shape(2, 1, length);
  if (o.input.n != 1)
    CT_FAIL(
        CT_ERR_USAGE,
        "%s: the model is not one of tokens: its samples are not sequences of ids (model.input)",
        c->where);
  o.input.v = &size;
  o.inputs.n = 0;
  if (!o.context) o.context = (int64_t)c->model.input.v[0];
  CT_TRY(ct_graph_make(&o, &x, NULL, o.classes, c->where, out));
out:
  return rc;
}

/* ---- weights ---- */

int ct_model_match(const ct_setup_t *s, const char *key, ct_weights_file_t *w, ct_match_t *m)
{
  int rc = CT_OK;
  ct_init_opts_t strict = {0};
  CT_TRY(ct_opt_defaults(ct_init_rows, &strict));
  ct_init_opts_t rules = strict;
  if (key) rules.key = (char *)(uintptr_t)key;
  CT_TRY(ct_match_reopen(ct_builtin_weights, s->graph, &rules, w, m));
  const char *remark = w->ops->remark(w->w);
  ct_log(CT_LOG_INFO, "using the model of %s%s%s", w->path, remark ? ": " : "",
         remark ? remark : "");
  CT_TRY(ct_match_judge(m, &rules, w->path));
out:
  ct_opt_clear(ct_init_rows, &strict);
  return rc;
}

int ct_model_store(const ct_weights_file_t *w, ct_ckpt_found_t *out)
{
  if (w->ops != &ct_weights_hdf5) return CT_OK;
  return ct_ckpt_find(ct_builtin_stores, w->path, NULL, out);
}

int ct_model_trainer(ct_setup_t *s, const char *key, ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_ckpt_found_t found = {0};
  ct_match_t m = {0};
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? ct_model_store(w, &found) : CT_OK);
  if (ct_quantized_is(s->topo, &found)) {
    if (s->topo->rank == 0) ct_log(CT_LOG_INFO, "using the model of %s", w->path);
    CT_TRY(ct_quantized_open(s, &found));
    goto out;
  }
  CT_TRY(ct_setup_trainer(s, 0));
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? ct_model_match(s, key, w, &m) : CT_OK);
  int64_t constants = m.constants; /* a state dict has none */
  ct_agree_sum(s->topo, &constants, 1);
  if (constants) CT_TRY(ct_setup_constants(s));
  CT_TRY(ct_trainer_load(s->trainer, w, m.from));
out:
  ct_match_clear(&m);
  ct_ckpt_found_close(&found);
  return rc;
}
