/** \file ct_family.h  Model families: functions that call ct_graph_add().  Layer 2, pure.
 *
 * A family is one file and one line in families.c. */
#ifndef CT_FAMILY_H
#define CT_FAMILY_H
#include "model/ct_graph.h"

typedef struct ct_family {
  const char *name;   /**< "resnet" */
  const char *depths; /**< "18|34|50", or "" if any will do; checked before build */
  int64_t depth;      /**< the usual one, which model.depth 0 means */
  const char *help;   /**< one line */
  /** Appends the layers for samples of g->input; the last must give N x classes. */
  int (*build)(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes);
  /** What the user should hear of a choice that build() makes by the samples, or NULL; may be NULL.
   */
  const char *(*remark)(const ct_model_opts_t *o, const ct_shape_t *sample);
} ct_family_t;

/** All families, NULL-terminated; families.c. */
extern const ct_family_t *const ct_families[];

#endif
