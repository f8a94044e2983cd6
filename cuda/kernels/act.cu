/* Activations: one struct per entry of CT_ACT_LIST, so that a missing entry is a compile error. The
 * activation is selected outside of the kernels. */
#include "cuda/kernels/act.h"

#include "cuda/kernels/map.h"

/* An activation as in torch.nn.functional: its value at x, and its derivative in terms of x or y,
 * as CT_ACT_LIST specifies. NaN stays NaN. */
template <ct_act_t KIND> struct act;

template <> struct act<CT_ACT_LEAKY_RELU> {
  static CT_METHOD float value(float x, float alpha)
  {
    return x > 0 ? x : alpha * x;
  }
  static CT_METHOD float slope(float y, float alpha)
  {
    return y > 0 ? 1 : alpha;
  }
};

template <> struct act<CT_ACT_RELU6> {
  static CT_METHOD float value(float x, float)
  {
    return x < 0 ? 0 : x > 6 ? 6 : x;
  }
  static CT_METHOD float slope(float y, float)
  {
    return y > 0 && y < 6 ? 1 : 0;
  }
};

template <> struct act<CT_ACT_GELU> {
  static CT_METHOD float normal(float x) /* distribution function of the normal distribution */
  {
    const float root_half = 0.70710678f;
    return 0.5f * (1 + erff(x * root_half));
  }
  static CT_METHOD float value(float x, float)
  {
    return x * normal(x);
  }
  static CT_METHOD float slope(float x, float)
  {
    const float density = 0.39894228f; /* density of the normal distribution at 0 */
    return normal(x) + x * expf(-0.5f * x * x) * density;
  }
};

template <> struct act<CT_ACT_SIGMOID> {
  static CT_METHOD float value(float x, float)
  {
    return 1 / (1 + expf(-x));
  }
  static CT_METHOD float slope(float y, float)
  {
    return y * (1 - y);
  }
};

template <> struct act<CT_ACT_TANH> {
  static CT_METHOD float value(float x, float alpha)
  {
    return alpha * tanhf(x);
  }
  static CT_METHOD float slope(float y, float alpha)
  {
    return alpha - y * y / alpha;
  }
};

template <> struct act<CT_ACT_SILU> {
  static CT_METHOD float value(float x, float)
  {
    return x / (1 + expf(-x));
  }
  static CT_METHOD float slope(float x, float)
  {
    float s = 1 / (1 + expf(-x));
    return s * (1 + x * (1 - s));
  }
};

template <ct_act_t KIND> struct forward {
  float alpha;
  CT_METHOD float operator()(float x, float, float) const
  {
    return act<KIND>::value(x, alpha);
  }
};

template <ct_act_t KIND> struct backward {
  float alpha;
  CT_METHOD float operator()(float dy, float dy2, float v) const
  {
    return (dy + dy2) * act<KIND>::slope(v, alpha);
  }
};

extern "C" cudaError_t gpu__act(ct_act_t kind, float alpha, ct_dtype_t type, int64_t n,
                                const void *x, void *y, cudaStream_t stream)
{
  switch (kind) {
#define X(KIND, ...)                                                                         \
  case KIND:                                                                                 \
    GPU_BY_TYPE(type, T,                                                                     \
                return gpu_map<T>(n, x, nullptr, nullptr, y, forward<KIND>{alpha}, stream)); \
    break;
    CT_ACT_LIST(X)
#undef X
  }
  return cudaErrorInvalidValue;
}

extern "C" cudaError_t gpu__act_gradient(ct_act_t kind, float alpha, ct_dtype_t type, int64_t n,
                                         const void *dy, const void *dy2, const void *v, void *dx,
                                         cudaStream_t stream)
{
  switch (kind) {
#define X(KIND, ...)                                                                           \
  case KIND:                                                                                   \
    GPU_BY_TYPE(type, T, return gpu_map<T>(n, dy, dy2, v, dx, backward<KIND>{alpha}, stream)); \
    break;
    CT_ACT_LIST(X)
#undef X
  }
  return cudaErrorInvalidValue;
}
