/* Names of tensors by rules. */
#include "base/ct_err.h"
#include "tests/harness/ct_test.h"
#include "weights/ct_names.h"

enum { MAX_RULES = 3 };

static ct_opt_texts_t rules(const char *const text[MAX_RULES], char *v[MAX_RULES])
{
  ct_opt_texts_t r = {v, 0};
  while (r.n < MAX_RULES && text[r.n]) {
    v[r.n] = (char *)(uintptr_t)text[r.n];
    r.n++;
  }
  return r;
}

static void names_become_others(void)
{
  static const struct {
    const char *prefix, *rule[MAX_RULES], *name, *want;
  } rows[] = {
      {"", {0}, "conv1.weight", "conv1.weight"},
      {"module.", {0}, "module.conv1.weight", "conv1.weight"},
      {"module.", {0}, "module.module.a", "module.a"},
      {"module.", {0}, "conv1.weight", "conv1.weight"},
      {"module.", {0}, "module.", "module."},
      {"", {"head=fc"}, "head.weight", "fc.weight"},
      {"", {"head=fc"}, "head", "fc"},
      {"", {"head=fc"}, "header.weight", "header.weight"},
      {"", {"head=fc"}, "model.head.weight", "model.head.weight"},
      {"", {"head.weight=fc.weight"}, "head.weight", "fc.weight"},
      {"", {"*=model.*"}, "fc.bias", "model.fc.bias"},
      {"", {"backbone.*=*"}, "backbone.fc.bias", "fc.bias"},
      {"", {"*.gamma=*.weight"}, "bn1.gamma", "bn1.weight"},
      {"", {"*.gamma=*.weight"}, "bn1.gamma.x", "bn1.gamma.x"},
      {"", {"*.norm.1.*=*.norm1.*"}, "a.b.norm.1.weight", "a.b.norm1.weight"},
      {"", {"*.a.*=*-*"}, "x.a.y.a.z", "x-y.a.z"},
      {"", {"*a*b=*<*>"}, "xaab.b", "x<ab.>"},
      {"", {"ab*ba=*"}, "aba", "aba"},
      {"", {"**=*/*"}, "ab", "/ab"},
      {"", {"a=b", "b=c"}, "a.x", "c.x"},
      {"", {"b=c", "a=b"}, "a.x", "b.x"},
      {"m.", {"a=b", "*=n.*"}, "m.a.x", "n.b.x"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *v[MAX_RULES];
    ct_opt_texts_t r = rules(rows[i].rule, v);
    ct_str_t out = {0};
    CT_ASSERT_OK(ct_names_check(&r, "init.rename"));
    CT_ASSERT_OK(ct_names_change(rows[i].prefix, &r, rows[i].name, &out));
    CT_ASSERT_TEXT(out.data, rows[i].want);
    ct_str_clear(&out);
  }
}

static void what_is_no_rule_is_refused(void)
{
  static const struct {
    const char *rule, *word;
  } rows[] = {{"fc", "expected OLD=NEW"},
              {"=fc", "expected OLD=NEW"},
              {"fc=", "expected OLD=NEW"},
              {"", "expected OLD=NEW"},
              {"a=b=c", "two '='"},
              {"*.a=b", "has 1 '*' before '=' and 0 after"},
              {"*********=*********", "9 '*'"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *const text[MAX_RULES] = {"good=rule", rows[i].rule};
    char *v[MAX_RULES];
    ct_opt_texts_t r = rules(text, v);
    CT_ASSERT_FAILS(ct_names_check(&r, "init.rename"), CT_ERR_USAGE, rows[i].word);
    CT_ASSERT_HAS(ct_err_last()->text, "init.rename: '");
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(names_become_others),
                                    CT_TEST(what_is_no_rule_is_refused), CT_TEST_END};
  return ct_test_main("names", tests, argc, argv);
}
