/* Writes the tree as YAML text that parses to the same tree. */
#include "conf/yaml_parts.h"

#include <string.h>

#include "base/ct_err.h"

/* Returns 1 for a character that must be escaped in YAML: control characters, byte order marks, and
 * line separators of Unicode, which YAML folds. */
static int is_odd(uint32_t code)
{
  return code < ' ' || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
}

/* 1 if the text can be written as a plain scalar: without quotes, on one line, in block style. */
int ct__yaml_is_plain(const char *text)
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

/* ---- writing ---- */

/* Writes a character within quotes. */
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
  if (!quoted && ct__yaml_is_plain(text)) return ct_str_add(out, "%s", text);
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

/* Returns 1 for a word or number that can be written without quotes in flow style. */
static int is_word(const char *text)
{
  static const char safe[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-~*@";
  return text[0] && ct__yaml_is_plain(text) && !text[strspn(text, safe)];
}

/* Returns 1 for a list of words and numbers, which is written in flow style on one line. */
static int is_flow_list(const ct_yaml_t *n)
{
  if (n->kind != CT_YAML_LIST) return 0;
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    if (c->kind != CT_YAML_SCALAR) return 0;
    if (c->quoted || !ct_text_is_utf8(c->text)) continue;
    if (!is_word(c->text)) return 0;
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

/* Returns 1 if the value is written on the line of its key. */
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

/* Writes the children of a list or map, one per line; the first one continues the current line. */
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
      if (!ct__yaml_is_nothing(c)) CT_TRY(ct_str_add(out, " "));
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

int ct_yaml_flow(const ct_yaml_t *n, ct_str_t *out)
{
  int rc = CT_OK, list = n->kind == CT_YAML_LIST;
  if (n->kind == CT_YAML_SCALAR) return dump_text(n->text, n->quoted || !is_word(n->text), out);
  CT_TRY(ct_str_add(out, list ? "[" : "{"));
  for (const ct_yaml_t *c = n->child; c; c = c->next) {
    if (!list) CT_TRY(dump_text(c->key, !is_word(c->key), out));
    if (!list) CT_TRY(ct_str_add(out, ": "));
    CT_TRY(ct_yaml_flow(c, out));
    if (c->next) CT_TRY(ct_str_add(out, ", "));
  }
  CT_TRY(ct_str_add(out, list ? "]" : "}"));
out:
  return rc;
}
