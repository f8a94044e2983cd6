/* The rule for labels, and samples of tar files with their labels, on drawn cases. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "pack/labels.h"
#include "pack/list.h"
#include "tests/harness/ct_test.h"

static uint64_t drawn;

static int draw(int n) /* 0 … n - 1 */
{
  return (int)(ct_rng_u64(29, CT_RNG_TEST, 0, drawn++) % (uint64_t)n);
}

/* A number in one of the ways in which it may be written. */
static const char *write_number(int number)
{
  static const char *const forms[] = {"%d",     "%d.0",    " %d ",          "\"%d\"",
                                      "%d\r\n", "0%d",     "'%d.0'",        "\t%d\n",
                                      "%d.000", "\" %d\"", "\xEF\xBB\xBF%d"};
  static char text[64];
  int form = draw(number < 0 ? 4 : (int)(sizeof forms / sizeof *forms) + 1);
  if (form == (int)(sizeof forms / sizeof *forms))
    snprintf(text, sizeof text, "+%d", number);
  else
    snprintf(text, sizeof text, forms[form], number);
  return text;
}

static int add(ct__pack_labels_t *l, const char *text)
{
  char copy[600], where[40];
  snprintf(copy, sizeof copy, "%s", text);
  snprintf(where, sizeof where, "labels.csv:%d", (int)l->n + 1);
  return ct__pack_labels_add(l, copy, where);
}

static void integers_are_numbers_as_they_are(void)
{
  for (int round = 0; round < 200; round++) {
    ct__pack_labels_t l = {0};
    int n = 1 + draw(20), want[20], classes = 0;
    for (int i = 0; i < n; i++) {
      want[i] = draw(8) ? draw(draw(2) ? 10 : 200001) : -100;
      if (i == 0 && want[0] < 0) want[0] = 0;
      if (want[i] >= classes) classes = want[i] + 1;
      CT_ASSERT_OK(add(&l, write_number(want[i])));
    }
    CT_ASSERT_OK(ct__pack_labels_finish(&l, "labels.csv"));
    CT_ASSERT_INT(l.classes, classes);
    CT_ASSERT_INT(l.class_names, 0);
    for (int i = 0; i < n; i++)
      CT_ASSERT_INT(l.number[i], want[i]);
    ct__pack_labels_clear(&l);
  }
}

/* Names that are numbered and shuffled have their numbers again, with further words around. */
static void names_are_in_natural_order(void)
{
  static const char *const words[][2] = {{"cat", ""},   {"", "th"},  {"class ", ""},
                                         {"n", "_dog"}, {"é", "-x"}, {"a1b", "c"}};
  for (int round = 0; round < 100; round++) {
    ct__pack_labels_t l = {0};
    const char *const *word = words[draw(6)];
    int n = 2 + draw(119), want[400];
    char text[80];
    for (int i = 0; i < 400; i++) {
      want[i] = i < n ? n - 1 - i : draw(n);
      snprintf(text, sizeof text, draw(2) ? "%s%d%s" : " \"%s%d%s\"\r\n", word[0], want[i],
               word[1]);
      CT_ASSERT_OK(add(&l, text));
    }
    CT_ASSERT_OK(ct__pack_labels_finish(&l, "labels.csv"));
    CT_ASSERT_INT(l.class_names, n);
    for (int i = 0; i < 400; i++)
      CT_ASSERT_INT(l.number[i], want[i]);
    ct__pack_labels_clear(&l);
  }
}

static int sign(int x)
{
  return (x > 0) - (x < 0);
}

static void the_order_is_total(void)
{
  char t[3][8];
  for (int round = 0; round < 20000; round++) {
    for (int i = 0; i < 3; i++) {
      int n = draw(6);
      for (int k = 0; k < n; k++)
        t[i][k] = "0019ab-."[draw(8)];
      t[i][n] = '\0';
    }
    int ab = sign(ct__pack_natural(t[0], t[1])), bc = sign(ct__pack_natural(t[1], t[2]));
    CU_ASSERT_TRUE(ab == -sign(ct__pack_natural(t[1], t[0])));
    CU_ASSERT_TRUE((ab == 0) == (strcmp(t[0], t[1]) == 0));
    if (ab == bc) CU_ASSERT_TRUE(sign(ct__pack_natural(t[0], t[2])) == ab);
  }
}

static void check_refused(const char *first, const char *text, const char *words)
{
  ct__pack_labels_t l = {0};
  if (first) CT_ASSERT_OK(add(&l, first));
  CT_ASSERT_FAILS(add(&l, text), CT_ERR_FORMAT, words);
  ct__pack_labels_clear(&l);
}

static void what_is_neither_is_refused(void)
{
  static const char *const no_class[] = {"-1",       "-0.5",      "0.5",   "1e-3", "nan",
                                         "NaN",      "inf",       "0x10",  "1e20", "-99",
                                         "10000000", "-Infinity", "\"-2\""};
  char text[40], number[40];
  for (size_t i = 0; i < sizeof no_class / sizeof *no_class; i++) {
    check_refused(NULL, no_class[i], "labels.csv:1: the label ");
    check_refused("1", no_class[i], "labels.csv:2: the label ");
    check_refused("dog", no_class[i], "labels.csv:2: the label ");
  }
  for (int i = 0; i < 100; i++) {
    snprintf(text, sizeof text, "dog%d", draw(100));
    snprintf(number, sizeof number, "%s", write_number(draw(100)));
    check_refused(number, text, "is a name, but ");
    check_refused(number, text, "labels.csv:2: ");
    check_refused(text, number, "(labels.csv:1) is a name");
  }
  check_refused(NULL, "", "the label is missing");
  check_refused("1", "\xEF\xBB\xBF \"\" ", "labels.csv:2: the label is missing");
  check_refused(NULL, "dog\ncat", "several lines");
}

static void ignored_labels_alone_are_no_classes(void)
{
  ct__pack_labels_t l = {0};
  CT_ASSERT_OK(add(&l, "-100.0"));
  CT_ASSERT_FAILS(ct__pack_labels_finish(&l, "labels.csv"), CT_ERR_FORMAT, "all labels are -100");
  ct__pack_labels_clear(&l);
}

/* ---- tar files ---- */

enum { BLOCK = 512, MOST = 64 };

typedef struct made {
  unsigned char *data;
  size_t bytes, cap;
} made_t;

static void put(made_t *t, const char *name, const char *content)
{
  size_t n = strlen(content), need = t->bytes + 2 * BLOCK + n;
  if (need > t->cap) t->data = realloc(t->data, t->cap = 2 * need);
  unsigned char *h = t->data + t->bytes;
  memset(h, 0, 2 * BLOCK + n);
  snprintf((char *)h, 100, "%s", name);
  snprintf((char *)h + 124, 12, "%06o", (unsigned)n & 0xffff);
  memset(h + 148, ' ', 8);
  h[156] = '0';
  memcpy(h + 257, "ustar", 6);
  unsigned sum = 0;
  for (int i = 0; i < BLOCK; i++)
    sum += h[i];
  snprintf((char *)h + 148, 8, "%06o", sum);
  memcpy(h + BLOCK, content, n);
  t->bytes += BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
}

static void end(made_t *t)
{
  if (t->bytes + 2 * BLOCK > t->cap) t->data = realloc(t->data, t->cap = 2 * t->bytes + 2 * BLOCK);
  memset(t->data + t->bytes, 0, 2 * BLOCK);
  t->bytes += 2 * BLOCK;
}

static int list_of(made_t *t, ct__pack_list_t *l)
{
  static char path[700];
  if (!*path) snprintf(path, sizeof path, "%s/t.tar", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(path, t->data, t->bytes));
  free(t->data);
  *t = (made_t){0};
  *l = (ct__pack_list_t){0};
  return ct__pack_list_tar(path, l);
}

typedef struct sample {
  char stem[40];
  int label, as_json;
} sample_t;

/* Members of samples, the numbers of which are shuffled; the images are in the order of `order`. */
static void put_samples(made_t *t, const sample_t *s, int n, int named, int *order)
{
  int member[2 * MOST], images = 0;
  char name[80], content[80];
  for (int i = 0; i < 2 * n; i++) {
    int k = draw(i + 1);
    member[i] = member[k];
    member[k] = i;
  }
  for (int i = 0; i < 2 * n; i++) {
    const sample_t *of = &s[member[i] / 2];
    int is_image = member[i] % 2;
    if (is_image) order[images++] = member[i] / 2;
    snprintf(name, sizeof name, "%s.%s", of->stem, is_image ? "png" : of->as_json ? "json" : "cls");
    const char *text = named ? "" : write_number(of->label);
    if (is_image)
      snprintf(content, sizeof content, "pixels");
    else if (!of->as_json && named)
      snprintf(content, sizeof content, "c%d\n", of->label);
    else if (!of->as_json)
      snprintf(content, sizeof content, "%s", text);
    else
      snprintf(content, sizeof content, "{\"%s\": %s%d%s}", draw(2) ? "label" : "cls",
               named ? "\"c" : "", of->label,
               named     ? "\""
               : draw(2) ? ".0"
                         : "");
    put(t, name, content);
  }
}

/* Whatever the order in the archive, the dots in the names and the way a label is written. */
static void each_image_has_its_own_label(void)
{
  for (int round = 0; round < 200; round++) {
    made_t t = {0};
    ct__pack_list_t l;
    sample_t s[MOST];
    int archives = 1 + draw(3), named = draw(2), order[3 * MOST], total = 0, classes = 0;
    int want[3 * MOST];
    for (int a = 0; a < archives; a++) { /* the same names in each */
      int n = 1 + draw(MOST);
      for (int i = 0; i < n; i++) {
        s[i] = (sample_t){.label = i == 0 && a == 0 ? 11 : draw(12), .as_json = draw(2)};
        snprintf(s[i].stem, sizeof s[i].stem,
                 draw(2)   ? "d.x/%d"
                 : draw(2) ? "f.%03d"
                           : "v%d.b.c",
                 i);
      }
      for (int c = 0; c < 12 && a == 0 && n >= 12; c++)
        s[c].label = 11 - c; /* names of all */
      put_samples(&t, s, n, named, order);
      end(&t);
      for (int i = 0; i < n; i++)
        want[total++] = s[order[i]].label;
    }
    if (CT_ASSERT_OK(list_of(&t, &l)) != CT_OK) continue;
    CT_ASSERT_INT(l.n, total);
    for (int64_t i = 0; i < l.n && l.n == total; i++) {
      char name[16];
      snprintf(name, sizeof name, "c%d", want[i]);
      if (named)
        CT_ASSERT_TEXT(ct__pack_list_text(&l, l.class_name[l.entry[i].label]), name);
      else
        CT_ASSERT_INT(l.entry[i].label, want[i]);
      if (want[i] >= classes) classes = want[i] + 1;
    }
    if (!named) CT_ASSERT_INT(l.classes, classes);
    ct__pack_list_clear(&l);
  }
}

/* Pairs of names and contents, ended by NULL. */
static int list_members(const char *const *member, ct__pack_list_t *l)
{
  made_t t = {0};
  for (; *member; member += 2)
    put(&t, member[0], member[1]);
  end(&t);
  return list_of(&t, l);
}

static void no_sample_is_lost_or_guessed(void)
{
  static const struct {
    const char *member[9], *words;
  } bad[] = {
      {{"a.png", "", "a.cls", "1", "b.png", ""}, "b.png has no label"},
      {{"a.png", "", "a.cls", "1", "b.v2.png", "", "b.cls", ""}, "b.cls: the label is missing"},
      {{"a.png", "", "a.jpg", "", "a.cls", "1"}, "has two images"},
      {{"a.png", "", "a.png", "", "a.cls", "1"}, "a.png: is there twice"},
      {{"a.l.png", "", "a.r.png", "", "a.cls", "1"}, "has two images"},
      {{"a.png", "", "a.json", "{\"label\": null}"}, "a.json: its label is neither"},
      {{"a.png", "", "a.json", "{\"label\": [1]}"}, "a.json: its label is neither"},
      {{"a.png", "", "a.json", "{\"label\": "}, "a.json: is not valid JSON"},
      {{"a.png", "", "a.json", "{\"label\": 0.5}"}, "a.json: the label 0.5"},
      {{"a.png", "", "a.json", "{\"label\": -1}"}, "a.json: the label -1"},
      {{"a.png", "", "a.cls", "1", "a.json", "{\"label\": 2}"}, "another label"},
      {{"a.png", "", "a.cls", "1", "b.png", "", "b.cls", "dog"},
       "b.cls: the label 'dog' is a name"},
      {{"i/a.png", "", "l/a.cls", "1"}, "no image has a label, but there is l/a.cls"},
      {{"a.png", ""}, "a.png has no label"},
      {{"a.cls", "1", "b.cls", "1"}, "contains no images"},
  };
  ct__pack_list_t l;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CT_ASSERT_FAILS(list_members(bad[i].member, &l), CT_ERR_FORMAT, bad[i].words);
    ct__pack_list_clear(&l);
  }
}

/* WebDataset's names: what is behind the first dot. */
static void fields_of_one_sample(void)
{
  static const struct {
    const char *member[11];
    int n, label;
  } good[] = {
      {{"k.png", "", "k.cls", "3", "k.seg.png", ""}, 1, 3},
      {{"k.left.png", "", "k.cls", "3"}, 1, 3},
      {{"k.left.png", "", "k.json", "{\"cls\": 3}"}, 1, 3},
      {{"k.png", "", "k.cls", "3", "k.txt", "text", "k.json", "{\"note\": 1}"}, 1, 3},
      {{"k.png", "", "k.cls", "3", "._k.png", "", "x.cls", "9"}, 1, 3},
      {{"a/k.png", "", "b/k.png", "", "b/k.v2.png", ""}, 3, 0},
      {{"2/k.png", "", "10/k.png", ""}, 2, 0},
  };
  ct__pack_list_t l;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    if (CT_ASSERT_OK(list_members(good[i].member, &l)) == CT_OK) {
      CT_ASSERT_INT(l.n, good[i].n);
      CT_ASSERT_INT(l.entry[0].label, good[i].label);
    }
    ct__pack_list_clear(&l);
  }
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(integers_are_numbers_as_they_are),
                                    CT_TEST(names_are_in_natural_order),
                                    CT_TEST(the_order_is_total),
                                    CT_TEST(what_is_neither_is_refused),
                                    CT_TEST(ignored_labels_alone_are_no_classes),
                                    CT_TEST(each_image_has_its_own_label),
                                    CT_TEST(no_sample_is_lost_or_guessed),
                                    CT_TEST(fields_of_one_sample),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR);
  return ct_test_main("pack_labels", tests, argc, argv);
}
