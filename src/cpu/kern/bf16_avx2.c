/* The same as in kern/isa_avx2.c, on bfloat16 in memory. */
#define CPU__BF16
#include "cpu/kern/isa_avx2.c"
