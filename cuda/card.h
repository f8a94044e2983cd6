/** \file card.h  GPU models, described for plans that are made without the GPU. Module-internal. */
#ifndef GPU_CARD_H
#define GPU_CARD_H
#include "base/ct_text.h"

/** Properties of a GPU model on which plans depend. */
typedef struct gpu__card {
  const char *name;  /**< "h100" */
  const char *model; /**< the name that its driver reports */
  int version;       /**< compute capability * 100, as cuDNN counts: 900 */
  int sms;           /**< multiprocessors */
  size_t memory;     /**< bytes */
  int sm_khz, memory_khz;
  int l2_bytes, shared_bytes; /**< L2 cache; shared memory that a block can ask for */
} gpu__card_t;

/** Local. Finds a model by its short name. CT_ERR_USAGE lists the names. */
int gpu__card_find(const char *name, const gpu__card_t **out);
/** Local. Appends the properties as JSON, in cuDNN's form for gpu__dnn_properties(). */
int gpu__card_json(const gpu__card_t *c, ct_str_t *out);

#endif
