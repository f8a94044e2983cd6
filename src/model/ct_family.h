/** \file ct_family.h  Model families (ResNet, ViT, …): functions that add layers with
 * ct_graph_add().  Layer 2, pure.
 *
 * A new family needs one file and one line in families.c. */
#ifndef CT_FAMILY_H
#define CT_FAMILY_H
#include "model/ct_graph.h"

typedef struct ct_family {
  const char *name;   /**< "resnet" */
  const char *depths; /**< accepted depths, "18|34|50"; "": any; checked before build */
  int64_t depth;      /**< default depth, used if model.depth is 0 */
  int language;       /**< 1: over tokens; the number `model.layers` is its depth, and `model.vocab`
                           the number of classes */
  const char *help;   /**< one line */
  /** Appends the layers for samples of shape g->input; the last layer must have the output N x
   * classes. */
  int (*build)(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes);
  /** Returns a note for the user about a choice that build() makes from the sample shape, or NULL.
   * The entry may be NULL. */
  const char *(*remark)(const ct_model_opts_t *o, const ct_shape_t *sample);
} ct_family_t;

/** All families, NULL-terminated (families.c). */
extern const ct_family_t *const ct_families[];

#endif
