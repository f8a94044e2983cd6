/* The table of all kinds of ops. */
#include "cpu/kinds.h"

const cpu__op_kind_t *cpu__kind_of(ct_op_kind_t kind)
{
  static const cpu__op_kind_t *const kinds[CT_OP_COUNT] = {
#define X(name, word, ...) &cpu__##word,
      CT_OP_LIST(X)
#undef X
  };
  return kinds[kind];
}
