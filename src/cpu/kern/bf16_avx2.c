/* kern/isa_avx2.c for bf16 activations. */
#define CPU__BF16
#include "cpu/kern/isa_avx2.c"
