#include "data/ct_feed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"

typedef struct normalize {
  ct_opt_doubles_t mean, std;
} normalize_t;
static const ct_opt_t normalize_rows[] = {
    CT_OPT_DOUBLES(normalize_t, mean, NULL, "subtracted: one value, or one per channel"),
    CT_OPT_DOUBLES(normalize_t, std, NULL, "divided by: one value, or one per channel; not 0"),
    CT_OPT_END};

/* The map so far, in double: rounded once at the end. */
typedef struct map {
  int channels; /* of a sample */
  int varies;   /* channels differ */
  double a[CT_AFFINE_MAX], b[CT_AFFINE_MAX];
} map_t;

static const char *const names[] = {"to_tensor", "normalize"};
enum { NAMES = sizeof names / sizeof names[0] };

static int usage(const char *where, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "file:line: transforms…"; what came from the command line has no line. */
static int usage(const char *where, int line, const char *fmt, ...)
{
  char text[sizeof ct_err_last()->text];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (line > 0)
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "%s:%d: transforms%s", where, line, text);
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "--set: transforms%s", text);
}

/* One number for all channels or one for each. */
static int check_length(const map_t *m, const ct_opt_doubles_t *v, const char *where, int line,
                        const char *key)
{
  if (v->n == 1 || (v->n == m->channels && v->n <= CT_AFFINE_MAX)) return CT_OK;
  return usage(
      where, line,
      ".normalize.%s: found %d values, expected one or one for each of the %d channels of a "
      "sample (up to %d)",
      key, v->n, m->channels, CT_AFFINE_MAX);
}

static int normalize(map_t *m, const ct_node_t *node, const char *where)
{
  int rc = CT_OK;
  normalize_t o = {0};
  CT_TRY(ct_opt_defaults(normalize_rows, &o));
  CT_TRY(ct_opt_read(normalize_rows, &o, node, where, "transforms.normalize", NULL));
  CT_TRY(check_length(m, &o.mean, where, node->line, "mean"));
  CT_TRY(check_length(m, &o.std, where, node->line, "std"));
  m->varies |= o.mean.n > 1 || o.std.n > 1;
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    double mean = o.mean.v[c < o.mean.n ? c : 0], std = o.std.v[c < o.std.n ? c : 0];
    if (std == 0 || !isfinite(std) || !isfinite(mean)) {
      rc = usage(where, node->line, ": normalize divides by std: it must not be 0, and finite");
      goto out;
    }
    m->a[c] /= std;
    m->b[c] = (m->b[c] - mean) / std;
  }
out:
  ct_opt_clear(normalize_rows, &o);
  return rc;
}

static void to_tensor(map_t *m)
{
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    m->a[c] /= 255;
    m->b[c] /= 255;
  }
}

static int unknown(const char *name, const char *where, int line)
{
  const char *nearest = ct_text_nearest(name, names, NAMES);
  if (nearest) return usage(where, line, ": unknown '%.80s'; did you mean '%s'?", name, nearest);
  return usage(where, line, ": unknown '%.80s'; there are to_tensor, normalize", name);
}

/* `to_tensor`, or a map of one key: `normalize: {…}`. */
static int add(map_t *m, ct_node_t *item, const char *where)
{
  int named = item->kind == CT_NODE_MAP && ct_node_count(item) == 1;
  if (item->kind != CT_NODE_SCALAR && !named)
    return usage(where, item->line, ": expected a name, or a name and its options: {name: {...}}");
  ct_node_t *options = named ? item->child : NULL;
  const char *name = named ? options->key : item->text;
  item->used = 1;
  if (strcmp(name, "normalize") == 0) {
    if (!named) return usage(where, item->line, ": normalize needs {mean: [...], std: [...]}");
    return normalize(m, options, where);
  }
  if (strcmp(name, "to_tensor") != 0) return unknown(name, where, item->line);
  if (named && ct_node_count(options) > 0)
    return usage(where, item->line, ": to_tensor has no options");
  if (named) options->used = 1;
  to_tensor(m);
  return CT_OK;
}

int ct_transforms_read(const ct_node_t *list, const char *where, int channels, ct_affine_t *out)
{
  int rc = CT_OK;
  map_t m = {.channels = channels};
  for (int c = 0; c < CT_AFFINE_MAX; c++)
    m.a[c] = 1;
  int nothing = !list || (list->kind == CT_NODE_SCALAR && !list->text[0]);
  if (!nothing && list->kind != CT_NODE_LIST)
    return usage(where, list->line, ": expected a list: [to_tensor, ...]");
  for (ct_node_t *item = nothing ? NULL : list->child; item; item = item->next)
    CT_TRY(add(&m, item, where));
  out->channels = m.varies ? channels : 1;
  for (int c = 0; c < CT_AFFINE_MAX; c++) {
    out->a[c] = (float)m.a[c];
    out->b[c] = (float)m.b[c];
  }
out:
  return rc;
}

int ct_transforms_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "  transforms: a list, applied in its order to every sample\n"
                         "    to_tensor              divides by 255: bytes become 0 to 1\n"
                         "    normalize: {mean, std} subtracts mean, divides by std; one value for "
                         "all\n"
                         "                           channels or one per channel\n"));
out:
  return rc;
}
