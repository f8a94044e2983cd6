/* Prints what ct_import_open() makes of a .pt2 file.
 *
 *     pt2_layers FILE.pt2            the layers as YAML, inputs and outputs as comments
 *     pt2_layers --graph FILE.pt2    builds the graph, too, and prints its layers and shapes
 *     pt2_layers --quiet FILE.pt2... a line for each file: "ok NAME" or "not ok NAME: MESSAGE"
 *     pt2_layers --constants DIR FILE.pt2  writes each constant to DIR/NAME as float32, too */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "import/ct_import.h"
#include "model/ct_graph.h"

static void print_shape(const ct_shape_t *s)
{
  for (int i = 0; i < s->ndim; i++)
    printf("%s%lld%s", i ? " x " : "", (long long)s->dim[i], s->batch >> i & 1 ? "N" : "");
  printf("\n");
}

static void print_list(const ct_import_t *im)
{
  const ct_import_facts_t *f = ct_import_facts(im);
  printf("# torch %s, %d ops, %d layers, %d constants folded\n", f->torch, f->ops, f->layers,
         f->folded);
  for (int i = 0; i < ct_import_inputs(im); i++) {
    const ct_import_input_t *in = ct_import_input(im, i);
    printf("# input '%s' is %s%s%s: ", in->name, in->from, in->integer ? ", integer" : "",
           in->used ? "" : ", unused");
    print_shape(&in->shape);
  }
  fputs(ct_import_layers(im), stdout);
  for (int i = 0; i < ct_import_outputs(im); i++) {
    printf("# output '%s' is %s: ", ct_import_output(im, i)->name, ct_import_output(im, i)->layer);
    print_shape(&ct_import_output(im, i)->shape);
  }
  for (int i = 0; i < ct_import_states(im); i++) {
    static const char *const words[] = {"frozen", "unused", "tied to"};
    const ct_import_state_t *s = ct_import_state(im, i);
    printf("# %s: %s %s\n", s->name, words[s->kind], s->with ? s->with : "");
  }
}

static int make_graph(const ct_import_t *im, ct_graph_t **out)
{
  int rc = CT_OK;
  ct_inputs_t extra = {0};
  ct_yaml_t *list = NULL;
  const char *text = ct_import_layers(im);
  *out = NULL;
  CT_TRY(ct_yaml_parse(text, strlen(text), "layers", &list));
  for (int i = 1; i < ct_import_inputs(im); i++) {
    const ct_import_input_t *in = ct_import_input(im, i);
    if (!in->used || extra.n == CT_INPUTS_EXTRA) continue;
    snprintf(extra.name[extra.n], CT_INPUT_NAME, "%s", in->from + 6);
    extra.x[extra.n++] = in->shape;
  }
  const ct_import_output_t *last = ct_import_output(im, ct_import_outputs(im) - 1);
  int64_t classes = ct_shape_count(&last->shape);
  char *names[CT_OUTPUTS];
  ct_model_opts_t o = {.layers = list};
  for (int i = 0; i < ct_import_outputs(im) && i < CT_OUTPUTS; i++)
    names[i] = (char *)(uintptr_t)ct_import_output(im, i)->layer;
  if (ct_import_outputs(im) > 1) o.outputs = (ct_opt_texts_t){names, ct_import_outputs(im)};
  CT_TRY(ct_graph_make(&o, &ct_import_input(im, 0)->shape, &extra, classes, "layers", out));
out:
  ct_yaml_free(list);
  return rc;
}

static void print_graph(const ct_graph_t *g)
{
  for (int i = 0; i < g->layers; i++) {
    printf("%-40s %-16s ", g->layer[i].name, g->layer[i].ops->kind);
    print_shape(&g->layer[i].out);
  }
}

static int write_constants(const ct_import_t *im, const char *dir)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  float *data = NULL;
  FILE *f = NULL;
  for (int i = 0; i < ct_import_constants(im); i++) {
    const ct_import_constant_t *c = ct_import_constant(im, i);
    int64_t n = ct_shape_count(&c->shape);
    data = ct_mem_array(n, sizeof *data, "a constant");
    if (!data) return CT_ERR_NOMEM;
    CT_TRY(ct_import_read(im, i, data));
    CT_TRY(ct_path_join(path, sizeof path, dir, c->name));
    f = fopen(path, "wb");
    if (!f || fwrite(data, sizeof *data, (size_t)n, f) != (size_t)n)
      CT_FAIL(CT_ERR_IO, "%s could not be written", path);
    fclose(f);
    f = NULL;
    ct_mem_free(data);
    data = NULL;
  }
out:
  if (f) fclose(f);
  ct_mem_free(data);
  return rc;
}

static int run(const char *path, int quiet, int graph, const char *constants)
{
  int rc = CT_OK;
  ct_import_t *im = NULL;
  ct_graph_t *g = NULL;
  rc = ct_import_open(path, &im);
  if (rc == CT_OK && constants) rc = write_constants(im, constants);
  if (rc == CT_OK && !quiet) print_list(im);
  if (rc == CT_OK && graph) rc = make_graph(im, &g);
  if (rc == CT_OK && graph && !quiet) print_graph(g);
  if (quiet && rc == CT_OK) printf("ok %s\n", path);
  if (rc != CT_OK) printf("not ok %s: %s\n", path, ct_err_last()->text);
  ct_graph_free(g);
  ct_import_close(im);
  if (ct_mem_live())
    printf("not ok %s: %lld allocations are not freed\n", path, (long long)ct_mem_live());
  return rc == CT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
  int failed = 0, quiet = 0, graph = 0;
  const char *constants = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--quiet") == 0) {
      quiet = 1;
    } else if (strcmp(argv[i], "--graph") == 0) {
      graph = 1;
    } else if (strcmp(argv[i], "--constants") == 0 && i + 1 < argc) {
      constants = argv[++i];
    } else {
      failed |= run(argv[i], quiet, graph, constants);
    }
  }
  return failed;
}
