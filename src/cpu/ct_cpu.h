/** \file ct_cpu.h  The CPU backend: oneDNN for convolutions and GEMMs, its own kernels for the
 * rest.  Layer 1. */
#ifndef CT_CPU_H
#define CT_CPU_H
#include "backend/ct_backend.h"

extern const ct_backend_t ct_backend_cpu;

#endif
