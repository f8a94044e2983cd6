/* The restricted unpickler: converts opcodes to nodes.
 *
 * Opcodes are those of Python's pickletools.py. Every limit is checked before the allocation that
 * it limits, since files may be malicious: a mark costs one byte, a reference two. */
#include "weights/pth/ct_pickle.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

enum {
  MOST_BYTES = 256 << 20, /* of a pickle */
  MOST_NODES = 4 << 20,   /* also of the stack and the memo */
  MOST_CELLS = 8 << 20,
  MOST_MARKS = 64,  /* nesting of marks */
  NAME_BYTES = 256, /* of a class name with its module */
  NEWEST = 5        /* newest protocol version */
};

/* State of parsing one pickle. */
typedef struct in {
  int fd;
  const char *path, *what;
  int64_t at;  /* file offset of the pickle */
  int64_t end; /* file offset before which the pickle must end */
  unsigned char *buf;
  int64_t len; /* bytes read into buf */
  int64_t cap; /* capacity of buf */
  int64_t pos; /* position in buf */
  int *stack;  /* nodes */
  int *memo;   /* nodes; -1: unset entry */
  int64_t depth, stack_cap, memos, memo_cap;
  int64_t mark[MOST_MARKS];
  int marks;
  int done;
  ct_pickle_t *p;
} in_t;

/* Fails with a message that starts with the position of the opcode. */
static int pickle_refuse(const in_t *in, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: %s, byte %" PRId64 ": %s", in->path,
                    in->what, in->pos, why);
}

/* ---- bytes ---- */

/* Makes n bytes after pos available by reading more of the file. The amount doubles each time, so
 * that at most twice the pickle's size is read, even if gigabytes follow it. */
static int pickle_fill(in_t *in, int64_t n)
{
  int rc = CT_OK;
  int64_t room = in->end - in->at, want = in->len ? 2 * in->len : 4096;
  if (n > room - in->pos) CT_TRY(pickle_refuse(in, "ends in the middle"));
  if (n > MOST_BYTES - in->pos) CT_TRY(pickle_refuse(in, "more than 256 MiB"));
  if (want < in->pos + n) want = in->pos + n;
  if (want > room) want = room;
  CT_TRY(ct_mem_grow((void **)&in->buf, &in->cap, want, 1));
  CT_TRY(ct_file_read_at(in->fd, in->path, in->at + in->len, in->buf + in->len,
                         (size_t)(want - in->len)));
  in->len = want;
out:
  return rc;
}

/* Takes the next n bytes, valid until the next call. */
static int pickle_take(in_t *in, int64_t n, const unsigned char **out)
{
  int rc = CT_OK;
  if (n > in->len - in->pos) CT_TRY(pickle_fill(in, n));
  *out = in->buf + in->pos;
  in->pos += n;
out:
  return rc;
}

/* Takes a little-endian integer of n bytes, up to 8. */
static int take_number(in_t *in, int n, uint64_t *out)
{
  int rc = CT_OK;
  const unsigned char *b;
  *out = 0;
  CT_TRY(pickle_take(in, n, &b));
  for (int i = 0; i < n; i++)
    *out |= (uint64_t)b[i] << (8 * i);
out:
  return rc;
}

/* ---- nodes and the stack ---- */

static int push(in_t *in, int node)
{
  int rc = CT_OK;
  if (in->depth >= MOST_NODES) CT_TRY(pickle_refuse(in, "its stack is too deep"));
  CT_TRY(ct_mem_grow((void **)&in->stack, &in->stack_cap, in->depth + 1, sizeof *in->stack));
  in->stack[in->depth++] = node;
out:
  return rc;
}

/* Returns the number of values on the stack above the last mark. */
static int64_t above(const in_t *in)
{
  return in->depth - (in->marks ? in->mark[in->marks - 1] : 0);
}

static int pop(in_t *in, int *out)
{
  if (above(in) < 1) return pickle_refuse(in, "takes a value from an empty stack");
  *out = in->stack[--in->depth];
  return CT_OK;
}

static int top(const in_t *in, int *out)
{
  if (above(in) < 1) return pickle_refuse(in, "takes a value from an empty stack");
  *out = in->stack[in->depth - 1];
  return CT_OK;
}

static int new_node(in_t *in, ct_pickle_node_t n, int *out)
{
  int rc = CT_OK;
  ct_pickle_t *p = in->p;
  if (p->nodes >= MOST_NODES) CT_TRY(pickle_refuse(in, "more than 4194304 objects"));
  CT_TRY(ct_mem_grow((void **)&p->node, &p->node_cap, p->nodes + 1, sizeof *p->node));
  *out = (int)p->nodes;
  p->node[p->nodes++] = n;
out:
  return rc;
}

static int push_new(in_t *in, ct_pickle_node_t n)
{
  int rc = CT_OK, node;
  CT_TRY(new_node(in, n, &node));
  CT_TRY(push(in, node));
out:
  return rc;
}

static int push_value(in_t *in, ct_pickle_kind_t kind, int64_t value)
{
  return push_new(in, (ct_pickle_node_t){.kind = kind, .first = -1, .last = -1, .value = value});
}

static int add_item(in_t *in, int to, int item)
{
  int rc = CT_OK;
  ct_pickle_t *p = in->p;
  if (p->cells >= MOST_CELLS) CT_TRY(pickle_refuse(in, "more than 8388608 items"));
  CT_TRY(ct_mem_grow((void **)&p->cell, &p->cell_cap, p->cells + 1, sizeof *p->cell));
  ct_pickle_node_t *n = &p->node[to];
  int cell = (int)p->cells++;
  p->cell[cell] = (ct_pickle_cell_t){item, -1};
  if (n->last >= 0)
    p->cell[n->last].next = cell;
  else
    n->first = cell;
  n->last = cell;
  n->count++;
out:
  return rc;
}

/* Appends bytes and a NUL to the texts; *value is their offset. */
static int pickle_add_text(in_t *in, const void *text, int64_t n, int64_t *value)
{
  int rc = CT_OK;
  ct_pickle_t *p = in->p;
  CT_TRY(ct_mem_grow((void **)&p->texts, &p->text_cap, p->bytes + n + 1, 1));
  memcpy(p->texts + p->bytes, text, (size_t)n);
  p->texts[p->bytes + n] = '\0';
  *value = p->bytes;
  p->bytes += n + 1;
out:
  return rc;
}

/* ---- opcodes with arguments in the stream ---- */

static int op_text(in_t *in, int length_bytes)
{
  int rc = CT_OK;
  uint64_t n;
  const unsigned char *text;
  ct_pickle_node_t node = {.kind = CT_PICKLE_TEXT, .first = -1, .last = -1};
  CT_TRY(take_number(in, length_bytes, &n));
  if (n > MOST_BYTES) CT_TRY(pickle_refuse(in, "a text of more than 256 MiB"));
  CT_TRY(pickle_take(in, (int64_t)n, &text));
  CT_TRY(pickle_add_text(in, text, (int64_t)n, &node.value));
  node.count = (int)n;
  CT_TRY(push_new(in, node));
out:
  return rc;
}

/* LONG1: little-endian two's complement, up to 255 bytes. */
static int op_long(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK;
  uint64_t n, value = 0;
  const unsigned char *b;
  CT_TRY(take_number(in, 1, &n));
  CT_TRY(pickle_take(in, (int64_t)n, &b));
  for (unsigned i = 0; i < 8 && n > 0; i++) /* beyond the last byte: sign extension */
    value |= (uint64_t)(i < n ? b[i] : b[n - 1] & 0x80 ? 0xff : 0) << (8 * i);
  CT_TRY(push_value(in, n <= 8 ? CT_PICKLE_INT : CT_PICKLE_PLAIN, (int64_t)value));
out:
  return rc;
}

static int op_int(in_t *in, int bytes)
{
  int rc = CT_OK;
  uint64_t value;
  CT_TRY(take_number(in, bytes, &value));
  CT_TRY(push_value(in, CT_PICKLE_INT, bytes == 4 ? (int32_t)(uint32_t)value : (int64_t)value));
out:
  return rc;
}

static int op_bool(in_t *in, int value)
{
  return push_value(in, CT_PICKLE_BOOL, value);
}

static int op_empty(in_t *in, int kind)
{
  return push_value(in, (ct_pickle_kind_t)kind, 0);
}

static int op_real(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK;
  const unsigned char *b;
  CT_TRY(pickle_take(in, 8, &b));
  CT_TRY(push_value(in, CT_PICKLE_PLAIN, 0));
out:
  return rc;
}

/* Pushes a class: module and name, each followed by a dot; characters that are not printable become
 * '?'. */
static int push_global(in_t *in, char *name, int64_t n)
{
  int rc = CT_OK;
  ct_pickle_node_t node = {.kind = CT_PICKLE_GLOBAL, .first = -1, .last = -1};
  for (int64_t i = 0; i < n; i++)
    if (name[i] <= ' ' || name[i] >= 0x7f) name[i] = '?';
  node.count = (int)n - 1; /* without the final dot */
  CT_TRY(pickle_add_text(in, name, n - 1, &node.value));
  CT_TRY(push_new(in, node));
out:
  return rc;
}

/* GLOBAL: two lines with module and name. */
static int op_global(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK, lines = 0;
  char name[NAME_BYTES];
  int64_t n = 0;
  while (lines < 2) {
    const unsigned char *c;
    CT_TRY(pickle_take(in, 1, &c));
    if (n == NAME_BYTES) CT_TRY(pickle_refuse(in, "a name of a class has more than 255 bytes"));
    if (*c == '\n') lines++;
    name[n++] = (char)(*c == '\n' ? '.' : *c);
  }
  CT_TRY(push_global(in, name, n));
out:
  return rc;
}

/* STACK_GLOBAL: module and name are texts on the stack. */
static int op_stack_global(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK, part[2] = {0, 0};
  char name[NAME_BYTES];
  int64_t n = 0;
  CT_TRY(pop(in, &part[1]));
  CT_TRY(pop(in, &part[0]));
  for (int i = 0; i < 2; i++) {
    const ct_pickle_node_t *text = &in->p->node[part[i]];
    if (text->kind != CT_PICKLE_TEXT) CT_TRY(pickle_refuse(in, "a name of a class is no text"));
    if (text->count >= NAME_BYTES - n)
      CT_TRY(pickle_refuse(in, "a name of a class has more than 255 bytes"));
    memcpy(name + n, ct_pickle_text(in->p, part[i]), (size_t)text->count);
    n += text->count;
    name[n++] = '.';
  }
  CT_TRY(push_global(in, name, n));
out:
  return rc;
}

/* Reads an index into the memo. */
static int take_slot(in_t *in, int bytes, int64_t *out)
{
  int rc = CT_OK;
  uint64_t value;
  CT_TRY(take_number(in, bytes, &value));
  *out = value < MOST_NODES ? (int64_t)value : MOST_NODES;
out:
  return rc;
}

/* bytes 0: MEMOIZE, the next entry. */
static int op_put(in_t *in, int bytes)
{
  int rc = CT_OK, node = 0;
  int64_t slot = in->memos;
  if (bytes) CT_TRY(take_slot(in, bytes, &slot));
  if (slot >= MOST_NODES) CT_TRY(pickle_refuse(in, "memoizes more than 4194304 objects"));
  CT_TRY(top(in, &node));
  CT_TRY(ct_mem_grow((void **)&in->memo, &in->memo_cap, slot + 1, sizeof *in->memo));
  for (; in->memos <= slot; in->memos++)
    in->memo[in->memos] = -1;
  in->memo[slot] = node;
out:
  return rc;
}

static int op_get(in_t *in, int bytes)
{
  int rc = CT_OK;
  int64_t slot;
  CT_TRY(take_slot(in, bytes, &slot));
  if (slot >= in->memos || in->memo[slot] < 0)
    CT_TRY(pickle_refuse(in, "refers to an object that was not memoized"));
  CT_TRY(push(in, in->memo[slot]));
out:
  return rc;
}

/* ---- opcodes with arguments on the stack ---- */

static int op_mark(in_t *in, int unused)
{
  (void)unused;
  if (in->marks == MOST_MARKS) return pickle_refuse(in, "more than 64 objects inside each other");
  in->mark[in->marks++] = in->depth;
  return CT_OK;
}

/* Makes the last n values of the stack items of a node, in their order. */
static int take_items(in_t *in, int node, int64_t n)
{
  int rc = CT_OK;
  for (int64_t i = in->depth - n; i < in->depth; i++)
    CT_TRY(add_item(in, node, in->stack[i]));
  in->depth -= n;
out:
  return rc;
}

static int op_tuple(in_t *in, int items)
{
  int rc = CT_OK, node = 0;
  int64_t n = items;
  if (n < 0) {
    if (in->marks == 0) CT_TRY(pickle_refuse(in, "a tuple without a mark"));
    n = above(in);
    in->marks--;
  }
  if (above(in) < n) CT_TRY(pickle_refuse(in, "takes a value from an empty stack"));
  CT_TRY(new_node(in, (ct_pickle_node_t){.kind = CT_PICKLE_TUPLE, .first = -1, .last = -1}, &node));
  CT_TRY(take_items(in, node, n));
  CT_TRY(push(in, node));
out:
  return rc;
}

/* Adds the values above the mark, or the last n, to the container below them. Class instances
 * accept items too, but these are ignored: the node stays a call. */
static int put_items(in_t *in, ct_pickle_kind_t kind, int64_t n)
{
  int rc = CT_OK, to;
  if (n < 0) {
    if (in->marks == 0) CT_TRY(pickle_refuse(in, "items without a mark"));
    n = above(in);
    in->marks--;
  }
  if (above(in) < n + 1) CT_TRY(pickle_refuse(in, "takes a value from an empty stack"));
  if (kind == CT_PICKLE_DICT && n % 2 != 0) CT_TRY(pickle_refuse(in, "a key without a value"));
  to = in->stack[in->depth - n - 1];
  if (in->p->node[to].kind == kind) {
    CT_TRY(take_items(in, to, n));
  } else if (in->p->node[to].kind == CT_PICKLE_CALL) {
    in->depth -= n;
  } else {
    CT_TRY(pickle_refuse(in, "adds items to an object that has none"));
  }
out:
  return rc;
}

static int op_set(in_t *in, int n)
{
  return put_items(in, CT_PICKLE_DICT, n);
}

static int op_append(in_t *in, int n)
{
  return put_items(in, CT_PICKLE_LIST, n);
}

/* Recognizes OrderedDict(), and OrderedDict([[key, value], ...]) from Python 2; *is: 1 if it was
 * one. */
static int ordered_dict(in_t *in, int args, int dict, int *is)
{
  int rc = CT_OK, pair[2], list;
  const ct_pickle_t *p = in->p;
  *is = p->node[args].count == 0;
  if (ct_pickle_items(p, args, 1, &list) != 1 || p->node[args].count != 1 ||
      p->node[list].kind != CT_PICKLE_LIST)
    goto out;
  for (int c = p->node[list].first; c >= 0; c = p->cell[c].next) {
    ct_pickle_kind_t kind = p->node[p->cell[c].node].kind;
    if ((kind != CT_PICKLE_LIST && kind != CT_PICKLE_TUPLE) ||
        p->node[p->cell[c].node].count != 2 || ct_pickle_items(p, p->cell[c].node, 2, pair) != 2)
      CT_TRY(pickle_refuse(in, "an OrderedDict of items that are not pairs"));
    CT_TRY(add_item(in, dict, pair[0]));
    CT_TRY(add_item(in, dict, pair[1]));
  }
  *is = 1;
out:
  return rc;
}

/* REDUCE and NEWOBJ: records the call; nothing is executed. */
static int op_call(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK, args = 0, callee = 0, node = 0, is = 0;
  ct_pickle_t *p = in->p;
  CT_TRY(pop(in, &args));
  CT_TRY(pop(in, &callee));
  if (p->node[args].kind != CT_PICKLE_TUPLE) CT_TRY(pickle_refuse(in, "arguments are not a tuple"));
  CT_TRY(new_node(in, (ct_pickle_node_t){.kind = CT_PICKLE_DICT, .first = -1, .last = -1}, &node));
  if (p->node[callee].kind == CT_PICKLE_GLOBAL &&
      strcmp(ct_pickle_text(p, callee), "collections.OrderedDict") == 0)
    CT_TRY(ordered_dict(in, args, node, &is));
  if (!is) p->node[node] = (ct_pickle_node_t){CT_PICKLE_CALL, 0, callee, args, 0};
  CT_TRY(push(in, node));
out:
  return rc;
}

/* BUILD: the state of a dict is _metadata, which does not affect tensors. */
static int op_build(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK, state = 0, node = 0;
  CT_TRY(pop(in, &state));
  CT_TRY(top(in, &node));
  ct_pickle_kind_t kind = in->p->node[node].kind;
  if (kind == CT_PICKLE_CALL)
    in->p->node[node].value = (int64_t)state + 1;
  else if (kind != CT_PICKLE_DICT)
    CT_TRY(pickle_refuse(in, "sets the state of an object that has none"));
out:
  return rc;
}

static int op_storage(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK, id = 0;
  CT_TRY(pop(in, &id));
  if (in->p->node[id].kind != CT_PICKLE_TUPLE)
    CT_TRY(pickle_refuse(in, "a persistent id is not a tuple"));
  CT_TRY(push_new(in, (ct_pickle_node_t){CT_PICKLE_STORAGE, 0, id, -1, 0}));
out:
  return rc;
}

static int op_protocol(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK;
  uint64_t version;
  CT_TRY(take_number(in, 1, &version));
  if (version > NEWEST)
    CT_FAIL(
        CT_ERR_FORMAT,
        "%s: %s is a pickle of protocol %d, expected at most %d (torch.save writes 2 unless told "
        "otherwise)",
        in->path, in->what, (int)version, NEWEST);
out:
  return rc;
}

/* FRAME: the length of the opcodes that follow, which needs no check: each is read anyway. */
static int op_frame(in_t *in, int bytes)
{
  uint64_t length;
  return take_number(in, bytes, &length);
}

static int op_stop(in_t *in, int unused)
{
  (void)unused;
  int rc = CT_OK;
  if (in->depth != 1 || in->marks != 0)
    CT_TRY(pickle_refuse(in, "ends with more or less than one value"));
  in->p->root = in->stack[0];
  in->done = 1;
out:
  return rc;
}

static int unknown(const in_t *in, int op)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s: %s, byte %" PRId64
                    ": opcode 0x%02x does not occur in weights that torch.save wrote",
                    in->path, in->what, in->pos - 1, (unsigned)op);
}

/* n: parameter of an opcode: argument bytes, items (-1: the items above the mark), or a node
 * kind. */
typedef struct op {
  int (*run)(in_t *in, int n);
  int n;
} op_t;

static const op_t ops[256] = {
    [0x80] = {op_protocol, 0},
    ['.'] = {op_stop, 0},
    ['c'] = {op_global, 0},
    ['X'] = {op_text, 4},  /* BINUNICODE */
    ['T'] = {op_text, 4},  /* BINSTRING */
    ['U'] = {op_text, 1},  /* SHORT_BINSTRING */
    [0x8c] = {op_text, 1}, /* SHORT_BINUNICODE */
    [0x8d] = {op_text, 8}, /* BINUNICODE8 */
    [0x93] = {op_stack_global, 0},
    [0x94] = {op_put, 0}, /* MEMOIZE */
    [0x95] = {op_frame, 8},
    ['q'] = {op_put, 1},   /* BINPUT */
    ['r'] = {op_put, 4},   /* LONG_BINPUT */
    ['h'] = {op_get, 1},   /* BINGET */
    ['j'] = {op_get, 4},   /* LONG_BINGET */
    ['K'] = {op_int, 1},   /* BININT1 */
    ['M'] = {op_int, 2},   /* BININT2 */
    ['J'] = {op_int, 4},   /* BININT */
    [0x8a] = {op_long, 0}, /* LONG1 */
    ['G'] = {op_real, 0},  /* BINFLOAT */
    [0x88] = {op_bool, 1},
    [0x89] = {op_bool, 0},
    ['N'] = {op_empty, CT_PICKLE_PLAIN},
    ['}'] = {op_empty, CT_PICKLE_DICT},
    [']'] = {op_empty, CT_PICKLE_LIST},
    [0x8f] = {op_empty, CT_PICKLE_PLAIN}, /* EMPTY_SET */
    [')'] = {op_tuple, 0},
    [0x85] = {op_tuple, 1},
    [0x86] = {op_tuple, 2},
    [0x87] = {op_tuple, 3},
    ['t'] = {op_tuple, -1},
    ['('] = {op_mark, 0},
    ['s'] = {op_set, 2},     /* SETITEM */
    ['u'] = {op_set, -1},    /* SETITEMS */
    ['a'] = {op_append, 1},  /* APPEND */
    ['e'] = {op_append, -1}, /* APPENDS */
    ['R'] = {op_call, 0},    /* REDUCE */
    [0x81] = {op_call, 0},   /* NEWOBJ */
    ['b'] = {op_build, 0},
    ['Q'] = {op_storage, 0}, /* BINPERSID */
};

int ct_pickle_load(int fd, const char *path, const char *what, int64_t at, int64_t end,
                   ct_pickle_t *out, int64_t *behind)
{
  int rc = CT_OK;
  in_t in = {.fd = fd, .path = path, .what = what, .at = at, .end = end, .p = out};
  *out = (ct_pickle_t){.root = -1};
  while (!in.done) {
    const unsigned char *op;
    CT_TRY(pickle_take(&in, 1, &op));
    CT_TRY(ops[*op].run ? ops[*op].run(&in, ops[*op].n) : unknown(&in, *op));
  }
  if (behind) *behind = at + in.pos;
out:
  ct_mem_free(in.buf);
  ct_mem_free(in.stack);
  ct_mem_free(in.memo);
  return rc;
}
