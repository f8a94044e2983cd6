/* What each kind of op is tried with.  The linker names a kind whose cases are nowhere. */
#include "tests/conform/cases.h"

const kind_cases_t *const kind_cases[CT_OP_COUNT] = {
#define X(name, word, ...) &cases_##word,
    CT_OP_LIST(X)
#undef X
};
