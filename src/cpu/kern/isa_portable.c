/* The inner loops for any processor: 4 floats. */
#define CPU__VW  4
#define CPU__ISA portable
#include "cpu/kern/isa.h"
