/* Rules: recurrent networks. */
#include "import/import.h"

const ct__im_rule_t ct__im_rnns[] = {{NULL, NULL, NULL}};
