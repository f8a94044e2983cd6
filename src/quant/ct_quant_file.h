/** \file ct_quant_file.h  Quantized models in a checkpoint container (hdf5io/FORMAT.md).  Layer 3.
 *
 * The graph that is meant is the observed graph of the folded model (model/ct_observe.h); values
 * are those of its parameters, plain float32.  Weights of eight bits are written as such, and come
 * back as the float32 numbers that they stand for.  All functions are local. */
#ifndef CT_QUANT_FILE_H
#define CT_QUANT_FILE_H
#include "ckpt/ct_store.h"
#include "model/ct_observe.h"

/** 1 if a container holds a quantized model. */
int ct_quant_file_is(const ct_store_ops_t *ops, const ct_store_t *s);
/** CT_ERR_IO; nothing half-written is left.  \a config: the configuration's text; \a how: one line
 * for people that begins with "static", or with "dynamic": then only linear layers, LSTMs and
 * attention have weights of eight bits. */
int ct_quant_file_write(const ct_store_ops_t *ops, const char *path, const ct_graph_t *g,
                        const float *const value[], const char *config, const char *how);
/** Into value[g->params]; *dynamic: 1 if the file says so.  CT_ERR_FORMAT, CT_ERR_SHAPE: it is not
 * of this model. */
int ct_quant_file_read(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g,
                       float *const value[], int *dynamic);

/** 1 if the parameter has eight bits in a file; *channels: its scales. */
int ct_quant_file_has_bits(const ct_graph_t *g, int param, int dynamic, int64_t *channels);

#endif
