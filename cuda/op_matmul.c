/* Not on this device yet. */
#include "cuda/gpu.h"

const gpu__kind_t gpu__kind_matmul = {0};
