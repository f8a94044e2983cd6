/** \file safetensors.h  Parts of the safetensors format.  Internal; all functions are local. */
#ifndef CT_SAFETENSORS_H
#define CT_SAFETENSORS_H
#include "base/ct_json.h"
#include "weights/safetensors/ct_weights_safetensors.h"

#define CT__SAFETENSORS_TEXT "ctrain-hpc/" /**< before the name of a text, among the metadata */
enum {
  CT__SAFETENSORS_HEADER = 25000000, /**< bytes at most: no model is near it, and JSON needs much
                                        memory */
  CT__SAFETENSORS_VALUES = 4000000   /**< of JSON, at most */
};

typedef struct ct__safetensors_entry {
  char *name;
  ct_elem_t type;
  int ndim;
  int64_t *dim;
  int64_t count, begin, bytes; /**< begin: from the first byte behind the header */
  int order;                   /**< its place in the header */
  int part;                    /**< number of the file of a set */
} ct__safetensors_entry_t;

/** What a header says; of a set, what all of them say. */
typedef struct ct__safetensors_list {
  ct__safetensors_entry_t *entry; /**< in the order of their bytes */
  int64_t n, cap;
  int aliases;  /**< the last ones of the list */
  json_t *meta; /**< text to text; NULL: none */
} ct__safetensors_list_t;

/** JSON from \a bytes bytes of the file \a path, not too much of it.  CT_ERR_FORMAT says where. */
int ct__safetensors_json(const char *path, const char *text, size_t bytes, json_t **out);
/** Appends the tensors of a header in front of \a data bytes; they are part \a part.  The first
 * header's metadata is kept.  CT_ERR_FORMAT names file, tensor and what was expected. */
int ct__safetensors_parse(const char *path, const char *text, size_t bytes, int64_t data, int part,
                          ct__safetensors_list_t *out);
/** Appends the names that the metadata says are others' too. */
int ct__safetensors_alias(ct__safetensors_list_t *l);
void ct__safetensors_clear(ct__safetensors_list_t *l);

/** Files of a set, and which tensor lies in which. */
typedef struct ct__safetensors_set {
  json_t *map; /**< name to file; owned */
  char **file; /**< plain names, each once */
  int files;
} ct__safetensors_set_t;
/** Reads an index.  CT_ERR_IO, CT_ERR_FORMAT. */
int ct__safetensors_set_read(const char *path, ct__safetensors_set_t *out);
/** The tensors of all files are those of the index, each where it says.  CT_ERR_FORMAT names the
 * first that is not. */
int ct__safetensors_set_check(const char *path, const ct__safetensors_set_t *s,
                              const ct__safetensors_list_t *l);
void ct__safetensors_set_clear(ct__safetensors_set_t *s);

int ct__safetensors_create(const char *path, const ct_tensor_t *list, int n,
                           const ct_weights_text_t *text, int texts, ct_weights_out_t **out);
int ct__safetensors_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct__safetensors_commit(ct_weights_out_t *o);
void ct__safetensors_discard(ct_weights_out_t *o);

#endif
