/* The inner loops over single floats: for plain layouts where no channels lie side by side. */
#define CPU__VW  1
#define CPU__ISA scalar
#include "cpu/kern/isa.h"
