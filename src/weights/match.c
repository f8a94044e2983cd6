/* Assigns a file's tensors to parameters by name and shape alone, before any tensor is read, so
 * that all mismatches are reported at once. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

enum { MISSING, MISFITS, UNEXPECTED, REPLACED };

/* State of one match. */
typedef struct matcher {
  const ct_weights_file_t *f;
  const ct_graph_t *g;
  const ct_init_opts_t *o;
  const char *prefix;            /* stripped from the file's names */
  const ct_names_known_t *known; /* NULL: names are used as they are */
  ct_match_t *m;
  int unwrapped; /* 1: names contained wrapper prefixes */
  int in_out;    /* ct_weights_conv1d() */
} matcher_t;

/* ---- lists of names ---- */

/* Appends a name. Names come from untrusted files: control characters become '?', so that they
 * cannot affect a terminal. */
static int match_add_name(ct_str_t *list, const char *name)
{
  int rc = CT_OK;
  size_t begin = list->len;
  CT_TRY(ct_str_add(list, "%s", name));
  for (size_t i = begin; i < list->len; i++)
    if (iscntrl((unsigned char)list->data[i])) list->data[i] = '?';
out:
  return rc;
}

/* Appends a name to a list; names are separated by newlines. */
static int match_add(ct_str_t *list, const char *name, const char *more)
{
  int rc = CT_OK;
  if (list->len) CT_TRY(ct_str_add(list, "\n"));
  CT_TRY(match_add_name(list, name));
  CT_TRY(ct_str_add(list, "%s", more));
out:
  return rc;
}

/* Appends dims as "[64, 3, 7, 7]"; a scalar is "[]". */
static int add_dims(ct_str_t *out, int n, const int64_t *dim)
{
  int rc = CT_OK;
  for (int i = 0; i < n && i < 2 * CT_MAX_DIMS; i++)
    CT_TRY(ct_str_add(out, "%s%lld", i ? ", " : "[", (long long)dim[i]));
  CT_TRY(ct_str_add(out, n == 0 ? "[]" : n > 2 * CT_MAX_DIMS ? ", …]" : "]"));
out:
  return rc;
}

/* ---- the file's names ---- */

static int ends_with(const char *name, const char *end)
{
  size_t n = strlen(name), k = strlen(end);
  return n >= k && strcmp(name + n - k, end) == 0 && (n == k || name[n - k - 1] == '.');
}

/* Returns 1 for what the model's arithmetic does not use: counters of batches in a batchnorm or of
 * updates in torch.optim.swa_utils.AveragedModel; buffers of transformers (the causal mask of
 * GPT-2, frequencies, places) and its head of contacts. */
static int is_unused(const ct_tensor_t *t, const char *name)
{
  static const char *const ends[] = {"num_batches_tracked", "attn.masked_bias",
                                     "rotary_emb.inv_freq", "rotary_embeddings.inv_freq",
                                     "embeddings.position_ids"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(name, ends[i])) return 1;
  int mask = t->ndim == 4 && t->dim[0] == 1 && t->dim[1] == 1 && ends_with(name, "attn.bias");
  return mask || strcmp(name, "n_averaged") == 0 || strstr(name, "contact_head.regression.");
}

/* Returns the parameter of which \a name is a second name, or -1. */
static int tied_param(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->ties; i++)
    if (strcmp(g->tied[i].name, name) == 0) return g->tied[i].param;
  return -1;
}

static int is_replaced(const ct_init_opts_t *o, const char *name)
{
  for (int i = 0; i < o->replace.n; i++)
    if (ct_graph_matches(o->replace.v[i], name)) return 1;
  return 0;
}

/* Returns the shape that parameter p has in the file. */
static ct_shape_t shape_in_file(const matcher_t *x, const ct_param_t *p)
{
  ct_shape_t s = p->spec.shape;
  return p->conv1d && x->in_out ? ct_shape(2, s.dim[1], s.dim[0]) : s;
}

static int has_shape(const ct_tensor_t *t, const ct_shape_t *s)
{
  int pairs = t->type == CT_ELEM_C64 && s->ndim > 0 && s->dim[s->ndim - 1] == 2;
  if (t->ndim == 0 && !pairs) return s->ndim == 1 && s->dim[0] == 1; /* a scalar */
  if (t->ndim + pairs != s->ndim) return 0;
  for (int i = 0; i < t->ndim; i++)
    if (t->dim[i] != s->dim[i]) return 0;
  return 1;
}

/* Assigns tensor i, renamed to \a name, to the parameter with that name. */
static int place(matcher_t *x, int i, const char *name)
{
  int rc = CT_OK;
  ct_tensor_t t, other;
  ct_match_t *m = x->m;
  x->f->ops->tensor(x->f->w, i, &t);
  int p = ct_graph_find_param(x->g, name), second = p < 0 ? tied_param(x->g, name) : -1;
  if (second >= 0) m->second[second] = i;
  if (p < 0 && (second >= 0 || is_unused(&t, name))) return CT_OK;
  if (is_replaced(x->o, name)) return CT_OK;
  if (p < 0) {
    m->unexpected++;
    return match_add(&m->lines[UNEXPECTED], name, "");
  }
  if (m->from[p] >= 0) {
    x->f->ops->tensor(x->f->w, m->from[p], &other);
    CT_FAIL(CT_ERR_FORMAT, "both '%s' and '%s' would become '%s' of the model: see init.rename",
            other.name, t.name, name);
  }
  m->from[p] = i;
out:
  return rc;
}

static int place_all(matcher_t *x)
{
  int rc = CT_OK;
  ct_str_t name = {0}, ours = {0};
  ct_tensor_t t;
  for (int i = 0, n = x->f->ops->count(x->f->w); i < n; i++) {
    x->f->ops->tensor(x->f->w, i, &t);
    CT_TRY(ct_names_change(x->prefix, &x->o->rename, t.name, &name));
    ct_str_clear(&ours);
    if (x->known) CT_TRY(ct_names_translate(x->known, name.data, &x->unwrapped, &ours));
    CT_TRY(place(x, i, x->known ? ours.data : name.data));
  }
out:
  ct_str_clear(&name);
  ct_str_clear(&ours);
  return rc;
}

/* ---- the model's names ---- */

static int misfit(matcher_t *x, const ct_param_t *p, const ct_tensor_t *t)
{
  int rc = CT_OK;
  ct_str_t what = {0};
  ct_shape_t shape = shape_in_file(x, p);
  x->m->misfits++;
  CT_TRY(ct_str_add(&what, " is "));
  CT_TRY(add_dims(&what, t->ndim, t->dim));
  CT_TRY(ct_str_add(&what, " in the file and "));
  CT_TRY(add_dims(&what, shape.ndim, shape.dim));
  CT_TRY(ct_str_add(&what, " in the model"));
  CT_TRY(match_add(&x->m->lines[MISFITS], p->name, what.data));
out:
  ct_str_clear(&what);
  return rc;
}

/* Classifies the result for parameter i: assigned, different shape, or missing. */
static int judge_param(matcher_t *x, int i)
{
  ct_match_t *m = x->m;
  ct_tensor_t t;
  const ct_param_t *p = &x->g->param[i];
  if (is_replaced(x->o, p->name)) {
    m->replaced++;
    return match_add(&m->lines[REPLACED], p->name, "");
  }
  if (m->from[i] < 0 && p->spec.buffer == CT_CONSTANT) {
    m->constants++;
    return CT_OK;
  }
  if (m->from[i] < 0) {
    m->missing++;
    return match_add(&m->lines[MISSING], p->name, "");
  }
  x->f->ops->tensor(x->f->w, m->from[i], &t);
  ct_shape_t shape = shape_in_file(x, p);
  if (has_shape(&t, &shape)) {
    m->taken++;
    return CT_OK;
  }
  m->from[i] = -1;
  return misfit(x, p, &t);
}

static int check_replaced(const ct_init_opts_t *o, const ct_graph_t *g)
{
  int rc = CT_OK;
  for (int i = 0; i < o->replace.n; i++) {
    int found = 0;
    for (int p = 0; p < g->params && !found; p++)
      found = ct_graph_matches(o->replace.v[i], g->param[p].name);
    if (!found)
      CT_FAIL(CT_ERR_USAGE, "init.replace: no parameter of the model matches '%s'",
              o->replace.v[i]);
  }
out:
  return rc;
}

static int match_names(matcher_t *x, ct_match_t *out)
{
  int rc = CT_OK;
  x->m = out;
  *out = (ct_match_t){0};
  out->from = ct_mem_array(x->g->params + 1, sizeof *out->from, "list of weights");
  out->second = ct_mem_array(x->g->params + 1, sizeof *out->second, "list of weights");
  CT_TRY(out->from && out->second ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < x->g->params; i++)
    out->from[i] = out->second[i] = -1;
  CT_TRY(place_all(x));
  for (int i = 0; i < x->g->params; i++)
    if (out->from[i] < 0) out->from[i] = out->second[i];
  for (int i = 0; i < x->g->params; i++)
    CT_TRY(judge_param(x, i));
out:
  if (rc != CT_OK) ct_match_clear(out);
  return rc;
}

/* ---- other naming schemes ---- */

/* Returns the number of parameters that the file's names refer to. */
static int found(const ct_match_t *m)
{
  return m->taken + m->misfits;
}

/* Returns 1 if the names match more parameters than before, and more than half of the model's. */
static int is_better(const ct_match_t *m, const ct_match_t *than)
{
  return found(m) > found(than) && 2 * found(m) > found(m) + m->missing;
}

static void match_describe(const matcher_t *x, ct_match_t *m)
{
  ct_text_fit(m->names, sizeof m->names, "%s%s%s", x->known->what,
              *x->known->what && x->unwrapped ? ", and " : "",
              x->unwrapped ? "prefix of a wrapper module, stripped" : "");
}

/* If some parameters are missing with the plain names, tries the naming schemes of other
 * programs. */
static int match_known(const matcher_t *plain, ct_match_t *best)
{
  int rc = CT_OK;
  ct_match_t m;
  for (const ct_names_known_t *k = ct_names_known; k->what && best->missing; k++) {
    matcher_t x = *plain;
    x.known = k;
    x.unwrapped = 0;
    rc = match_names(&x, &m);
    if (rc == CT_ERR_FORMAT)
      continue; /* two tensors get the same name, so this is not their scheme */
    CT_TRY(rc);
    match_describe(&x, &m);
    if (is_better(&m, best)) {
      ct_match_clear(best);
      *best = m;
    } else {
      ct_match_clear(&m);
    }
  }
  rc = CT_OK;
out:
  return rc;
}

static int match_by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* If most names start with a common prefix, so does the median of the sorted names. */
static int middle_name(const matcher_t *x, char *out, size_t cap)
{
  int rc = CT_OK, all = x->f->ops->count(x->f->w), n = 0;
  const char **name = ct_mem_array(all + 1, sizeof *name, "names of tensors");
  CT_TRY(name ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < all; i++) {
    ct_tensor_t t;
    x->f->ops->tensor(x->f->w, i, &t);
    name[n++] = t.name;
  }
  if (n) qsort(name, (size_t)n, sizeof *name, match_by_name);
  ct_text_fit(out, cap, "%s", n ? name[n / 2] : "");
out:
  ct_mem_free(name);
  return rc;
}

static int most_begin_with(const matcher_t *x, const char *prefix)
{
  int n = x->f->ops->count(x->f->w), with = 0;
  for (int i = 0; i < n; i++) {
    ct_tensor_t t;
    x->f->ops->tensor(x->f->w, i, &t);
    with += strncmp(t.name, prefix, strlen(prefix)) == 0;
  }
  return 2 * with > n;
}

/* Finds a prefix such as "backbone." with which most names of the file start and without which they
 * match the model; only then is it worth a hint. */
static int guess_prefix(const matcher_t *plain, ct_match_t *out)
{
  int rc = CT_OK;
  char name[2 * CT_NAME_MAX], prefix[CT_NAME_MAX];
  if (plain->prefix[0] || !out->missing || !out->unexpected) return CT_OK;
  CT_TRY(middle_name(plain, name, sizeof name));
  for (char *dot = strchr(name, '.'); dot && !out->prefix[0]; dot = strchr(dot + 1, '.')) {
    matcher_t x = *plain;
    ct_match_t m;
    size_t n = (size_t)(dot + 1 - name);
    if (n >= sizeof prefix) break;
    ct_text_fit(prefix, sizeof prefix, "%.*s", (int)n, name);
    if (!most_begin_with(&x, prefix)) break;
    x.prefix = prefix;
    rc = match_names(&x, &m);
    if (rc == CT_ERR_FORMAT) continue;
    CT_TRY(rc);
    rc = match_known(&x, &m);
    if (rc == CT_OK && is_better(&m, out))
      ct_text_fit(out->prefix, sizeof out->prefix, "%s", prefix);
    ct_match_clear(&m);
    CT_TRY(rc);
  }
  rc = CT_OK;
out:
  return rc;
}

int ct_match_make(const ct_weights_file_t *f, const ct_graph_t *g, const ct_init_opts_t *o,
                  ct_match_t *out)
{
  int rc = CT_OK;
  matcher_t x = {.f = f, .g = g, .o = o, .prefix = o->strip_prefix, .in_out = ct_weights_conv1d(f)};
  *out = (ct_match_t){0};
  CT_TRY(check_replaced(o, g));
  CT_TRY(match_names(&x, out));
  CT_TRY(match_known(&x, out));
  CT_TRY(guess_prefix(&x, out));
out:
  if (rc != CT_OK) ct_match_clear(out);
  return rc;
}

/* ---- dicts of a nested file ---- */

/* The best matching dict so far. */
typedef struct fit {
  int found;              /* quality of the match: 2 per matching parameter, 1 per other shape */
  int equals;             /* number of dicts of the same rank with the same quality */
  ct_weights_rank_t rank; /* rank of its key */
  ct_weights_file_t f;
  ct_match_t m;
} fit_t;

static int try_part(const ct_weights_ops_t *const formats[], const char *path,
                    const ct_weights_part_t *part, const ct_graph_t *g, const ct_init_opts_t *o,
                    fit_t *best)
{
  int rc = CT_OK;
  fit_t now = {.rank = part->rank};
  if (ct_weights_open(formats, path, part->key, &now.f) != CT_OK)
    return CT_OK; /* cannot be opened: no match */
  rc = ct_match_make(&now.f, g, o, &now.m);
  if (rc == CT_ERR_FORMAT) rc = CT_OK;
  CT_TRY(rc);
  now.found = 2 * now.m.taken + now.m.misfits;
  int alike = now.found == best->found && now.rank == best->rank;
  if (now.found > 0 && alike) best->equals++;
  if (now.found > best->found || (now.found == best->found && now.rank < best->rank)) {
    fit_t old = *best;
    *best = now;
    now = old;
  }
out:
  ct_match_clear(&now.m);
  ct_weights_close(&now.f);
  return rc;
}

/* Selects the dict whose names match the model best; averaged copies have the lowest priority. */
static int open_part(const ct_weights_ops_t *const formats[], const char *path,
                     const ct_weights_parts_t *parts, const ct_graph_t *g, const ct_init_opts_t *o,
                     fit_t *best)
{
  int rc = CT_OK;
  ct_str_t names = {0};
  *best = (fit_t){.rank = CT_WEIGHTS_HELPER};
  for (int i = 0; i < parts->n; i++)
    CT_TRY(try_part(formats, path, &parts->v[i], g, o, best));
  if (best->equals) {
    CT_TRY(ct_weights_parts_text(parts, &names));
    CT_FAIL(CT_ERR_FORMAT, "%s: several parts fit the model: say which of %s by init.key (--key)",
            path, names.data);
  }
out:
  ct_str_clear(&names);
  return rc;
}

/* Checks that a tensor with a second name of a parameter has the parameter's values: a head that
 * was trained apart from the embedding has others. */
static int check_second(const ct_weights_file_t *f, const ct_graph_t *g, const ct_match_t *m, int p)
{
  int rc = CT_OK;
  ct_tensor_t a, b;
  float *values[2] = {0};
  size_t bytes = (size_t)g->param[p].count * sizeof(float);
  if (m->second[p] < 0 || m->from[p] < 0 || m->second[p] == m->from[p]) return CT_OK;
  f->ops->tensor(f->w, m->from[p], &a);
  f->ops->tensor(f->w, m->second[p], &b);
  int same = a.count == b.count && (a.type == CT_ELEM_C64) == (b.type == CT_ELEM_C64);
  for (int i = 0; i < 2 && same; i++) {
    values[i] = ct_mem_alloc(bytes + 1, "tied weights");
    CT_TRY(values[i] ? CT_OK : CT_ERR_NOMEM);
    CT_TRY(ct_weights_floats(f, i ? m->second[p] : m->from[p], values[i]));
  }
  if (!same || memcmp(values[0], values[1], bytes) != 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: '%s' differs from '%s', but the model uses one parameter for both: an untied head "
            "needs model.tie: false",
            f->path, b.name, a.name);
out:
  ct_mem_free(values[0]);
  ct_mem_free(values[1]);
  return rc;
}

int ct_match_open(const ct_weights_ops_t *const formats[], const char *path, const ct_graph_t *g,
                  const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m)
{
  int rc = CT_OK;
  ct_weights_parts_t parts = {0};
  fit_t best = {0};
  *f = (ct_weights_file_t){0};
  *m = (ct_match_t){0};
  if (!o->key[0]) CT_TRY(ct_weights_parts(formats, path, &parts));
  if (parts.n > 1) CT_TRY(open_part(formats, path, &parts, g, o, &best));
  if (best.found > 0) {
    *f = best.f;
    *m = best.m;
    best = (fit_t){0};
  } else {
    CT_TRY(ct_weights_open(formats, path, o->key, f));
    CT_TRY(ct_match_make(f, g, o, m));
  }
  for (int p = 0; p < g->params; p++)
    CT_TRY(check_second(f, g, m, p));
out:
  ct_match_clear(&best.m);
  ct_weights_close(&best.f);
  if (rc != CT_OK) ct_match_clear(m);
  if (rc != CT_OK) ct_weights_close(f);
  return rc;
}

int ct_match_reopen(const ct_weights_ops_t *const formats[], const ct_graph_t *g,
                    const ct_init_opts_t *o, ct_weights_file_t *f, ct_match_t *m)
{
  int rc = CT_OK;
  char *path = ct_mem_strdup(f->dir ? f->dir : f->path);
  CT_TRY(path ? CT_OK : CT_ERR_NOMEM);
  ct_weights_close(f);
  CT_TRY(ct_match_open(formats, path, g, o, f, m));
out:
  ct_mem_free(path);
  return rc;
}

int ct_match_read(const ct_weights_file_t *f, int i, const ct_param_t *p, float *to)
{
  int rc = CT_OK;
  float *plain = NULL;
  int64_t rows = p->spec.shape.dim[0], columns = p->spec.shape.dim[1];
  if (!p->conv1d || !ct_weights_conv1d(f)) return ct_weights_floats(f, i, to);
  plain = ct_mem_array(p->count, sizeof *plain, "a weight to transpose");
  CT_TRY(plain ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_weights_floats(f, i, plain));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      to[r * columns + c] = plain[c * rows + r];
out:
  ct_mem_free(plain);
  return rc;
}

void ct_match_clear(ct_match_t *m)
{
  for (size_t i = 0; i < sizeof m->lines / sizeof *m->lines; i++)
    ct_str_clear(&m->lines[i]);
  ct_mem_free(m->from);
  ct_mem_free(m->second);
  *m = (ct_match_t){0};
}

/* ---- messages ---- */

/* Logs the first names of a list, and how many more there are. */
static int match_tell(ct_log_level_t level, const char *what, const ct_str_t *list)
{
  int rc = CT_OK, n = 0;
  ct_str_t line = {0};
  for (const char *p = list->data; p && *p; n++) {
    size_t len = strcspn(p, "\n");
    if (n < CT_NAMES_LISTED) CT_TRY(ct_str_add(&line, "%s%.*s", n ? ", " : "", (int)len, p));
    p += len + (p[len] == '\n');
  }
  CT_TRY(ct_names_list_end(&line, n));
  if (n) ct_log(level, "%s: %s", what, line.data);
out:
  ct_str_clear(&line);
  return rc;
}

static int tell_all(const ct_match_t *m, ct_log_level_t level)
{
  int rc = CT_OK;
  if (m->names[0]) ct_log(CT_LOG_INFO, "init: the file has %s", m->names);
  CT_TRY(match_tell(level, "init: missing in the file", &m->lines[MISSING]));
  CT_TRY(match_tell(level, "init: of another shape", &m->lines[MISFITS]));
  CT_TRY(match_tell(level, "init: not in the model", &m->lines[UNEXPECTED]));
  CT_TRY(match_tell(CT_LOG_INFO, "init: initialized randomly", &m->lines[REPLACED]));
out:
  return rc;
}

/* Advice for names that do not match. */
static const char *advice(const ct_match_t *m, char *text, size_t cap)
{
  if (m->prefix[0])
    ct_text_fit(text, cap, "its names begin with '%s': init.strip_prefix strips it", m->prefix);
  else
    ct_text_fit(text, cap,
                "init.rename maps names, init.replace lists parameters to initialize randomly, "
                "init.strict: false loads only what fits");
  return text;
}

int ct_match_judge(const ct_match_t *m, const ct_init_opts_t *o, const char *file)
{
  int rc = CT_OK;
  char text[200];
  int fits = m->missing + m->misfits + m->unexpected == 0;
  CT_TRY(tell_all(m, o->strict ? CT_LOG_ERROR : CT_LOG_WARN));
  if (!fits && o->strict)
    CT_FAIL(CT_ERR_FORMAT,
            "init.from: '%s' does not fit the model: %d missing, %d of another shape, %d not in "
            "the model, as listed above; %s",
            file, m->missing, m->misfits, m->unexpected, advice(m, text, sizeof text));
  if (m->taken == 0)
    CT_FAIL(CT_ERR_FORMAT,
            "init.from: no tensor of '%s' matches a parameter of the model in name and shape; %s",
            file, advice(m, text, sizeof text));
out:
  return rc;
}
