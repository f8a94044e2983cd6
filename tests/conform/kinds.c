/* The list of test cases by kind of op.  A kind without cases is a link error. */
#include "tests/conform/cases.h"

const kind_cases_t *const kind_cases[CT_OP_COUNT] = {
#define X(name, word, ...) &cases_##word,
    CT_OP_LIST(X)
#undef X
};
