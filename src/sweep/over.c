/* Makes the list of runs of a sweep: combinations or random draws of the values of --over. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sweep/ct_sweep.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

/* ---- parsing --over ---- */

/* Returns the end of the value at \a p: the next comma outside of brackets and quotes. */
static char *end_of_value(char *p)
{
  int depth = 0;
  char quote = 0;
  for (; *p; p++) {
    if (quote) {
      if (*p == quote) quote = 0;
      continue;
    }
    if (*p == '\'' || *p == '"') quote = *p;
    if (*p == '[' || *p == '{') depth++;
    if (*p == ']' || *p == '}') depth--;
    if (*p == ',' && depth <= 0) break;
  }
  return p;
}

static int parse_list(const char *text, char *values, ct_sweep_over_t *o)
{
  int rc = CT_OK;
  int64_t most = 1;
  for (const char *p = values; *p; p++)
    most += *p == ',';
  o->value = ct_mem_array(most, sizeof *o->value, "values of a sweep");
  if (!o->value) CT_TRY(CT_ERR_NOMEM);
  for (char *p = values;;) {
    char *end = end_of_value(p);
    int last = !*end;
    *end = '\0';
    if (!*p) CT_FAIL(CT_ERR_USAGE, "--over %s: a value is empty", text);
    o->value[o->n++] = p;
    if (last) break;
    p = end + 1;
  }
out:
  return rc;
}

static int parse_range(const char *text, char *range, ct_sweep_over_t *o)
{
  int rc = CT_OK;
  int64_t whole;
  char *second = strstr(range, "..");
  int good = second != NULL;
  if (good) {
    *second = '\0';
    second += 2;
    good = ct_text_double(range, &o->lo) == CT_OK && ct_text_double(second, &o->hi) == CT_OK &&
           isfinite(o->lo) && isfinite(o->hi) && o->lo < o->hi;
  }
  if (!good)
    CT_FAIL(CT_ERR_USAGE, "--over %s: a range is lin:A..B or log:A..B, with A less than B", text);
  if (o->kind == CT_SWEEP_LOG && o->lo <= 0)
    CT_FAIL(CT_ERR_USAGE, "--over %s: a range log:A..B begins above 0", text);
  o->whole = ct_text_int(range, &whole) == CT_OK && ct_text_int(second, &whole) == CT_OK;
out:
  return rc;
}

int ct_sweep_over_parse(const char *text, ct_sweep_over_t *out)
{
  int rc = CT_OK;
  *out = (ct_sweep_over_t){.text = ct_mem_strdup(text)};
  if (!out->text) CT_FAIL(CT_ERR_NOMEM, "no memory for --over");
  char *values = strchr(out->text, '=');
  if (!values || values == out->text)
    CT_FAIL(CT_ERR_USAGE, "--over %s: expected KEY=VALUE,VALUE,... or KEY=lin:A..B or KEY=log:A..B",
            text);
  *values++ = '\0';
  out->key = out->text;
  if (strncmp(values, "lin:", 4) == 0) out->kind = CT_SWEEP_LIN;
  if (strncmp(values, "log:", 4) == 0) out->kind = CT_SWEEP_LOG;
  if (out->kind == CT_SWEEP_LIST)
    CT_TRY(parse_list(text, values, out));
  else
    CT_TRY(parse_range(text, values + 4, out));
out:
  if (rc != CT_OK) ct_sweep_over_clear(out);
  return rc;
}

void ct_sweep_over_clear(ct_sweep_over_t *o)
{
  ct_mem_free(o->value);
  ct_mem_free(o->text);
  *o = (ct_sweep_over_t){0};
}

/* ---- names of runs ---- */

/* Returns the last component of a key, or the whole key if another key ends the same. */
static const char *short_key(const ct_sweep_plan_t *p, int i)
{
  const char *dot = strrchr(p->over[i].key, '.'), *word = dot ? dot + 1 : p->over[i].key;
  for (int j = 0; j < p->overs; j++) {
    const char *other = strrchr(p->over[j].key, '.');
    if (j != i && strcmp(other ? other + 1 : p->over[j].key, word) == 0) return p->over[i].key;
  }
  return word;
}

/* Makes a directory name that is valid on any file system.  Appends a hash if characters were
 * replaced. */
static int make_name(const ct_sweep_plan_t *p, ct_sweep_run_t *r)
{
  enum { MOST = 120 };
  static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,=+-_";
  int rc = CT_OK, changed = 0;
  ct_str_t text = {0};
  uint64_t hash = 0;
  for (int i = 0; i < r->n; i++) {
    hash = ct_hash_text(r->set[i], hash);
    CT_TRY(ct_str_add(&text, "%s%s=%s", i ? "," : "", short_key(p, i), strchr(r->set[i], '=') + 1));
  }
  for (char *c = text.data; *c; c++)
    if (!strchr(good, *c)) *c = '_', changed = 1;
  changed |= text.len > MOST || *text.data == '.' || *text.data == '-';
  snprintf(r->name, sizeof r->name, "%.*s", MOST, text.data);
  if (*r->name == '.' || *r->name == '-') *r->name = '_';
  if (changed)
    snprintf(r->name + strlen(r->name), 10, "_%08llx", (unsigned long long)(hash & 0xffffffff));
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- values of a run ---- */

/* A random number in [0, 1) with 53 bits. */
static double uniform(uint64_t seed, int key, int64_t draw)
{
  uint64_t bits = ct_rng_u64(seed, CT_RNG_SWEEP, (uint32_t)key, (uint64_t)draw);
  return (double)(bits >> 11) * 0x1p-53;
}

static double in_range(const ct_sweep_over_t *o, double u)
{
  double wide = o->whole ? 1 : 0, x; /* each integer stands for an interval of width 1 */
  if (o->kind == CT_SWEEP_LOG)
    x = o->lo * exp(u * log((o->hi + wide) / o->lo));
  else
    x = o->lo + u * (o->hi + wide - o->lo);
  return fmin(o->whole ? floor(x) : x, o->hi);
}

/* Appends the value of key i in combination or draw number `at`. */
static int value_of(const ct_sweep_plan_t *p, int i, int64_t at, int random, uint64_t seed,
                    ct_str_t *out)
{
  const ct_sweep_over_t *o = &p->over[i];
  int64_t below = 1;
  if (o->kind != CT_SWEEP_LIST)
    return ct_str_add(out, o->whole ? "%.0f" : "%.6g", in_range(o, uniform(seed, i, at)));
  for (int j = i + 1; j < p->overs && !random; j++)
    below *= p->over[j].n;
  int64_t k = random ? (int64_t)(uniform(seed, i, at) * o->n) : at / below % o->n;
  return ct_str_add(out, "%s", o->value[k]);
}

static void clear_run(ct_sweep_run_t *r)
{
  for (int i = 0; i < r->n; i++)
    ct_mem_free(r->set[i]);
  ct_mem_free(r->set);
  *r = (ct_sweep_run_t){0};
}

static int make_run(const ct_sweep_plan_t *p, int64_t at, int random, uint64_t seed,
                    ct_sweep_run_t *r)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  *r = (ct_sweep_run_t){.set = ct_mem_array(p->overs, sizeof *r->set, "a run of a sweep")};
  if (!r->set) CT_TRY(CT_ERR_NOMEM);
  for (; r->n < p->overs; r->n++) {
    CT_TRY(ct_str_add(&text, "%s=", p->over[r->n].key));
    CT_TRY(value_of(p, r->n, at, random, seed, &text));
    r->set[r->n] = ct_mem_strdup(text.data);
    if (!r->set[r->n]) CT_FAIL(CT_ERR_NOMEM, "no memory for a run of a sweep");
    ct_str_clear(&text);
  }
  CT_TRY(make_name(p, r));
out:
  ct_str_clear(&text);
  if (rc != CT_OK) clear_run(r);
  return rc;
}

/* Adds a run, unless it duplicates an earlier one. */
static int over_add_run(ct_sweep_plan_t *p, int64_t at, int random, uint64_t seed)
{
  int rc = CT_OK;
  ct_sweep_run_t r;
  CT_TRY(make_run(p, at, random, seed, &r));
  for (int64_t i = 0; i < p->runs; i++)
    if (strcmp(p->run[i].name, r.name) == 0) {
      clear_run(&r);
      goto out;
    }
  rc = ct_mem_grow((void **)&p->run, &p->cap, p->runs + 1, sizeof *p->run);
  if (rc != CT_OK)
    clear_run(&r);
  else
    p->run[p->runs++] = r;
out:
  return rc;
}

/* ---- list of runs ---- */

static int read_overs(const ct_args_t *a, ct_sweep_plan_t *p)
{
  int rc = CT_OK;
  if (!a->overs)
    CT_FAIL(CT_ERR_USAGE, "sweep: over what?  --over KEY=VALUE,VALUE,..., such as "
                          "--over optim.lr=0.1,0.03");
  if (a->overs > CT_SWEEP_KEYS) CT_FAIL(CT_ERR_USAGE, "sweep: more than %d --over", CT_SWEEP_KEYS);
  for (int i = 0; i < a->overs; i++) {
    CT_TRY(ct_sweep_over_parse(a->over[i], &p->over[i]));
    p->overs++;
    for (int j = 0; j < i; j++)
      if (strcmp(p->over[i].key, p->over[j].key) == 0)
        CT_FAIL(CT_ERR_USAGE, "--over %s: this key has been given before", a->over[i]);
  }
out:
  return rc;
}

static int combine(const ct_args_t *a, ct_sweep_plan_t *p)
{
  int rc = CT_OK;
  int64_t all = 1;
  for (int i = 0; i < p->overs; i++) {
    if (p->over[i].kind != CT_SWEEP_LIST)
      CT_FAIL(CT_ERR_USAGE, "--over %s: a range needs --random N, the number of values to draw",
              a->over[i]);
    all *= p->over[i].n;
    if (all > CT_SWEEP_RUNS)
      CT_FAIL(CT_ERR_USAGE, "sweep: more than %d runs; --random N draws some", CT_SWEEP_RUNS);
  }
  for (int64_t i = 0; i < all; i++)
    CT_TRY(over_add_run(p, i, 0, 0));
out:
  return rc;
}

int ct_sweep_plan(const ct_args_t *a, ct_sweep_plan_t *out)
{
  enum { TRIES = 20 }; /* limit of draws per run, if there are fewer combinations than requested */
  int rc = CT_OK;
  int64_t random, seed;
  *out = (ct_sweep_plan_t){0};
  CT_TRY(ct_args_int(a, "random", 0, 1, CT_SWEEP_RUNS, &random));
  CT_TRY(ct_args_int(a, "seed", 0, 0, INT64_MAX, &seed));
  if (!random && ct_args_get(a, "seed")) CT_FAIL(CT_ERR_USAGE, "sweep: --seed goes with --random");
  CT_TRY(read_overs(a, out));
  if (!random) CT_TRY(combine(a, out));
  for (int64_t i = 0; i < TRIES * random && out->runs < random; i++)
    CT_TRY(over_add_run(out, i, 1, (uint64_t)seed));
out:
  if (rc != CT_OK) ct_sweep_plan_clear(out);
  return rc;
}

void ct_sweep_plan_clear(ct_sweep_plan_t *p)
{
  for (int i = 0; i < p->overs; i++)
    ct_sweep_over_clear(&p->over[i]);
  for (int64_t i = 0; i < p->runs; i++)
    clear_run(&p->run[i]);
  ct_mem_free(p->run);
  *p = (ct_sweep_plan_t){0};
}
