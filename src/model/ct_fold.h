/** \file ct_fold.h  Folds batchnorms into the preceding layer and removes dropout, for inference.
 * Layer 2.
 *
 * Pure and local.  A batchnorm with fixed statistics scales and shifts each output channel.  It is
 * folded into the convolution or linear layer before it if no other layer reads that output: w' = w
 * s and b' = (b - mean) s + beta with s = gamma / sqrt(var + eps).  The layer keeps its name and
 * gets a bias.  Other batchnorms stay (those of DenseNet precede a convolution). */
#ifndef CT_FOLD_H
#define CT_FOLD_H
#include "model/ct_graph.h"

/** A folded graph, and the original layer of each of its layers. */
typedef struct ct_fold {
  const ct_graph_t *from; /**< borrowed: the original graph */
  ct_graph_t *graph;      /**< owned: the folded graph; its parameters keep their names */
  int *layer;             /**< [graph->layers] number of the original layer in `from` */
  int *norm;              /**< [graph->layers] the batchnorm in `from` folded into it; -1: none */
  int norms, dropouts;    /**< how many layers were removed */
} ct_fold_t;

/** Local.  *out borrows \a g and is freed by ct_fold_clear(); it is zeroed on failure. */
int ct_fold_make(const ct_graph_t *g, ct_fold_t *out);
/** Accepts a zeroed struct. */
void ct_fold_clear(ct_fold_t *f);
/** Computes parameter \a param of the folded graph (count elements, plain layout) into \a out.
 * plain[from->params]: all parameters and buffers of the original graph.  Computed in float64,
 * rounded once. */
void ct_fold_param(const ct_fold_t *f, int param, const float *const plain[], float *out);

#endif
