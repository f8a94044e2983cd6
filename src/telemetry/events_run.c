/* Events of TensorBoard besides scalars: model graph, settings, texts, histograms.  The messages
 * are defined in graph.proto, summary.proto and plugins/hparams/plugin_data.proto of
 * TensorBoard. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ct_err.h"
#include "telemetry/events.h"

/* Field numbers that several functions use. */
enum { STEP = 2, GRAPH = 4, SUMMARY = 5 };
enum { VALUE = 1, TAG = 1, HISTO = 5, TENSOR = 8, METADATA = 9 };

/* ---- the graph ---- */

/* "layer1.0.conv1" becomes layer1/0/conv1. */
static void put_name(ct_proto_t *p, int field, const char *name)
{
  char path[CT_NAME_MAX];
  snprintf(path, sizeof path, "%s", name);
  for (char *c = path; *c; c++)
    if (*c == '.') *c = '/';
  ct_proto_text(p, field, path);
}

/* Writes the attribute _output_shapes, a list of one shape.  The batch dimension is -1. */
static void put_shape(ct_proto_t *p, const ct_shape_t *s)
{
  int64_t attr = ct_proto_begin(p, 5);
  ct_proto_text(p, 1, "_output_shapes");
  int64_t value = ct_proto_begin(p, 2), list = ct_proto_begin(p, 1), shape = ct_proto_begin(p, 7);
  for (int i = 0; i < s->ndim; i++) {
    int64_t dim = ct_proto_begin(p, 2);
    ct_proto_int(p, 1, i ? s->dim[i] : -1);
    ct_proto_end(p, dim);
  }
  ct_proto_end(p, shape);
  ct_proto_end(p, list);
  ct_proto_end(p, value);
  ct_proto_end(p, attr);
}

static void input_name(const ct_graph_t *g, int in, char *buf, size_t cap)
{
  int extra = ct_graph_extra(in);
  if (in >= 0)
    snprintf(buf, cap, "%s", g->layer[in].name);
  else
    snprintf(buf, cap, "input%s%s", extra >= 0 ? "." : "", extra >= 0 ? g->extra.name[extra] : "");
}

static void put_input(ct_proto_t *p, const char *name, const ct_shape_t *shape)
{
  int64_t node = ct_proto_begin(p, 1);
  put_name(p, 1, name);
  ct_proto_text(p, 2, "Placeholder");
  put_shape(p, shape);
  ct_proto_end(p, node);
}

static void put_layer(ct_proto_t *p, const ct_graph_t *g, int i)
{
  const ct_layer_t *l = &g->layer[i];
  char from[CT_NAME_MAX];
  int64_t node = ct_proto_begin(p, 1);
  put_name(p, 1, l->name);
  ct_proto_text(p, 2, l->ops->kind);
  for (int k = 0; k < l->inputs; k++) {
    input_name(g, l->in[k], from, sizeof from);
    put_name(p, 3, from);
  }
  put_shape(p, &l->out);
  ct_proto_end(p, node);
}

void ct_events_graph(ct_events_t *e, const ct_graph_t *g)
{
  char name[CT_NAME_MAX];
  if (!e) return;
  ct_proto_t *p = ct__event_begin(e);
  int64_t graph = ct_proto_begin(p, GRAPH);
  put_input(p, "input", &g->input);
  for (int i = 0; i < g->extra.n; i++) {
    snprintf(name, sizeof name, "input.%s", g->extra.name[i]);
    put_input(p, name, &g->extra.x[i]);
  }
  for (int i = 0; i < g->layers; i++)
    put_layer(p, g, i);
  int64_t versions = ct_proto_begin(p, 4);
  ct_proto_int(p, 1, 22); /* producer: a version that knows _output_shapes */
  ct_proto_end(p, versions);
  ct_proto_end(p, graph);
  ct__event_end(e);
}

/* ---- what plugins show ---- */

static void put_plugin(ct_proto_t *p, const char *name, const ct_proto_t *content)
{
  int64_t metadata = ct_proto_begin(p, METADATA), data = ct_proto_begin(p, 1);
  ct_proto_text(p, 1, name);
  if (content) ct_proto_bytes(p, 2, content->data, content->len);
  ct_proto_end(p, data);
  ct_proto_end(p, metadata);
}

void ct_events_text(ct_events_t *e, const char *tag, const char *text)
{
  if (!e) return;
  ct_proto_t *p = ct__event_begin(e);
  int64_t summary = ct_proto_begin(p, SUMMARY), value = ct_proto_begin(p, VALUE);
  ct_proto_text(p, TAG, tag);
  put_plugin(p, "text", NULL);
  int64_t tensor = ct_proto_begin(p, TENSOR);
  ct_proto_int(p, 1, 7); /* DT_STRING, without dimensions */
  int64_t shape = ct_proto_begin(p, 2);
  ct_proto_end(p, shape);
  ct_proto_text(p, 8, text);
  ct_proto_end(p, tensor);
  ct_proto_end(p, value);
  ct_proto_end(p, summary);
  ct__event_end(e);
}

/* ---- settings ---- */

/* Writes a google.protobuf.Value, which keeps the type of numbers, booleans and texts. */
static void put_scalar(ct_proto_t *p, const ct_yaml_t *v)
{
  double number;
  const char *text = v->text ? v->text : "";
  if (!v->quoted && ct_text_double(text, &number) == CT_OK)
    ct_proto_double(p, 2, number);
  else if (!v->quoted && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
    ct_proto_int(p, 4, *text == 't');
  else
    ct_proto_text(p, 3, text);
}

static void put_settings(ct_proto_t *p, const ct_yaml_t *map, const char *prefix)
{
  for (const ct_yaml_t *v = map->child; v; v = v->next) {
    char key[200];
    snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", v->key);
    if (v->kind == CT_YAML_MAP) put_settings(p, v, key);
    if (v->kind != CT_YAML_SCALAR) continue;
    int64_t entry = ct_proto_begin(p, 1);
    ct_proto_text(p, 1, key);
    int64_t value = ct_proto_begin(p, 2);
    put_scalar(p, v);
    ct_proto_end(p, value);
    ct_proto_end(p, entry);
  }
}

/* Writes a Value that has only the data of the HParams plugin. */
static void put_session(ct_events_t *e, const char *tag, ct_proto_t *content)
{
  ct_proto_t *p = ct__event_begin(e);
  int64_t summary = ct_proto_begin(p, SUMMARY), value = ct_proto_begin(p, VALUE);
  ct_proto_text(p, TAG, tag);
  put_plugin(p, "hparams", content);
  ct_proto_end(p, value);
  ct_proto_end(p, summary);
  if (content->failed) p->failed = 1;
  ct__event_end(e);
  ct_proto_clear(content);
}

void ct_events_settings(ct_events_t *e, const ct_yaml_t *settings)
{
  ct_proto_t data = {0};
  if (!e) return;
  int64_t start = ct_proto_begin(&data, 3);
  put_settings(&data, settings, "");
  ct_proto_double(&data, 5, (double)time(NULL));
  ct_proto_end(&data, start);
  put_session(e, "_hparams_/session_start_info", &data);
}

void ct_events_end(ct_events_t *e, int failed)
{
  ct_proto_t data = {0};
  if (!e) return;
  int64_t end = ct_proto_begin(&data, 4);
  ct_proto_int(&data, 1, failed ? 2 : 1); /* STATUS_FAILURE, STATUS_SUCCESS */
  ct_proto_double(&data, 2, (double)time(NULL));
  ct_proto_end(&data, end);
  put_session(e, "_hparams_/session_end_info", &data);
}

/* ---- histograms ---- */

enum { BINS = 64 };

typedef struct bins {
  double low, high, sum, squares;
  int64_t n, of[BINS];
} bins_t;

static void events_run_count(const float *x, int64_t n, bins_t *b)
{
  *b = (bins_t){.low = INFINITY, .high = -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    b->low = fmin(b->low, x[i]);
    b->high = fmax(b->high, x[i]);
    b->sum += x[i];
    b->squares += (double)x[i] * x[i];
    b->n++;
  }
  double scale = b->high > b->low ? BINS / (b->high - b->low) : 0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    int at = (int)((x[i] - b->low) * scale);
    b->of[at < BINS ? at : BINS - 1]++;
  }
}

/* Writes the upper edges and counts of the bins; one bin if all values are equal. */
static void put_bins(ct_proto_t *p, const bins_t *b)
{
  int bins = b->high > b->low ? BINS : 1;
  ct_proto_head(p, 6, 8 * bins);
  for (int i = 0; i < bins; i++)
    ct_proto_real(p, i == bins - 1 ? b->high : b->low + (b->high - b->low) * (i + 1) / bins);
  ct_proto_head(p, 7, 8 * bins);
  for (int i = 0; i < bins; i++)
    ct_proto_real(p, (double)(bins == 1 ? b->n : b->of[i]));
}

void ct_events_histogram(ct_events_t *e, const char *tag, int64_t step, const float *x, int64_t n)
{
  bins_t b;
  if (!e) return;
  events_run_count(x, n, &b);
  if (b.n == 0) return;
  ct_proto_t *p = ct__event_begin(e);
  ct_proto_int(p, STEP, step);
  int64_t summary = ct_proto_begin(p, SUMMARY), value = ct_proto_begin(p, VALUE);
  ct_proto_text(p, TAG, tag);
  int64_t histo = ct_proto_begin(p, HISTO);
  ct_proto_double(p, 1, b.low);
  ct_proto_double(p, 2, b.high);
  ct_proto_double(p, 3, (double)b.n);
  ct_proto_double(p, 4, b.sum);
  ct_proto_double(p, 5, b.squares);
  put_bins(p, &b);
  ct_proto_end(p, histo);
  ct_proto_end(p, value);
  ct_proto_end(p, summary);
  ct__event_end(e);
}
