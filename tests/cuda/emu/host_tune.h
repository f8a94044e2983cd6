/* host_tune.h  Autotuning of the emulated module. */
#ifndef HOST_TUNE_H
#define HOST_TUNE_H
#include "backend/ct_backend.h"

/* Stands for the timing of algorithms: with autotuning, adds a choice for \a key if there is none.
 * The choice is the process that makes it, so that a test sees who chose. */
int emu__tune(ct_dev_t *dev, const char *key);

#endif
