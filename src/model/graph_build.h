/** \file graph_build.h  How a graph grows, layer by layer, and what is asked of it meanwhile. */
#ifndef CT_GRAPH_BUILD_H
#define CT_GRAPH_BUILD_H
#include "model/ct_graph.h"

/** ct_graph_add()'s word for "no such input". */
#define CT__NO_INPUT (-2)
/** The k-th further input in ct_layer_t.in: ct_graph_more() is its inverse. */
#define CT__INPUT_MORE(k) (-3 - (k))

/** No single tensor has more elements than 2^36, so that sums over a graph stay far below 2^63. */
#define CT__MAX_ELEMENTS ((int64_t)1 << 36)

/** The options of a kind, read from \a map (nothing at all: the defaults) into new memory, *out.
 * \a where names the file for messages, or is NULL. */
int ct__layer_options(const ct_layer_ops_t *ops, const ct_yaml_t *map, const char *where,
                      void **out);
/** ct_graph_add() with options already read; they become the graph's, or are freed on failure.  The
 * message begins with the layer's name and kind. */
int ct__graph_append(ct_graph_t *g, int *id, const char *name, const ct_layer_ops_t *ops,
                     void *opts, const int in[2]);
/** Appends the layers of a YAML list, whose last one must give \a classes values. */
int ct__graph_read(ct_graph_t *g, const ct_yaml_t *list, int64_t classes, const char *where);
/** CT_OK if the last layer gives so many values of a sample, in any shape. */
int ct__graph_check_output(const ct_graph_t *g, int64_t classes);
/** "3x224x224": the shape of a sample without N, into buf (returned). */
const char *ct__graph_sample_text(const ct_shape_t *s, char *buf, size_t cap);

#endif
