/** \file ct_bench.h  The commands `bench step`, `io`, `predict`, `lr` and `comm`: measurements
 * without a training run.  Layer 5. */
#ifndef CT_BENCH_COMMANDS_H
#define CT_BENCH_COMMANDS_H
#include "setup/ct_command.h"

/** Collective.  The command `bench`: measures training steps (`bench step`), or runs one of the
 * commands below; the first argument selects it. */
int ct_cmd_bench(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_io(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_predict(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_lr(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_comm(const ct_args_t *a, const ct_topo_t *topo, int *status);

#endif
