/* `normalize: {from: ...}`: reads the mean and standard deviation of each channel from attributes
 * or a file of statistics and writes them into the configuration, which is then complete without
 * that file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "setup/ct_setup.h"

/* Where numbers are searched, and for messages. */
typedef struct from {
  const char *path;
  int attributes; /* 1: of the array; 0: arrays of the file */
} from_t;

typedef struct moments {
  double *mean, *std; /* owned */
  int n;
} moments_t;

static const struct {
  const char *low, *high;
  int is_range; /* minimum and maximum */
} pairs[] = {{"mean", "std", 0}, {"minval", "maxval", 1}, {"min", "max", 1}};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

static int read_pair(const from_t *f, const char *array, const char *folder, int k, double *v[2],
                     int n[2])
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  const char *words[] = {pairs[k].low, pairs[k].high};
  for (int i = 0; i < 2; i++) {
    CT_TRY(ct_text_format(name, sizeof name, "%s%s", folder, words[i]));
    CT_TRY(ct_h5_numbers(f->path, f->attributes ? array : name, f->attributes ? words[i] : NULL,
                         &v[i], &n[i]));
  }
out:
  return rc;
}

/* Appends the numbers of one array. */
static int append(moments_t *m, const from_t *f, const char *array, int is_range, double *v[2],
                  const int n[2])
{
  int rc = CT_OK;
  if (n[0] != n[1])
    CT_FAIL(CT_ERR_FORMAT, "%s: there are %d and %d numbers for array '%s', expected as many",
            f->path, n[0], n[1], array);
  double *mean = ct_mem_array(m->n + n[0], sizeof *mean, "statistics");
  double *std = ct_mem_array(m->n + n[0], sizeof *std, "statistics");
  for (int i = 0; mean && std && i < m->n + n[0]; i++) {
    int own = i - m->n;
    mean[i] = own < 0 ? m->mean[i] : v[0][own];
    std[i] = own < 0 ? m->std[i] : is_range ? v[1][own] - v[0][own] : v[1][own];
  }
  ct_mem_free(m->mean);
  ct_mem_free(m->std);
  m->mean = mean;
  m->std = std;
  m->n += n[0];
  if (!mean || !std) CT_TRY(CT_ERR_NOMEM);
  for (int i = m->n - n[0]; i < m->n; i++)
    if (!(std[i] > 0))
      CT_FAIL(CT_ERR_FORMAT,
              "%s: channel %d of array '%s' has %s %g, expected more than 0: a channel that is "
              "constant cannot be divided by it",
              f->path, i - (m->n - n[0]), array, is_range ? "a range of" : "the std", std[i]);
out:
  return rc;
}

/* Finds the numbers of an array: its attributes, or of a file X/mean of array X, then mean beside
 * X, then at the top. */
static int read_array(moments_t *m, const from_t *f, const char *array)
{
  int rc = CT_OK, n[2] = {0};
  char folder[3][CT_PATH_MAX] = {"", "", ""};
  const char *slash = strrchr(array, '/');
  double *v[2] = {0};
  CT_TRY(ct_text_format(folder[0], sizeof folder[0], "%s/", array));
  if (slash)
    CT_TRY(ct_text_format(folder[1], sizeof folder[1], "%.*s/", (int)(slash - array), array));
  for (int at = 0; at < (f->attributes ? 1 : 3); at++)
    for (int k = 0; k < PAIRS; k++) {
      CT_TRY(read_pair(f, array, folder[at], k, v, n));
      if (n[0] && n[1]) CT_TRY(append(m, f, array, pairs[k].is_range, v, n));
      for (int i = 0; i < 2; i++) {
        ct_mem_free(v[i]);
        v[i] = NULL;
      }
      if (n[0] && n[1]) goto out;
    }
  if (f->attributes)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' has no attributes mean and std, minval and maxval, or min and max",
            f->path, array);
  CT_FAIL(
      CT_ERR_FORMAT,
      "%s: holds no numbers for array '%s': expected %smean and %sstd (or minval and maxval), or "
      "these beside it or at the top",
      f->path, array, folder[0], folder[0]);
out:
  for (int i = 0; i < 2; i++)
    ct_mem_free(v[i]);
  return rc;
}

/* The shortest text that is read as the same number. */
static int add_numbers(ct_yaml_t *map, const char *key, const double *v, int n)
{
  char text[40];
  ct_yaml_t *list = ct_yaml_new(CT_YAML_LIST, key, NULL);
  if (!list) return CT_ERR_NOMEM;
  ct_yaml_append(map, list);
  for (int i = 0; i < n; i++) {
    for (int digits = 6; digits <= 17; digits++) {
      snprintf(text, sizeof text, "%.*g", digits, v[i]);
      if (strtod(text, NULL) == v[i]) break;
    }
    ct_yaml_t *number = ct_yaml_new(CT_YAML_SCALAR, NULL, text);
    if (!number) return CT_ERR_NOMEM;
    ct_yaml_append(list, number);
  }
  return CT_OK;
}

/* Finds the file: of attributes, the first of data.train. */
static int find_file(const ct_config_t *c, const char *from, const char *cwd, from_t *f, char *path,
                     size_t cap)
{
  int rc = CT_OK, n = 0;
  char **list = NULL;
  f->path = path;
  f->attributes = strcmp(from, "attributes") == 0;
  if (!f->attributes) return ct_path_join(path, cap, cwd, from);
  if (c->data.train.n == 0) CT_FAIL(CT_ERR_USAGE, "it reads attributes of data.train, not set");
  CT_TRY(ct_reader_list(&ct_reader_hdf5.format, "/", c->data.train.v[0], &list, &n));
  CT_TRY(ct_text_format(path, cap, "%s", list[0]));
out:
  ct_file_list_free(list, n);
  return rc;
}

static int replace(const ct_config_t *c, ct_yaml_t *options, const char *cwd)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  from_t f;
  moments_t m = {0};
  ct_yaml_t *from = ct_yaml_find(options, "from");
  if (ct_yaml_find(options, "mean") || ct_yaml_find(options, "std"))
    CT_FAIL(CT_ERR_USAGE, "from takes the place of mean and std");
  if (from->kind != CT_YAML_SCALAR || !from->text[0])
    CT_FAIL(CT_ERR_USAGE, "from: expected attributes, or the name of an HDF5 file");
  CT_TRY(find_file(c, from->text, cwd, &f, path, sizeof path));
  for (int i = 0; i < (c->data.join_inputs ? c->data.input.n : 1); i++)
    CT_TRY(read_array(&m, &f, c->data.input.v[i]));
  CT_TRY(add_numbers(options, "mean", m.mean, m.n));
  CT_TRY(add_numbers(options, "std", m.std, m.n));
  ct_yaml_unlink(options, from);
  ct_yaml_free(from);
out:
  ct_mem_free(m.mean);
  ct_mem_free(m.std);
  return rc;
}

static int replace_all(const ct_config_t *c, ct_yaml_t *list, const char *key, const char *cwd)
{
  int rc = CT_OK, scaled = 0;
  for (ct_yaml_t *n = list && list->kind == CT_YAML_LIST ? list->child : NULL; n; n = n->next) {
    ct_yaml_t *options = ct_yaml_find(n, "normalize");
    const char *name = n->kind == CT_YAML_MAP && n->child ? n->child->key : n->text;
    scaled |= name && strcmp(name, "to_tensor") == 0;
    if (!options || options->kind != CT_YAML_MAP || !ct_yaml_find(options, "from")) continue;
    rc = scaled
             ? ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                          "from: the statistics are of stored numbers, which to_tensor before it "
                          "has divided")
             : replace(c, options, cwd);
    if (rc == CT_OK) continue;
    ct_err_prefix(rc, "%s.normalize: ", key);
    return ct_err_location(rc, ct_yaml_file(n, c->where), n->line);
  }
  return rc;
}

int ct_setup_normalize(ct_config_t *c, const char *cwd)
{
  int rc = CT_OK;
  CT_TRY(replace_all(c, c->transforms, "transforms", cwd));
  CT_TRY(replace_all(c, c->val_transforms, "val_transforms", cwd));
out:
  return rc;
}
