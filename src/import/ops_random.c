/* Rules: random numbers and tensors of one number. */
#include "import/import.h"

const ct__im_rule_t ct__im_randoms[] = {{NULL, NULL, NULL}};
