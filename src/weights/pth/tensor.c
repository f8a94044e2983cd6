/* Converts pickle nodes to tensors: recognizes the calls that construct tensors, and finds their
 * storages and strides. The calls are those of torch/_utils.py. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/ct_names.h"
#include "weights/pth/pth.h"

enum {
  MOST_ARGS = 9,
  MOST_CALLS = 8 /* nesting of calls: a parameter of a tensor of ... */
};
/* Maximum elements of an expanded tensor, which has more elements than its storage. */
static const int64_t MOST_EXPANDED = (int64_t)1 << 28;

/* ---- storages ---- */

/* PyTorch's storage classes; type CT_ELEMS: an element type that no other weight format has. */
static const struct {
  const char *name;
  ct_elem_t type;
  int bytes; /* per element */
} classes[] = {
    {"FloatStorage", CT_ELEM_F32, 4},        {"DoubleStorage", CT_ELEM_F64, 8},
    {"HalfStorage", CT_ELEM_F16, 2},         {"BFloat16Storage", CT_ELEM_BF16, 2},
    {"LongStorage", CT_ELEM_I64, 8},         {"IntStorage", CT_ELEM_I32, 4},
    {"ShortStorage", CT_ELEM_I16, 2},        {"CharStorage", CT_ELEM_I8, 1},
    {"ByteStorage", CT_ELEM_U8, 1},          {"BoolStorage", CT_ELEM_BOOL, 1},
    {"ComplexFloatStorage", CT_ELEM_C64, 8}, {"ComplexDoubleStorage", CT_ELEMS, 16},
    {"QInt8Storage", CT_ELEMS, 1},           {"QUInt8Storage", CT_ELEMS, 1},
    {"QInt32Storage", CT_ELEMS, 4},          {"QUInt4x2Storage", CT_ELEMS, 1},
    {"QUInt2x4Storage", CT_ELEMS, 1},
};
enum { CLASSES = sizeof classes / sizeof *classes };

static const char *untyped = "torch.storage.UntypedStorage";

const char *ct__pth_class_of(ct_elem_t e)
{
  for (int i = 0; i < CLASSES; i++)
    if (classes[i].type == e) return classes[i].name;
  return NULL;
}

int ct__pth_storage_type(const char *name, ct_elem_t *out, int *bytes)
{
  *out = CT_ELEM_U8;
  *bytes = 1;
  if (strcmp(name, untyped) == 0) return 1;
  const char *dot = strrchr(name, '.');
  if (!dot || (strncmp(name, "torch.", (size_t)(dot - name) + 1) != 0 &&
               strncmp(name, "torch.cuda.", (size_t)(dot - name) + 1) != 0))
    return 0;
  for (int i = 0; i < CLASSES; i++) {
    if (strcmp(classes[i].name, dot + 1) != 0) continue;
    *out = classes[i].type;
    *bytes = classes[i].bytes;
    return 1;
  }
  return 0;
}

static int is(const ct_pickle_t *p, int node, ct_pickle_kind_t kind)
{
  return p->node[node].kind == kind;
}

int ct__pth_storage(const ct_pickle_t *p, int node, const char **key, const char **type,
                    int64_t *count)
{
  int part[6];
  if (!is(p, node, CT_PICKLE_STORAGE)) return 0;
  int id = p->node[node].first, n = ct_pickle_items(p, id, 6, part);
  if (n < 5 || p->node[id].count > 6 || !is(p, part[0], CT_PICKLE_TEXT) ||
      strcmp(ct_pickle_text(p, part[0]), "storage") != 0 || !is(p, part[1], CT_PICKLE_GLOBAL) ||
      !is(p, part[2], CT_PICKLE_TEXT) || !is(p, part[4], CT_PICKLE_INT) ||
      (n == 6 && !is(p, part[5], CT_PICKLE_PLAIN)) || p->node[part[4]].value < 0)
    return 0;
  *key = ct_pickle_text(p, part[2]);
  *type = ct_pickle_text(p, part[1]);
  *count = p->node[part[4]].value;
  return 1;
}

/* ---- tensors ---- */

/* State of parsing one tensor. */
typedef struct in {
  ct_weights_t *w;
  const char *name;
  ct__pth_tensor_t t;
  int64_t room; /* elements of its storage */
} in_t;

static int tensor_refuse(const in_t *in, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: tensor '%s': %s", in->w->path, in->name,
                    why);
}

/* Skips a tensor of a kind that only PyTorch can read. Not an error: the list has the reason. */
static int leave_out(const in_t *in, const char *is, const char *what)
{
  int rc = CT_OK;
  ct_weights_t *w = in->w;
  if (w->unread < CT_NAMES_LISTED)
    CT_TRY(
        ct_str_add(&w->unread_list, "%s'%s' (%s %s)", w->unread ? ", " : "", in->name, is, what));
  w->unread++;
  rc = CT_ERR_UNSUP;
out:
  return rc;
}

/* Finds the record of a storage and checks that it is large enough. */
static int find_storage(in_t *in, int node, int typed)
{
  int rc = CT_OK;
  const char *key, *class;
  int64_t count;
  int bytes;
  char name[1200];
  if (!ct__pth_storage(&in->w->pickle, node, &key, &class, &count))
    CT_TRY(tensor_refuse(in, "its storage was not written by torch.save"));
  if (!ct__pth_storage_type(class, &in->t.type, &bytes) || (strcmp(class, untyped) != 0) != typed)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s': is in a %s, expected one of PyTorch's types",
            in->w->path, in->name, class);
  if (in->t.type == CT_ELEMS) CT_TRY(leave_out(in, "is in a", class));
  if (ct_text_format(name, sizeof name, "%s%s", in->w->prefix, key) != CT_OK)
    CT_TRY(tensor_refuse(in, "the name of its storage is too long"));
  const ct_zip_record_t *r = ct_zip_find(&in->w->zip, name);
  if (!r || !ct_text_is_name(key))
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s': its storage '%s' is not in the file", in->w->path,
            in->name, ct_text_is_name(key) ? key : "?");
  if (r->packed)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: tensor '%s': record '%s' is compressed, which torch.save never does", in->w->path,
            in->name, r->name);
  if (count > r->bytes / bytes)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: tensor '%s': its storage '%s' has %" PRId64 " bytes, expected %" PRId64 " of %s",
            in->w->path, in->name, key, r->bytes, count, ct_elem_name(in->t.type));
  in->t.storage = r - in->w->zip.record;
  in->room = count;
out:
  return rc;
}

/* Sets the element type of an untyped storage. */
static int set_type(in_t *in, int node)
{
  int rc = CT_OK;
  const ct_pickle_t *p = &in->w->pickle;
  const char *name = is(p, node, CT_PICKLE_GLOBAL) ? ct_pickle_text(p, node) : "?";
  for (int e = 0; e < CT_ELEMS; e++) {
    if (strncmp(name, "torch.", 6) != 0 || strcmp(name + 6, ct_elem_name((ct_elem_t)e)) != 0 ||
        ct_elem_bits((ct_elem_t)e) < 8)
      continue;
    in->t.type = (ct_elem_t)e;
    in->room /= ct_elem_bits(in->t.type) / 8;
    return CT_OK;
  }
  if (strncmp(name, "torch.", 6) == 0) CT_TRY(leave_out(in, "is of type", name));
  CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s': its type is %s, expected one of PyTorch's types",
          in->w->path, in->name, name);
out:
  return rc;
}

/* Reads non-negative integers. */
static int take_numbers(in_t *in, int node, int64_t out[], int *n)
{
  int rc = CT_OK, item[CT__PTH_DIMS];
  const ct_pickle_t *p = &in->w->pickle;
  if (!is(p, node, CT_PICKLE_TUPLE)) CT_TRY(tensor_refuse(in, "its size or stride is not a tuple"));
  if (p->node[node].count > CT__PTH_DIMS) CT_TRY(tensor_refuse(in, "more than 64 dims"));
  *n = ct_pickle_items(p, node, CT__PTH_DIMS, item);
  for (int i = 0; i < *n; i++) {
    if (!is(p, item[i], CT_PICKLE_INT) || p->node[item[i]].value < 0)
      CT_TRY(tensor_refuse(in, "its size and stride must be numbers of at least 0"));
    out[i] = p->node[item[i]].value;
  }
out:
  return rc;
}

/* Computes count, span and contiguous; checks that the last element is within the storage. */
static int tensor_measure(in_t *in)
{
  int rc = CT_OK, empty = 0;
  ct__pth_tensor_t *t = &in->t;
  int64_t last = 0, part, dense = 1;
  t->count = 1;
  t->contiguous = 1;
  for (int i = 0; i < t->ndim; i++)
    empty |= t->dim[i] == 0;
  for (int i = t->ndim - 1; i >= 0 && !empty; i--) {
    if (t->dim[i] > 1 && t->stride[i] != dense) t->contiguous = 0;
    if (__builtin_mul_overflow(t->count, t->dim[i], &t->count) || t->count > INT64_MAX / 16 ||
        __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &part) ||
        __builtin_add_overflow(last, part, &last))
      CT_TRY(tensor_refuse(in, "its size is too large"));
    dense = t->count;
  }
  if (empty) {
    t->count = 0;
    return CT_OK;
  }
  if (t->offset >= in->room || last >= in->room - t->offset)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: tensor '%s': reaches past its storage, which has %" PRId64 " elements",
            in->w->path, in->name, in->room);
  if (t->count > in->room && t->count > MOST_EXPANDED)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: tensor '%s': is expanded to %" PRId64 " elements from %" PRId64
            ", expected at most %" PRId64,
            in->w->path, in->name, t->count, in->room, MOST_EXPANDED);
  t->span = last + 1;
out:
  return rc;
}

static int take_shape(in_t *in, int offset, int size, int stride)
{
  int rc = CT_OK, n = 0, strides = 0;
  const ct_pickle_t *p = &in->w->pickle;
  int64_t dims[CT__PTH_DIMS], steps[CT__PTH_DIMS];
  if (!is(p, offset, CT_PICKLE_INT) || p->node[offset].value < 0)
    CT_TRY(tensor_refuse(in, "its offset in the storage must be a number of at least 0"));
  in->t.offset = p->node[offset].value;
  CT_TRY(take_numbers(in, size, dims, &n));
  CT_TRY(take_numbers(in, stride, steps, &strides));
  if (n != strides) CT_TRY(tensor_refuse(in, "the number of strides differs from that of dims"));
  in->t.ndim = n;
  in->t.dim = ct_mem_array(2 * (int64_t)n + 1, sizeof *in->t.dim, "a tensor's dims");
  if (!in->t.dim) CT_TRY(CT_ERR_NOMEM);
  in->t.stride = in->t.dim + n;
  for (int i = 0; i < n; i++) {
    in->t.dim[i] = dims[i];
    in->t.stride[i] = steps[i];
  }
  CT_TRY(tensor_measure(in));
out:
  return rc;
}

/* _rebuild_tensor(storage, offset, size, stride), _v2(..., requires_grad, hooks, metadata), and
 * _v3(..., requires_grad, hooks, dtype, metadata). Non-empty metadata means a conjugate or negated
 * view. */
static int rebuild(in_t *in, const int arg[], int args, int version)
{
  int rc = CT_OK, metadata = version == 3 ? 7 : 6;
  if (args < (version == 3 ? 7 : 4) || args > metadata + 1)
    CT_TRY(tensor_refuse(in, "has another number of arguments than torch.save writes"));
  if (args > metadata && !is(&in->w->pickle, arg[metadata], CT_PICKLE_PLAIN) &&
      in->w->pickle.node[arg[metadata]].count != 0)
    CT_TRY(leave_out(in, "is a", "conjugate or negated view"));
  CT_TRY(find_storage(in, arg[0], version != 3));
  if (version == 3) CT_TRY(set_type(in, arg[6]));
  CT_TRY(take_shape(in, arg[1], arg[2], arg[3]));
out:
  return rc;
}

static int call(in_t *in, const char *name, int args_node, int depth);

static int call_node(in_t *in, int node, int depth)
{
  const ct_pickle_t *p = &in->w->pickle;
  if (!ct__pth_is_tensor(p, node))
    return tensor_refuse(in, "is made of an object that is not a tensor");
  if (p->node[node].value) return tensor_refuse(in, "has attributes besides its numbers");
  return call(in, ct_pickle_text(p, p->node[node].first), p->node[node].last, depth + 1);
}

/* _rebuild_from_type_v2(function, class, arguments, state): a tensor subclass or a tensor with
 * attributes. */
static int call_typed(in_t *in, const int arg[], int args, int depth)
{
  static const char *const plain[] = {"torch.Tensor", "torch.nn.parameter.Parameter",
                                      "torch.nn.parameter.Buffer"};
  int rc = CT_OK, known = 0;
  const ct_pickle_t *p = &in->w->pickle;
  if (args != 4 || !is(p, arg[0], CT_PICKLE_GLOBAL) || !is(p, arg[1], CT_PICKLE_GLOBAL) ||
      !is(p, arg[2], CT_PICKLE_TUPLE))
    CT_TRY(tensor_refuse(in, "has other arguments than torch.save writes"));
  const char *class = ct_pickle_text(p, arg[1]);
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    known |= strcmp(class, plain[i]) == 0;
  if (!known) CT_TRY(leave_out(in, "is a", class));
  CT_TRY(call(in, ct_pickle_text(p, arg[0]), arg[2], depth + 1));
out:
  return rc;
}

/* Interprets a call with these arguments. */
static int call(in_t *in, const char *name, int args_node, int depth)
{
  int rc = CT_OK, arg[MOST_ARGS];
  int args = ct_pickle_items(&in->w->pickle, args_node, MOST_ARGS, arg);
  if (depth > MOST_CALLS) CT_TRY(tensor_refuse(in, "consists of nested tensors"));
  if (strcmp(name, "torch._utils._rebuild_tensor_v2") == 0 ||
      strcmp(name, "torch._utils._rebuild_tensor") == 0)
    CT_TRY(rebuild(in, arg, args, 2));
  else if (strcmp(name, "torch._utils._rebuild_tensor_v3") == 0)
    CT_TRY(rebuild(in, arg, args, 3));
  else if (args > 0 && (strcmp(name, "torch._utils._rebuild_parameter") == 0 ||
                        strcmp(name, "torch._utils._rebuild_parameter_with_state") == 0))
    CT_TRY(call_node(in, arg[0], depth));
  else if (strcmp(name, "torch._tensor._rebuild_from_type_v2") == 0)
    CT_TRY(call_typed(in, arg, args, depth));
  else
    CT_TRY(leave_out(in, "is made by", name));
out:
  return rc;
}

int ct__pth_is_tensor(const ct_pickle_t *p, int node)
{
  if (!is(p, node, CT_PICKLE_CALL) || !is(p, p->node[node].first, CT_PICKLE_GLOBAL)) return 0;
  const char *name = ct_pickle_text(p, p->node[node].first);
  return strncmp(name, "torch.", 6) == 0 && strstr(name, "._rebuild_") != NULL;
}

/* Appends a tensor and takes over its dims. */
static int append(ct_weights_t *w, ct__pth_tensor_t *t)
{
  int rc = ct_mem_grow((void **)&w->tensor, &w->cap, w->n + 1, sizeof *w->tensor);
  if (rc != CT_OK) return rc;
  w->tensor[w->n++] = *t;
  t->dim = NULL;
  return CT_OK;
}

int ct__pth_add(ct_weights_t *w, int node, const char *name)
{
  int rc = CT_OK;
  in_t in = {.w = w, .name = name, .t = {.name = name}};
  rc = call_node(&in, node, 0);
  if (rc == CT_ERR_UNSUP) {
    rc = CT_OK;
    goto out;
  }
  CT_TRY(rc);
  CT_TRY(append(w, &in.t));
out:
  ct_mem_free(in.t.dim);
  return rc;
}

int ct__pth_view(ct_weights_t *w, ct__pth_tensor_t *t, int64_t room)
{
  int rc = CT_OK;
  in_t in = {.w = w, .name = t->name, .t = *t, .room = room};
  t->dim = NULL;
  CT_TRY(tensor_measure(&in));
  CT_TRY(append(w, &in.t));
out:
  ct_mem_free(in.t.dim);
  return rc;
}

int ct__pth_remark_unread(ct_weights_t *w)
{
  int rc = CT_OK;
  CT_TRY(ct_names_list_end(&w->unread_list, (int)w->unread));
  if (w->unread && !w->n)
    CT_FAIL(CT_ERR_FORMAT, "%s: has no tensor that can be read: %s", w->path, w->unread_list.data);
  if (w->unread)
    CT_TRY(ct_str_add(&w->remark, "%sleaves out tensors that cannot be read: %s",
                      w->remark.len ? ", " : "", w->unread_list.data));
out:
  return rc;
}
