/** \file ct_fold.h  Folds batchnorms into the preceding layer and removes dropout, for inference.
 * Layer 2.
 *
 * Pure and local.  A batchnorm with fixed statistics scales and shifts each channel.  It is folded
 * into the convolution or linear layer whose output it reads, if no other layer reads this output:
 *
 *     s  = gamma / sqrt(var + eps)
 *     w' = w * s
 *     b' = (b - mean) * s + beta
 *
 * The convolution or linear layer keeps its name and gets a bias.  Other batchnorms stay, such as
 * those of DenseNet, which precede a convolution. */
#ifndef CT_FOLD_H
#define CT_FOLD_H
#include "model/ct_graph.h"

/** A folded graph, and for each of its layers the layer of the original graph. */
typedef struct ct_fold {
  const ct_graph_t *from; /**< borrowed: the original graph */
  ct_graph_t *graph;      /**< owned: the folded graph; its parameters keep their names */
  int *layer;             /**< [graph->layers] number of the original layer in `from` */
  int *norm;              /**< [graph->layers] the batchnorm in `from` folded into it; -1: none */
  int norms;              /**< number of batchnorms that were removed */
  int dropouts;           /**< number of dropout layers that were removed */
} ct_fold_t;

/** Local.  Folds the graph.  *out borrows \a g and is freed by ct_fold_clear(); it is zeroed on
 * failure. */
int ct_fold_make(const ct_graph_t *g, ct_fold_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_fold_clear(ct_fold_t *f);
/** Computes parameter \a param of the folded graph (count elements, plain layout) into \a out.
 * plain[from->params]: all parameters and buffers of the original graph.  The computation is in
 * float64, and its result is rounded once. */
void ct_fold_param(const ct_fold_t *f, int param, const float *const plain[], float *out);

#endif
