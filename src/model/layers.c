/* The table of layer kinds.  To add one: a file and a line here; the file exports the symbol
 * ct__layer_<kind>.  `train --help` prints the kinds in this order. */
#include "model/ct_layer.h"

#include <string.h>

/* One line per kind, in the order of the help. */
#define KINDS(X)      \
  X(conv1d)           \
  X(conv2d)           \
  X(conv3d)           \
  X(convolve)         \
  X(conv_transpose1d) \
  X(conv_transpose2d) \
  X(conv_transpose3d) \
  X(linear)           \
  X(batchnorm)        \
  X(groupnorm)        \
  X(instancenorm)     \
  X(relu)             \
  CT_ACT_LIST(ACT)    \
  X(maxpool1d)        \
  X(maxpool)          \
  X(maxpool3d)        \
  X(avgpool1d)        \
  X(avgpool)          \
  X(avgpool3d)        \
  X(global_avgpool)   \
  X(adaptive_avgpool) \
  X(adaptive_maxpool) \
  X(flatten)          \
  X(reshape)          \
  X(permute)          \
  X(slice)            \
  X(pad)              \
  X(roll)             \
  X(flip)             \
  X(expand)           \
  X(repeat)           \
  X(pixel_shuffle)    \
  X(pixel_unshuffle)  \
  X(unfold)           \
  X(windows)          \
  X(dropout)          \
  X(drop_path)        \
  X(identity)         \
  X(add)              \
  X(sub)              \
  X(mul)              \
  X(div)              \
  X(pow)              \
  X(minimum)          \
  X(maximum)          \
  X(eq)               \
  X(ne)               \
  X(lt)               \
  X(le)               \
  X(gt)               \
  X(ge)               \
  X(logical_and)      \
  X(logical_or)       \
  X(atan2)            \
  X(fmod)             \
  X(where)            \
  X(exp)              \
  X(expm1)            \
  X(log)              \
  X(log1p)            \
  X(sin)              \
  X(cos)              \
  X(tan)              \
  X(asin)             \
  X(acos)             \
  X(atan)             \
  X(sinh)             \
  X(cosh)             \
  X(sqrt)             \
  X(rsqrt)            \
  X(abs)              \
  X(neg)              \
  X(reciprocal)       \
  X(square)           \
  X(sign)             \
  X(floor)            \
  X(ceil)             \
  X(round)            \
  X(detach)           \
  X(erf)              \
  X(logical_not)      \
  X(softplus)         \
  X(elu)              \
  X(celu)             \
  X(selu)             \
  X(mish)             \
  X(hardswish)        \
  X(hardsigmoid)      \
  X(hardtanh)         \
  X(clamp)            \
  X(gelu_tanh)        \
  X(logsigmoid)       \
  X(softsign)         \
  X(tanhshrink)       \
  X(hardshrink)       \
  X(softshrink)       \
  X(threshold)        \
  X(glu)              \
  X(swiglu)           \
  X(prelu)            \
  X(scale)            \
  X(random)           \
  X(concat)           \
  X(upsample)         \
  X(matmul)           \
  X(sdpa)             \
  X(softmax)          \
  X(log_softmax)      \
  X(sum)              \
  X(mean)             \
  X(amax)             \
  X(amin)             \
  X(max)              \
  X(min)              \
  X(prod)             \
  X(norm)             \
  X(var)              \
  X(std)              \
  X(logsumexp)        \
  X(cumsum)           \
  X(layernorm)        \
  X(rmsnorm)          \
  X(embedding)        \
  X(position)         \
  X(positions)        \
  X(rope)             \
  X(pool_steps)       \
  X(rows)             \
  X(attention)        \
  X(tokens)           \
  X(lstm)             \
  X(gru)              \
  X(parameter)        \
  X(buffer)           \
  X(constant)         \
  X(sequence)         \
  X(select)

#define ACT(id, word, ...) X(word)

#define X(kind) extern const ct_layer_ops_t ct__layer_##kind;
KINDS(X)
#undef X

const ct_layer_ops_t *const ct_layer_kinds[] = {
#define X(kind) &ct__layer_##kind,
    KINDS(X)
#undef X
        NULL};

const ct_layer_ops_t *ct_layer_find(const char *kind)
{
  for (int i = 0; ct_layer_kinds[i]; i++)
    if (strcmp(ct_layer_kinds[i]->kind, kind) == 0) return ct_layer_kinds[i];
  return NULL;
}
