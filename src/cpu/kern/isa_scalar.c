/* The inner loops over single floats: for layouts without contiguous channels. */
#define CPU__VW  1
#define CPU__ISA scalar
#include "cpu/kern/isa.h"
