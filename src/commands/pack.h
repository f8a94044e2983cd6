/** \file pack.h  The parts of `pack`.  Internal. */
#ifndef CT_COMMANDS_PACK_H
#define CT_COMMANDS_PACK_H
#include "commands/ct_commands.h"
#include "pack/ct_pack_job.h"

/** pack_options.c.  Reads the options that all sources have, such as --output and --shards. */
int ct__pack_job_options(const ct_args_t *a, ct_pack_job_t *job);
/** Collective.  pack_tokens.c: `pack --tokens`. */
int ct__pack_tokens(const ct_args_t *a, const ct_topo_t *topo);
/** CT_ERR_USAGE: an option is given that is for --tokens only. */
int ct__pack_no_tokens(const ct_args_t *a);

#endif
