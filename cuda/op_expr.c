/* Elementwise programs (ct_expr.h), and random numbers. */
#include "cuda/gpu.h"

const gpu__kind_t gpu__kind_expr = {0};
const gpu__kind_t gpu__kind_random = {0};
