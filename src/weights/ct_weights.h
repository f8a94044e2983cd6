/** \file ct_weights.h  Weight files: named tensors of checkpoints, of safetensors and
 * of PyTorch's .pth.  Layer 3.
 *
 * One table of operations for each format; the lists of them stand in setup/builtin.c.  All
 * functions are local: one rank reads and tells the others.  Tensors are read in pieces, so that
 * memory stays near one piece, whatever a file holds.  Names are those of a state dict: what a
 * checkpoint has below "/model/" is called here without that. */
#ifndef CT_WEIGHTS_H
#define CT_WEIGHTS_H
#include "base/ct_format.h"
#include "base/ct_text.h"
#include "weights/ct_elem.h"

/** One tensor of a file.  Pointers are borrowed from the file. */
typedef struct ct_tensor {
  const char *name; /**< UTF-8; as the file has it */
  ct_elem_t type;
  int ndim;
  const int64_t *dim; /**< [ndim]; a scalar has none */
  int64_t count;      /**< elements: the product of the dims */
} ct_tensor_t;

/** A text that a file carries besides: "config" is the configuration of this program. */
typedef struct ct_weights_text {
  const char *name, *text;
} ct_weights_text_t;

enum {
  CT_WEIGHTS_PARTS = 32, /**< in a list, at most */
  CT_WEIGHTS_KEY = 200   /**< bytes of a key, at most */
};

/** What the name of a part suggests, the likeliest model first. */
typedef enum {
  CT_WEIGHTS_USUAL, /**< "state_dict", "model": names that training scripts give to the model */
  CT_WEIGHTS_OTHER,
  CT_WEIGHTS_COPY,  /**< "state_dict_ema": averaged weights */
  CT_WEIGHTS_HELPER /**< "optimizer": state of what is no model */
} ct_weights_rank_t;

/** A part of a nested file that has tensors itself. */
typedef struct ct_weights_part {
  char key[CT_WEIGHTS_KEY]; /**< "model", "state.ema"; "/": the root */
  ct_weights_rank_t rank;
  int64_t tensors;
  int id; /**< two keys of one part have one */
} ct_weights_part_t;

typedef struct ct_weights_parts {
  int n, all; /**< all: how many there are, which may be more than are listed */
  ct_weights_part_t v[CT_WEIGHTS_PARTS];
} ct_weights_parts_t;

typedef struct ct_weights ct_weights_t;         /**< open for reading */
typedef struct ct_weights_out ct_weights_out_t; /**< being written */

typedef struct ct_weights_ops {
  ct_format_t format;

  /* Opens, and checks all that can be checked without reading the tensors.  key: which dict of a
   * nested file ("model", "state.ema"; "/": the root); NULL or "": the likeliest
   * (ct_weights_likeliest()), or an error that lists them.  CT_ERR_IO (cannot be read),
   * CT_ERR_FORMAT (names the file, the item and what was expected) */
  int (*open)(const char *path, const char *key, ct_weights_t **out);
  /* The dicts with tensors that a key can name.  NULL: a file of this format is not nested.  Errors
   * as those of open() */
  int (*parts)(const char *path, ct_weights_parts_t *out);
  int (*count)(const ct_weights_t *w);
  /* i-th tensor, in the file's order */
  void (*tensor)(const ct_weights_t *w, int i, ct_tensor_t *out);
  /* n elements of tensor i from element `first` on, row-major, little-endian, in the file's type
   * (types of fewer than 8 bits: not by this function).  CT_ERR_IO, CT_ERR_FORMAT */
  int (*read)(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
  /* A text of the file, or NULL; borrowed */
  const char *(*text)(const ct_weights_t *w, const char *name);
  /* How it was read, for the user ("takes the tensors of 'model'"), or NULL; borrowed */
  const char *(*remark)(const ct_weights_t *w);
  /* NULL is fine */
  void (*close)(ct_weights_t *w);

  /* A format that is not written has NULL here and below, and only here.  path.tmp is begun; the
   * list is copied. CT_ERR_IO; CT_ERR_FORMAT for what the format cannot hold */
  int (*create)(const char *path, const ct_tensor_t *list, int n, const ct_weights_text_t *text,
                int texts, ct_weights_out_t **out);
  /* The whole of tensor i: each one once, in the order of the list, in the type of the list, in one
   * piece or several, which follow each other */
  int (*put)(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
  /* Flush, fsync, rename, fsync of the directory; frees o also on failure */
  int (*commit)(ct_weights_out_t *o);
  /* Removes the temporary; frees o; NULL is fine */
  void (*discard)(ct_weights_out_t *o);
} ct_weights_ops_t;

/** A weight file of any format, open for reading. */
typedef struct ct_weights_file {
  const ct_weights_ops_t *ops; /**< NULL: not open */
  ct_weights_t *w;
  char *path; /**< of the file itself; owned */
} ct_weights_file_t;

/** Opens \a path, which is followed (ct_ckpt_follow()), by the format that it has
 * (ct_format_find()) of \a formats, which end in NULL. */
int ct_weights_open(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out);
/** The same, if the file's texts alone matter yet: of a nested file one of its parts is open. */
int ct_weights_look(const ct_weights_ops_t *const formats[], const char *path, const char *key,
                    ct_weights_file_t *out);
/** The parts of a file that a key can name; none of a format whose files are not nested. */
int ct_weights_parts(const ct_weights_ops_t *const formats[], const char *path,
                     ct_weights_parts_t *out);
/** CT_ERR_FORMAT says what a file or directory is that cannot be weights here, though it may look
 * so or hold some (a page of the web instead of a file, a pointer of Git LFS, ONNX, a model's
 * directory of Hugging Face, a distributed checkpoint), and what to do.  CT_OK for any other, also
 * if there is none. */
int ct_weights_foreign(const char *path);
/** The part that is the model where nothing but names and counts are known: of the likeliest rank
 * the one with the most tensors.  -1: several are alike, or there is none. */
int ct_weights_likeliest(const ct_weights_parts_t *list);
/** Their keys, for a message: "'model', 'ema' and 3 more". */
int ct_weights_parts_text(const ct_weights_parts_t *list, ct_str_t *out);
/** A zeroed one is fine. */
void ct_weights_close(ct_weights_file_t *f);
/** Tensor \a i as float32 into \a to, which has room for all of it; the file's type is converted.
 * CT_ERR_FORMAT names file and tensor where it has no numbers. */
int ct_weights_floats(const ct_weights_file_t *f, int i, float *to);

#endif
