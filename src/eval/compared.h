/** \file compared.h  A batch as the metrics see it: outputs, and the labels or targets that they
 * are compared with. */
#ifndef CT_COMPARED_H
#define CT_COMPARED_H
#include <stdint.h>

typedef struct ct__compared {
  int64_t n;             /**< samples */
  int64_t classes;       /**< of an output: classes, or channels */
  int64_t places;        /**< of a class or channel: 1, or pixels */
  const float *out;      /**< [n][classes][places] */
  const int32_t *labels; /**< [n][places]; NULL: targets */
  const float *targets;  /**< [n][classes][places], NaN: unknown, excluded; NULL: labels */
  const int64_t *ids;    /**< [n] numbers of the samples, for messages */
  int has_ignored;       /**< 1: places with the label `ignored` are excluded */
  int64_t ignored;
} ct__compared_t;

#endif
