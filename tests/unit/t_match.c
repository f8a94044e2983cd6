/* Which tensor of a file each parameter gets. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

/* ---- a file that is a list in memory ---- */

enum { MAX = 12 };

struct ct_weights {
  ct_tensor_t tensor[MAX];
  int n;
  const char *conv1d; /* text of the file */
};

static int fake_count(const ct_weights_t *w)
{
  return w->n;
}

static void fake_tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  *out = w->tensor[i];
}

static const char *fake_text(const ct_weights_t *w, const char *name)
{
  return strcmp(name, "conv1d") == 0 ? w->conv1d : NULL;
}

static int fake_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  (void)w;
  for (int64_t k = 0; k < n; k++)
    ((float *)to)[k] = (float)(100 * i + first + k);
  return CT_OK;
}

static const ct_weights_ops_t fake_ops = {
    .count = fake_count, .tensor = fake_tensor, .text = fake_text, .read = fake_read};

static const int64_t conv[] = {4, 2, 3, 3}, four[] = {4}, head[] = {3, 16}, three[] = {3},
                     other[] = {5, 16}, five[] = {5};

static const ct_tensor_t whole[] = {{"conv.weight", CT_ELEM_F32, 4, conv, 72},
                                    {"conv.bias", CT_ELEM_F32, 1, four, 4},
                                    {"norm.weight", CT_ELEM_F32, 1, four, 4},
                                    {"norm.bias", CT_ELEM_F32, 1, four, 4},
                                    {"norm.running_mean", CT_ELEM_F32, 1, four, 4},
                                    {"norm.running_var", CT_ELEM_F32, 1, four, 4},
                                    {"norm.num_batches_tracked", CT_ELEM_I64, 0, NULL, 1},
                                    {"fc.weight", CT_ELEM_F32, 2, head, 48},
                                    {"fc.bias", CT_ELEM_F32, 1, three, 3}};
enum { WHOLE = sizeof whole / sizeof *whole, FC_WEIGHT = 7, FC_BIAS = 8 };

static const char model[] = "layers:\n"
                            "  - conv2d: {out: 4, kernel: 3}\n"
                            "    name: conv\n"
                            "  - batchnorm:\n"
                            "    name: norm\n"
                            "  - flatten\n"
                            "  - linear: {out: 3}\n"
                            "    name: fc\n";

/* ---- a match of it ---- */

typedef struct rig {
  ct_weights_t w;
  ct_weights_file_t f;
  ct_graph_t *g;
  char *rename[2], *replace[2];
  ct_init_opts_t o;
  ct_match_t m;
} rig_t;

static void open_rig(rig_t *r)
{
  *r = (rig_t){.w.n = WHOLE, .g = make(model, image(2, 4, 4), 3)};
  memcpy(r->w.tensor, whole, sizeof whole);
  r->f = (ct_weights_file_t){.ops = &fake_ops, .w = &r->w};
  r->o = (ct_init_opts_t){.strict = 1, .strip_prefix = (char *)(uintptr_t) ""};
  r->o.rename.v = r->rename;
  r->o.replace.v = r->replace;
}

static void add_text(ct_opt_texts_t *list, const char *text)
{
  list->v[list->n++] = (char *)(uintptr_t)text;
}

static void close_rig(rig_t *r)
{
  ct_match_clear(&r->m);
  ct_graph_free(r->g);
}

static int match(rig_t *r)
{
  ct_match_clear(&r->m);
  return ct_match_make(&r->f, r->g, &r->o, &r->m);
}

static int judge(const rig_t *r)
{
  ct_log_setup(1, 2, CT_LOG_ERROR); /* rank 1 is silent */
  int rc = ct_match_judge(&r->m, &r->o, "w.pth");
  ct_log_setup(0, 1, CT_LOG_INFO);
  return rc;
}

static int from(const rig_t *r, const char *name)
{
  return r->m.from[ct_graph_find_param(r->g, name)];
}

static void check(const rig_t *r, int taken, int missing, int misfits, int unexpected)
{
  CT_ASSERT_INT(r->m.taken, taken);
  CT_ASSERT_INT(r->m.missing, missing);
  CT_ASSERT_INT(r->m.misfits, misfits);
  CT_ASSERT_INT(r->m.unexpected, unexpected);
}

/* ---- tests ---- */

static void all_fits(void)
{
  rig_t r;
  open_rig(&r);
  CT_ASSERT_OK(match(&r));
  check(&r, 8, 0, 0, 0);
  CT_ASSERT_INT(from(&r, "conv.weight"), 0);
  CT_ASSERT_INT(from(&r, "norm.running_var"), 5);
  CT_ASSERT_INT(from(&r, "fc.bias"), FC_BIAS);
  CT_ASSERT_OK(judge(&r));
  close_rig(&r);
}

static void all_that_does_not_fit_is_told(void)
{
  rig_t r;
  open_rig(&r);
  r.w.tensor[1].name = "conv.b\033ias";
  r.w.tensor[2].dim = three;
  r.w.tensor[FC_WEIGHT].ndim = 1;
  r.w.tensor[FC_BIAS].name = "head.bias";
  CT_ASSERT_OK(match(&r));
  check(&r, 4, 2, 2, 2);
  CT_ASSERT_TEXT(r.m.lines[0].data, "conv.bias\nfc.bias");
  CT_ASSERT_TEXT(r.m.lines[1].data, "norm.weight is [3] in the file and [4] in the model\n"
                                    "fc.weight is [3] in the file and [3, 16] in the model");
  CT_ASSERT_TEXT(r.m.lines[2].data, "conv.b?ias\nhead.bias");
  CT_ASSERT_INT(from(&r, "norm.weight"), -1);
  CT_ASSERT_INT(from(&r, "norm.bias"), 3);
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT, "2 missing, 2 of another shape, 2 not in the model");
  r.o.strict = 0;
  CT_ASSERT_OK(judge(&r));
  close_rig(&r);
}

static void one_that_does_not_fit_is_an_error(void)
{
  rig_t r;
  open_rig(&r);
  r.w.n--; /* missing */
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT, "1 missing, 0 of another shape, 0 not in");
  r.w.n = WHOLE + 1; /* unexpected */
  r.w.tensor[WHOLE] = (ct_tensor_t){"extra", CT_ELEM_F32, 0, NULL, 1};
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT, "0 missing, 0 of another shape, 1 not in");
  r.w.n = WHOLE; /* shape */
  r.w.tensor[FC_BIAS].dim = five;
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT, "0 missing, 1 of another shape, 0 not in");
  close_rig(&r);
}

static void nothing_that_fits_is_an_error_also_without_strict(void)
{
  rig_t r;
  open_rig(&r);
  r.o.strict = 0;
  r.o.strip_prefix = (char *)(uintptr_t) "conv";
  for (int i = 0; i < WHOLE; i++)
    r.w.tensor[i].name = "conv.weight";
  CT_ASSERT_OK((r.w.n = 1, match(&r)));
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT,
                  "no tensor of 'w.pth' matches a parameter of the model");
  close_rig(&r);
}

static void replaced_parts_begin_anew(void)
{
  rig_t r;
  open_rig(&r);
  r.w.tensor[FC_WEIGHT].dim = other;      /* another number of classes, … */
  r.w.tensor[FC_BIAS].name = "fc.1.bias"; /* … other names … */
  add_text(&r.o.replace, "fc");
  CT_ASSERT_OK(match(&r));
  check(&r, 6, 0, 0, 0);
  CT_ASSERT_INT(r.m.replaced, 2);
  CT_ASSERT_INT(from(&r, "fc.weight"), -1);
  CT_ASSERT_TEXT(r.m.lines[3].data, "fc.weight\nfc.bias");
  CT_ASSERT_OK(judge(&r));
  memcpy(r.w.tensor, whole, sizeof whole); /* … or what would fit */
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_INT(from(&r, "fc.weight"), -1);
  add_text(&r.o.replace, "head");
  CT_ASSERT_FAILS(match(&r), CT_ERR_USAGE, "no parameter of the model matches 'head'");
  close_rig(&r);
}

static void names_go_by_rules(void)
{
  rig_t r;
  static const char *const names[] = {"module.c.weight", "module.c.bias", "module.norm.gamma"};
  open_rig(&r);
  for (int i = 0; i < 3; i++)
    r.w.tensor[i].name = names[i];
  r.o.strip_prefix = (char *)(uintptr_t) "module.";
  add_text(&r.o.rename, "c=conv");
  add_text(&r.o.rename, "*.gamma=*.weight");
  CT_ASSERT_OK(match(&r));
  check(&r, 8, 0, 0, 0);
  close_rig(&r);
}

/* All names, behind a prefix. */
static void put_before(rig_t *r, const char *prefix, char names[MAX][80])
{
  for (int i = 0; i < WHOLE; i++) {
    snprintf(names[i], 80, "%s%s", prefix, whole[i].name);
    r->w.tensor[i].name = names[i];
  }
}

static void a_prefix_of_most_names_is_found(void)
{
  rig_t r;
  char names[MAX][80];
  open_rig(&r);
  put_before(&r, "model.net.", names);
  r.w.tensor[8].name = "other.bias"; /* not of all */
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_TEXT(r.m.prefix, "model.net.");
  CT_ASSERT_FAILS(judge(&r), CT_ERR_FORMAT, "begin with 'model.net.': init.strip_prefix strips");
  memcpy(r.w.tensor, whole, sizeof whole);
  r.w.tensor[0].name = "model.net.conv.weight"; /* of one */
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_TEXT(r.m.prefix, "");
  put_before(&r, "model.layer.", names); /* of names that are still others without it */
  for (int i = 0; i < WHOLE; i++)
    names[i][15] = 'x';
  CT_ASSERT_OK(match(&r));
  CT_ASSERT_TEXT(r.m.prefix, "");
  close_rig(&r);
}

static void wrappers_are_left_out(void)
{
  static const char *const wrappers[] = {"module.", "_orig_mod.", "module._orig_mod.",
                                         "_orig_mod.module.", "module.module."};
  char names[MAX][80];
  for (int i = 0; i < 5; i++) {
    rig_t r;
    open_rig(&r);
    put_before(&r, wrappers[i], names);
    r.w.tensor[WHOLE] = (ct_tensor_t){"n_averaged", CT_ELEM_I64, 0, NULL, 1}; /* AveragedModel */
    r.w.n++;
    CT_ASSERT_OK(match(&r));
    check(&r, 8, 0, 0, 0);
    CT_ASSERT_HAS(r.m.names, "a wrapper");
    CT_ASSERT_OK(judge(&r));
    close_rig(&r);
  }
}

/* Each table, from names of a model to those of another program and back. */
static void known_names_become_ours(void)
{
  static const struct {
    const char *theirs, *ours;
  } cases[] = {
      {"blocks.11.attn.qkv.weight",
       "encoder.layers.encoder_layer_11.self_attention.in_proj_weight"},
      {"blocks.0.mlp.fc2.bias", "encoder.layers.encoder_layer_0.mlp.3.bias"},
      {"norm.weight", "encoder.ln.weight"},
      {"encoder.layers.encoder_layer_3.mlp.linear_1.weight",
       "encoder.layers.encoder_layer_3.mlp.0.weight"},
      {"blocks.0.0.conv_dw.weight", "features.1.conv.0.0.weight"},
      {"blocks.3.2.bn2.running_var", "features.9.conv.1.1.running_var"},
      {"bn2.running_var", "features.18.1.running_var"},
      {"classifier.weight", "classifier.1.weight"},
      {"features.1.conv.3.weight", "features.1.conv.1.weight"},
      {"features.17.conv.7.bias", "features.17.conv.3.bias"},
      {"features.0.1.weight", "features.0.1.weight"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int found = 0, unwrapped = 0;
    for (const ct_names_known_t *k = ct_names_known; k->what; k++) {
      ct_str_t name = {0};
      CT_ASSERT_OK(ct_names_translate(k, cases[i].theirs, &unwrapped, &name));
      found |= strcmp(name.data, cases[i].ours) == 0;
      ct_str_clear(&name);
    }
    if (!found) CT_ASSERT_TEXT(cases[i].theirs, cases[i].ours);
    CT_ASSERT_INT(unwrapped, 0);
  }
}

static void two_tensors_of_one_name_are_refused(void)
{
  rig_t r;
  open_rig(&r);
  r.w.tensor[2].name = "module.conv.bias";
  r.o.strip_prefix = (char *)(uintptr_t) "module.";
  CT_ASSERT_FAILS(match(&r), CT_ERR_FORMAT,
                  "both 'conv.bias' and 'module.conv.bias' would become 'conv.bias'");
  close_rig(&r);
}

/* One square Conv1D and one that is not; the last layer is an ordinary linear one. */
static const char conv1ds[] = "layers:\n"
                              "  - flatten\n"
                              "  - linear: {out: 2, bias: false, conv1d: true}\n"
                              "    name: square\n"
                              "  - linear: {out: 3, bias: false, conv1d: true}\n"
                              "    name: wide\n"
                              "  - linear: {out: 2, bias: false}\n"
                              "    name: fc\n";

static void check_conv1d(rig_t *r, const float *square, const float *wide)
{
  static const float fc[] = {200, 201, 202, 203, 204, 205};
  const float *const expected[] = {square, wide, fc};
  float got[6];
  CT_ASSERT_OK(match(r));
  check(r, 3, 0, 0, 0);
  for (int p = 0; p < 3; p++) {
    CT_ASSERT_OK(ct_match_read(&r->f, p, &r->g->param[p], got));
    CT_ASSERT_ARRAY(got, expected[p], r->g->param[p].count, 0);
  }
}

/* The file says which way it holds them, since the shape of a square one does not. */
static void a_conv1d_is_transposed_by_the_file_not_by_its_shape(void)
{
  static const int64_t square[] = {2, 2}, in_out[] = {2, 3}, out_in[] = {3, 2};
  static const ct_tensor_t list[] = {{"square.weight", CT_ELEM_F32, 2, square, 4},
                                     {"wide.weight", CT_ELEM_F32, 2, in_out, 6},
                                     {"fc.weight", CT_ELEM_F32, 2, in_out, 6}};
  ct_weights_ops_t pytorch = fake_ops;
  rig_t r;
  open_rig(&r);
  ct_graph_free(r.g);
  r.g = make(conv1ds, image(2, 1, 1), 2);
  memcpy(r.w.tensor, list, sizeof list);
  r.w.n = 3;
  r.w.conv1d = "in,out";
  check_conv1d(&r, (float[]){0, 2, 1, 3}, (float[]){100, 103, 101, 104, 102, 105});
  r.w.conv1d = NULL; /* as usual for the format */
  pytorch.conv1d = 1;
  r.f.ops = &pytorch;
  check_conv1d(&r, (float[]){0, 2, 1, 3}, (float[]){100, 103, 101, 104, 102, 105});
  r.w.conv1d = "out,in";
  CT_ASSERT_OK(match(&r));
  check(&r, 2, 0, 1, 0);
  CT_ASSERT_TEXT(r.m.lines[1].data, "wide.weight is [2, 3] in the file and [3, 2] in the model");
  r.w.tensor[1].dim = out_in;
  check_conv1d(&r, (float[]){0, 1, 2, 3}, (float[]){100, 101, 102, 103, 104, 105});
  close_rig(&r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(all_fits),
                                    CT_TEST(all_that_does_not_fit_is_told),
                                    CT_TEST(one_that_does_not_fit_is_an_error),
                                    CT_TEST(nothing_that_fits_is_an_error_also_without_strict),
                                    CT_TEST(replaced_parts_begin_anew),
                                    CT_TEST(names_go_by_rules),
                                    CT_TEST(a_prefix_of_most_names_is_found),
                                    CT_TEST(wrappers_are_left_out),
                                    CT_TEST(known_names_become_ours),
                                    CT_TEST(a_conv1d_is_transposed_by_the_file_not_by_its_shape),
                                    CT_TEST(two_tensors_of_one_name_are_refused),
                                    CT_TEST_END};
  return ct_test_main("match", tests, argc, argv);
}
