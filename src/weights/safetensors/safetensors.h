/** \file safetensors.h  Declarations shared by the source files of this folder. Internal; all
 * functions are local. */
#ifndef CT_SAFETENSORS_H
#define CT_SAFETENSORS_H
#include "base/ct_json.h"
#include "weights/safetensors/ct_weights_safetensors.h"

#define CT__SAFETENSORS_TEXT "ctrain-hpc/" /**< prefix of texts in the metadata */
enum {
  CT__SAFETENSORS_HEADER = 25000000, /**< limit of header bytes: no model comes near it, and parsing
                                        JSON needs much memory */
  CT__SAFETENSORS_VALUES = 4000000   /**< limit of JSON values */
};

typedef struct ct__safetensors_entry {
  char *name;
  ct_elem_t type;
  int ndim;
  int64_t *dim;
  int64_t count; /**< number of elements */
  int64_t begin; /**< offset from the first byte after the header */
  int64_t bytes;
  int order; /**< position in the header */
  int part;  /**< index of the file in a set */
} ct__safetensors_entry_t;

/** Tensors of one header, or of all headers of a set. */
typedef struct ct__safetensors_list {
  ct__safetensors_entry_t *entry; /**< sorted by offset */
  int64_t n, cap;
  int aliases;  /**< number of aliases, at the end of the list */
  json_t *meta; /**< metadata, text to text; NULL: none */
} ct__safetensors_list_t;

/** Parses \a bytes bytes of JSON from the file \a path, within the limits. CT_ERR_FORMAT states the
 * position. */
int ct__safetensors_json(const char *path, const char *text, size_t bytes, json_t **out);
/** Appends the tensors of a header that is followed by \a data bytes; the file is number \a part of
 * the set. Keeps the first header's metadata. CT_ERR_FORMAT names file, tensor and what was
 * expected. */
int ct__safetensors_parse(const char *path, const char *text, size_t bytes, int64_t data, int part,
                          ct__safetensors_list_t *out);
/** Appends the aliases that the metadata lists: names that share another tensor's memory. */
int ct__safetensors_alias(ct__safetensors_list_t *l);
void ct__safetensors_clear(ct__safetensors_list_t *l);

/** The files of a set, and the file of each tensor. */
typedef struct ct__safetensors_set {
  json_t *map; /**< owned; tensor name to file name */
  char **file; /**< file names without directory, each once */
  int files;
} ct__safetensors_set_t;
/** Reads an index file. CT_ERR_IO, CT_ERR_FORMAT. */
int ct__safetensors_set_read(const char *path, ct__safetensors_set_t *out);
/** Checks that the tensors of all files are exactly those of the index, each in the file that it
 * names. CT_ERR_FORMAT names the first mismatch. */
int ct__safetensors_set_check(const char *path, const ct__safetensors_set_t *s,
                              const ct__safetensors_list_t *l);
void ct__safetensors_set_clear(ct__safetensors_set_t *s);

int ct__safetensors_create(const char *path, const ct_tensor_t *list, int n,
                           const ct_weights_text_t *text, int texts, ct_weights_out_t **out);
int ct__safetensors_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct__safetensors_commit(ct_weights_out_t *o);
void ct__safetensors_discard(ct_weights_out_t *o);

#endif
