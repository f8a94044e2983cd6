/* torch.optim.lr_scheduler.ReduceLROnPlateau(mode="min", threshold_mode="rel"), as a factor of the
 * learning rate: the rest of the schedule stays a pure function of the step, and a checkpoint only
 * stores the factor. */
#include "optim/ct_optim.h"

#include <math.h>

void ct_plateau_init(ct_plateau_t *p)
{
  *p = (ct_plateau_t){.best = INFINITY, .factor = 1};
}

void ct_plateau_update(ct_plateau_t *p, const ct_schedule_opts_t *s, double loss)
{
  if (loss < p->best * (1 - s->threshold)) {
    p->best = loss;
    p->bad = 0;
  } else if (++p->bad > s->patience) {
    p->factor *= s->gamma;
    p->bad = 0;
  }
}
