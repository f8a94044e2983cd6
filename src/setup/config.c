/* The list of all sections, from which parsing, help, dump and clearing follow.  Each section's
 * table is in the module that it configures; those of the devices are here. */
#include "setup/config_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "data/transform/ct_transform_list.h"
#include "model/ct_family.h"
#include "model/ct_layers.h"

static const ct_opt_t cpu_rows[] = {
    CT_OPT_CHOICE(ct_cpu_opts_t, conv_algo, "auto", "auto|direct",
                  "auto: Winograd convolution where it is faster; direct: never"),
    CT_OPT_INT(ct_cpu_opts_t, threads, "0", 0, 4096,
               "threads per rank; 0: its share of the cores, or 1 with parallel.shards"),
    CT_OPT_END};

static const ct_opt_t cuda_rows[] = {
    CT_OPT_BOOL(
        ct_cuda_opts_t, autotune, "true",
        "time the algorithms of matrix products and convolutions at the start (cudnn.benchmark); "
        "false, and with parallel.shards: take the library's first choice"),
    CT_OPT_PATH(
        ct_cuda_opts_t, cache, "", "off",
        "directory for results of autotune; empty: ctrain-hpc in $XDG_CACHE_HOME or ~/.cache; off: "
        "none"),
    CT_OPT_INT(ct_cuda_opts_t, workspace_mb, "0", 0, 1000000,
               "maximum workspace of an algorithm in MB, memory that all ops share; 0: 1/32 of the "
               "GPU's memory"),
    CT_OPT_BOOL(ct_cuda_opts_t, graph, "true", "replay steps as CUDA graphs where that is safe"),
    CT_OPT_DOUBLE(ct_cuda_opts_t, timeout_s, "600", 0, 1e6,
                  "seconds to wait for the GPU or a peer before the run aborts; 0: forever"),
    CT_OPT_END};

static const ct_opt_t sim_rows[] = {
    CT_OPT_PATH(
        ct_sim_opts_t, times, "", NULL,
        "output of `bench step --ops --json` with the times of ops; empty: compute all times "
        "from the rates"),
    CT_OPT_DOUBLE(ct_sim_opts_t, gflops, "0", 0, 1e9,
                  "GFLOP/s of ops that are not in the file; 0: the value in the file, else 100"),
    CT_OPT_DOUBLE(
        ct_sim_opts_t, gbytes, "0", 0, 1e6,
        "GB/s of these ops, whose time is the sum of both terms; 0: the value in the file, "
        "else 10"),
    CT_OPT_DOUBLE(ct_sim_opts_t, noise, "0", 0, 2,
                  "standard deviation of the logarithm of each op's time"),
    CT_OPT_INT(ct_sim_opts_t, slow_rank, "-1", -1, 1000000, "rank with slower ops; -1: none"),
    CT_OPT_DOUBLE(ct_sim_opts_t, slow, "1", 0.01, 1000, "factor on the times of that rank's ops"),
    CT_OPT_END};

/* Keys at the top level, outside of sections. */
static const ct_opt_t root_rows[] = {
    CT_OPT_CHOICE(
        ct_config_t, device, "auto", "auto|cpu|cuda|ref|sim",
        "where to compute; auto: the fastest device available; ref: slow and exact; sim: computes "
        "nothing, only takes the simulated time"),
    CT_OPT_NODE(ct_config_t, transforms, "list of operations on each sample, see below"),
    CT_OPT_NODE(ct_config_t, val_transforms,
                "list for evaluation; default: transforms without the random ones"),
    CT_OPT_END};

/* An option table and the offset of its struct in ct_config_t. */
typedef struct section {
  const char *name;
  const ct_opt_t *rows;
  size_t offset;
  const char *help;
} section_t;

#define SECTION(name, rows, help)                  \
  {                                                \
#    name, rows, offsetof(ct_config_t, name), help \
  }
/* Sections in the order of help and dump. */
static const section_t sections[] = {
    SECTION(run, ct_run_rows, "the run and its directory"),
    SECTION(parallel, ct_parallel_rows, "distribution of the work over ranks"),
    SECTION(data, ct_data_rows, "data sets, and how they are read"),
    SECTION(model, ct_model_rows, "the network: a family, or `layers`"),
    SECTION(init, ct_init_rows, "initial weights, such as those of a trained model"),
    SECTION(train, ct_train_rows, "length of the training, and options of a step"),
    SECTION(eval, ct_eval_rows, "evaluation on data.val: when, and which scores"),
    SECTION(optim, ct_optim_rows, "the optimizer"),
    SECTION(schedule, ct_schedule_rows, "the learning rate over time"),
    SECTION(loss, ct_loss_rows, "the loss function"),
    SECTION(checkpoint, ct_ckpt_rows, "when to save checkpoints, and how many to keep"),
    SECTION(log, ct_log_rows, "output for TensorBoard and MLPerf"),
    SECTION(job, ct_job_rows, "time limits and diagnosis of batch jobs"),
    SECTION(cpu, cpu_rows, "the CPU backend"),
    SECTION(cuda, cuda_rows, "the CUDA backend"),
    SECTION(sim, sim_rows, "device sim: simulated times of ops"),
    {0}};

enum { MAX_SECTIONS = 20 };

static void *values_of(const ct_config_t *c, const section_t *s)
{
  return (char *)(uintptr_t)c + s->offset;
}

void ct_config_clear(ct_config_t *c)
{
  ct_losses_clear(&c->losses);
  ct_schedule_clear(&c->schedule);
  ct_opt_clear(root_rows, c);
  for (const section_t *s = sections; s->name; s++)
    ct_opt_clear(s->rows, values_of(c, s));
}

/* ---- paths ---- */

/* Calls visit() for a path or each item of a list of paths. */
static int visit_paths(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                       const ct_opt_t *row, ct_yaml_t *n, void *arg)
{
  int rc = CT_OK;
  if (n->kind == CT_YAML_SCALAR) return visit(row, n, arg);
  for (ct_yaml_t *item = n->child; item && rc == CT_OK; item = item->next)
    if (item->kind == CT_YAML_SCALAR) rc = visit(row, item, arg);
  return rc;
}

/* Visits the paths of the items of a list of losses. */
static int visit_losses(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                        const ct_yaml_t *loss, void *arg)
{
  int rc = CT_OK;
  const ct_yaml_t *list = loss && loss->kind == CT_YAML_MAP ? ct_yaml_find(loss, "list") : loss;
  if (!list || list->kind != CT_YAML_LIST) return CT_OK;
  for (const ct_yaml_t *one = list->child; one; one = one->next)
    for (const ct_opt_t *row = ct_loss_rows; row->type != CT_OPT_T_END; row++) {
      ct_yaml_t *n = one->kind == CT_YAML_MAP ? ct_yaml_find(one, row->key) : NULL;
      if (row->type == CT_OPT_T_PATH && n) CT_TRY(visit_paths(visit, row, n, arg));
    }
out:
  return rc;
}

int ct__config_each_path(int (*visit)(const ct_opt_t *row, ct_yaml_t *n, void *arg),
                         ct_yaml_t *root, void *arg)
{
  int rc = CT_OK;
  for (const section_t *s = sections; s->name; s++)
    for (const ct_opt_t *row = s->rows; row->type != CT_OPT_T_END; row++) {
      int is_map = row->type == CT_OPT_T_FILES;
      if (row->type != CT_OPT_T_PATH && row->type != CT_OPT_T_PATHS && !is_map) continue;
      ct_yaml_t *n = ct_yaml_find(ct_yaml_find(root, s->name), row->key);
      if (n && !is_map) CT_TRY(visit_paths(visit, row, n, arg));
      for (ct_yaml_t *v = n && is_map && n->kind == CT_YAML_MAP ? n->child : NULL; v; v = v->next)
        CT_TRY(visit_paths(visit, row, v, arg));
    }
  CT_TRY(visit_losses(visit, ct_yaml_find(root, "loss"), arg));
out:
  return rc;
}

static int visit_list(int (*visit)(const ct_opt_t *row, char **path, void *arg),
                      const ct_opt_t *row, ct_opt_texts_t *list, void *arg)
{
  int rc = CT_OK;
  for (int i = 0; i < list->n && rc == CT_OK; i++)
    rc = visit(row, &list->v[i], arg);
  return rc;
}

int ct__config_each_value(int (*visit)(const ct_opt_t *row, char **path, void *arg), ct_config_t *c,
                          void *arg)
{
  int rc = CT_OK;
  for (const section_t *s = sections; s->name; s++)
    for (const ct_opt_t *row = s->rows; row->type != CT_OPT_T_END; row++) {
      void *at = (char *)values_of(c, s) + row->offset;
      const ct_opt_files_t *files = at;
      if (row->type == CT_OPT_T_PATH) CT_TRY(visit(row, at, arg));
      if (row->type == CT_OPT_T_PATHS) CT_TRY(visit_list(visit, row, at, arg));
      for (int i = 0; row->type == CT_OPT_T_FILES && i < files->n; i++)
        CT_TRY(visit_list(visit, row, &files->paths[i], arg));
    }
  for (const ct_opt_t *row = ct_loss_rows; row->type != CT_OPT_T_END; row++)
    for (int k = 0; row->type == CT_OPT_T_PATH && k < c->losses.n; k++)
      CT_TRY(visit(row, (char **)(void *)((char *)&c->losses.of[k] + row->offset), arg));
out:
  return rc;
}

/* ---- reading ---- */

static int apply_set(ct_yaml_t *root, const char *set)
{
  int rc = CT_OK;
  ct_str_t key = {0};
  const char *equal = strchr(set, '=');
  if (!equal || equal == set)
    CT_FAIL(CT_ERR_USAGE, "--set %s: expected KEY=VALUE, such as optim.lr=0.1", set);
  CT_TRY(ct_str_add(&key, "%.*s", (int)(equal - set), set));
  CT_TRY(ct_yaml_set(root, key.data, equal + 1));
out:
  ct_str_clear(&key);
  return rc;
}

static int read_tree(ct_config_t *c, const ct_yaml_t *root)
{
  int rc = CT_OK, n = 0;
  const char *names[MAX_SECTIONS] = {0};
  for (const section_t *s = sections; s->name; s++)
    names[n++] = s->name;
  CT_TRY(ct_opt_defaults(root_rows, c));
  CT_TRY(ct_opt_read(root_rows, c, root, c->where, "", names));
  for (const section_t *s = sections; s->name; s++) {
    void *values = values_of(c, s);
    CT_TRY(ct_opt_defaults(s->rows, values));
    CT_TRY(ct_opt_read(s->rows, values, ct_yaml_find(root, s->name), c->where, s->name, NULL));
  }
  CT_TRY(ct_losses_read(&c->loss, c->where, &c->losses));
  CT_TRY(ct_schedule_read(&c->schedule, c->where));
  CT_TRY(ct_transforms_expand(c->transforms));
  CT_TRY(ct_transforms_expand(c->val_transforms));
  CT_TRY(ct_model_read_numbers(&c->model, c->where));
  CT_TRY(ct_layers_expand(c->model.layers));
out:
  return rc;
}

int ct__config_take(ct_config_t *c, ct_yaml_t *root, const char *where, const char *const *set,
                    int sets)
{
  int rc = CT_OK;
  memset(c, 0, sizeof *c);
  CT_TRY(ct_text_format(c->where, sizeof c->where, "%s", where));
  for (int i = 0; i < sets; i++)
    CT_TRY(apply_set(root, set[i]));
  CT_TRY(ct__config_drop_foreign(root, where));
  CT_TRY(ct_loss_expand(root));
  CT_TRY(read_tree(c, root));
out:
  if (rc != CT_OK) ct_config_clear(c);
  return rc;
}

/* Replaces a key of earlier versions, which checkpoints contain: cuda.tf32: true is now
 * train.amp: tf32. */
static int take_former(ct_yaml_t *root)
{
  ct_yaml_t *cuda = ct_yaml_find(root, "cuda"), *train = ct_yaml_find(root, "train");
  ct_yaml_t *tf32 = cuda && cuda->kind == CT_YAML_MAP ? ct_yaml_find(cuda, "tf32") : NULL;
  ct_yaml_t *amp = train && train->kind == CT_YAML_MAP ? ct_yaml_find(train, "amp") : NULL;
  if (!tf32 || tf32->kind != CT_YAML_SCALAR) return CT_OK;
  int on = strcmp(tf32->text, "true") == 0;
  int is_off = !amp || (amp->kind == CT_YAML_SCALAR && strcmp(amp->text, "off") == 0);
  ct_yaml_unlink(cuda, tf32);
  ct_yaml_free(tf32);
  return on && is_off ? ct_yaml_set(root, "train.amp", "tf32") : CT_OK;
}

int ct__config_tree_of(const char *text, size_t bytes, const char *where, ct_yaml_t **out)
{
  int rc = CT_OK;
  CT_TRY(ct_yaml_parse(text, bytes, where, out));
  if ((*out)->kind == CT_YAML_MAP) return take_former(*out);
  rc = ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                  "%s:%d: expected sections such as 'data:' and 'model:'", where, (*out)->line);
  ct_yaml_free(*out);
  *out = NULL;
out:
  return rc;
}

int ct_config_parse(ct_config_t *c, const char *text, size_t bytes, const char *where,
                    const char *const *set, int sets)
{
  int rc = CT_OK;
  ct_yaml_t *root = NULL;
  memset(c, 0, sizeof *c);
  CT_TRY(ct__config_tree_of(text, bytes, where, &root));
  CT_TRY(ct__config_take(c, root, where, set, sets));
out:
  ct_yaml_free(root);
  return rc;
}

int ct_config_tree(const ct_config_t *c, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *root = ct_opt_dump(root_rows, c, NULL);
  if (!root) CT_FAIL(CT_ERR_NOMEM, "no memory to write the configuration");
  for (const section_t *s = sections; s->name; s++) {
    ct_yaml_t *section = ct_opt_dump(s->rows, values_of(c, s), s->name);
    if (!section) CT_FAIL(CT_ERR_NOMEM, "no memory to write the configuration");
    ct_yaml_append(root, section);
  }
  *out = root;
  root = NULL;
out:
  ct_yaml_free(root);
  return rc;
}

int ct_config_dump(const ct_config_t *c, ct_str_t *out)
{
  int rc = CT_OK;
  ct_yaml_t *root = NULL;
  CT_TRY(ct_config_tree(c, &root));
  CT_TRY(ct_yaml_dump(root, 0, out));
out:
  ct_yaml_free(root);
  return rc;
}

const char *ct_config_device(int choice)
{
  return ct_opt_word(root_rows, "device", choice);
}

/* ---- alternative names of keys ---- */

/* Appends the section's keys that match the word, with or without the section's name. */
static void add_keys(const char *section, const ct_opt_t *rows, const char *word, char *buf,
                     size_t cap)
{
  char full[128];
  for (; rows->type != CT_OPT_T_END; rows++) {
    size_t len = strlen(buf);
    snprintf(full, sizeof full, "%s%s%s", section, *section ? "." : "", rows->key);
    if (strcmp(rows->key, ct_opt_name(word)) == 0 || strcmp(full, word) == 0)
      snprintf(buf + len, cap - len, "%s%s", len ? " or " : "", full);
  }
}

int ct_config_key(const char *word, char *buf, size_t cap)
{
  char plain[64];
  *buf = '\0';
  if (strlen(word) >= sizeof plain) return 0;
  strcpy(plain, word);
  for (char *p = plain; *p; p++)
    if (*p == '-') *p = '_';
  add_keys("", root_rows, plain, buf, cap);
  for (const section_t *s = sections; s->name; s++)
    add_keys(s->name, s->rows, plain, buf, cap);
  return *buf != '\0';
}

/* ---- help ---- */

static int models_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\nModel families (model.family):\n"));
  for (const ct_family_t *const *f = ct_families; *f; f++)
    CT_TRY(ct_str_add(out, "  %-10s %s%s%s\n", (*f)->name, (*f)->help,
                      (*f)->depths[0] ? "; depth " : "", (*f)->depths));
  CT_TRY(ct_str_add(
      out,
      "\nLayer kinds; model.layers is a list of `KIND: {options}`, each with `name: NAME` and\n"
      "`from: NAME` or `from: [NAME, NAME]` if it does not read the previous layer; a value in\n"
      "place of the options sets the main option, as for transforms, such as `linear: 10`.\n"
      "`share: NAME`: the layer uses the parameters of an earlier layer of its kind, as a module\n"
      "of PyTorch that is called twice:\n"));
  for (const ct_layer_ops_t *const *k = ct_layer_kinds; *k; k++) {
    CT_TRY(ct_str_add(out, " %s: %s\n", (*k)->kind, (*k)->help));
    CT_TRY(ct_opt_help((*k)->opts, "", out));
  }
out:
  return rc;
}

int ct_config_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "Configuration (YAML; `--set section.key=value` sets any key):\n"));
  CT_TRY(ct_opt_help(root_rows, "", out));
  for (const section_t *s = sections; s->name; s++) {
    CT_TRY(ct_str_add(out, "\n%s: %s\n", s->name, s->help));
    CT_TRY(ct_opt_help(s->rows, s->name, out));
  }
  CT_TRY(ct_str_add(out, "\nTransforms:\n"));
  CT_TRY(ct_transforms_help(out));
  CT_TRY(models_help(out));
out:
  return rc;
}
