#include "optim/ct_optim.h"

#include <math.h>

#include "base/ct_err.h"

/** Where a step stands after the warm-up. */
typedef struct point {
  double lr;        /**< what the warm-up led to */
  double t, length; /**< steps done since, and steps from there to the end of the run */
  double steps_per_epoch;
} point_t;

static double constant_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  (void)s;
  return p->lr;
}

/* torch.optim.lr_scheduler.StepLR */
static double step_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  double period = fmax(round(s->step_epochs * p->steps_per_epoch), 1);
  return p->lr * pow(s->gamma, floor(p->t / period));
}

/* torch.optim.lr_scheduler.CosineAnnealingLR, closed form */
static double cosine_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  double done = p->length > 0 ? fmin(p->t / p->length, 1) : 1;
  return s->min_lr + (p->lr - s->min_lr) * (1 + cos(M_PI * done)) / 2;
}

/** Every schedule there is: its word in the configuration and its function. */
#define SCHEDULES(FIRST, X) FIRST(constant, constant_lr) X(step, step_lr) X(cosine, cosine_lr)

#define WORD(name, f)      #name
#define NEXT_WORD(name, f) "|" #name
#define FUNCTION(name, f)  f,
static double (*const schedules[])(const ct_schedule_opts_t *s,
                                   const point_t *p) = {SCHEDULES(FUNCTION, FUNCTION)};

const ct_opt_t ct_schedule_rows[] = {
    CT_OPT_CHOICE(ct_schedule_opts_t, kind, "constant", SCHEDULES(WORD, NEXT_WORD),
                  "course of the learning rate after the warm-up"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, warmup_epochs, "0", 0, 1e6,
                  "epochs over which the rate grows linearly to optim.lr"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, step_epochs, "30", 1e-6, 1e18,
                  "step: epochs after which the rate is multiplied by gamma, again and again"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, gamma, "0.1", 0, 1e18, "step: factor"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, min_lr, "0", 0, 1e18, "cosine: rate at the end of the run"),
    CT_OPT_END};

int ct_schedule_check(const ct_schedule_opts_t *s)
{
  (void)s;
  return CT_OK;
}

double ct_schedule_lr(const ct_schedule_point_t *at, double lr)
{
  const ct_schedule_opts_t *s = at->opts;
  if (!s) return lr;
  int64_t warmup = llround(s->warmup_epochs * (double)at->steps_per_epoch);
  if (at->step < warmup) return lr * (double)(at->step + 1) / (double)warmup;
  point_t p = {.lr = lr,
               .t = (double)(at->step - warmup),
               .length = (double)(at->total_steps - warmup),
               .steps_per_epoch = (double)at->steps_per_epoch};
  return schedules[s->kind](s, &p);
}

double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum)
{
  (void)at;
  return momentum;
}
