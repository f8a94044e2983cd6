/** \file kinds.h  Kinds of ops that are built on other ops or on GEMMs.  Module-internal. */
#ifndef CT_CPU_KINDS_H
#define CT_CPU_KINDS_H
#include "cpu/gemm/choose.h"

extern const cpu__algos_t cpu__linear_algos;
extern const cpu__algo_t cpu__linear_bf16, cpu__linear_amx;
extern const cpu__op_kind_t cpu__linear, cpu__lstm, cpu__attention;
extern const cpu__op_kind_t cpu__sdpa_amx;  /* an SDPA for which cpu__sdpa_amx_can() returns 1 */
extern const cpu__op_kind_t cpu__in_floats; /* wraps an op of another kind, float32 inside */
extern const cpu__op_kind_t cpu__storage;   /* wraps a convolution or linear op */

/** Returns 1 if AMX computes this SDPA in bf16; a pure function of the op, not of its batch. */
int cpu__sdpa_amx_can(const ct_op_desc_t *d);
/** Local.  Creates and prepares an op of a kind; freed by cpu__op_free(), which accepts NULL. */
int cpu__op_new(const cpu__op_kind_t *kind, ct_dev_t *dev, const ct_op_desc_t *d,
                const ct_op_t *like, ct_op_t **out, ct_op_info_t *info);
void cpu__op_free(ct_op_t *op);

#endif
