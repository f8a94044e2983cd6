/** \file conv/conv.h  Convolution.  Module-internal. */
#ifndef CT_CPU_CONV_H
#define CT_CPU_CONV_H
#include "cpu/kern/op.h"

extern const cpu__op_kind_t cpu__conv;

#endif
