#include "train/ct_trainer.h"

const ct_opt_t ct_run_rows[] = {
    CT_OPT_TEXT(ct_run_opts_t, dir, "",
                "run directory, relative to the current one; empty: runs/NAME"),
    CT_OPT_INT(ct_run_opts_t, seed, "1", 0, 1e18, "seed of weights, sample order and dropout"),
    CT_OPT_TEXT(ct_run_opts_t, name, "train", "name of the run"),
    CT_OPT_INT(ct_run_opts_t, log_every, "10", 1, 1e18, "steps between lines in metrics.jsonl"),
    CT_OPT_END};

const ct_opt_t ct_parallel_rows[] = {
    CT_OPT_CHOICE(ct_parallel_opts_t, mode, "ddp", "ddp|single",
                  "ddp: gradients are averaged over all ranks; single: one rank only"),
    CT_OPT_DOUBLE(ct_parallel_opts_t, bucket_mb, "0", 0, 4096,
                  "MB of gradients sent at once; 0: what suits the device"),
    CT_OPT_END};

const ct_opt_t ct_train_rows[] = {
    CT_OPT_INT(ct_train_opts_t, epochs, "10", 1, 1e9, "passes over the training data"),
    CT_OPT_INT(ct_train_opts_t, steps, "0", 0, 1e18, "stop after so many steps; 0: epochs decide"),
    CT_OPT_END};
