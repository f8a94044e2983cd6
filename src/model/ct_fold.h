/** \file ct_fold.h  A model for inference: batchnorms folded into what is before them, no dropout.
 * Layer 2.
 *
 * Pure and local.  Behind a convolution or linear layer whose output nobody else reads, a batchnorm
 * with fixed statistics is a scale and a shift of each output channel: w' = w s and b' = (b - mean)
 * s + beta with s = gamma / sqrt(var + eps).  Such a layer keeps its name, and has a bias then.
 * Other batchnorms stay (those of DenseNet that stand before a convolution). */
#ifndef CT_FOLD_H
#define CT_FOLD_H
#include "model/ct_graph.h"

/** A folded graph and where its layers come from. */
typedef struct ct_fold {
  const ct_graph_t *from; /**< borrowed: the whole graph */
  ct_graph_t *graph;      /**< owned: the folded one; its parameters keep their names */
  int *layer;             /**< [graph->layers] number of the layer in `from` */
  int *norm;           /**< [graph->layers] the batchnorm in `from` that went into it; -1: none */
  int norms, dropouts; /**< layers that are gone */
} ct_fold_t;

/** Local.  *out borrows \a g, and is cleared by ct_fold_clear(); zeroed on failure. */
int ct_fold_make(const ct_graph_t *g, ct_fold_t *out);
/** A zeroed one is fine. */
void ct_fold_clear(ct_fold_t *f);
/** Parameter \a param of the folded graph (count elements, plain layout) into \a out, from all of
 * the whole graph's: plain[from->params], buffers too.  Computed in float64, rounded once. */
void ct_fold_param(const ct_fold_t *f, int param, const float *const plain[], float *out);

#endif
