/** \file list.h  A list of images with their labels, made from folders, csv files or tar files.
 * Internal.
 *
 * Rank 0 makes the list, which needs a stat() for each file, and sends it to the other ranks. */
#ifndef CT_PACK_LIST_H
#define CT_PACK_LIST_H
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "pack/ct_pack_in.h"
#include "pack/labels.h"

/** An image. */
typedef struct ct__pack_entry {
  int64_t name;  /**< its path or the name of the tar member, as an offset in the texts */
  int64_t at;    /**< offset in its tar file */
  int64_t bytes; /**< -1: the file does not exist */
  int64_t time;  /**< modification time in ns; 0 in a tar file */
  int32_t tar;   /**< index of its tar file; -1: a separate file */
  int32_t label;
} ct__pack_entry_t;

typedef struct ct__pack_list {
  ct__pack_entry_t *entry; /**< [n] */
  int64_t n, cap;
  char *text; /**< concatenated names, each with its NUL */
  int64_t text_bytes, text_cap;
  float *target; /**< [n][targets] */
  int64_t target_cap, targets;
  int64_t *class_name; /**< [class_names] offsets in the texts */
  int64_t class_names, class_cap, classes;
  int64_t *tar_name; /**< [tars] */
  int64_t tars, tar_cap;
  int64_t root; /**< base directory of the paths, as an offset in the texts */
} ct__pack_list_t;

void ct__pack_list_clear(ct__pack_list_t *l);
/** Returns the text at an offset; borrowed until the next text is added. */
const char *ct__pack_list_text(const ct__pack_list_t *l, int64_t place);
int ct__pack_list_add_text(ct__pack_list_t *l, const char *text, int64_t *place);
/** Adds an image: a file, whose size and time are determined here, or a member of a tar file. */
int ct__pack_list_add_file(ct__pack_list_t *l, const char *name, int32_t label);
int ct__pack_list_add_member(ct__pack_list_t *l, const char *name, int32_t tar, int64_t at,
                             int64_t bytes);
/** Assigns the labels to the images and the class names to the list.  \a labels has to be finished
 * (ct__pack_labels_finish()). */
int ct__pack_list_label(ct__pack_list_t *l, const ct__pack_labels_t *labels);
/** Writes the path of an image or of its tar file to \a path. */
int ct__pack_list_path(const ct__pack_list_t *l, const ct__pack_entry_t *e, char *path, size_t cap);
/** Collective.  Sends n elements of \a size bytes from rank 0; on the other ranks *data is NULL
 * before.  rc: rank 0's own code. */
int ct__pack_share(const ct_topo_t *t, int rc, void **data, int64_t n, size_t size);
/** Collective.  Sends the list of rank 0 to the other ranks, whose lists are empty before.  rc: the
 * code of making the list on rank 0. */
int ct__pack_list_share(const ct_topo_t *t, int rc, ct__pack_list_t *l);

/* ---- making lists: local, on rank 0 ---- */

/** Lists dir/class/…/name.jpg by the rules of torchvision's ImageFolder: the sorted names of the
 * folders are the classes, and images at any depth in a folder belong to its class.  CT_ERR_FORMAT:
 * no folders, or a folder without images. */
int ct__pack_list_folder(const char *dir, ct__pack_list_t *l);
/** Lists all files below a directory, relative to it, in the order of their names' bytes.  *list: n
 * names, each freed by ct_mem_free(), as is the list. */
int ct__pack_list_files(const char *dir, char ***list, int64_t *n);
/** Reads lines "path,label", or a path and o->targets targets, from o->list: cells as in cells.h,
 * labels as in labels.h. */
int ct__pack_list_csv(const ct_pack_images_t *o, ct__pack_list_t *l);
/** Reads samples of tar files.  The members of a sample have the same name up to the last dot,
 * anywhere in the archive: KEY.jpg (.jpeg, .png), and KEY.cls or "label", "cls" or "class" in
 * KEY.json; labels as in labels.h.  KEY.x.png with only KEY.cls is a sample too, as in WebDataset.
 * If there are no labels at all, the folder in KEY is the class. */
int ct__pack_list_tar(const char *pattern, ct__pack_list_t *l);

/** Returns 1 for the suffixes that ImageFolder treats as images. */
int ct__pack_is_image(const char *name);

#endif
