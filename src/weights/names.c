/* Renaming rules for tensors: other programs name the same weights differently, with a prefix
 * ("module.", from a model wrapper) or with other layer names. */
#include "weights/ct_names.h"

#include <string.h>

#include "base/ct_err.h"

enum { MAX_STARS = 8 };

/* A text with a length, not NUL-terminated. */
typedef struct span {
  const char *p;
  size_t n;
} span_t;

/* The two sides of a rule. */
typedef struct rule {
  span_t from, to;
} rule_t;

static rule_t split(const char *text)
{
  const char *equal = strchr(text, '=');
  return (rule_t){{text, (size_t)(equal - text)}, {equal + 1, strlen(equal + 1)}};
}

static int stars(span_t s)
{
  int n = 0;
  for (size_t i = 0; i < s.n; i++)
    n += s.p[i] == '*';
  return n;
}

int ct_names_check(const ct_opt_texts_t *rules, const char *key)
{
  int rc = CT_OK;
  for (int i = 0; i < rules->n; i++) {
    const char *text = rules->v[i], *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1])
      CT_FAIL(CT_ERR_USAGE, "%s: '%s' is not a rule: expected OLD=NEW, such as backbone.*=*", key,
              text);
    if (strchr(equal + 1, '='))
      CT_FAIL(CT_ERR_USAGE, "%s: '%s' has two '=': a rule is OLD=NEW", key, text);
    rule_t r = split(text);
    int from = stars(r.from), to = stars(r.to);
    if (from != to)
      CT_FAIL(CT_ERR_USAGE,
              "%s: '%s' has %d '*' before '=' and %d after: the numbers must be equal", key, text,
              from, to);
    if (from > MAX_STARS)
      CT_FAIL(CT_ERR_USAGE, "%s: '%s' has %d '*', more than %d", key, text, from, MAX_STARS);
  }
out:
  return rc;
}

/* Returns the text before the next '*'; *s becomes the text after it. */
static span_t up_to_star(span_t *s)
{
  const char *star = memchr(s->p, '*', s->n);
  span_t head = {s->p, star ? (size_t)(star - s->p) : s->n};
  size_t skip = head.n + (star != NULL);
  *s = (span_t){s->p + skip, s->n - skip};
  return head;
}

static int begins(span_t text, span_t with)
{
  return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

static int ends(span_t text, span_t with)
{
  return text.n >= with.n && memcmp(text.p + text.n - with.n, with.p, with.n) == 0;
}

/* Returns the position of the first occurrence of a part in the text, or the text's length + 1. */
static size_t names_find(span_t text, span_t piece)
{
  for (size_t i = 0; i + piece.n <= text.n; i++)
    if (memcmp(text.p + i, piece.p, piece.n) == 0) return i;
  return text.n + 1;
}

/* Finds the text for each '*' of the pattern; 0: no match. Texts between two '*' are matched at
 * their first occurrence, which finds a match whenever there is one. */
static int match_stars(span_t pattern, span_t name, span_t star[MAX_STARS])
{
  int n = stars(pattern);
  span_t head = up_to_star(&pattern);
  if (!begins(name, head)) return 0;
  name = (span_t){name.p + head.n, name.n - head.n};
  for (int i = 0; i < n; i++) {
    span_t piece = up_to_star(&pattern);
    size_t at = i + 1 < n ? names_find(name, piece) : name.n - piece.n;
    if (i + 1 == n && !ends(name, piece)) return 0;
    if (at > name.n) return 0;
    star[i] = (span_t){name.p, at};
    name = (span_t){name.p + at + piece.n, name.n - at - piece.n};
  }
  return name.n == 0;
}

/* Matches the tensor itself or a layer above it. */
static int match_plain(span_t pattern, span_t name, span_t *rest)
{
  if (!begins(name, pattern)) return 0;
  *rest = (span_t){name.p + pattern.n, name.n - pattern.n};
  return rest->n == 0 || (rest->p[0] == '.' && rest->n > 1);
}

static int names_add(ct_str_t *out, span_t s)
{
  return ct_str_add(out, "%.*s", (int)s.n, s.p);
}

/* Appends the name after applying one rule. */
static int apply(const rule_t *r, const char *name, ct_str_t *out)
{
  int rc = CT_OK, n = stars(r->from);
  span_t star[MAX_STARS], rest, to = r->to, whole = {name, strlen(name)};
  if (n == 0 && match_plain(r->from, whole, &rest)) {
    CT_TRY(names_add(out, r->to));
    return names_add(out, rest);
  }
  if (n == 0 || !match_stars(r->from, whole, star)) return names_add(out, whole);
  CT_TRY(names_add(out, up_to_star(&to)));
  for (int i = 0; i < n; i++) {
    CT_TRY(names_add(out, star[i]));
    CT_TRY(names_add(out, up_to_star(&to)));
  }
out:
  return rc;
}

static int change(const char *const *rules, int n, ct_str_t *now)
{
  int rc = CT_OK;
  ct_str_t next = {0};
  for (int i = 0; i < n; i++) {
    rule_t r = split(rules[i]);
    CT_TRY(apply(&r, now->data, &next));
    ct_str_clear(now);
    *now = next;
    next = (ct_str_t){0};
  }
out:
  ct_str_clear(&next);
  return rc;
}

int ct_names_change(const char *prefix, const ct_opt_texts_t *rules, const char *name,
                    ct_str_t *out)
{
  int rc = CT_OK;
  ct_str_t now = {0};
  size_t n = strlen(prefix);
  int has = n && strncmp(name, prefix, n) == 0 && name[n];
  CT_TRY(ct_str_add(&now, "%s", has ? name + n : name));
  CT_TRY(change((const char *const *)rules->v, rules->n, &now));
  ct_str_clear(out);
  *out = now;
  now = (ct_str_t){0};
out:
  ct_str_clear(&now);
  return rc;
}

/* ---- naming schemes of other programs ---- */

/* Strips wrapper prefixes; a name that consists only of wrappers is kept. */
static int unwrap(const char *name, int *unwrapped, ct_str_t *out)
{
  static const char *const anywhere[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                         "_checkpoint_wrapped_module."},
                           first[] = "module.";
  int rc = CT_OK;
  for (const char *at = name; *at;) {
    size_t skip = out->len == 0 && strncmp(at, first, strlen(first)) == 0 ? strlen(first) : 0;
    for (size_t i = 0; i < sizeof anywhere / sizeof *anywhere; i++)
      if (strncmp(at, anywhere[i], strlen(anywhere[i])) == 0) skip = strlen(anywhere[i]);
    if (skip && !at[skip]) skip = 0;
    if (skip) {
      *unwrapped = 1;
      at += skip;
      continue;
    }
    size_t n = strcspn(at, ".");
    n += at[n] == '.';
    CT_TRY(ct_str_add(out, "%.*s", (int)n, at));
    at += n;
  }
out:
  return rc;
}

int ct_names_translate(const ct_names_known_t *known, const char *name, int *unwrapped,
                       ct_str_t *out)
{
  int rc = CT_OK, n = 0;
  ct_str_t now = {0};
  while (known->rules && known->rules[n])
    n++;
  CT_TRY(unwrap(name, unwrapped, &now));
  if (n) CT_TRY(change(known->rules, n, &now));
  CT_TRY(ct_str_add(out, "%s", now.data ? now.data : ""));
out:
  ct_str_clear(&now);
  return rc;
}

/* ---- lists of names ---- */

int ct_names_list(ct_str_t *list, int n, const char *name)
{
  return n < CT_NAMES_LISTED ? ct_str_add(list, "%s'%s'", n ? ", " : "", name) : CT_OK;
}

int ct_names_list_end(ct_str_t *list, int n)
{
  if (n <= CT_NAMES_LISTED) return CT_OK;
  return ct_str_add(list, " and %d more", n - CT_NAMES_LISTED);
}
