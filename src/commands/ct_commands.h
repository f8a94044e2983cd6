/** \file ct_commands.h  The commands, one source file each; cli/commands.c lists them.  Layer 5. */
#ifndef CT_COMMANDS_H
#define CT_COMMANDS_H
#include "setup/ct_command.h"

int ct_cmd_train(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_demo(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_eval(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_predict(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_generate(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_quantize(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_stats(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_summary(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_doctor(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_import(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_inspect(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_pack(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_tokenize(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_convert(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_report(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_watch(const ct_args_t *a, const ct_topo_t *topo, int *status);
int ct_cmd_scale(const ct_args_t *a, const ct_topo_t *topo, int *status);

#endif
