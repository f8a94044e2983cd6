/* The table of all kinds of ops. */
#include "ref/ref.h"

const ct__ref_kind_t *const ct__ref_kinds[CT_OP_COUNT] = {
#define X(name, word, ...) &ct__ref_##word,
    CT_OP_LIST(X)
#undef X
};
