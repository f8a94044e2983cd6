/* YAML trees: parsing, places of errors, setting keys, writing. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "conf/ct_yaml.h"
#include "tests/harness/ct_test.h"

static ct_yaml_t *parsed(const char *text)
{
  ct_yaml_t *n = NULL;
  CT_ASSERT_OK(ct_yaml_parse(text, strlen(text), "t.yaml", &n));
  return n;
}

static void expect_refused(const char *text, const char *message)
{
  ct_yaml_t *n = NULL;
  CT_ASSERT_FAILS(ct_yaml_parse(text, strlen(text), "t.yaml", &n), CT_ERR_USAGE, message);
  CU_ASSERT_PTR_NULL(n);
}

/* The text of a dotted key; "(none)" if it is not there, "(map)" or "(list)". */
static const char *text_at(const ct_yaml_t *n, const char *dotted)
{
  char path[200], *rest = path;
  strncpy(path, dotted, sizeof path - 1);
  path[sizeof path - 1] = '\0';
  while (n && rest)
    n = ct_yaml_find(n, strsep(&rest, "."));
  if (!n) return "(none)";
  return n->kind == CT_YAML_MAP ? "(map)" : n->kind == CT_YAML_LIST ? "(list)" : n->text;
}

static void expect_dump(const ct_yaml_t *n, const char *text)
{
  ct_str_t out = {0};
  CT_ASSERT_OK(ct_yaml_dump(n, 0, &out));
  CT_ASSERT_TEXT(out.data, text);
  ct_str_clear(&out);
}

static int same_tree(const ct_yaml_t *a, const ct_yaml_t *b)
{
  if (!a || !b) return a == b;
  int same = a->kind == b->kind && a->quoted == b->quoted && !a->key == !b->key &&
             (!a->key || strcmp(a->key, b->key) == 0) && !a->text == !b->text &&
             (!a->text || strcmp(a->text, b->text) == 0) && ct_yaml_count(a) == ct_yaml_count(b);
  const ct_yaml_t *p = a->child, *q = b->child;
  for (; same && p; p = p->next, q = q->next)
    same = same_tree(p, q);
  return same;
}

static void parses_maps_lists_scalars(void)
{
  ct_yaml_t *n = parsed("run: {dir: runs/a, seed: 1}\n"
                        "# a comment\n"
                        "transforms: [to_tensor, {normalize: {mean: [0.5]}}]\n"
                        "empty:\n"
                        "name: 'it''s'\n");
  CT_ASSERT_INT(ct_yaml_count(n), 4);
  CT_ASSERT_TEXT(text_at(n, "run.dir"), "runs/a");
  CT_ASSERT_TEXT(text_at(n, "run.seed"), "1");
  CT_ASSERT_TEXT(text_at(n, "transforms"), "(list)");
  CT_ASSERT_TEXT(text_at(n, "empty"), "");
  CT_ASSERT_TEXT(text_at(n, "name"), "it's");
  CT_ASSERT_TEXT(text_at(n, "run.dirs"), "(none)");
  CT_ASSERT_INT(ct_yaml_find(n, "name")->quoted, 1);
  CT_ASSERT_INT(ct_yaml_find(n, "empty")->quoted, 0);
  CU_ASSERT_PTR_NULL(ct_yaml_find(ct_yaml_find(n, "transforms"), "to_tensor"));
  ct_yaml_free(n);
}

static void remembers_lines(void)
{
  ct_yaml_t *n = parsed("a: 1\n\nb:\n  c:\n    - x\n    - y\n");
  CT_ASSERT_INT(n->line, 1);
  CT_ASSERT_INT(ct_yaml_find(n, "a")->line, 1);
  ct_yaml_t *b = ct_yaml_find(n, "b"), *c = ct_yaml_find(b, "c");
  CT_ASSERT_INT(b->line, 3);
  CT_ASSERT_INT(c->line, 4);
  CT_ASSERT_INT(c->child->line, 5);
  CT_ASSERT_INT(c->child->next->line, 6);
  ct_yaml_free(n);
}

static void empty_document_is_an_empty_map(void)
{
  static const char *const texts[] = {"", "\n", "# only a comment\n", "---\n", "--- # x\n...\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ct_yaml_t *n = parsed(texts[i]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    CT_ASSERT_INT(n->kind, CT_YAML_MAP);
    CT_ASSERT_INT(ct_yaml_count(n), 0);
    ct_yaml_free(n);
  }
}

static void errors_name_file_and_line(void)
{
  expect_refused("a: 1\nb: [1, 2\nc: 3\n", "t.yaml:3: not valid YAML: ");
  expect_refused("a: 1\nb: c: d\n", "t.yaml:2: not valid YAML: mapping values");
  expect_refused("a:\n\tb: 1\n", "t.yaml:2: not valid YAML: a tab indents the line");
  expect_refused("a: 'x\n", "t.yaml:2: not valid YAML");
  expect_refused("a: 1\nb: 2\nc: \xff\n", "t.yaml:3: not valid YAML: invalid leading UTF-8 octet");
  expect_refused("a: 1\nb: 2\na: 3\n", "t.yaml:3: duplicate key 'a', first given in line 1");
  expect_refused("r:\n  x: 1\n  'x': 2\n", "t.yaml:3: duplicate key 'x', first given in line 2");
}

static void refuses_what_no_configuration_needs(void)
{
  expect_refused("\na: *x\n",
                 "t.yaml:2: '*x' refers to an anchor '&x' that is not defined before it");
  expect_refused("*x : 1\n", "an alias");
  expect_refused("&x a: 1\n", "an anchor");
  expect_refused("a: !!str 1\n", "t.yaml:1: a tag");
  expect_refused("!x a: 1\n", "a tag");
  expect_refused("a: 1\n---\nb: 2\n", "t.yaml:2: a second document begins");
  expect_refused("[1, 2]: 1\n", "t.yaml:1: a key must be a word");
  expect_refused("? {a: 1}\n: 1\n", "t.yaml:1: a key must be a word");
  expect_refused("a: 1\n'': 1\n", "t.yaml:2: a key is empty");
  expect_refused("a: \"x\\0y\"\n", "t.yaml:1: text contains a zero byte");
}

/* ---- anchors and merge keys ---- */

static void an_alias_is_a_copy(void)
{
  ct_yaml_t *n = parsed("a: &x {b: [1, 2]}\nc: *x\nd: [*x, &y 3]\ne: &x 4\nf: *x\ng: *y\n");
  expect_dump(n, "a:\n  b: [1, 2]\nc:\n  b: [1, 2]\nd:\n  - b: [1, 2]\n  - 3\ne: 4\nf: 4\ng: 3\n");
  CT_ASSERT_INT(ct_yaml_find(n, "c")->line, 2);
  CT_ASSERT_INT(ct_yaml_find(n, "c")->child->line, 1); /* where it is written */
  ct_yaml_free(n);
}

static void a_merge_key_gives_what_is_missing(void)
{
  ct_yaml_t *n = parsed("x: &x {lr: 1, m: 2}\ny: &y {lr: 3, w: 4}\n"
                        "a:\n  <<: *x\n  m: 5\n"
                        "b:\n  k: 6\n  '<<': [*y, *x]\n"
                        "c: {<<: {k: 7}, <<x: 8}\n");
  expect_dump(n, "x:\n  lr: 1\n  m: 2\n"
                 "y:\n  lr: 3\n  w: 4\n"
                 "a:\n  m: 5\n  lr: 1\n"
                 "b:\n  k: 6\n  lr: 3\n  w: 4\n  m: 2\n"
                 "c:\n  <<x: 8\n  k: 7\n");
  ct_yaml_free(n);
}

static void refuses_what_cannot_be_merged(void)
{
  expect_refused("a:\n  <<: 1\n", "t.yaml:2: '<<' takes a map or a list of maps");
  expect_refused("a: {<<: [{b: 1}, 2]}\n", "t.yaml:1: '<<' takes a map");
  expect_refused("a: {<<: {b: 1},\n <<: {c: 1}}\n", "t.yaml:2: duplicate key '<<'");
  expect_refused("a: &x {b: *x}\n",
                 "t.yaml:1: '*x' refers to an anchor '&x' that is not defined before it");
  expect_refused("a: &x [1]\nb: {<<: *x}\n", "t.yaml:2: '<<' takes a map");
}

/* A few lines that stand for 10^9 values; and levels that add up. */
static void aliases_do_not_explode(void)
{
  ct_str_t text = {0};
  CT_ASSERT_OK(ct_str_add(&text, "a0: &a0 1\n"));
  for (int i = 1; i < 10; i++) {
    CT_ASSERT_OK(ct_str_add(&text, "a%d: &a%d [", i, i));
    for (int k = 0; k < 10; k++)
      CT_ASSERT_OK(ct_str_add(&text, "*a%d,", i - 1));
    CT_ASSERT_OK(ct_str_add(&text, "]\n"));
  }
  expect_refused(text.data, "aliases stand for more than 100000 values");
  ct_str_clear(&text);
  CT_ASSERT_OK(ct_str_add(&text, "a0: &a0 1\n"));
  for (int i = 1; i < 60; i++)
    CT_ASSERT_OK(ct_str_add(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1));
  expect_refused(text.data, "too many levels");
  ct_str_clear(&text);
  CT_ASSERT_OK(ct_str_add(&text, "x: &x {"));
  for (int i = 0; i < 1001; i++)
    CT_ASSERT_OK(ct_str_add(&text, "k%d: 1, ", i));
  CT_ASSERT_OK(ct_str_add(&text, "}\ny: {<<: *x}\n"));
  expect_refused(text.data, "t.yaml:2: '<<' takes maps of up to 1000 keys");
  ct_str_clear(&text);
}

static void trees_are_laid_over_each_other(void)
{
  ct_yaml_t *n = parsed("optim: {kind: sgd, lr: 0.1}\nlist: [1, 2]\nmodel: {a: 1}\n");
  ct_yaml_t *over = parsed("\n\noptim: {kind: adam}\nlist: [3]\nmodel: 5\nnew: {b: 1}\n");
  ct_yaml_merge(n, over);
  expect_dump(n, "optim:\n  kind: adam\n  lr: 0.1\nlist: [3]\nmodel: 5\nnew:\n  b: 1\n");
  CT_ASSERT_INT(ct_yaml_find(ct_yaml_find(n, "optim"), "kind")->line, 3);
  CT_ASSERT_INT(ct_yaml_find(ct_yaml_find(n, "optim"), "lr")->line, 1);
  ct_yaml_t *last = ct_yaml_find(n, "new"), *first = n->child;
  ct_yaml_unlink(n, last);
  ct_yaml_unlink(n, first);
  ct_yaml_append(n, first);
  expect_dump(n, "list: [3]\nmodel: 5\noptim:\n  kind: adam\n  lr: 0.1\n");
  ct_yaml_free(last);
  ct_yaml_free(n);
}

static void refuses_deep_nesting_and_long_keys(void)
{
  char text[400];
  memset(text, '[', sizeof text);
  text[300] = '\0';
  expect_refused(text, "t.yaml:1: more than 48 levels");
  memset(text, 'k', 250);
  strcpy(text + 250, ": 1\n");
  expect_refused(text, "t.yaml:1: a key is longer than 200 bytes");
}

static void set_replaces_and_creates(void)
{
  ct_yaml_t *n = parsed("optim: {lr: 0.1, kind: sgd}\nmodel:\n");
  CT_ASSERT_OK(ct_yaml_set(n, "optim.lr", "0.5"));
  CT_ASSERT_OK(ct_yaml_set(n, "optim.groups", "[{match: 'fc.*', lr: 1}]"));
  CT_ASSERT_OK(ct_yaml_set(n, "model.family", "lenet"));
  CT_ASSERT_OK(ct_yaml_set(n, "a.b.c", "\"1\""));
  CT_ASSERT_OK(ct_yaml_set(n, "a.d", ""));
  expect_dump(n, "optim:\n"
                 "  lr: 0.5\n"
                 "  kind: sgd\n"
                 "  groups:\n"
                 "    - match: \"fc.*\"\n"
                 "      lr: 1\n"
                 "model:\n"
                 "  family: lenet\n"
                 "a:\n"
                 "  b:\n"
                 "    c: \"1\"\n"
                 "  d:\n");
  CT_ASSERT_INT(ct_yaml_find(ct_yaml_find(n, "optim"), "lr")->line, 0);
  CT_ASSERT_INT(ct_yaml_find(ct_yaml_find(n, "optim"), "kind")->line, 1);
  ct_yaml_free(n);
}

static void set_errors(void)
{
  ct_yaml_t *n = parsed("optim: {lr: 0.1}\nlist: [1]\n");
  CT_ASSERT_FAILS(ct_yaml_set(n, "optim.lr.x", "1"), CT_ERR_USAGE,
                  "--set optim.lr.x: 'optim.lr' is not a map");
  CT_ASSERT_FAILS(ct_yaml_set(n, "list.0", "1"), CT_ERR_USAGE, "'list' is not a map");
  CT_ASSERT_FAILS(ct_yaml_set(n, "optim.lr", "[1"), CT_ERR_USAGE, "--set optim.lr:");
  CT_ASSERT_FAILS(ct_yaml_set(n, "optim.lr", "*a"), CT_ERR_USAGE,
                  "refers to an anchor '&a' that is not defined");
  CT_ASSERT_FAILS(ct_yaml_set(n, "", "1"), CT_ERR_USAGE, "expected a dotted key");
  CT_ASSERT_FAILS(ct_yaml_set(n, "optim..lr", "1"), CT_ERR_USAGE, "expected a dotted key");
  CT_ASSERT_FAILS(ct_yaml_set(n, "optim.", "1"), CT_ERR_USAGE, "expected a dotted key");
  char longer[300] = "optim.";
  memset(longer + 6, 'k', sizeof longer - 7);
  CT_ASSERT_FAILS(ct_yaml_set(n, longer, "1"), CT_ERR_USAGE, "expected a dotted key");
  expect_dump(n, "optim:\n  lr: 0.1\nlist: [1]\n");
  ct_yaml_free(n);
}

static void built_by_hand(void)
{
  ct_yaml_t *n = ct_yaml_new(CT_YAML_MAP, NULL, NULL);
  ct_yaml_t *list = ct_yaml_new(CT_YAML_LIST, "list", NULL);
  ct_yaml_append(list, ct_yaml_new(CT_YAML_MAP, NULL, NULL));
  ct_yaml_append(list, ct_yaml_new(CT_YAML_SCALAR, NULL, "- x"));
  ct_yaml_append(n, list);
  ct_yaml_append(n, ct_yaml_new(CT_YAML_SCALAR, "a: b", "c: d"));
  ct_yaml_append(n, ct_yaml_new(CT_YAML_LIST, "none", NULL));
  expect_dump(n, "list:\n  - {}\n  - \"- x\"\n\"a: b\": \"c: d\"\nnone: []\n");
  ct_yaml_t *copy = ct_yaml_copy(n);
  CU_ASSERT_TRUE(same_tree(n, copy));
  CU_ASSERT(copy->child->child != n->child->child);
  ct_yaml_free(copy);
  ct_yaml_free(n);
}

static const char *const round_trips[] = {
    "a: 1\n",
    "[1, 2, x*y, -3e-4]\n",
    "just text\n",
    "--- '--- x'\n",
    "a: 'true'\nb: true\nc: \"\"\nd:\ne: ~\n",
    "a: |\n  two\n  lines\nb: >\n  folded\n  text\n\n  more\n",
    "a: plain\n  over\n\n  lines\n",
    "- - - 1\n    - 2\n  - a: 1\n    b: {c: {}, d: []}\n- []\n- x\n",
    "a: [-, '-', b, 'c, d', \"[e]\", {f: g}]\n",
    "a: [1, '']\nb: ['', x]\nc: ['']\n",
    "- \n- ~\n-\n",
    "a: \"tab\\t nl\\n bell\\a nel\\N nbsp\\_ ls\\L ps\\P bom\\uFEFF odd\\uFFFE z\\U0001F600\"\n",
    "\"tab\\tkey\": 1\n\"a: b\": 2\n'? x': 3\n'- y': 4\n'#': 5\nplain key: 6\n",
    "url: http://a:80/#x\nglob: train-*.h5\ntime: 10:30\nat: a@b\nhash: a#b\nper: 50%\n",
    "\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87: \xe2\x82\xac \xf0\x9f\x98\x80\n",
    "a:\n- 1\n- b:\n  - c\n",
    "? a\n: b\n",
    "a: 'x '\nb: ' x'\nc: 'x:'\nd: \"x #y\"\ne: '%x'\nf: '@x'\n",
};

static void dump_parses_back(void)
{
  for (size_t i = 0; i < sizeof round_trips / sizeof round_trips[0]; i++) {
    ct_yaml_t *a = parsed(round_trips[i]);
    ct_str_t first = {0}, second = {0};
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    CT_ASSERT_OK(ct_yaml_dump(a, 0, &first));
    ct_yaml_t *b = parsed(first.data);
    CU_ASSERT_TRUE(same_tree(a, b));
    if (!same_tree(a, b)) CT_ASSERT_TEXT(first.data, round_trips[i]); /* shows both */
    CU_ASSERT_PTR_NOT_NULL_FATAL(b);
    CT_ASSERT_OK(ct_yaml_dump(b, 0, &second));
    CT_ASSERT_TEXT(second.data, first.data);
    ct_str_clear(&first);
    ct_str_clear(&second);
    ct_yaml_free(a);
    ct_yaml_free(b);
  }
}

static void dump_indents(void)
{
  ct_yaml_t *n = parsed("a: {b: 1}\nc: [x, {y: 1}]\n");
  ct_str_t out = {0};
  CT_ASSERT_OK(ct_str_add(&out, "top:\n"));
  CT_ASSERT_OK(ct_yaml_dump(n, 2, &out));
  CT_ASSERT_TEXT(out.data, "top:\n  a:\n    b: 1\n  c:\n    - x\n    - y: 1\n");
  ct_str_clear(&out);
  ct_yaml_free(n);
}

/* The bytes of a name of a file, as PyYAML writes them too. */
static void bytes_survive(void)
{
  ct_yaml_t *n = ct_yaml_new(CT_YAML_MAP, NULL, NULL), *list = ct_yaml_new(CT_YAML_LIST, "b", NULL);
  ct_str_t out = {0};
  ct_yaml_append(n, ct_yaml_new(CT_YAML_SCALAR, "a", "/d\xE9j\xFF x"));
  ct_yaml_append(n, list);
  ct_yaml_append(list, ct_yaml_new(CT_YAML_SCALAR, NULL, "\xFF"));
  ct_yaml_append(list, ct_yaml_new(CT_YAML_SCALAR, NULL, "c"));
  expect_dump(n, "a: !!binary \"L2Tpav8geA==\"\nb: [!!binary \"/w==\", c]\n");
  CT_ASSERT_OK(ct_yaml_dump(n, 0, &out));
  ct_yaml_t *back = parsed(out.data);
  CT_ASSERT_TEXT(text_at(back, "a"), "/d\xE9j\xFF x");
  CT_ASSERT_TEXT(ct_yaml_find(back, "b")->child->text, "\xFF");
  expect_dump(back, out.data);
  ct_yaml_free(back);
  ct_yaml_free(n);
  ct_str_clear(&out);
  n = parsed("a: !!binary |\n  Zm9v\n  YmFy\nb: [!!binary MQ==]\n");
  CT_ASSERT_TEXT(text_at(n, "a"), "foobar");
  CT_ASSERT_INT(ct_yaml_find(n, "b")->child->quoted, 1); /* a text, no number */
  CT_ASSERT_OK(ct_yaml_set(n, "a", "/d\xE9j: ["));       /* no YAML */
  CT_ASSERT_TEXT(text_at(n, "a"), "/d\xE9j: [");
  ct_yaml_free(n);
  expect_refused("\na: !!binary x\n", "t.yaml:2: '!!binary' is not base64 of a text");
  expect_refused("a: !!binary YQBi\n", "'!!binary' is not base64 of a text"); /* a zero byte */
  expect_refused("!!binary YQ== : 1\n", "a tag");
  expect_refused("a: !!binary [x]\n", "a tag");
}

/* So many that a look at each among those before it would never end. */
static void many_keys_and_items(void)
{
  enum { MANY = 400000 };
  ct_str_t text = {0}, out = {0};
  for (int i = 0; i < MANY; i++)
    CT_ASSERT_INT(ct_str_add(&text, "k%d: %d\n", i, i), CT_OK);
  ct_yaml_t *n = parsed(text.data), *list = ct_yaml_new(CT_YAML_LIST, NULL, NULL);
  CT_ASSERT_INT(n ? ct_yaml_count(n) : 0, MANY);
  CT_ASSERT_TEXT(text_at(n, "k399999"), "399999");
  CT_ASSERT_OK(ct_str_add(&text, "k7: 1\nk5: 1\nk7: 1\n"));
  expect_refused(text.data, "t.yaml:400001: duplicate key 'k7', first given in line 8");
  for (int i = 0; i < MANY; i++)
    ct_yaml_append(list, ct_yaml_new(CT_YAML_SCALAR, NULL, "1"));
  CT_ASSERT_INT(ct_yaml_count(list), MANY);
  ct_yaml_t *copy = ct_yaml_copy(list);
  CT_ASSERT_INT(ct_yaml_dump(copy, 0, &out), CT_OK);
  CT_ASSERT_INT(out.len, strlen("[]\n") + 3 * MANY - 2);
  ct_yaml_free(copy);
  ct_yaml_free(list);
  ct_yaml_free(n);
  ct_str_clear(&text);
  ct_str_clear(&out);
}

/* Each allocation of ours fails once: an error each time, and nothing is lost. */
static void out_of_memory_anywhere(void)
{
  static const char text[] = "a: &a {b: [1, 'x']}\nc: *a\nf: {<<: *a}\n";
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM, n = 0;
  while (rc == CT_ERR_NOMEM && n < 200) {
    ct_yaml_t *tree = NULL, *copy = NULL;
    ct_str_t out = {0};
    ct_mem_fail_at(++n);
    rc = ct_yaml_parse(text, strlen(text), "t.yaml", &tree);
    if (rc == CT_OK) rc = ct_yaml_set(tree, "a.d.e", "[3]");
    if (rc == CT_OK && !(copy = ct_yaml_copy(tree))) rc = CT_ERR_NOMEM;
    if (rc == CT_OK) rc = ct_yaml_dump(copy, 0, &out);
    ct_mem_fail_at(0);
    ct_str_clear(&out);
    ct_yaml_free(copy);
    ct_yaml_free(tree);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
  CU_ASSERT(n > 20);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(parses_maps_lists_scalars),
                                    CT_TEST(remembers_lines),
                                    CT_TEST(empty_document_is_an_empty_map),
                                    CT_TEST(errors_name_file_and_line),
                                    CT_TEST(refuses_what_no_configuration_needs),
                                    CT_TEST(an_alias_is_a_copy),
                                    CT_TEST(a_merge_key_gives_what_is_missing),
                                    CT_TEST(refuses_what_cannot_be_merged),
                                    CT_TEST(aliases_do_not_explode),
                                    CT_TEST(trees_are_laid_over_each_other),
                                    CT_TEST(refuses_deep_nesting_and_long_keys),
                                    CT_TEST(set_replaces_and_creates),
                                    CT_TEST(set_errors),
                                    CT_TEST(built_by_hand),
                                    CT_TEST(dump_parses_back),
                                    CT_TEST(dump_indents),
                                    CT_TEST(bytes_survive),
                                    CT_TEST(many_keys_and_items),
                                    CT_TEST(out_of_memory_anywhere),
                                    CT_TEST_END};
  return ct_test_main("node", tests, argc, argv);
}
