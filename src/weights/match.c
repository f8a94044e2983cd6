/* Which tensor of a file each parameter gets: by name and shape alone, before anything is read, so
 * that all that does not fit is told at once. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

enum { MISSING, MISFITS, UNEXPECTED, REPLACED };
enum { LINE = 1000 }; /* bytes of names in a line of the log */

static const char counter[] = "num_batches_tracked";

/* What a match is made of. */
typedef struct matcher {
  const ct_weights_file_t *f;
  const ct_graph_t *g;
  const ct_init_opts_t *o;
  ct_match_t *m;
} matcher_t;

/* ---- lists of names ---- */

/* A file may say anything: what could steer a terminal becomes '?'. */
static int add_name(ct_str_t *list, const char *name)
{
  int rc = CT_OK;
  size_t begin = list->len;
  CT_TRY(ct_str_add(list, "%s", name));
  for (size_t i = begin; i < list->len; i++)
    if (iscntrl((unsigned char)list->data[i])) list->data[i] = '?';
out:
  return rc;
}

/* Names are separated by newlines. */
static int add(ct_str_t *list, const char *name, const char *more)
{
  int rc = CT_OK;
  if (list->len) CT_TRY(ct_str_add(list, "\n"));
  CT_TRY(add_name(list, name));
  CT_TRY(ct_str_add(list, "%s", more));
out:
  return rc;
}

/* "[64, 3, 7, 7]"; a scalar is "[]". */
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

static int is_counter(const char *name)
{
  const char *dot = strrchr(name, '.');
  return strcmp(dot ? dot + 1 : name, counter) == 0;
}

static int is_replaced(const ct_init_opts_t *o, const char *name)
{
  for (int i = 0; i < o->replace.n; i++)
    if (ct_graph_matches(o->replace.v[i], name)) return 1;
  return 0;
}

static int has_shape(const ct_tensor_t *t, const ct_shape_t *s)
{
  if (t->ndim != s->ndim) return 0;
  for (int i = 0; i < t->ndim; i++)
    if (t->dim[i] != s->dim[i]) return 0;
  return 1;
}

/* Tensor i of the file, which has the name \a name by the rules. */
static int place(matcher_t *x, int i, const char *name)
{
  int rc = CT_OK;
  ct_tensor_t t, other;
  ct_match_t *m = x->m;
  x->f->ops->tensor(x->f->w, i, &t);
  int p = ct_graph_find_param(x->g, name);
  if (p < 0 && is_counter(name)) return CT_OK;
  if (is_replaced(x->o, name)) return CT_OK;
  if (p < 0) {
    m->unexpected++;
    return add(&m->lines[UNEXPECTED], name, "");
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
  ct_str_t name = {0};
  ct_tensor_t t;
  for (int i = 0, n = x->f->ops->count(x->f->w); i < n; i++) {
    x->f->ops->tensor(x->f->w, i, &t);
    CT_TRY(ct_names_change(x->o->strip_prefix, &x->o->rename, t.name, &name));
    CT_TRY(place(x, i, name.data));
  }
out:
  ct_str_clear(&name);
  return rc;
}

/* ---- the model's names ---- */

static int misfit(matcher_t *x, const ct_param_t *p, const ct_tensor_t *t)
{
  int rc = CT_OK;
  ct_str_t what = {0};
  x->m->misfits++;
  CT_TRY(ct_str_add(&what, " is "));
  CT_TRY(add_dims(&what, t->ndim, t->dim));
  CT_TRY(ct_str_add(&what, " in the file and "));
  CT_TRY(add_dims(&what, p->spec.shape.ndim, p->spec.shape.dim));
  CT_TRY(ct_str_add(&what, " in the model"));
  CT_TRY(add(&x->m->lines[MISFITS], p->name, what.data));
out:
  ct_str_clear(&what);
  return rc;
}

/* What came of parameter i. */
static int judge_param(matcher_t *x, int i)
{
  ct_match_t *m = x->m;
  ct_tensor_t t;
  const ct_param_t *p = &x->g->param[i];
  if (is_replaced(x->o, p->name)) {
    m->replaced++;
    return add(&m->lines[REPLACED], p->name, "");
  }
  if (m->from[i] < 0) {
    m->missing++;
    return add(&m->lines[MISSING], p->name, "");
  }
  x->f->ops->tensor(x->f->w, m->from[i], &t);
  if (has_shape(&t, &p->spec.shape)) {
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
      CT_FAIL(CT_ERR_USAGE, "init.replace: the model has no parameter with a name like '%s'",
              o->replace.v[i]);
  }
out:
  return rc;
}

/* "module." if the file has module.conv1.weight, and the model misses conv1.weight. */
static void guess_prefix(matcher_t *x)
{
  ct_tensor_t t;
  ct_match_t *m = x->m;
  if (x->o->strip_prefix[0] || !m->missing || !m->unexpected) return;
  for (int i = 0, n = x->f->ops->count(x->f->w); i < n; i++) {
    x->f->ops->tensor(x->f->w, i, &t);
    for (const char *dot = strchr(t.name, '.'); dot; dot = strchr(dot + 1, '.')) {
      int p = ct_graph_find_param(x->g, dot + 1);
      size_t len = (size_t)(dot + 1 - t.name);
      if (p < 0 || m->from[p] >= 0 || len >= sizeof m->prefix) continue;
      memcpy(m->prefix, t.name, len);
      m->prefix[len] = '\0';
      return;
    }
  }
}

int ct_match_make(const ct_weights_file_t *f, const ct_graph_t *g, const ct_init_opts_t *o,
                  ct_match_t *out)
{
  int rc = CT_OK;
  matcher_t x = {f, g, o, out};
  *out = (ct_match_t){0};
  CT_TRY(check_replaced(o, g));
  out->from = ct_mem_array(g->params + 1, sizeof *out->from, "list of weights");
  CT_TRY(out->from ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++)
    out->from[i] = -1;
  CT_TRY(place_all(&x));
  for (int i = 0; i < g->params; i++)
    CT_TRY(judge_param(&x, i));
  guess_prefix(&x);
out:
  if (rc != CT_OK) ct_match_clear(out);
  return rc;
}

void ct_match_clear(ct_match_t *m)
{
  for (size_t i = 0; i < sizeof m->lines / sizeof *m->lines; i++)
    ct_str_clear(&m->lines[i]);
  ct_mem_free(m->from);
  *m = (ct_match_t){0};
}

/* ---- what the user is told ---- */

/* All names of a list, in as few lines as hold them. */
static int tell(ct_log_level_t level, const char *what, const ct_str_t *list)
{
  int rc = CT_OK;
  ct_str_t line = {0};
  for (const char *p = list->data; p && *p;) {
    size_t n = strcspn(p, "\n");
    if (line.len && line.len + n > LINE) {
      ct_log(level, "%s: %s", what, line.data);
      ct_str_clear(&line);
    }
    CT_TRY(ct_str_add(&line, "%s%.*s", line.len ? ", " : "", (int)n, p));
    p += n + (p[n] == '\n');
  }
  if (line.len) ct_log(level, "%s: %s", what, line.data);
out:
  ct_str_clear(&line);
  return rc;
}

static int tell_all(const ct_match_t *m, ct_log_level_t level)
{
  int rc = CT_OK;
  CT_TRY(tell(level, "init: missing in the file", &m->lines[MISSING]));
  CT_TRY(tell(level, "init: of another shape", &m->lines[MISFITS]));
  CT_TRY(tell(level, "init: not in the model", &m->lines[UNEXPECTED]));
  CT_TRY(tell(CT_LOG_INFO, "init: begins anew", &m->lines[REPLACED]));
out:
  return rc;
}

/* What to do about names that do not fit. */
static const char *advice(const ct_match_t *m, char *text, size_t cap)
{
  if (m->prefix[0])
    ct_text_fit(text, cap, "its names begin with '%s': init.strip_prefix leaves that out",
                m->prefix);
  else
    ct_text_fit(text, cap,
                "init.rename changes names, init.replace says what is to begin anew, "
                "init.strict: false takes what fits");
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
    CT_FAIL(CT_ERR_FORMAT, "init.from: '%s' has no tensor with a name and shape of the model; %s",
            file, advice(m, text, sizeof text));
out:
  return rc;
}
