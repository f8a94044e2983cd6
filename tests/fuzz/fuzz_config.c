/* Fuzz target: any bytes as a configuration.
 *
 * Either they are refused with a message, or the tree's dump parses back to the same tree and the
 * values read from it dump and read back to the same text; and nothing stays allocated. */
#include "base/ct_mem.h"
#include "conf/ct_yaml.h"
#include "conf/ct_opt.h"
#include "tests/fuzz/fuzz.h"

typedef struct all {
  int64_t steps;
  double lr;
  int nesterov;
  char *name;
  int device;
  ct_opt_texts_t files;
  ct_opt_doubles_t mean;
  int64_t kernel[2];
  ct_yaml_t *layers;
} all_t;

static const ct_opt_t rows[] = {CT_OPT_INT(all_t, steps, "10", -1e18, 1e18, "steps"),
                                CT_OPT_DOUBLE(all_t, lr, "0.1", 0, 1e6, "learning rate"),
                                CT_OPT_BOOL(all_t, nesterov, "false", "Nesterov momentum"),
                                CT_OPT_TEXT(all_t, name, "", "name"),
                                CT_OPT_CHOICE(all_t, device, "auto", "auto|cpu|ref", "device"),
                                CT_OPT_TEXTS(all_t, files, "[]", "files"),
                                CT_OPT_DOUBLES(all_t, mean, "0.5", "mean"),
                                CT_OPT_PAIR(all_t, kernel, "3", 1, 64, "kernel"),
                                CT_OPT_NODE(all_t, layers, "layers"),
                                CT_OPT_END};

static int same_text(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static int same_tree(const ct_yaml_t *a, const ct_yaml_t *b)
{
  if (a->kind != b->kind || a->quoted != b->quoted || !same_text(a->key, b->key) ||
      !same_text(a->text, b->text))
    return 0;
  const ct_yaml_t *p = a->child, *q = b->child;
  for (; p && q; p = p->next, q = q->next)
    if (!same_tree(p, q)) return 0;
  return !p && !q;
}

/* Dumps a tree and parses the text again. */
static ct_yaml_t *again(const ct_yaml_t *tree, ct_str_t *text)
{
  ct_yaml_t *back = NULL;
  must(ct_yaml_dump(tree, 0, text) == CT_OK, "a tree can be dumped");
  must(ct_yaml_parse(text->data, text->len, "dump", &back) == CT_OK, "the dump parses");
  return back;
}

static void check_tree(const ct_yaml_t *tree)
{
  ct_str_t first = {0}, second = {0};
  ct_yaml_t *back = again(tree, &first);
  must(same_tree(tree, back), "the dump parses back to the same tree");
  ct_yaml_free(again(back, &second));
  must(strcmp(first.data, second.data) == 0, "the second dump is the first");
  ct_yaml_free(back);
  ct_str_clear(&first);
  ct_str_clear(&second);
}

static int read_values(const ct_yaml_t *map, all_t *v)
{
  *v = (all_t){0};
  must(ct_opt_defaults(rows, v) == CT_OK, "defaults are valid");
  return ct_opt_read(rows, v, map, "fuzz", "all", NULL);
}

static void check_values(const ct_yaml_t *tree)
{
  all_t v, w;
  ct_str_t first = {0}, second = {0};
  int rc = read_values(tree, &v);
  must(rc == CT_OK || (rc == CT_ERR_USAGE && ct_err_last()->text[0]), "a refusal has a message");
  if (rc == CT_OK) {
    ct_yaml_t *dump = ct_opt_dump(rows, &v, NULL), *back = again(dump, &first);
    must(read_values(back, &w) == CT_OK, "dumped values can be read");
    ct_yaml_free(dump);
    ct_yaml_free(back);
    dump = ct_opt_dump(rows, &w, NULL);
    ct_yaml_free(again(dump, &second));
    must(strcmp(first.data, second.data) == 0, "values read back to themselves");
    ct_yaml_free(dump);
    ct_opt_clear(rows, &w);
  }
  ct_opt_clear(rows, &v);
  ct_str_clear(&first);
  ct_str_clear(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_yaml_t *tree = NULL;
  int rc = ct_yaml_parse((const char *)data, bytes, "fuzz", &tree);
  if (rc == CT_OK) {
    check_tree(tree);
    check_values(tree);
  } else {
    must(rc == CT_ERR_USAGE && !tree, "what is not understood is refused");
    must(strncmp(ct_err_last()->text, "fuzz:", 5) == 0, "a refusal names the file");
  }
  ct_yaml_free(tree);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
