/** \file ct_weights.h  Weight files: named tensors in checkpoints, safetensors files and PyTorch's
 * .pth files. Layer 3.
 *
 * One table of operations per format; setup/builtin.c lists them. All functions are local: one rank
 * reads and broadcasts. Tensors are read in parts, so that memory use stays near the size of one
 * part, however large the file. Names are those of a state dict: the prefix "/model/" of a
 * checkpoint's arrays is removed. */
#ifndef CT_WEIGHTS_H
#define CT_WEIGHTS_H
#include "base/ct_format.h"
#include "base/ct_text.h"
#include "weights/ct_elem.h"

/** One tensor of a file. The file owns the pointers. */
typedef struct ct_tensor {
  const char *name; /**< UTF-8, as in the file */
  ct_elem_t type;
  int ndim;
  const int64_t *dim; /**< [ndim]; a scalar has no dims */
  int64_t count;      /**< number of elements: the product of the dims */
} ct_tensor_t;

/** A text stored in the file; "config" is this program's configuration, see ct_weights_config().
 */
typedef struct ct_weights_text {
  const char *name, *text;
} ct_weights_text_t;

enum {
  CT_WEIGHTS_PARTS = 32, /**< maximum number of dicts listed */
  CT_WEIGHTS_KEY = 200   /**< maximum bytes of a key */
};

/** What a dict's name suggests about its content, most likely the model first. */
typedef enum {
  CT_WEIGHTS_USUAL, /**< "state_dict", "model": usual names of the model in training scripts */
  CT_WEIGHTS_OTHER,
  CT_WEIGHTS_COPY,  /**< "state_dict_ema": averaged weights */
  CT_WEIGHTS_HELPER /**< "optimizer": state that is not a model */
} ct_weights_rank_t;

/** A dict with tensors in a nested file. */
typedef struct ct_weights_part {
  char key[CT_WEIGHTS_KEY]; /**< "model", "state.ema"; "/": the top-level dict */
  ct_weights_rank_t rank;
  int64_t tensors;
  int id; /**< equal if two keys refer to the same dict */
} ct_weights_part_t;

typedef struct ct_weights_parts {
  int n;   /**< number of dicts listed in v */
  int all; /**< number of dicts in the file, which may exceed n */
  ct_weights_part_t v[CT_WEIGHTS_PARTS];
} ct_weights_parts_t;

typedef struct ct_weights ct_weights_t;         /**< open for reading */
typedef struct ct_weights_out ct_weights_out_t; /**< being written */

typedef struct ct_weights_ops {
  ct_format_t format;
  int conv1d; /**< see ct_weights_conv1d() */

  /* Opens the file and checks everything that can be checked without reading tensors. key: which
   * dict of a nested file ("model", "state.ema"; "/": the top level); NULL or "": the most likely
   * one (ct_weights_likeliest()), or an error that lists them. CT_ERR_IO (cannot be read),
   * CT_ERR_FORMAT (names the file, the item and what was expected) */
  int (*open)(const char *path, const char *key, ct_weights_t **out);
  /* Lists the dicts with tensors that a key can select. NULL: files of this format are not nested.
   * Errors as for open() */
  int (*parts)(const char *path, ct_weights_parts_t *out);
  int (*count)(const ct_weights_t *w);
  /* i-th tensor, in file order */
  void (*tensor)(const ct_weights_t *w, int i, ct_tensor_t *out);
  /* Reads n elements of tensor i, from element `first` on: row-major, little-endian, in the file's
   * type (not for types of fewer than 8 bits). CT_ERR_IO, CT_ERR_FORMAT */
  int (*read)(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
  /* A text of the file, or NULL; borrowed */
  const char *(*text)(const ct_weights_t *w, const char *name);
  /* Message for the user on how the file is interpreted ("takes the tensors of 'model'"), or NULL;
   * borrowed */
  const char *(*remark)(const ct_weights_t *w);
  /* Frees w, which may be NULL */
  void (*close)(ct_weights_t *w);

  /* NULL, like the entries below, if the format cannot be written. Starts to write path.tmp; copies
   * the list. CT_ERR_IO; CT_ERR_FORMAT for tensors that the format cannot store */
  int (*create)(const char *path, const ct_tensor_t *list, int n, const ct_weights_text_t *text,
                int texts, ct_weights_out_t **out);
  /* Writes a tensor, in one or several consecutive parts. Every tensor must be written exactly
   * once, in the order and the types of the list */
  int (*put)(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
  /* Flush, fsync, rename, fsync of the directory; frees o also on failure */
  int (*commit)(ct_weights_out_t *o);
  /* Removes the temporary file; frees o, which may be NULL */
  void (*discard)(ct_weights_out_t *o);
} ct_weights_ops_t;

/** An open weight file of any format. */
typedef struct ct_weights_file {
  const ct_weights_ops_t *ops; /**< NULL: not open */
  ct_weights_t *w;
  char *path; /**< owned; resolved path of the file */
  char *dir;  /**< owned; the directory of Hugging Face that was opened, or NULL */
} ct_weights_file_t;

/** Opens \a path, resolved by ct_ckpt_follow(), with the matching format (ct_format_find()) of \a
 * formats, which end with NULL. A directory of Hugging Face stands for the weights in it. */
int ct_weights_open(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out);
/** Opens a file as ct_weights_open() does, if only its texts are needed for now: in a nested file
 * any of its dicts is opened. */
int ct_weights_peek(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out);
/** Lists the dicts of a file that a key can select; an empty list if files of its format are not
 * nested. */
int ct_weights_parts(const ct_weights_ops_t *const formats[], const char *path,
                     ct_weights_parts_t *out);
/** CT_ERR_FORMAT explains what a file or directory is and what to do, if it looks like weights but
 * cannot be loaded (a web page saved instead of a file, a Git LFS pointer, ONNX, a Hugging Face
 * model directory, a distributed checkpoint). CT_OK otherwise, also if it does not exist. */
int ct_weights_foreign(const char *path);
/** Returns the dict that is most likely the model, judged by names and counts alone: the one with
 * the most tensors among those of the best rank. -1: ambiguous, or none. */
int ct_weights_likeliest(const ct_weights_parts_t *list);
/** Lists the keys of dicts, for a message: "'model', 'ema' and 3 more". */
int ct_weights_parts_text(const ct_weights_parts_t *list, ct_str_t *out);
/** Appends the configuration of the file's model: the file's own text "config", or the section
 * `model` that follows from config.json of its directory or from its text "model" (files of other
 * programs). Nothing is appended if it has none. CT_ERR_FORMAT: config.json asks for something that
 * no family has. */
int ct_weights_config(const ct_weights_file_t *f, ct_str_t *out);
/** The same without the file's own configuration, as one map: "{family: gpt2, layers: 12, ...}". */
int ct_weights_model(const ct_weights_file_t *f, ct_str_t *out);
/** Closes the file; \a f may be all zero: nothing to close. */
void ct_weights_close(ct_weights_file_t *f);
/** Returns 1 if the file holds the weights of Conv1D layers (ct_param_t.conv1d) as in x out:
 * files of formats with conv1d = 1, unless the file's text "conv1d" says otherwise ("in,out" or
 * "out,in"). The name and the shape of a tensor do not tell: a square weight has both. */
int ct_weights_conv1d(const ct_weights_file_t *f);
/** Reads all of tensor \a i into \a to as float32, converting the file's type; complex64 becomes
 * pairs, twice as many numbers as it has elements. CT_ERR_FORMAT names
 * file and tensor if its type cannot be converted. */
int ct_weights_floats(const ct_weights_file_t *f, int i, float *to);

#endif
