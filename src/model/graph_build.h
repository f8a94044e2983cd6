/** \file graph_build.h Internal functions for building a graph layer by layer. */
#ifndef CT_GRAPH_BUILD_H
#define CT_GRAPH_BUILD_H
#include "model/ct_graph.h"

/** Entry of ct_layer_t.in, and value of ct_graph_add()'s in2, for "no input". */
#define CT__NO_INPUT (-2)
/** Entry of ct_layer_t.in for extra input k; ct_graph_extra() returns k again. */
#define CT__INPUT_EXTRA(k) (-3 - (k))

/** Limit on the elements of a tensor, so that sums over a graph stay far below 2^63. */
#define CT__MAX_ELEMENTS ((int64_t)1 << 36)

/** Reads the options of a kind from \a map (empty: the defaults) into new memory, *out.  \a where:
 * file name for messages, or NULL. */
int ct__layer_options(const ct_layer_ops_t *ops, const ct_yaml_t *map, const char *where,
                      void **out);
/** Frees options that no graph owns; \a opts may be NULL. */
void ct__layer_options_free(const ct_layer_ops_t *ops, void *opts);
/** Returns the shape of input \a in of a layer, for one sample; NULL: there is no such layer. */
const ct_shape_t *ct__graph_shape(const ct_graph_t *g, int in);
/** Appends a layer like ct_graph_add(), with parsed options: the graph then owns the options, and
 * they are freed on failure.  \a in: the inputs, then CT__NO_INPUT.  \a names: of the parameters by
 * slot; a name that the graph has already is shared, NULL: as the kind says; or NULL.  Messages
 * begin with the layer's name and kind.  A layer `pad` comes before it where its kind asks for one
 * (ct_layer_ops_t.pads). */
int ct__graph_append(ct_graph_t *g, int *id, const char *name, const ct_layer_ops_t *ops,
                     void *opts, const int in[CT_OP_INPUTS], const char *const *names);
/** The same, but a layer that stands for several (ct_layer_ops_t.expands) becomes these. */
int ct__graph_expand(ct_graph_t *g, int *id, const char *name, const ct_layer_ops_t *ops,
                     void *opts, const int in[CT_OP_INPUTS], const char *const *names);
/** Returns the names of a layer's parameters, for a copy of it in another graph. */
void ct__graph_names(const ct_graph_t *g, const ct_layer_t *l, const char *names[CT_LAYER_PARAMS]);
/** Appends the layers of a YAML list and sets the outputs as ct__graph_set_outputs(); if there is
 * only one, it must have \a classes values per sample. */
int ct__graph_read(ct_graph_t *g, const ct_yaml_t *list, const ct_opt_texts_t *outputs,
                   int64_t classes, const char *where);
/** Sets the outputs from the names of layers; none: the last layer.  CT_ERR_USAGE: a name that no
 * layer has, or that comes twice, or an output without a batch in front. */
int ct__graph_set_outputs(ct_graph_t *g, const ct_opt_texts_t *names);
/** Returns CT_OK if the only output has \a classes values per sample, in any shape, or if there are
 * several outputs. */
int ct__graph_check_output(const ct_graph_t *g, int64_t classes);
/** Writes the sample shape without N, "3x224x224", into buf; returns buf. */
const char *ct__graph_sample_text(const ct_shape_t *s, char *buf, size_t cap);

#endif
