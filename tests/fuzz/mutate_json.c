/* A mutator for fuzz_pt2.c under libFuzzer: changes the tree of a JSON text, since changes of its
 * bytes seldom give another valid program.  Link it with the target:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc -I. tests/fuzz/fuzz_pt2.c \
 *       tests/fuzz/mutate_json.c SOURCES -ljansson ...
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed);

enum { MOST_NODES = 1 << 14 };

/* The tree as a list; `in` is the container of each node. */
static struct {
  json_t *node, *in;
  size_t index;    /* in an array */
  const char *key; /* in an object */
} list[MOST_NODES];
static size_t nodes;
static unsigned state;

static unsigned next_random(unsigned below)
{
  state = state * 1664525U + 1013904223U;
  return below ? (state >> 8) % below : 0;
}

static void collect(json_t *o, json_t *in, size_t index, const char *key)
{
  size_t i;
  json_t *v;
  const char *k;
  if (nodes == MOST_NODES) return;
  list[nodes].node = o;
  list[nodes].in = in;
  list[nodes].index = index;
  list[nodes++].key = key;
  json_array_foreach(o, i, v) collect(v, o, i, NULL);
  json_object_foreach(o, k, v) collect(v, o, 0, k);
}

static void replace(size_t at, json_t *with)
{
  json_t *in = list[at].in;
  if (json_is_array(in))
    json_array_set_new(in, list[at].index, with);
  else if (json_is_object(in))
    json_object_set_new(in, list[at].key, with);
  else
    json_decref(with);
}

/* Another node of the same type. */
static size_t another(size_t at)
{
  for (int i = 0; i < 50; i++) {
    size_t k = next_random((unsigned)nodes);
    if (k != at && json_typeof(list[k].node) == json_typeof(list[at].node)) return k;
  }
  return at;
}

static json_int_t number(json_int_t was)
{
  static const json_int_t known[] = {0,  1,  2,  3,    4,         -1,        -2,       8,
                                     16, 64, 65, 1000, INT32_MAX, INT64_MAX, INT64_MIN};
  switch (next_random(4)) {
  case 0:
    return was < INT64_MAX ? was + 1 : 0;
  case 1:
    return was > INT64_MIN ? was - 1 : 0;
  default:
    return known[next_random(sizeof known / sizeof *known)];
  }
}

static void mutate(void)
{
  size_t at = next_random((unsigned)nodes), of = another(at);
  json_t *o = list[at].node, *in = list[at].in;
  switch (next_random(6)) {
  case 0: /* a smaller change, of a number or a text */
  case 1:
    for (int i = 0; i < 100 && !json_is_number(o) && !json_is_string(o); i++) {
      at = next_random((unsigned)nodes);
      o = list[at].node;
    }
    of = another(at);
    if (json_is_integer(o)) json_integer_set(o, number(json_integer_value(o)));
    if (json_is_real(o)) json_real_set(o, (double)number(0) / 2);
    if (json_is_string(o)) json_string_set(o, json_string_value(list[of].node));
    return;
  case 2: /* a copy of another part */
    replace(at, json_deep_copy(list[of].node));
    return;
  case 3: /* one less, one more, another order */
    if (json_is_array(in)) json_array_remove(in, list[at].index);
    if (json_is_object(in)) json_object_del(in, list[at].key);
    return;
  case 4:
    if (json_is_array(in))
      json_array_insert_new(in, next_random((unsigned)json_array_size(in)), json_deep_copy(o));
    return;
  default:
    if (json_is_array(in) && json_array_size(in) > 1) {
      size_t k = next_random((unsigned)json_array_size(in));
      json_t *copy = json_deep_copy(json_array_get(in, k));
      json_array_set(in, k, o);
      json_array_set_new(in, list[at].index, copy);
    }
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
  state = seed;
  json_t *tree = next_random(10) ? json_loadb((const char *)data, bytes, 0, NULL) : NULL;
  if (!tree) return LLVMFuzzerMutate(data, bytes, most);
  for (unsigned n = next_random(3) + 1; n > 0; n--) {
    nodes = 0;
    collect(tree, NULL, 0, NULL);
    mutate();
  }
  char *text = json_dumps(tree, JSON_COMPACT);
  size_t n = text ? strlen(text) : 0;
  if (n > 0 && n <= most) {
    memcpy(data, text, n);
    bytes = n;
  }
  free(text);
  json_decref(tree);
  return bytes;
}
