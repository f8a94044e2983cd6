/** \file pth.h  An open .pth file: declarations shared by its source files. */
#ifndef CT__WEIGHTS_PTH_H
#define CT__WEIGHTS_PTH_H
#include <jansson.h>

#include "weights/ct_weights.h"
#include "weights/pth/ct_pickle.h"
#include "weights/pth/ct_weights_pth.h"
#include "weights/pth/ct_zip.h"

enum { CT__PTH_DIMS = 64 /**< maximum dims of a tensor, as in PyTorch */ };
/** Prefix of records with texts of this program, below the archive's top-level directory. */
#define CT__PTH_TEXTS "ctrain-hpc/"

/** A tensor: a strided view of a storage. */
typedef struct ct__pth_tensor {
  const char *name;
  ct_elem_t type;
  int ndim;
  int64_t *dim;    /**< [ndim] */
  int64_t *stride; /**< [ndim], in elements; in the same allocation as dim */
  int64_t count;   /**< number of elements */
  int64_t offset;  /**< offset of the first element in the storage, in elements */
  int64_t span;    /**< elements from the first to the last one in memory */
  int contiguous;  /**< row-major without gaps */
  int64_t storage; /**< index of the record */
} ct__pth_tensor_t;

/** The first bytes of a record, already included in the running CRC. */
typedef struct ct__pth_sum {
  int64_t bytes;
  uint32_t crc;
} ct__pth_sum_t;

struct ct_weights {
  char *path;
  int fd;
  int64_t bytes;      /* file size */
  ct_zip_t zip;       /* records; those of the legacy format are given the names of the zip
                         format */
  char *prefix;       /* "archive/data/" */
  ct_pickle_t pickle; /* needed for the names while the file is open */
  json_t *json;       /* the same of a .pt2 file: the list of its weights; else NULL */
  int *first;         /* [n] of a .pt2 file: see ct_pt2_list_first() */
  ct__pth_tensor_t *tensor;
  int64_t n, cap;
  ct_str_t remark;
  ct_str_t unread_list; /* tensors of kinds that only PyTorch can read, with the reason */
  int64_t unread;
  ct_weights_text_t *text; /* [texts] of this program */
  int64_t texts, text_cap;
  ct__pth_sum_t *sum;  /* [zip.n] */
  unsigned char *held; /* buffered memory span of tensor `holder`; holder -1: none */
  int64_t held_cap;
  int holder;
};

/** Local. Reads a whole record of at most \a most bytes, with a NUL after it, and verifies its
 * checksum. The caller frees *out. */
int ct__pth_record(const ct_weights_t *w, const ct_zip_record_t *r, int64_t most, char **out);
/** Local. Appends a tensor whose type, dims, strides, offset and record are set, and takes over its
 * dims. \a room: elements that the record has. CT_ERR_FORMAT: it reaches past them. */
int ct__pth_view(ct_weights_t *w, ct__pth_tensor_t *t, int64_t room);

/** Local. Adds a remark about tensors of kinds that only PyTorch can read (unread_list).
 * CT_ERR_FORMAT: there are no others. */
int ct__pth_remark_unread(ct_weights_t *w);

/** Local. Adds the texts "model" and "conv1d" to a checkpoint of nanoGPT; else does nothing.
 * CT_ERR_FORMAT: its arguments are out of range. */
int ct__pth_nanogpt(ct_weights_t *w);

/** Returns 1 if the records are those of torch.export.save() (.pt2). */
int ct__pt2_is(const ct_weights_t *w);
/** Local. Checks the version of a .pt2 file and reads a list of its tensors into w->json. */
int ct__pt2_open(ct_weights_t *w, ct_pt2_list_t which);
/** Local. Appends all weights of a .pt2 file, which has no dict for a \a key to select. */
int ct__pt2_take(ct_weights_t *w, const char *key);
/** Local. Appends all tensors of the list, which may be empty. */
int ct__pt2_take_all(ct_weights_t *w);

/** Local. Opens a file without reading it. */
int ct__pth_open_path(const char *path, ct_weights_t **out);
/** Local. Recognizes the format of an open file and reads its directory: w->json, the list \a which
 * of a .pt2 file, or w->pickle. */
int ct__pth_open_format(ct_weights_t *w, ct_pt2_list_t which);
/** Local. The last step of opening a file, when its tensors are known. */
int ct__pth_open_end(ct_weights_t *w);

/** Local. Fills zip, prefix and pickle from a file of the legacy format, a sequence of
 * pickles. */
int ct__pth_open_old(ct_weights_t *w);
/** Returns 1 if a file with these first bytes has the legacy format. */
int ct__pth_is_old(const unsigned char *head, int64_t bytes);

/** Return the value of a key, and the next key, in the alternating list of a dict's keys and
 * values. */
static inline int ct__pth_value(const ct_pickle_t *p, int cell)
{
  return p->cell[p->cell[cell].next].node;
}

static inline int ct__pth_next(const ct_pickle_t *p, int cell)
{
  return p->cell[p->cell[cell].next].next;
}

/** Returns the key as text if it is printable and can name a tensor; else NULL. */
const char *ct__pth_key(const ct_pickle_t *p, int cell);
/** Local. Selects the dict with the model's tensors; may set the remark. CT_ERR_FORMAT */
int ct__pth_choose(ct_weights_t *w, const char *key, int *out);
/** Local. Lists the dicts that have tensors. */
int ct__pth_parts(ct_weights_t *w, ct_weights_parts_t *out);

/** Returns 1 if a node is a tensor, even of a kind that cannot be read. */
int ct__pth_is_tensor(const ct_pickle_t *p, int node);
/** Local. Appends a node to the tensors, or to unread_list if only PyTorch can read its kind.
 * CT_ERR_FORMAT names file and tensor. */
int ct__pth_add(ct_weights_t *w, int node, const char *name);
/** Parses a storage's persistent id: record key, storage class and number of elements. 0: it is not
 * a storage. */
int ct__pth_storage(const ct_pickle_t *p, int node, const char **key, const char **type,
                    int64_t *count);
/** Returns 1 if the storage class ("torch.FloatStorage") is one of PyTorch's; *out: element type
 * (CT_ELEMS: only PyTorch has it), *bytes: bytes per element. */
int ct__pth_storage_type(const char *name, ct_elem_t *out, int *bytes);

/** Local. Entries of ct_weights_ops_t. */
int ct__pth_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to);
int ct__pth_create(const char *path, const ct_tensor_t *list, int n, const ct_weights_text_t *text,
                   int texts, ct_weights_out_t **out);
int ct__pth_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from);
int ct__pth_commit(ct_weights_out_t *o);
void ct__pth_discard(ct_weights_out_t *o);

/** Returns PyTorch's storage class for a type, such as "FloatStorage"; NULL: PyTorch has none, and
 * tensors of this type are stored as bytes with an explicit dtype (_rebuild_tensor_v3). */
const char *ct__pth_class_of(ct_elem_t e);

#endif
