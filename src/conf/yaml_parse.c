/* Builds the tree from libyaml's events.  The tree has the line of each value, for messages.  An
 * alias becomes a copy of its anchor's value; `<<` merges the keys of other maps.  Features that a
 * configuration does not need are refused: tags, several documents. */
#include "conf/yaml_parts.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum {
  MAX_COPIED = 100000, /* maximum number of copied values: a few lines of aliases can expand to any
                          number */
  MAX_MERGED = 1000    /* maximum number of keys of a map that `<<` merges: each key is searched in
                          the other map */
};

typedef struct anchor {
  char *name;
  ct_yaml_t *value;
  struct anchor *older;
} anchor_t;

typedef struct reader {
  yaml_parser_t yaml;
  const char *name;
  const char *text;
  size_t bytes;
  anchor_t *anchors; /* the newest first: an anchor can be redefined */
  int copied;        /* values */
} reader_t;

/* ---- events ---- */

/* Returns the line of a libyaml error.  Where the text is not valid UTF-8, libyaml gives a byte
 * offset instead of a line. */
static int problem_line(const reader_t *r)
{
  if (r->yaml.error != YAML_READER_ERROR) return (int)r->yaml.problem_mark.line + 1;
  int line = 1;
  for (size_t i = 0; i < r->yaml.problem_offset && i < r->bytes; i++)
    line += r->text[i] == '\n';
  return line;
}

/* Returns 1 if the line is indented by a tab: libyaml's own message is not helpful. */
static int is_tab_indented(const reader_t *r, int line)
{
  const char *p = r->text, *end = r->text + r->bytes;
  for (; line > 1 && p < end; p++)
    line -= *p == '\n';
  while (p < end && *p == ' ')
    p++;
  return p < end && *p == '\t';
}

static int next_event(reader_t *r, yaml_event_t *e)
{
  if (yaml_parser_parse(&r->yaml, e)) return CT_OK;
  memset(e, 0, sizeof *e);
  if (r->yaml.error == YAML_MEMORY_ERROR)
    return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "%s: no memory to parse it", r->name);
  int line = problem_line(r);
  const char *why = r->yaml.problem ? r->yaml.problem : "cannot be parsed";
  if (is_tab_indented(r, line)) why = "a tab indents the line; YAML takes only blanks for that";
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "%s:%d: not valid YAML: %s", r->name, line,
                    why);
}

static int yaml_parse_line_of(const yaml_event_t *e)
{
  return (int)e->start_mark.line + 1;
}

/* Returns 1 for `!!binary`: text that is not UTF-8, in base64. */
static int is_binary(const yaml_event_t *e)
{
  return e->type == YAML_SCALAR_EVENT && e->data.scalar.tag &&
         strcmp((const char *)e->data.scalar.tag, "tag:yaml.org,2002:binary") == 0;
}

static const char no_tags[] = "a tag ('!name') is not supported";

static const yaml_char_t *anchor_of(const yaml_event_t *e)
{
  switch (e->type) {
  case YAML_SCALAR_EVENT:
    return e->data.scalar.anchor;
  case YAML_SEQUENCE_START_EVENT:
    return e->data.sequence_start.anchor;
  case YAML_MAPPING_START_EVENT:
    return e->data.mapping_start.anchor;
  default:
    return NULL;
  }
}

static const yaml_char_t *tag_of(const yaml_event_t *e)
{
  switch (e->type) {
  case YAML_SCALAR_EVENT:
    return e->data.scalar.tag;
  case YAML_SEQUENCE_START_EVENT:
    return e->data.sequence_start.tag;
  case YAML_MAPPING_START_EVENT:
    return e->data.mapping_start.tag;
  default:
    return NULL;
  }
}

/* Returns the name of a YAML feature that configurations do not support; NULL: supported. */
static const char *refused(const yaml_event_t *e)
{
  if (e->type == YAML_SCALAR_EVENT && memchr(e->data.scalar.value, 0, e->data.scalar.length))
    return "text contains a zero byte";
  return tag_of(e) && !is_binary(e) ? no_tags : NULL;
}

static int fail_at(const reader_t *r, int line, const char *why)
{
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "%s:%d: %s", r->name, line, why);
}

/* ---- anchors ---- */

static void forget_anchors(reader_t *r)
{
  for (anchor_t *a = r->anchors, *older; a; a = older) {
    older = a->older;
    ct_yaml_free(a->value);
    ct_mem_free(a->name);
    ct_mem_free(a);
  }
  r->anchors = NULL;
}

/* Returns the number of values in a tree; *height: levels below its root. */
static int yaml_parse_measure(const ct_yaml_t *n, int *height)
{
  int values = 1, below;
  *height = 0;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    values += yaml_parse_measure(c, &below);
    if (below + 1 > *height) *height = below + 1;
  }
  return values;
}

/* Copies a value that will be nested \a depth levels deep. */
static int copy_value(reader_t *r, const ct_yaml_t *from, int line, int depth, ct_yaml_t **out)
{
  int height;
  *out = NULL;
  r->copied += yaml_parse_measure(from, &height);
  if (r->copied > MAX_COPIED) return fail_at(r, line, "aliases stand for more than 100000 values");
  if (depth + height > CT__YAML_DEPTH) return fail_at(r, line, "too many levels of nesting");
  *out = ct_yaml_copy(from);
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static int note_anchor(reader_t *r, const yaml_event_t *e, const ct_yaml_t *value)
{
  int rc = CT_OK;
  anchor_t *a = ct_mem_alloc(sizeof *a, "an anchor");
  if (!a) return CT_ERR_NOMEM;
  a->older = r->anchors;
  r->anchors = a;
  a->name = ct_mem_strdup((const char *)anchor_of(e));
  if (!a->name) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(copy_value(r, value, yaml_parse_line_of(e), 0, &a->value));
out:
  return rc;
}

static int follow_alias(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out)
{
  const char *name = (const char *)e->data.alias.anchor;
  for (const anchor_t *a = r->anchors; a; a = a->older)
    if (strcmp(a->name, name) == 0)
      return copy_value(r, a->value, yaml_parse_line_of(e), depth, out);
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "%s:%d: '*%.100s' refers to an anchor '&%.100s' that is not defined before it",
                    r->name, yaml_parse_line_of(e), name, name);
}

/* ---- merging ---- */

static int merge_map(reader_t *r, ct_yaml_t *into, const ct_yaml_t *from, int line, int depth)
{
  int rc = CT_OK;
  ct_yaml_t *copy;
  if (from->kind != CT_YAML_MAP)
    CT_TRY(fail_at(r, line, "'<<' takes a map or a list of maps, such as '*name'"));
  if (ct_yaml_count(from) > MAX_MERGED)
    CT_TRY(fail_at(r, line, "'<<' takes maps of up to 1000 keys"));
  for (const ct_yaml_t *c = from->child; c; c = c->next) {
    if (ct_yaml_find(into, c->key)) continue;
    CT_TRY(copy_value(r, c, line, depth, &copy));
    ct_yaml_append(into, copy);
  }
out:
  return rc;
}

/* Merges the maps in `<<` into their map: keys of the map override keys of the merged maps, and
 * earlier merged maps override later ones. */
static int yaml_parse_merge(reader_t *r, ct_yaml_t *into, const ct_yaml_t *merged, int depth)
{
  int rc = CT_OK;
  if (merged->kind != CT_YAML_LIST) return merge_map(r, into, merged, merged->line, depth);
  for (const ct_yaml_t *c = merged->child; c; c = c->next)
    CT_TRY(merge_map(r, into, c, merged->line, depth));
out:
  return rc;
}

/* ---- values ---- */

static int parse_value(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out);

/* Marks plain text that is valid only in its context or with its line breaks (such as `-` in `[-]`)
 * as quoted: it is not a number, and the dump can then write it anywhere. */
static int parse_scalar(const reader_t *r, const yaml_event_t *e, ct_yaml_t **out)
{
  int rc = CT_OK;
  size_t len;
  const char *text = (const char *)e->data.scalar.value;
  *out = ct_yaml_new(CT_YAML_SCALAR, NULL, text);
  if (!*out) return CT_ERR_NOMEM;
  (*out)->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !ct__yaml_is_plain(text);
  if (!is_binary(e)) return CT_OK;
  (*out)->quoted = 1;
  if (ct_text_unbase64((*out)->text, &len) != CT_OK || strlen((*out)->text) != len)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: '!!binary' is not base64 of a text", r->name,
            yaml_parse_line_of(e));
out:
  return rc;
}

static int check_key(const reader_t *r, const yaml_event_t *e)
{
  int rc = CT_OK, line = yaml_parse_line_of(e);
  const char *why = is_binary(e)                  ? no_tags
                    : anchor_of(e)                ? "an anchor ('&name') cannot stand at a key"
                    : e->type == YAML_ALIAS_EVENT ? "an alias ('*name') cannot be a key"
                                                  : refused(e);
  if (why) CT_FAIL(CT_ERR_USAGE, "%s:%d: %s", r->name, line, why);
  if (e->type != YAML_SCALAR_EVENT)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: a key must be a word, not a list or map", r->name, line);
  const char *key = (const char *)e->data.scalar.value;
  if (!*key) CT_FAIL(CT_ERR_USAGE, "%s:%d: a key is empty", r->name, line);
  if (strlen(key) > CT__YAML_KEY)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: a key is longer than %d bytes", r->name, line, CT__YAML_KEY);
out:
  return rc;
}

static int by_key_and_line(const void *a, const void *b)
{
  const ct_yaml_t *p = *(ct_yaml_t *const *)a, *q = *(ct_yaml_t *const *)b;
  int order = strcmp(p->key, q->key);
  return order ? order : (p->line > q->line) - (p->line < q->line);
}

/* Sorts the keys to find duplicates in less than quadratic time. */
static int check_unique(const reader_t *r, const ct_yaml_t *map)
{
  int rc = CT_OK, n = 0;
  const ct_yaml_t *first = NULL, *again = NULL, **sorted;
  if (map->kind != CT_YAML_MAP || map->child == map->last) return CT_OK;
  sorted = ct_mem_array(ct_yaml_count(map), sizeof *sorted, "the keys of a map");
  if (!sorted) return CT_ERR_NOMEM;
  for (const ct_yaml_t *c = map->child; c; c = c->next)
    sorted[n++] = c;
  qsort(sorted, (size_t)n, sizeof *sorted, by_key_and_line);
  for (int i = 1; i < n; i++)
    if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0 &&
        (!again || sorted[i]->line < again->line)) {
      first = sorted[i - 1];
      again = sorted[i];
    }
  if (again)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: duplicate key '%s', first given in line %d", r->name, again->line,
            again->key, first->line);
out:
  ct_mem_free(sorted);
  return rc;
}

static int parse_pair(reader_t *r, const yaml_event_t *key, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  yaml_event_t e = {0};
  *out = NULL;
  CT_TRY(check_key(r, key));
  CT_TRY(next_event(r, &e));
  CT_TRY(parse_value(r, &e, depth, out));
  (*out)->line = yaml_parse_line_of(key);
  (*out)->key = ct_mem_strdup((const char *)key->data.scalar.value);
  if (!(*out)->key) rc = CT_ERR_NOMEM;
out:
  if (rc != CT_OK) {
    ct_yaml_free(*out);
    *out = NULL;
  }
  yaml_event_delete(&e);
  return rc;
}

/* Appends a value to its map; the value of `<<` is merged at the end of the map. */
static int take_child(const reader_t *r, ct_yaml_t *parent, ct_yaml_t *child, ct_yaml_t **merged)
{
  if (parent->kind != CT_YAML_MAP || strcmp(child->key, "<<") != 0) {
    ct_yaml_append(parent, child);
    return CT_OK;
  }
  int line = child->line, again = *merged != NULL;
  if (again)
    ct_yaml_free(child);
  else
    *merged = child;
  return again ? fail_at(r, line, "duplicate key '<<'; it takes a list: [*a, *b]") : CT_OK;
}

static int parse_children(reader_t *r, ct_yaml_t *parent, int depth)
{
  int rc = CT_OK;
  yaml_event_t e = {0};
  ct_yaml_t *child, *merged = NULL;
  for (;;) {
    CT_TRY(next_event(r, &e));
    if (e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT) break;
    if (parent->kind == CT_YAML_MAP)
      CT_TRY(parse_pair(r, &e, depth, &child));
    else
      CT_TRY(parse_value(r, &e, depth, &child));
    CT_TRY(take_child(r, parent, child, &merged));
    yaml_event_delete(&e);
  }
  CT_TRY(check_unique(r, parent));
  if (merged) CT_TRY(yaml_parse_merge(r, parent, merged, depth));
out:
  ct_yaml_free(merged);
  yaml_event_delete(&e);
  return rc;
}

static int parse_node(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out)
{
  int is_map = e->type == YAML_MAPPING_START_EVENT;
  if (e->type == YAML_ALIAS_EVENT) return follow_alias(r, e, depth, out);
  if (e->type == YAML_SCALAR_EVENT) return parse_scalar(r, e, out);
  *out = ct_yaml_new(is_map ? CT_YAML_MAP : CT_YAML_LIST, NULL, NULL);
  return *out ? parse_children(r, *out, depth + 1) : CT_ERR_NOMEM;
}

static int parse_value(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *n = NULL;
  const char *why = refused(e);
  if (why) CT_FAIL(CT_ERR_USAGE, "%s:%d: %s", r->name, yaml_parse_line_of(e), why);
  if (depth > CT__YAML_DEPTH)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: more than %d levels of nesting", r->name, yaml_parse_line_of(e),
            CT__YAML_DEPTH);
  CT_TRY(parse_node(r, e, depth, &n));
  n->line = yaml_parse_line_of(e);
  if (anchor_of(e)) CT_TRY(note_anchor(r, e, n));
  *out = n;
  n = NULL;
out:
  ct_yaml_free(n);
  return rc;
}

/* Parses the only document of the stream; *out stays NULL if the stream is empty. */
static int parse_stream(reader_t *r, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  for (int documents = 0;;) {
    yaml_event_t e;
    CT_TRY(next_event(r, &e));
    yaml_event_type_t type = e.type;
    int line = yaml_parse_line_of(&e);
    int is_value = type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
                   type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT;
    if (is_value) rc = parse_value(r, &e, depth, out);
    yaml_event_delete(&e);
    if (rc != CT_OK || type == YAML_STREAM_END_EVENT) break;
    if (type == YAML_DOCUMENT_START_EVENT && documents++)
      CT_FAIL(CT_ERR_USAGE, "%s:%d: a second document begins; one is expected", r->name, line);
  }
out:
  return rc;
}

int ct__yaml_parse_text(const char *text, size_t bytes, const char *name, int depth,
                        ct_yaml_t **out)
{
  reader_t r = {.name = name, .text = text, .bytes = bytes};
  *out = NULL;
  if (!yaml_parser_initialize(&r.yaml))
    return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "%s: no memory to parse it", name);
  yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, bytes);
  int rc = parse_stream(&r, depth, out);
  yaml_parser_delete(&r.yaml);
  forget_anchors(&r);
  if (rc != CT_OK) {
    ct_yaml_free(*out);
    *out = NULL;
  }
  return rc;
}

int ct_yaml_parse(const char *text, size_t bytes, const char *name, ct_yaml_t **out)
{
  int rc = ct__yaml_parse_text(text, bytes, name, 0, out);
  if (rc == CT_OK && *out && ct__yaml_is_nothing(*out)) { /* a lone `---` */
    ct_yaml_free(*out);
    *out = NULL;
  }
  if (rc == CT_OK && !*out) {
    *out = ct_yaml_new(CT_YAML_MAP, NULL, NULL);
    if (!*out) return CT_ERR_NOMEM;
    (*out)->line = 1;
  }
  return rc;
}
