/** \file list.h  A list of images with their labels: what folders, csv and tar files come down to.
 * Internal.
 *
 * Rank 0 makes it, since it asks the file system for each file; the others are told. */
#ifndef CT_PACK_LIST_H
#define CT_PACK_LIST_H
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "pack/ct_pack_in.h"
#include "pack/labels.h"

/** An image. */
typedef struct ct__pack_entry {
  int64_t name;  /**< its path or member's name, as a place in the texts */
  int64_t at;    /**< where it begins in its tar file */
  int64_t bytes; /**< -1: there is no such file */
  int64_t time;  /**< of its last change, ns; in a tar file 0 */
  int32_t tar;   /**< number of its tar file; -1: it is a file of its own */
  int32_t label;
} ct__pack_entry_t;

typedef struct ct__pack_list {
  ct__pack_entry_t *entry; /**< [n] */
  int64_t n, cap;
  char *text; /**< names one after the other, each with its NUL */
  int64_t text_bytes, text_cap;
  float *target; /**< [n][targets] */
  int64_t target_cap, targets;
  int64_t *class_name; /**< [class_names] places in the texts */
  int64_t class_names, class_cap, classes;
  int64_t *tar_name; /**< [tars] */
  int64_t tars, tar_cap;
  int64_t root; /**< of the paths, as a place in the texts */
} ct__pack_list_t;

void ct__pack_list_clear(ct__pack_list_t *l);
/** Borrowed until the next text is added. */
const char *ct__pack_list_text(const ct__pack_list_t *l, int64_t place);
int ct__pack_list_add_text(ct__pack_list_t *l, const char *text, int64_t *place);
/** Takes note of one more image; bytes and time of a file are asked for here. */
int ct__pack_list_add_file(ct__pack_list_t *l, const char *name, int32_t label);
int ct__pack_list_add_member(ct__pack_list_t *l, const char *name, int32_t tar, int64_t at,
                             int64_t bytes);
/** Gives each image its label, and the list the names of classes.  The labels are finished. */
int ct__pack_list_label(ct__pack_list_t *l, const ct__pack_labels_t *labels);
/** The path of an image or of its tar file. */
int ct__pack_list_path(const ct__pack_list_t *l, const ct__pack_entry_t *e, char *path, size_t cap);
/** Collective.  rc is that of rank 0's making; the others have an empty list before. */
int ct__pack_list_share(const ct_topo_t *t, int rc, ct__pack_list_t *l);

/* ---- where lists come from: local, for rank 0 ---- */

/** dir/class/…/name.jpg by the rules of torchvision's ImageFolder: the sorted names of the folders
 * are the classes, what is in them at any depth is theirs.  CT_ERR_FORMAT: no folders, or one
 * without images. */
int ct__pack_list_folder(const char *dir, ct__pack_list_t *l);
/** Lines "path,label" or with as many targets, in cells as cells.h has them, from o->list; labels
 * by the rule of labels.h. */
int ct__pack_list_csv(const ct_pack_images_t *o, ct__pack_list_t *l);
/** Samples of tar files: members with one name up to the last dot, wherever they stand; KEY.jpg
 * (.jpeg, .png), KEY.cls or "label", "cls" or "class" in KEY.json; labels by the rule of labels.h.
 * KEY.x.png with KEY.cls alone is a sample too, as WebDataset has it.  Without any labels the
 * folder in KEY is its class. */
int ct__pack_list_tar(const char *pattern, ct__pack_list_t *l);

/** 1 for the suffixes that ImageFolder takes for images. */
int ct__pack_is_image(const char *name);

#endif
