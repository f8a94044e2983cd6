/** \file ct_rope.h  Rotary position embedding (Su et al., "RoFormer", 2021).  Layer 1, pure.
 *
 * In each of the first `heads` heads, pairs of features are rotated by an angle: the place in the
 * sequence times the frequency theta^(-2i / dim) of pair i. */
#ifndef CT_ROPE_H
#define CT_ROPE_H
#include <stdint.h>

/** How a longer context than that of the first training changes the frequencies. */
typedef enum {
  CT_ROPE_PLAIN,
  CT_ROPE_LINEAR, /**< all are divided by `factor` */
  CT_ROPE_LLAMA3, /**< low ones are divided, high ones are not, those between are blended */
  CT_ROPE_SCALINGS
} ct_rope_scaling_t;

enum { CT_ROPE_MOST = 512 }; /**< maximum number of features of a head */

typedef struct ct_rope {
  int heads;       /**< heads that are rotated; other features stay as they are */
  int dim;         /**< features of a head, an even number */
  int interleaved; /**< 0: feature i is paired with i + dim / 2 (Hugging Face); 1: features 2i and
                        2i + 1 are pairs (Meta) */
  int scaling;     /**< ct_rope_scaling_t */
  double theta;
  double factor, low, high, original; /**< LINEAR: factor; LLAMA3: all, named as in Hugging Face's
                                           rope_scaling: low_freq_factor, high_freq_factor,
                                           original_max_position_embeddings */
} ct_rope_t;

struct ct_op_desc;
/** Returns NULL if the ROPE \a d is valid, else the reason. */
const char *ct_rope_check(const struct ct_op_desc *d);
/** The same for POSITION. */
const char *ct_position_check(const struct ct_op_desc *d);
/** Writes the frequencies of the dim / 2 pairs.  Angles are place * frequency in float32. */
void ct_rope_frequencies(const ct_rope_t *r, float *out);

#endif
