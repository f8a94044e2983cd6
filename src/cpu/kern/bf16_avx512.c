/* The same as in kern/isa_avx512.c, on bfloat16 in memory. */
#define CPU__BF16
#include "cpu/kern/isa_avx512.c"
