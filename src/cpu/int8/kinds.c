/* The table of int8 ops. */
#include "cpu/int8/int8.h"

const cpu__op_kind_t *cpu__int8_kind(const ct_op_desc_t *d)
{
  switch (d->kind) {
  case CT_OP_CONV:
    return &cpu__int8_gemm;
  case CT_OP_LINEAR:
    return d->q.dynamic ? &cpu__int8_dynamic : &cpu__int8_gemm;
  case CT_OP_POOL:
    return &cpu__int8_pool;
  case CT_OP_RELU:
  case CT_OP_ACT:
    return &cpu__int8_table;
  case CT_OP_ADD:
    return &cpu__int8_add;
  case CT_OP_CONCAT:
    return &cpu__int8_concat;
  case CT_OP_REORDER:
    return &cpu__int8_reorder;
  default:
    return NULL;
  }
}
