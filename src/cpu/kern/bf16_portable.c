/* kern/isa_portable.c for bf16 activations. */
#define CPU__BF16
#include "cpu/kern/isa_portable.c"
