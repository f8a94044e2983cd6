/* The configuration section `checkpoint`. */
#include "ckpt/ct_ckpt.h"

const ct_opt_t ct_ckpt_rows[] = {
    CT_OPT_INT(ct_ckpt_opts_t, every_epochs, "1", 0, 1e18,
               "epochs between checkpoints; 0: only at the end of the run, or only the best ones "
               "if best is set"),
    CT_OPT_INT(ct_ckpt_opts_t, every_steps, "0", 0, 1e18, "steps between checkpoints; 0: none"),
    CT_OPT_INT(ct_ckpt_opts_t, keep, "3", 0, 1e18, "number of newest checkpoints to keep; 0: all"),
    CT_OPT_CHOICE(ct_ckpt_opts_t, best, "off", "off|" CT_SCORE_KINDS,
                  "also keep the best checkpoint by this metric; one is written after each "
                  "evaluation that is better than all before"),
    CT_OPT_CHOICE(ct_ckpt_opts_t, on_error, "stop", "stop|continue",
                  "if a checkpoint cannot be written: stop ends the run; continue warns and "
                  "retries when the next one is due, but the run's last one must succeed"),
    CT_OPT_END};
