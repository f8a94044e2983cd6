/** \file ct_quant_file.h  Quantized models in a checkpoint container (hdf5io/FORMAT.md). Layer 3.
 *
 * The graph is the folded model with fake-quantization observers (model/ct_observe.h); the values
 * are its parameters as plain float32. int8 weights are stored as int8 and read back as the float32
 * numbers that they represent. All functions are local. */
#ifndef CT_QUANT_FILE_H
#define CT_QUANT_FILE_H
#include "ckpt/ct_store.h"
#include "model/ct_observe.h"

/** Returns 1 if a container holds a quantized model. */
int ct_quant_file_is(const ct_store_ops_t *ops, const ct_store_t *s);
/** Writes a quantized model. CT_ERR_IO; no partial file remains. \a config: text of the
 * configuration; \a how: one line for the user that starts with "static" or "dynamic". With
 * "dynamic" only linear layers, LSTMs and attention have int8 weights. */
int ct_quant_file_write(const ct_store_ops_t *ops, const char *path, const ct_graph_t *g,
                        const float *const value[], const char *config, const char *how);
/** Reads the parameters into value[g->params]; *dynamic: 1 if the file is dynamically quantized.
 * CT_ERR_FORMAT, CT_ERR_SHAPE: the file does not match this model. */
int ct_quant_file_read(const ct_store_ops_t *ops, ct_store_t *s, const ct_graph_t *g,
                       float *const value[], int *dynamic);

/** Returns 1 if the parameter is stored as int8; *channels: number of its scales. */
int ct_quant_file_has_bits(const ct_graph_t *g, int param, int dynamic, int64_t *channels);

#endif
