/* kern/isa_scalar.c for bf16 activations. */
#define CPU__BF16
#include "cpu/kern/isa_scalar.c"
