/* Recorded op times.  Equal ops of a network (many layers of a ResNet) have one row each in the
 * file; their mean is used. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "sim/sim.h"

enum { KEY = 200 };

/* An op; its key has "*" in place of the batch size. */
typedef struct row {
  char key[KEY];
  double batch, seconds, n; /* seconds: sum over n records */
} row_t;

struct ct__sim_times {
  int rows;
  double flop_rate, byte_rate; /* 0: unknown */
  row_t row[];
};

/* "conv 16x3x8x8 -> 16x4x8x8 k3x3" with a pass becomes "conv *x3x8x8 -> *x4x8x8 k3x3 forward".
 * Returns the batch size, taken from the first shape. */
static double make_key(const char *text, const char *pass, char key[KEY])
{
  double batch = 1;
  int shapes = 0;
  size_t n = 0;
  for (const char *p = text; *p && n + 1 < KEY;) {
    int begins = p > text && p[-1] == ' ' && isdigit((unsigned char)*p);
    char *end = NULL;
    double count = begins ? strtod(p, &end) : 0;
    if (!begins || *end != 'x') {
      key[n++] = *p++;
      continue;
    }
    if (shapes++ == 0) batch = count;
    key[n++] = '*';
    p = end;
  }
  snprintf(key + n, KEY - n, " %s", pass);
  return batch;
}

static const row_t *times_find(const ct__sim_times_t *t, const char *key, double batch)
{
  const row_t *other = NULL;
  for (int i = 0; t && i < t->rows; i++)
    if (strcmp(t->row[i].key, key) == 0) {
      if (t->row[i].batch == batch) return &t->row[i];
      if (!other) other = &t->row[i];
    }
  return other;
}

double ct__sim_times_of(const ct__sim_times_t *t, const ct_op_desc_t *d, int pass)
{
  char text[160], key[KEY];
  double batch = make_key(ct_op_text(d, text, sizeof text), ct_op_pass_text(pass), key);
  const row_t *r = times_find(t, key, batch);
  return r ? r->seconds / r->n * batch / r->batch : -1;
}

int ct__sim_times_count(const ct__sim_times_t *t)
{
  return t ? t->rows : 0;
}

void ct__sim_times_rates(const ct__sim_times_t *t, double *flop_rate, double *byte_rate)
{
  if (t && t->flop_rate > 0) *flop_rate = t->flop_rate;
  if (t && t->byte_rate > 0) *byte_rate = t->byte_rate;
}

/* ---- the file ---- */

static int times_add(ct__sim_times_t *t, const json_t *o)
{
  row_t r = {.n = 1};
  const char *op = json_string_value(json_object_get(o, "op")),
             *pass = json_string_value(json_object_get(o, "pass"));
  r.seconds = json_number_value(json_object_get(o, "seconds"));
  if (!op || !pass || !(r.seconds > 0)) return 0;
  r.batch = make_key(op, pass, r.key);
  row_t *same = (row_t *)(uintptr_t)times_find(t, r.key, r.batch);
  if (same && same->batch == r.batch) {
    same->seconds += r.seconds;
    same->n++;
  } else {
    t->row[t->rows++] = r;
  }
  return 1;
}

/* The first object with a list of ops: older versions of `bench step` print two objects. */
static json_t *ops_object(FILE *f)
{
  json_error_t e;
  for (;;) {
    json_t *o = json_loadf(f, JSON_DISABLE_EOF_CHECK, &e);
    if (!o || json_is_array(json_object_get(o, "ops"))) return o;
    json_decref(o);
  }
}

int ct__sim_times_read(const char *path, ct__sim_times_t **out)
{
  int rc = CT_OK;
  json_t *root = NULL;
  ct__sim_times_t *t = NULL;
  *out = NULL;
  FILE *f = fopen(path, "re");
  if (!f) CT_FAIL(CT_ERR_IO, "sim.times: %s: %m", path);
  root = ops_object(f);
  const json_t *list = json_object_get(root, "ops");
  size_t n = json_array_size(list);
  if (!n)
    CT_FAIL(CT_ERR_FORMAT, "sim.times: %s: no list \"ops\", as `bench step --ops --json` prints it",
            path);
  t = ct_mem_alloc(sizeof *t + n * sizeof t->row[0], "recorded times");
  if (!t) CT_FAIL(CT_ERR_NOMEM, "sim.times: %s: no memory", path);
  t->flop_rate = json_number_value(json_object_get(root, "flop_per_s"));
  t->byte_rate = json_number_value(json_object_get(root, "copy_bytes_per_s"));
  for (size_t i = 0; i < n; i++)
    if (!times_add(t, json_array_get(list, i)))
      CT_FAIL(CT_ERR_FORMAT,
              "sim.times: %s: ops[%zu] has no op, pass and seconds above 0, as `bench step --ops "
              "--json` prints them",
              path, i);
  *out = t;
  t = NULL;
out:
  ct_mem_free(t);
  json_decref(root);
  if (f) fclose(f);
  return rc;
}

void ct__sim_times_free(ct__sim_times_t *t)
{
  ct_mem_free(t);
}
