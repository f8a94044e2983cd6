/** \file onnx_layer.h  Translation of one layer; the table of all is in onnx_layers.c. */
#ifndef CT_ONNX_LAYER_H
#define CT_ONNX_LAYER_H
#include "onnx/onnx.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

/* onnx_windows.c */
void ct__onnx_conv(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_convt(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_convolve(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_pool(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_upsample(ct__onnx_t *o, const ct__onnx_layer_t *l);
/* onnx_cache.c: decides how a layer of a model with caches is written; *done 1: it is written */
int ct__onnx_cached(ct__onnx_t *o, const ct__onnx_layer_t *l, int *done);
/* onnx_rnn.c */
void ct__onnx_lstm(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_gru(ct__onnx_t *o, const ct__onnx_layer_t *l);
/* onnx_rope.c */
void ct__onnx_position(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_rope(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_rmsnorm(ct__onnx_t *o, const ct__onnx_layer_t *l);

#endif
