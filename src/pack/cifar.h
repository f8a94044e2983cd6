/** \file cifar.h  The names of CIFAR's classes.  Internal. */
#ifndef CT_PACK_CIFAR_INTERNAL_H
#define CT_PACK_CIFAR_INTERNAL_H
#include "base/ct_text.h"
#include "weights/pth/ct_pickle.h"

typedef struct ct__cifar_names {
  char path[CT_PATH_MAX]; /**< of the file they are from; "": there is none */
  const char **name;      /**< [n], NULL if there is none */
  int n;
  char *text; /**< what they lie in */
} ct__cifar_names_t;

/** The value of a dict's key; -1: there is none. */
int ct__cifar_find(const ct_pickle_t *p, const char *key);

/** The names of so many classes (10, 100, or the 20 coarse ones of CIFAR-100) from the file that is
 * distributed with the set, in the directory of \a beside: a line each (batches.meta.txt,
 * fine_label_names.txt, coarse_label_names.txt), or a pickle (batches.meta, meta).  None if no such
 * file is there.  CT_ERR_FORMAT: it has not so many. */
int ct__cifar_names(const char *beside, int classes, ct__cifar_names_t *out);
void ct__cifar_names_clear(ct__cifar_names_t *n);

#endif
