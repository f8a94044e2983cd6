/** \file commands.h  The commands' functions, one file each; commands.c lists them. */
#ifndef CT_COMMANDS_H
#define CT_COMMANDS_H
#include "app/app.h"

int ct_cmd_train(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_demo(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_eval(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_predict(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_quantize(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_summary(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_doctor(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_inspect(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_pack(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_convert(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_report(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_watch(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_scale(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_sweep(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench(const ct_args_t *a, const ct_topo_t *topo, int *status);
/** `bench io`, `bench predict`, `bench lr` and `bench comm`, called by the one above. */
int ct_cmd_bench_io(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_predict(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_lr(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_bench_comm(const ct_args_t *a, const ct_topo_t *topo, int *status);

#endif
