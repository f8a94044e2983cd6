/** \file cifar.h  The class names of CIFAR.  Internal. */
#ifndef CT_PACK_CIFAR_INTERNAL_H
#define CT_PACK_CIFAR_INTERNAL_H
#include "base/ct_text.h"
#include "weights/pth/ct_pickle.h"

typedef struct ct__cifar_names {
  char path[CT_PATH_MAX]; /**< the file that has the names; "": not found */
  const char **name;      /**< [n]; NULL: no names */
  int n;
  char *text; /**< memory of the names */
} ct__cifar_names_t;

/** Returns the node of the value of a dict's key; -1: the key is missing. */
int ct__cifar_find(const ct_pickle_t *p, const char *key);

/** Reads the class names (10, 100, or the 20 coarse ones of CIFAR-100) from the file that is
 * distributed with the data set, in the directory of \a beside: a text file with a name a line
 * (batches.meta.txt, fine_label_names.txt, coarse_label_names.txt), or a pickle (batches.meta,
 * meta).  Without such a file the result is empty.  CT_ERR_FORMAT: the file has another number of
 * names. */
int ct__cifar_names(const char *beside, int classes, ct__cifar_names_t *out);
void ct__cifar_names_clear(ct__cifar_names_t *n);

#endif
