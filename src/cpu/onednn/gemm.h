/** \file onednn/gemm.h  Matrix products by oneDNN's sgemm.  Module-internal. */
#ifndef CT_CPU_ONEDNN_GEMM_H
#define CT_CPU_ONEDNN_GEMM_H
#include "cpu/kern/gemm.h"

extern const cpu__gemm_way_t cpu__gemm_onednn;

#endif
