/* The table of model families.  To add one: a file and a line here; the file exports the symbol
 * ct__family_<name>. */
#include "model/ct_family.h"

#include <stddef.h>

/* One line per family. */
#define FAMILIES(X) \
  X(mlp)            \
  X(lenet)          \
  X(resnet)         \
  X(vgg)            \
  X(vgg_bn)         \
  X(densenet)       \
  X(mobilenet_v2)   \
  X(cosmoflow)      \
  X(lstm)           \
  X(vit)            \
  X(unet)           \
  X(deeplabv3plus)  \
  X(gpt2)           \
  X(llama)          \
  X(esm2)

#define X(name) extern const ct_family_t ct__family_##name;
FAMILIES(X)
#undef X

const ct_family_t *const ct_families[] = {
#define X(name) &ct__family_##name,
    FAMILIES(X)
#undef X
        NULL};
