/** \file ct_weights_pth.h  PyTorch's .pth files, reading and writing, and the weights of .pt2
 * files. Layer 3.
 *
 * Reads files of torch.save(), both the zip format and the legacy format before PyTorch 1.6,
 * without executing anything. Loads a state dict, or a dict that contains one: under the given
 * key, else the most likely one (ct_weights_likeliest()). Tensors may be views of shared storages
 * with any stride, and parameters. Items that are not tensors are skipped with a remark. Other
 * kinds of tensors (sparse, quantized, meta), TorchScript archives and objects of other classes
 * are rejected with a message that names them.
 *
 * Of a file that torch.export.save() wrote (.pt2), the parameters and persistent buffers are read,
 * under their names in the state dict; src/pt2/ reads its program by the functions below.
 *
 * Writes the zip format, which torch.load(weights_only=True) reads, also with mmap=True. Texts are
 * stored as records "ctrain-hpc/NAME", which PyTorch ignores. */
#ifndef CT_WEIGHTS_PTH_H
#define CT_WEIGHTS_PTH_H
#include "weights/ct_weights.h"

extern const ct_weights_ops_t ct_weights_pth;

/** Lists of tensors in a .pt2 file. */
typedef enum {
  CT_PT2_LIST_WEIGHTS,  /**< parameters and persistent buffers */
  CT_PT2_LIST_CONSTANTS /**< other buffers, and tensors of the user's code */
} ct_pt2_list_t;

/** Local. Opens one list of a .pt2 file; it may be empty. The operations of ct_weights_pth apply to
 * *out. CT_ERR_IO; CT_ERR_FORMAT: the file is damaged, of another version or another kind. */
int ct_pt2_list_open(const char *path, ct_pt2_list_t which, ct_weights_t **out);
/** Local. Reads the JSON text of the only program in an open .pt2 file; a NUL follows its \a bytes.
 * Freed by ct_mem_free(). CT_ERR_FORMAT: none, several, or damaged. */
int ct_pt2_list_program(const ct_weights_t *w, char **text, int64_t *bytes);
/** Returns the type with a number of the schema's ScalarType; CT_ELEMS: only PyTorch has it. */
ct_elem_t ct_pt2_list_type(int64_t number);
/** Returns the index of the first tensor of the list with the same memory and shape as tensor
 * \a i. */
int ct_pt2_list_first(const ct_weights_t *w, int i);

#endif
