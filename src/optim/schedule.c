/* Learning-rate schedules as pure functions of the step: a resumed run has the same learning rates
 * as an uninterrupted one, at any number of ranks. */
#include "optim/ct_optim.h"

#include <math.h>

#include "base/ct_err.h"
#include "optim/kinds.h"

/** Position of a step after the warm-up. */
typedef struct point {
  double lr;     /**< the rate at the end of the warm-up */
  double t;      /**< steps since the end of the warm-up */
  double length; /**< steps from the end of the warm-up to the end of the run */
  double steps_per_epoch;
  double plateau;
} point_t;

/* Returns the progress after the warm-up: 0 at its end, 1 at the end of the run and later. */
static double schedule_progress(const point_t *p)
{
  return p->length > 0 ? fmin(p->t / p->length, 1) : 1;
}

/* ---- schedules, each as its class in torch.optim.lr_scheduler ---- */

static double constant_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  (void)s;
  return p->lr;
}

/* StepLR */
static double step_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  double period = fmax(round(s->step_epochs * p->steps_per_epoch), 1);
  return p->lr * pow(s->gamma, floor(p->t / period));
}

/* MultiStepLR */
static double multistep_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  int passed = 0;
  for (int i = 0; i < s->milestones.n; i++)
    passed += p->t >= round(s->milestones.v[i] * p->steps_per_epoch);
  return p->lr * pow(s->gamma, passed);
}

/* ExponentialLR, stepped at the end of each epoch */
static double exponential_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return p->lr * pow(s->gamma, floor(p->t / fmax(p->steps_per_epoch, 1)));
}

/* CosineAnnealingLR, closed form */
static double cosine_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return s->min_lr + (p->lr - s->min_lr) * (1 + cos(M_PI * schedule_progress(p))) / 2;
}

/* PolynomialLR, closed form; ends at min_lr, not at 0 */
static double polynomial_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return s->min_lr + (p->lr - s->min_lr) * pow(1 - schedule_progress(p), s->power);
}

/* Anneals from a to b, then to c: the two phases of OneCycleLR(anneal_strategy="cos"). */
static double two_phases(const ct_schedule_opts_t *s, const point_t *p, double a, double b,
                         double c)
{
  double last = p->length - 1, top = s->pct_start * p->length - 1, t = fmin(p->t, last);
  double begin = t <= top ? 0 : top, end = t <= top ? top : last;
  double share = end > begin ? (t - begin) / (end - begin) : 1;
  double from = t <= top ? a : b, to = t <= top ? b : c;
  return to + (from - to) / 2 * (cos(M_PI * share) + 1);
}

/* OneCycleLR */
static double one_cycle_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  double first = p->lr / s->div_factor;
  return two_phases(s, p, first, p->lr, first / s->final_div_factor);
}

/* ReduceLROnPlateau; a rate below min_lr from the start is kept */
static double plateau_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return fmax(p->lr * p->plateau, fmin(p->lr, s->min_lr));
}

/** The schedules: word in the configuration, and function. */
#define SCHEDULES(FIRST, X)      \
  FIRST(constant, constant_lr)   \
  X(step, step_lr)               \
  X(multistep, multistep_lr)     \
  X(exponential, exponential_lr) \
  X(cosine, cosine_lr)           \
  X(polynomial, polynomial_lr)   \
  X(one_cycle, one_cycle_lr)     \
  X(plateau, plateau_lr)

#define NUMBER(name, f)    KIND_##name,
#define WORD(name, f)      #name
#define NEXT_WORD(name, f) "|" #name
#define FUNCTION(name, f)  f,
enum { SCHEDULES(NUMBER, NUMBER) };
static double (*const schedules[])(const ct_schedule_opts_t *s,
                                   const point_t *p) = {SCHEDULES(FUNCTION, FUNCTION)};

/* ---- options ---- */

const ct_opt_t ct_schedule_rows[] = {
    CT_OPT_CHOICE(ct_schedule_opts_t, kind, "constant", SCHEDULES(WORD, NEXT_WORD),
                  "learning-rate schedule after the warm-up"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, warmup_epochs, "0", 0, 1e6,
                  "epochs of linear warm-up to optim.lr"),
    CT_OPT_DOUBLE(
        ct_schedule_opts_t, step_epochs, "30", 1e-6, 1e18,
        "step: the learning rate is multiplied by gamma each time after this many epochs"),
    CT_OPT_DOUBLE(
        ct_schedule_opts_t, gamma, "0.1", 0, 1e18,
        "step, multistep, exponential (each epoch), plateau: factor of the learning rate"),
    CT_OPT_DOUBLES(ct_schedule_opts_t, milestones, "",
                   "multistep: epochs, counted from the end of the warm-up, at which the learning "
                   "rate is multiplied by gamma"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, min_lr, "0", 0, 1e18,
                  "cosine, polynomial: learning rate at the end of the run; plateau: lower limit"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, power, "1", 0, 1e18, "polynomial: exponent"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, pct_start, "0.3", 0, 1,
                  "one_cycle: fraction of the run in which the learning rate grows to optim.lr"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, div_factor, "25", 1e-6, 1e18,
                  "one_cycle: the learning rate starts at optim.lr / div_factor"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, final_div_factor, "1e4", 1e-6, 1e18,
                  "one_cycle: the learning rate ends at optim.lr / div_factor / final_div_factor"),
    CT_OPT_BOOL(ct_schedule_opts_t, cycle_momentum, "true",
                "one_cycle: momentum (or beta1) goes from max_momentum to base_momentum and back"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, base_momentum, "0.85", 0, 0.999999, "one_cycle"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, max_momentum, "0.95", 0, 0.999999, "one_cycle"),
    CT_OPT_INT(ct_schedule_opts_t, patience, "10", 0, 1e18,
               "plateau: evaluations without a better loss before the learning rate is multiplied "
               "by gamma"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, threshold, "1e-4", 0, 1,
                  "plateau: relative decrease of the loss that counts as better"),
    CT_OPT_BOOL(ct_schedule_opts_t, scale_lr, "false",
                "multiply the learning rate by global batch / base_batch"),
    CT_OPT_INT(ct_schedule_opts_t, base_batch, "256", 1, 1e18,
               "scale_lr: global batch size for which optim.lr is meant, in samples"),
    CT_OPT_END};

enum {
  CYCLE = CT__OPTIM_KIND(KIND_one_cycle),
  PLATEAU = CT__OPTIM_KIND(KIND_plateau),
  STEPS = CT__OPTIM_KIND(KIND_step) | CT__OPTIM_KIND(KIND_multistep) |
          CT__OPTIM_KIND(KIND_exponential) | PLATEAU,
  LOWEST = CT__OPTIM_KIND(KIND_cosine) | CT__OPTIM_KIND(KIND_polynomial) | PLATEAU
};

static const ct__optim_only_t only[] = {{"step_epochs", CT__OPTIM_KIND(KIND_step)},
                                        {"gamma", STEPS},
                                        {"milestones", CT__OPTIM_KIND(KIND_multistep)},
                                        {"min_lr", LOWEST},
                                        {"power", CT__OPTIM_KIND(KIND_polynomial)},
                                        {"pct_start", CYCLE},
                                        {"div_factor", CYCLE},
                                        {"final_div_factor", CYCLE},
                                        {"cycle_momentum", CYCLE},
                                        {"base_momentum", CYCLE},
                                        {"max_momentum", CYCLE},
                                        {"patience", PLATEAU},
                                        {"threshold", PLATEAU},
                                        {NULL, 0}};

int ct_schedule_has_key(const char *kind, const char *key)
{
  return ct__optim_has_key(ct_schedule_rows, only, kind, key);
}

int ct_schedule_check(const ct_schedule_opts_t *s)
{
  int rc = CT_OK;
  CT_TRY(ct__optim_check_only(ct_schedule_rows, s, only, s->kind, "schedule"));
  if (s->kind == KIND_multistep && !s->milestones.n)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind multistep needs schedule.milestones, such as [30, 60]");
  for (int i = 0; i < s->milestones.n; i++)
    if (!(s->milestones.v[i] >= 0))
      CT_FAIL(CT_ERR_USAGE, "schedule.milestones must be epochs of at least 0, not %g",
              s->milestones.v[i]);
  if (s->kind == KIND_plateau && s->gamma >= 1)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind plateau needs a schedule.gamma below 1, not %g", s->gamma);
out:
  return rc;
}

int ct_schedule_needs_loss(const ct_schedule_opts_t *s)
{
  return s->kind == KIND_plateau;
}

/* ---- a step ---- */

static int64_t warmup_steps(const ct_schedule_point_t *at)
{
  return llround(at->opts->warmup_epochs * (double)at->steps_per_epoch);
}

static point_t point_of(const ct_schedule_point_t *at, double lr)
{
  int64_t warmup = warmup_steps(at);
  return (point_t){.lr = lr,
                   .t = (double)(at->step > warmup ? at->step - warmup : 0),
                   .length = (double)(at->total_steps - warmup),
                   .steps_per_epoch = (double)at->steps_per_epoch,
                   .plateau = at->plateau};
}

double ct_schedule_lr(const ct_schedule_point_t *at, double lr)
{
  const ct_schedule_opts_t *s = at->opts;
  if (!s) return at->times > 0 ? lr * at->times : lr;
  if (s->scale_lr) lr *= (double)at->batch / (double)s->base_batch;
  int64_t warmup = warmup_steps(at);
  if (at->step < warmup) return lr * (double)(at->step + 1) / (double)warmup;
  point_t p = point_of(at, lr);
  return schedules[s->kind](s, &p);
}

double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum)
{
  const ct_schedule_opts_t *s = at->opts;
  if (!s || s->kind != KIND_one_cycle || !s->cycle_momentum || momentum == 0) return momentum;
  point_t p = point_of(at, 0);
  return two_phases(s, &p, s->max_momentum, s->base_momentum, s->max_momentum);
}
