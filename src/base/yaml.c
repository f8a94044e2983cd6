/* libyaml's events to a tree of our own and back.  The tree keeps the line of each value, for
 * messages, and refuses what a configuration has no use for: anchors, tags, several documents. */
#include "base/ct_yaml.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum {
  MAX_DEPTH = 48, /* the readers of a tree recurse */
  MAX_KEY = 200 /* bytes: YAML wants a key and its colon within 1024 characters, escapes included */
};

/* ---- nodes ---- */

ct_yaml_t *ct_yaml_new(ct_yaml_kind_t kind, const char *key, const char *text)
{
  ct_yaml_t *n = ct_mem_alloc(sizeof *n, "a configuration value");
  if (!n) return NULL;
  n->kind = text ? CT_YAML_SCALAR : kind;
  if (n->kind == CT_YAML_SCALAR) n->text = ct_mem_strdup(text ? text : "");
  if (key) n->key = ct_mem_strdup(key);
  if ((n->kind == CT_YAML_SCALAR && !n->text) || (key && !n->key)) {
    ct_yaml_free(n);
    return NULL;
  }
  return n;
}

void ct_yaml_free(ct_yaml_t *n)
{
  if (!n) return;
  for (ct_yaml_t *c = n->child, *next; c; c = next) {
    next = c->next;
    ct_yaml_free(c);
  }
  ct_mem_free(n->key);
  ct_mem_free(n->text);
  ct_mem_free(n);
}

ct_yaml_t *ct_yaml_find(const ct_yaml_t *map, const char *key)
{
  ct_yaml_t *c = map && map->kind == CT_YAML_MAP ? map->child : NULL;
  while (c && strcmp(c->key, key) != 0)
    c = c->next;
  return c;
}

int ct_yaml_count(const ct_yaml_t *n)
{
  int count = 0;
  for (const ct_yaml_t *c = n->child; c; c = c->next)
    count++;
  return count;
}

void ct_yaml_append(ct_yaml_t *parent, ct_yaml_t *child)
{
  if (parent->last)
    parent->last->next = child;
  else
    parent->child = child;
  parent->last = child;
}

ct_yaml_t *ct_yaml_copy(const ct_yaml_t *n)
{
  ct_yaml_t *copy = ct_yaml_new(n->kind, n->key, n->text);
  if (!copy) return NULL;
  copy->quoted = n->quoted;
  copy->line = n->line;
  copy->used = n->used;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    ct_yaml_t *child = ct_yaml_copy(c);
    if (!child) {
      ct_yaml_free(copy);
      return NULL;
    }
    ct_yaml_append(copy, child);
  }
  return copy;
}

/* ---- parsing ---- */

typedef struct reader {
  yaml_parser_t yaml;
  const char *name;
  const char *text;
  size_t bytes;
} reader_t;

/* libyaml gives a byte offset instead of a line where the text is not valid UTF-8. */
static int problem_line(const reader_t *r)
{
  if (r->yaml.error != YAML_READER_ERROR) return (int)r->yaml.problem_mark.line + 1;
  int line = 1;
  for (size_t i = 0; i < r->yaml.problem_offset && i < r->bytes; i++)
    line += r->text[i] == '\n';
  return line;
}

/* 1 if blanks and a tab stand in front of that line's text: libyaml's words for it help nobody. */
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

static int line_of(const yaml_event_t *e)
{
  return (int)e->start_mark.line + 1;
}

/* Text that is not UTF-8: its bytes in base64. */
static int is_binary(const yaml_event_t *e)
{
  return e->type == YAML_SCALAR_EVENT && e->data.scalar.tag &&
         strcmp((const char *)e->data.scalar.tag, "tag:yaml.org,2002:binary") == 0;
}

static const char no_tags[] = "a tag ('!name') is not supported";

/* What YAML has and a configuration does not. */
static const char *refused(const yaml_event_t *e)
{
  const yaml_char_t *anchor = NULL, *tag = NULL;
  switch (e->type) {
  case YAML_ALIAS_EVENT:
    return "an alias ('*name') is not supported";
  case YAML_SCALAR_EVENT:
    anchor = e->data.scalar.anchor;
    tag = e->data.scalar.tag;
    if (memchr(e->data.scalar.value, 0, e->data.scalar.length)) return "text contains a zero byte";
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = e->data.sequence_start.anchor;
    tag = e->data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = e->data.mapping_start.anchor;
    tag = e->data.mapping_start.tag;
    break;
  default:
    break;
  }
  if (anchor) return "an anchor ('&name') is not supported";
  return tag && !is_binary(e) ? no_tags : NULL;
}

/* What YAML does not hold as it is: control characters, byte order marks and the line separators of
 * Unicode, which it folds. */
static int is_odd(uint32_t code)
{
  return code < ' ' || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

/* 1 if the text stands for itself without quotes, on one line, in a block. */
static int plain_safe(const char *text)
{
  size_t len = strlen(text);
  if (len == 0) return 1;
  if (strchr(" ,[]{}#&*!|>'\"%@`?:", text[0]) || text[len - 1] == ' ' || text[len - 1] == ':')
    return 0;
  if (text[0] == '-' && (text[1] == '\0' || text[1] == ' ')) return 0;
  if (strncmp(text, "---", 3) == 0 || strncmp(text, "...", 3) == 0) return 0;
  if (strstr(text, ": ") || strstr(text, " #")) return 0;
  uint32_t code;
  for (int length; *text; text += length) {
    length = ct_text_utf8(text, &code);
    if (length == 0 || is_odd(code)) return 0;
  }
  return 1;
}

static int parse_value(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out);

/* A plain text that only its place or its line breaks made possible (such as `-` in `[-]`) is
 * marked as quoted: it is no number either, and the dump can then write it anywhere. */
static int parse_scalar(const reader_t *r, const yaml_event_t *e, ct_yaml_t **out)
{
  int rc = CT_OK;
  size_t len;
  const char *text = (const char *)e->data.scalar.value;
  *out = ct_yaml_new(CT_YAML_SCALAR, NULL, text);
  if (!*out) return CT_ERR_NOMEM;
  (*out)->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !plain_safe(text);
  if (!is_binary(e)) return CT_OK;
  (*out)->quoted = 1;
  if (ct_text_unbase64((*out)->text, &len) != CT_OK || strlen((*out)->text) != len)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: '!!binary' is not base64 of a text", r->name, line_of(e));
out:
  return rc;
}

static int check_key(const reader_t *r, const yaml_event_t *e)
{
  int rc = CT_OK, line = line_of(e);
  const char *why = is_binary(e) ? no_tags : refused(e);
  if (why) CT_FAIL(CT_ERR_USAGE, "%s:%d: %s", r->name, line, why);
  if (e->type != YAML_SCALAR_EVENT)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: a key must be a word, not a list or map", r->name, line);
  const char *key = (const char *)e->data.scalar.value;
  if (!*key) CT_FAIL(CT_ERR_USAGE, "%s:%d: a key is empty", r->name, line);
  if (strlen(key) > MAX_KEY)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: a key is longer than %d bytes", r->name, line, MAX_KEY);
out:
  return rc;
}

static int by_key_and_line(const void *a, const void *b)
{
  const ct_yaml_t *p = *(ct_yaml_t *const *)a, *q = *(ct_yaml_t *const *)b;
  int order = strcmp(p->key, q->key);
  return order ? order : (p->line > q->line) - (p->line < q->line);
}

/* Sorts the keys: to look for each of many among those before it would take the square of their
 * number. */
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
  (*out)->line = line_of(key);
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

static int parse_children(reader_t *r, ct_yaml_t *parent, int depth)
{
  int rc = CT_OK;
  yaml_event_t e = {0};
  for (ct_yaml_t *child = NULL;; ct_yaml_append(parent, child)) {
    CT_TRY(next_event(r, &e));
    if (e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT) break;
    if (parent->kind == CT_YAML_MAP)
      CT_TRY(parse_pair(r, &e, depth, &child));
    else
      CT_TRY(parse_value(r, &e, depth, &child));
    yaml_event_delete(&e);
  }
  CT_TRY(check_unique(r, parent));
out:
  yaml_event_delete(&e);
  return rc;
}

static int parse_value(reader_t *r, const yaml_event_t *e, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *n = NULL;
  const char *why = refused(e);
  if (why) CT_FAIL(CT_ERR_USAGE, "%s:%d: %s", r->name, line_of(e), why);
  if (depth > MAX_DEPTH)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: more than %d levels of nesting", r->name, line_of(e), MAX_DEPTH);
  if (e->type == YAML_SCALAR_EVENT) {
    CT_TRY(parse_scalar(r, e, &n));
  } else {
    int is_map = e->type == YAML_MAPPING_START_EVENT;
    n = ct_yaml_new(is_map ? CT_YAML_MAP : CT_YAML_LIST, NULL, NULL);
    if (!n) CT_TRY(CT_ERR_NOMEM);
    CT_TRY(parse_children(r, n, depth + 1));
  }
  n->line = line_of(e);
  *out = n;
  n = NULL;
out:
  ct_yaml_free(n);
  return rc;
}

/* The one document of the stream; *out stays NULL if there is none. */
static int parse_stream(reader_t *r, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  for (int documents = 0;;) {
    yaml_event_t e;
    CT_TRY(next_event(r, &e));
    yaml_event_type_t type = e.type;
    int line = line_of(&e);
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

static int parse_text(const char *text, size_t bytes, const char *name, int depth, ct_yaml_t **out)
{
  reader_t r = {.name = name, .text = text, .bytes = bytes};
  *out = NULL;
  if (!yaml_parser_initialize(&r.yaml))
    return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "%s: no memory to parse it", name);
  yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, bytes);
  int rc = parse_stream(&r, depth, out);
  yaml_parser_delete(&r.yaml);
  if (rc != CT_OK) {
    ct_yaml_free(*out);
    *out = NULL;
  }
  return rc;
}

static int is_nothing(const ct_yaml_t *n)
{
  return n->kind == CT_YAML_SCALAR && !n->quoted && !n->text[0];
}

int ct_yaml_parse(const char *text, size_t bytes, const char *name, ct_yaml_t **out)
{
  int rc = parse_text(text, bytes, name, 0, out);
  if (rc == CT_OK && *out && is_nothing(*out)) { /* a lone `---` */
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

/* ---- setting one key ---- */

static void forget_lines(ct_yaml_t *n)
{
  n->line = 0;
  for (ct_yaml_t *c = n->child; c; c = c->next)
    forget_lines(c);
}

/* Puts the content of \a from, which is consumed, into the node \a to; key and place stay. */
static void replace_content(ct_yaml_t *to, ct_yaml_t *from)
{
  ct_yaml_t old = *to;
  to->kind = from->kind;
  to->text = from->text;
  to->quoted = from->quoted;
  to->line = from->line;
  to->child = from->child;
  to->last = from->last;
  to->used = 0;
  from->text = old.text;
  from->child = old.child;
  ct_yaml_free(from);
}

/* The child of that key, made as an empty scalar if it is not there. */
static int step_into(ct_yaml_t *map, const char *dotted, int end, const char *key, ct_yaml_t **out)
{
  int rc = CT_OK;
  if (is_nothing(map)) {
    ct_mem_free(map->text);
    map->text = NULL;
    map->kind = CT_YAML_MAP;
  }
  if (map->kind != CT_YAML_MAP)
    CT_FAIL(CT_ERR_USAGE, "--set %s: '%.*s' is not a map", dotted, end, dotted);
  *out = ct_yaml_find(map, key);
  if (*out) goto out;
  *out = ct_yaml_new(CT_YAML_SCALAR, key, "");
  if (!*out) CT_TRY(CT_ERR_NOMEM);
  ct_yaml_append(map, *out);
out:
  return rc;
}

static int check_dotted(const char *dotted, int *depth)
{
  int rc = CT_OK;
  *depth = 0;
  for (const char *p = dotted;; p++) {
    size_t len = strcspn(p, ".");
    if (len == 0 || len > MAX_KEY || ++*depth > MAX_DEPTH)
      CT_FAIL(CT_ERR_USAGE, "--set %s: expected a dotted key such as optim.lr", dotted);
    p += len;
    if (!*p) break;
  }
out:
  return rc;
}

/* What --set gives a key. */
static int parse_set(const char *yaml, const char *dotted, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_str_t name = {0};
  *out = NULL;
  CT_TRY(ct_str_add(&name, "--set %s", dotted));
  if (ct_text_is_utf8(yaml)) CT_TRY(parse_text(yaml, strlen(yaml), name.data, depth, out));
  if (!*out) *out = ct_yaml_new(CT_YAML_SCALAR, NULL, ct_text_is_utf8(yaml) ? "" : yaml);
  if (!*out) rc = CT_ERR_NOMEM;
out:
  ct_str_clear(&name);
  return rc;
}

int ct_yaml_set(ct_yaml_t *root, const char *dotted, const char *yaml)
{
  int rc = CT_OK, depth;
  ct_yaml_t *value = NULL, *n = root;
  CT_TRY(check_dotted(dotted, &depth));
  CT_TRY(parse_set(yaml, dotted, depth, &value));
  for (const char *p = dotted; depth > 0; depth--) {
    char key[MAX_KEY + 1];
    size_t len = strcspn(p, ".");
    memcpy(key, p, len);
    key[len] = '\0';
    CT_TRY(step_into(n, dotted, p > dotted ? (int)(p - dotted) - 1 : 0, key, &n));
    p += len + 1;
  }
  forget_lines(value);
  replace_content(n, value);
  value = NULL;
out:
  ct_yaml_free(value);
  return rc;
}

/* ---- writing ---- */

/* A character between quotes. */
static int dump_character(const char *text, int length, uint32_t code, ct_str_t *out)
{
  if (code == '"' || code == '\\') return ct_str_add(out, "\\%c", text[0]);
  if (code == '\n') return ct_str_add(out, "\\n");
  if (code == '\t') return ct_str_add(out, "\\t");
  if (is_odd(code)) return ct_str_add(out, code < 0x100 ? "\\x%02X" : "\\u%04X", code);
  return ct_str_add(out, "%.*s", length, text);
}

static int dump_text(const char *text, int quoted, ct_str_t *out)
{
  int rc = CT_OK, is_text = ct_text_is_utf8(text);
  uint32_t code;
  if (!quoted && plain_safe(text)) return ct_str_add(out, "%s", text);
  CT_TRY(ct_str_add(out, is_text ? "\"" : "!!binary \""));
  if (!is_text) CT_TRY(ct_text_base64(text, out));
  for (int length; is_text && *text; text += length) {
    length = ct_text_utf8(text, &code);
    CT_TRY(dump_character(text, length, code, out));
  }
  CT_TRY(ct_str_add(out, "\""));
out:
  return rc;
}

/* 1 for a list of words and numbers that can stand in brackets on one line. */
static int is_flow_list(const ct_yaml_t *n)
{
  static const char safe[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-~*@";
  if (n->kind != CT_YAML_LIST) return 0;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    if (c->kind != CT_YAML_SCALAR) return 0;
    if (c->quoted || !ct_text_is_utf8(c->text)) continue;
    if (!c->text[0] || !plain_safe(c->text) || c->text[strspn(c->text, safe)]) return 0;
  }
  return 1;
}

static int dump_flow_list(const ct_yaml_t *n, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "["));
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    CT_TRY(dump_text(c->text, c->quoted, out));
    if (c->next) CT_TRY(ct_str_add(out, ", "));
  }
  CT_TRY(ct_str_add(out, "]"));
out:
  return rc;
}

/* 1 if the value stands on the line of its key. */
static int is_inline(const ct_yaml_t *n)
{
  return n->kind == CT_YAML_SCALAR || !n->child || is_flow_list(n);
}

static int dump_inline(const ct_yaml_t *n, ct_str_t *out)
{
  if (n->kind == CT_YAML_SCALAR) return dump_text(n->text, n->quoted, out);
  if (n->kind == CT_YAML_LIST) return dump_flow_list(n, out);
  return ct_str_add(out, "{}");
}

/* The children of a list or map, one a line; the first begins where the line stands now. */
static int dump_block(const ct_yaml_t *n, int indent, ct_str_t *out)
{
  int rc = CT_OK;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    if (c != n->child) CT_TRY(ct_str_add(out, "%*s", indent, ""));
    if (n->kind == CT_YAML_LIST)
      CT_TRY(ct_str_add(out, "-"));
    else
      CT_TRY(dump_text(c->key, 0, out));
    if (n->kind == CT_YAML_MAP) CT_TRY(ct_str_add(out, ":"));
    if (is_inline(c)) {
      if (!is_nothing(c)) CT_TRY(ct_str_add(out, " "));
      CT_TRY(dump_inline(c, out));
      CT_TRY(ct_str_add(out, "\n"));
    } else {
      if (n->kind == CT_YAML_LIST)
        CT_TRY(ct_str_add(out, " ")); /* `- key: value` and `- - item` */
      else
        CT_TRY(ct_str_add(out, "\n%*s", indent + 2, ""));
      CT_TRY(dump_block(c, indent + 2, out));
    }
  }
out:
  return rc;
}

int ct_yaml_dump(const ct_yaml_t *n, int indent, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "%*s", indent, ""));
  if (!is_inline(n)) return dump_block(n, indent, out);
  CT_TRY(dump_inline(n, out));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}
