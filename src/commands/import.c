/* `import`: shows what a program of torch.export becomes, or which of its ops are not supported;
 * --check compares its weights with those of a file, by name. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_heartbeat.h"
#include "base/ct_mem.h"
#include "commands/ct_commands.h"
#include "import/ct_import.h"
#include "setup/ct_builtin.h"

/* ---- the report ---- */

/* Appends a shape with N for the batch: "N x 3 x 224 x 224", "12N x 49". */
static int add_shape(ct_str_t *out, const ct_shape_t *s)
{
  int rc = CT_OK;
  for (int i = 0; i < s->ndim; i++) {
    int batch = s->batch >> i & 1;
    if (i) CT_TRY(ct_str_add(out, " x "));
    if (!batch || s->dim[i] != 1) CT_TRY(ct_str_add(out, "%" PRId64, s->dim[i]));
    if (batch) CT_TRY(ct_str_add(out, "N"));
  }
out:
  return rc;
}

static int add_inputs(ct_str_t *out, const ct_import_t *im)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "inputs:\n"));
  for (int i = 0; i < ct_import_inputs(im); i++) {
    const ct_import_input_t *in = ct_import_input(im, i);
    CT_TRY(ct_str_add(out, "  %s: ", in->name));
    CT_TRY(add_shape(out, &in->shape));
    CT_TRY(ct_str_add(out, "%s%s\n", in->integer ? ", whole numbers" : "",
                      in->used ? "" : ", not used"));
  }
out:
  return rc;
}

static int add_outputs(ct_str_t *out, const ct_import_t *im)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "outputs:\n"));
  for (int i = 0; i < ct_import_outputs(im); i++) {
    const ct_import_output_t *o = ct_import_output(im, i);
    CT_TRY(ct_str_add(out, "  %s%slayer %s: ", o->name, *o->name ? ": " : "", o->layer));
    CT_TRY(add_shape(out, &o->shape));
    CT_TRY(ct_str_add(out, "\n"));
  }
out:
  return rc;
}

static int add_states(ct_str_t *out, const ct_import_t *im)
{
  int rc = CT_OK;
  for (int i = 0; i < ct_import_states(im); i++) {
    const ct_import_state_t *s = ct_import_state(im, i);
    const char *tail = strrchr(s->name, '.');
    if (strcmp(tail ? tail + 1 : s->name, "num_batches_tracked") == 0) continue;
    CT_TRY(ct_str_add(out, "  %s: %s%s\n", s->name,
                      s->kind == CT_IMPORT_FROZEN   ? "frozen"
                      : s->kind == CT_IMPORT_UNUSED ? "kept for state dicts, no layer uses it"
                                                    : "the same as ",
                      s->kind == CT_IMPORT_TIED ? s->with : ""));
  }
out:
  return rc;
}

/* Appends the number of tensors in the state dict, and what is special about some of them. */
static int add_weights(ct_str_t *out, const ct_import_t *im, const ct_weights_file_t *w)
{
  int rc = CT_OK, n = w->ops->count(w->w);
  int64_t numbers = 0;
  for (int i = 0; i < n; i++) {
    ct_tensor_t t;
    w->ops->tensor(w->w, i, &t);
    numbers += t.count;
  }
  CT_TRY(
      ct_str_add(out, "state dict: %d parameters and buffers, %" PRId64 " numbers\n", n, numbers));
  CT_TRY(add_states(out, im));
out:
  return rc;
}

static int report(const char *path, const ct_import_t *im, const ct_weights_file_t *w)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  const ct_import_facts_t *f = ct_import_facts(im);
  CT_TRY(ct_str_add(&out, "%s: of PyTorch %s, %d ops, which become %d layers\n", path, f->torch,
                    f->ops, f->layers));
  CT_TRY(add_inputs(&out, im));
  CT_TRY(add_outputs(&out, im));
  CT_TRY(add_weights(&out, im, w));
  if (ct_import_constants(im))
    CT_TRY(ct_str_add(&out, "constants: %d, of which %d are computed from others\n",
                      ct_import_constants(im), f->folded));
  if (f->narrowed)
    CT_TRY(ct_str_add(&out, "%d tensors of float64 are computed as float32\n", f->narrowed));
  if (f->autocast)
    CT_TRY(ct_str_add(&out, "parts of the program ran in torch.autocast(), which is left to "
                            "train.amp\n"));
  CT_TRY(ct_str_add(&out, "layers:\n%s", ct_import_layers(im)));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* ---- --check ---- */

typedef struct checking {
  const ct_weights_file_t *own, *other;
  int same, differ, missing;
  ct_str_t lines; /* the first differences */
} checking_t;

enum { LINES = 20 };

static int note(checking_t *c, const char *name, const char *what)
{
  if (c->differ + c->missing > LINES) return CT_OK;
  return ct_str_add(&c->lines, "  %s: %s\n", name, what);
}

static int find_tensor(const ct_weights_file_t *f, const char *name, ct_tensor_t *t)
{
  for (int i = 0, n = f->ops->count(f->w); i < n; i++) {
    f->ops->tensor(f->w, i, t);
    if (strcmp(t->name, name) == 0) return i;
  }
  return -1;
}

static int same_dims(const ct_tensor_t *a, const ct_tensor_t *b)
{
  int complex = a->type == CT_ELEM_C64 || b->type == CT_ELEM_C64;
  if (complex && a->type != b->type) return 0;
  return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* Compares tensor i of the program with tensor k of the file, number by number as float32. */
static int compare_values(checking_t *c, int i, int k, const ct_tensor_t *t)
{
  int rc = CT_OK;
  char text[80];
  double most = 0;
  int64_t differ = 0;
  int parts;
  ct_elem_part(t->type, &parts);
  int64_t count = t->count * parts;
  float *a = ct_mem_array(count + 1, sizeof *a, "a tensor"), *b = NULL;
  b = a ? ct_mem_array(count + 1, sizeof *b, "a tensor") : NULL;
  CT_TRY(b ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_weights_floats(c->own, i, a));
  CT_TRY(ct_weights_floats(c->other, k, b));
  for (int64_t e = 0; e < count; e++) {
    if (memcmp(&a[e], &b[e], sizeof *a) == 0 || a[e] == b[e]) continue;
    differ++;
    most = fmax(most, fabs((double)a[e] - (double)b[e]));
  }
  c->same += differ == 0;
  c->differ += differ != 0;
  snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " values differ, by %.3g at most", differ,
           count, most);
  if (differ) CT_TRY(note(c, t->name, text));
out:
  ct_mem_free(a);
  ct_mem_free(b);
  return rc;
}

static int check_all(checking_t *c)
{
  int rc = CT_OK;
  for (int i = 0, n = c->own->ops->count(c->own->w); i < n; i++) {
    ct_tensor_t t, u;
    c->own->ops->tensor(c->own->w, i, &t);
    int k = find_tensor(c->other, t.name, &u);
    ct_heartbeat_progress();
    if (k >= 0 && same_dims(&t, &u)) {
      CT_TRY(compare_values(c, i, k, &t));
      continue;
    }
    *(k < 0 ? &c->missing : &c->differ) += 1;
    CT_TRY(note(c, t.name, k < 0 ? "is missing" : "has another shape"));
  }
out:
  return rc;
}

static int check_file(const char *path, const ct_weights_file_t *own)
{
  int rc = CT_OK;
  ct_weights_file_t other = {0};
  checking_t c = {.own = own, .other = &other};
  ct_str_t out = {0};
  CT_TRY(ct_weights_open(ct_builtin_weights, path, NULL, &other));
  CT_TRY(check_all(&c));
  int more = other.ops->count(other.w) - c.same - c.differ;
  CT_TRY(ct_str_add(&out,
                    "%s: %d tensors are equal, %d differ, %d are missing, %d are not in the "
                    "program\n%s",
                    path, c.same, c.differ, c.missing, more, c.lines.len ? c.lines.data : ""));
  CT_TRY(ct_app_print(out.data));
  if (c.differ || c.missing)
    CT_FAIL(CT_ERR_DIFFER, "%s does not hold the weights of %s", path, own->path);
out:
  ct_str_clear(&out);
  ct_str_clear(&c.lines);
  ct_weights_close(&other);
  return rc;
}

int ct_cmd_import(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  const char *path = a->rest[0], *check = ct_args_get(a, "check");
  ct_import_t *im = NULL;
  ct_weights_file_t own = {0};
  (void)topo;
  (void)status;
  CT_TRY(ct_import_open(path, &im));
  CT_TRY(ct_weights_open(ct_builtin_weights, path, NULL, &own));
  CT_TRY(report(path, im, &own));
  if (check) CT_TRY(check_file(check, &own));
out:
  ct_weights_close(&own);
  ct_import_close(im);
  return rc;
}
