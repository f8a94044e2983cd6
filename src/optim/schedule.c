/* Learning-rate schedules as pure functions of the step: a resumed run has the same learning rates
 * as an uninterrupted one, at any number of ranks. */
#include "optim/ct_optim.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "optim/kinds.h"

/** Position of a step after the warm-up. */
typedef struct point {
  double lr;     /**< the rate at the end of the warm-up */
  double t;      /**< steps since the begin of the schedule: the end of the warm-up */
  double length; /**< steps from there to the end of the schedule or of the run */
  double warmup; /**< steps of the warm-up */
  double steps_per_epoch;
  double plateau;
} point_t;

/* Returns whole steps of a length in units, at least 1. */
static double whole_steps(const ct_schedule_opts_t *s, const point_t *p, double units)
{
  return fmax(round(ct_schedule_steps(s, units, (int64_t)p->steps_per_epoch)), 1);
}

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
  double period = s->step_size > 0 ? whole_steps(s, p, s->step_size)
                                   : fmax(round(s->step_epochs * p->steps_per_epoch), 1);
  return p->lr * pow(s->gamma, floor(p->t / period));
}

/* MultiStepLR */
static double multistep_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  int passed = 0;
  for (int i = 0; i < s->milestones.n; i++)
    passed += p->t >= round(ct_schedule_steps(s, s->milestones.v[i], (int64_t)p->steps_per_epoch));
  return p->lr * pow(s->gamma, passed);
}

/* ExponentialLR, stepped at the end of each epoch or step */
static double exponential_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return p->lr * pow(s->gamma, floor(p->t / whole_steps(s, p, 1)));
}

/* CosineAnnealingLR, closed form */
static double cosine_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return s->min_lr + (p->lr - s->min_lr) * (1 + cos(M_PI * schedule_progress(p))) / 2;
}

/* CosineAnnealingWarmRestarts */
static double cosine_restarts_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  double period = whole_steps(s, p, s->period), t = p->t;
  if (s->period_factor == 1) t = fmod(t, period);
  while (t >= period) {
    t -= period;
    period *= (double)s->period_factor;
  }
  return s->min_lr + (p->lr - s->min_lr) * (1 + cos(M_PI * t / period)) / 2;
}

/* LinearLR, closed form */
static double linear_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  return p->lr * (s->start_factor + (s->end_factor - s->start_factor) * schedule_progress(p));
}

/* get_inverse_sqrt_schedule of Hugging Face's transformers */
static double inverse_sqrt_lr(const ct_schedule_opts_t *s, const point_t *p)
{
  (void)s;
  double warmup = fmax(p->warmup, 1);
  return p->lr * sqrt(warmup / (p->t + warmup));
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
#define SCHEDULES(FIRST, X)              \
  FIRST(constant, constant_lr)           \
  X(step, step_lr)                       \
  X(multistep, multistep_lr)             \
  X(exponential, exponential_lr)         \
  X(cosine, cosine_lr)                   \
  X(polynomial, polynomial_lr)           \
  X(one_cycle, one_cycle_lr)             \
  X(plateau, plateau_lr)                 \
  X(cosine_restarts, cosine_restarts_lr) \
  X(linear, linear_lr)                   \
  X(inverse_sqrt, inverse_sqrt_lr)

#define NUMBER(name, f)    KIND_##name,
#define WORD(name, f)      #name
#define NEXT_WORD(name, f) "|" #name
#define FUNCTION(name, f)  f,
enum { SCHEDULES(NUMBER, NUMBER) };
enum { UNIT_EPOCHS, UNIT_STEPS, UNIT_TOKENS }; /* the words of schedule.unit */
static double (*const schedules[])(const ct_schedule_opts_t *s,
                                   const point_t *p) = {SCHEDULES(FUNCTION, FUNCTION)};

/* ---- options ---- */

const ct_opt_t ct_schedule_rows[] = {
    CT_OPT_CHOICE(ct_schedule_opts_t, kind, "constant", SCHEDULES(WORD, NEXT_WORD),
                  "learning-rate schedule after the warm-up"),
    CT_OPT_CHOICE(ct_schedule_opts_t, unit, "epochs", "epochs|steps|tokens",
                  "unit of warmup, length, step_size, milestones, period, and of the changes of "
                  "exponential; tokens: are converted to steps of data.batch samples of "
                  "data.context"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, warmup, "0", 0, 1e18, "units of linear warm-up to optim.lr"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, warmup_epochs, "0", 0, 1e6,
                  "the same in epochs, whatever the unit"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, warmup_factor, "0", 0, 1,
                  "the warm-up starts at this fraction of optim.lr; 0: at 1 / (steps of warm-up)"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, length, "0", 0, 1e18,
                  "cosine, polynomial, one_cycle, linear: units from the end of the warm-up to the "
                  "end of the schedule, which then keeps its last learning rate; 0: the rest of "
                  "the run.  In a list: units until the next schedule"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, step_size, "0", 0, 1e18,
                  "step: the learning rate is multiplied by gamma each time after this many units; "
                  "0: as step_epochs says"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, step_epochs, "30", 1e-6, 1e18,
                  "step: the same in epochs, whatever the unit"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, gamma, "0.1", 0, 1e18,
                  "step, multistep, exponential (each unit), plateau: factor of the learning rate"),
    CT_OPT_DOUBLES(ct_schedule_opts_t, milestones, "",
                   "multistep: units, counted from the end of the warm-up, at which the learning "
                   "rate is multiplied by gamma"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, min_lr, "0", 0, 1e18,
                  "cosine, cosine_restarts, polynomial: learning rate at the end of the run or "
                  "period; plateau: lower limit"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, period, "10", 1e-6, 1e18,
                  "cosine_restarts: units of the first period (T_0)"),
    CT_OPT_INT(
        ct_schedule_opts_t, period_factor, "1", 1, 1000000,
        "cosine_restarts: each period is this many times as long as the one before (T_mult)"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, start_factor, "0.3333333333333333", 0, 1e18,
                  "linear: the learning rate starts at this multiple of optim.lr"),
    CT_OPT_DOUBLE(ct_schedule_opts_t, end_factor, "1", 0, 1e18,
                  "linear: and ends at this multiple"),
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
    CT_OPT_NODE(
        ct_schedule_opts_t, list,
        "schedules one after another, after the warm-up: list of maps with these keys, such "
        "as [{kind: linear, length: 5}, {kind: cosine}]; each but the last has a length"),
    CT_OPT_END};

#define KIND(name) CT__OPTIM_KIND(KIND_##name)

enum {
  CYCLE = KIND(one_cycle),
  PLATEAU = KIND(plateau),
  STEPS = KIND(step) | KIND(multistep) | KIND(exponential) | PLATEAU,
  ENDS = KIND(cosine) | KIND(polynomial) | CYCLE | KIND(linear),
  LOWEST = KIND(cosine) | KIND(cosine_restarts) | KIND(polynomial) | PLATEAU
};

static const ct__optim_only_t only[] = {{"length", ENDS},
                                        {"step_size", KIND(step)},
                                        {"step_epochs", KIND(step)},
                                        {"gamma", STEPS},
                                        {"milestones", KIND(multistep)},
                                        {"min_lr", LOWEST},
                                        {"period", KIND(cosine_restarts)},
                                        {"period_factor", KIND(cosine_restarts)},
                                        {"start_factor", KIND(linear)},
                                        {"end_factor", KIND(linear)},
                                        {"power", KIND(polynomial)},
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

static int check_one(const ct_schedule_opts_t *s, const ct__optim_only_t *rows)
{
  int rc = CT_OK;
  CT_TRY(ct__optim_check_only(ct_schedule_rows, s, rows, s->kind, "schedule"));
  if (s->kind == KIND_multistep && !s->milestones.n)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind multistep needs schedule.milestones, such as [30, 60]");
  for (int i = 0; i < s->milestones.n; i++)
    if (!(s->milestones.v[i] >= 0))
      CT_FAIL(CT_ERR_USAGE, "schedule.milestones must be %s of at least 0, not %g",
              s->unit == UNIT_STEPS ? "steps" : "epochs", s->milestones.v[i]);
  if (s->kind == KIND_plateau && s->gamma >= 1)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind plateau needs a schedule.gamma below 1, not %g", s->gamma);
  if (s->warmup > 0 && s->warmup_epochs > 0)
    CT_FAIL(CT_ERR_USAGE, "schedule.warmup and schedule.warmup_epochs are both given");
  if (s->warmup_factor > 0 && s->warmup == 0 && s->warmup_epochs == 0)
    CT_FAIL(CT_ERR_USAGE, "schedule.warmup_factor is given, but schedule.warmup is 0");
out:
  return rc;
}

/* Checks a schedule of a list: there all kinds have `length`; some options belong to the list. */
static int check_part(const ct_schedule_opts_t *s, int last)
{
  int rc = CT_OK;
  CT_TRY(check_one(s, only + 1));
  if (s->kind == KIND_plateau) CT_FAIL(CT_ERR_USAGE, "kind plateau is not possible in a list");
  if (s->warmup > 0 || s->warmup_epochs > 0 || s->scale_lr || s->list)
    CT_FAIL(CT_ERR_USAGE, "warm-up, scale_lr and list belong to section schedule itself");
  if (!last && s->length == 0) CT_FAIL(CT_ERR_USAGE, "length is missing: another schedule follows");
out:
  return rc;
}

int ct_schedule_check(const ct_schedule_opts_t *s)
{
  int rc = CT_OK;
  CT_TRY(check_one(s, only));
  if (s->list && s->kind != KIND_constant)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind and schedule.list are both given");
  for (int i = 0; i < s->parts; i++) {
    rc = check_part(&s->part[i], i == s->parts - 1);
    if (rc != CT_OK) return ct_err_prefix(rc, "schedule.list, schedule %d: ", i + 1);
  }
out:
  return rc;
}

int ct_schedule_has_momentum(const ct_schedule_opts_t *s)
{
  int has = s->kind == KIND_one_cycle && s->cycle_momentum;
  for (int i = 0; i < s->parts; i++)
    has |= ct_schedule_has_momentum(&s->part[i]);
  return has;
}

int ct_schedule_needs_loss(const ct_schedule_opts_t *s)
{
  return s->kind == KIND_plateau;
}

/* ---- a list ---- */

int ct_schedule_read(ct_schedule_opts_t *s, const char *where)
{
  int rc = CT_OK;
  if (!s->list) return CT_OK;
  int n = s->list->kind == CT_YAML_LIST ? (int)ct_yaml_count(s->list) : 0;
  if (!n) {
    rc = ct_err_set(
        CT_ERR_USAGE, __FILE__, __LINE__,
        "schedule.list: expected a list such as [{kind: linear, length: 5}, {kind: cosine}]");
    return ct_err_location(rc, ct_yaml_file(s->list, where), s->list->line);
  }
  s->part = ct_mem_array(n, sizeof *s->part, "schedules");
  CT_TRY(s->part ? CT_OK : CT_ERR_NOMEM);
  for (const ct_yaml_t *item = s->list->child; item; item = item->next) {
    ct_schedule_opts_t *part = &s->part[s->parts++];
    CT_TRY(ct_opt_defaults(ct_schedule_rows, part));
    part->unit = s->unit;
    CT_TRY(ct_opt_read(ct_schedule_rows, part, item, where, "schedule.list", NULL));
  }
out:
  return rc;
}

void ct_schedule_clear(ct_schedule_opts_t *s)
{
  for (int i = 0; i < s->parts; i++)
    ct_opt_clear(ct_schedule_rows, &s->part[i]);
  ct_mem_free(s->part);
  s->part = NULL;
  s->parts = 0;
}

/* ---- a step ---- */

int ct_schedule_take_tokens(ct_schedule_opts_t *s, int64_t tokens)
{
  int rc = CT_OK;
  double each = 1 / (double)tokens;
  if (s->unit != UNIT_TOKENS) return CT_OK;
  if (tokens == 0)
    CT_FAIL(CT_ERR_USAGE, "schedule.unit is tokens, but samples are not windows of tokens "
                          "(data.context)");
  if (s->list)
    CT_FAIL(CT_ERR_USAGE, "schedule.unit is tokens: a list of schedules counts in steps or epochs");
  if (schedules[s->kind] == exponential_lr)
    CT_FAIL(CT_ERR_USAGE, "schedule.unit is tokens: exponential counts in steps or epochs");
  s->unit = UNIT_STEPS;
  s->warmup = round(s->warmup * each);
  s->length = round(s->length * each);
  s->step_size = round(s->step_size * each);
  if (schedules[s->kind] == cosine_restarts_lr) s->period = fmax(round(s->period * each), 1);
  for (int i = 0; i < s->milestones.n; i++)
    s->milestones.v[i] = round(s->milestones.v[i] * each);
out:
  return rc;
}

double ct_schedule_steps(const ct_schedule_opts_t *s, double units, int64_t steps_per_epoch)
{
  return s->unit == UNIT_STEPS ? units : units * (double)steps_per_epoch;
}

int64_t ct_schedule_warmup(const ct_schedule_opts_t *s, int64_t steps_per_epoch)
{
  if (s->warmup > 0) return llround(ct_schedule_steps(s, s->warmup, steps_per_epoch));
  return llround(s->warmup_epochs * (double)steps_per_epoch);
}

/* Returns the position in the schedule after the warm-up; *s: the schedule, one of its list. */
static point_t point_of(const ct_schedule_point_t *at, double lr, const ct_schedule_opts_t **s)
{
  int64_t warmup = ct_schedule_warmup(at->opts, at->steps_per_epoch);
  point_t p = {.lr = lr,
               .t = (double)(at->step > warmup ? at->step - warmup : 0),
               .length = (double)(at->total_steps - warmup),
               .warmup = (double)warmup,
               .steps_per_epoch = (double)at->steps_per_epoch,
               .plateau = at->plateau};
  *s = at->opts;
  for (int i = 0; i < at->opts->parts; i++) {
    *s = &at->opts->part[i];
    double length = (*s)->length > 0 ? whole_steps(*s, &p, (*s)->length) : p.length;
    if (p.t < length || i == at->opts->parts - 1) break;
    p.t -= length;
    p.length -= length;
  }
  if ((*s)->length > 0) p.length = whole_steps(*s, &p, (*s)->length);
  return p;
}

double ct_schedule_lr(const ct_schedule_point_t *at, double lr)
{
  const ct_schedule_opts_t *s = at->opts;
  if (!s) return at->times > 0 ? lr * at->times : lr;
  if (s->scale_lr) lr *= (double)at->batch / (double)s->base_batch;
  int64_t warmup = ct_schedule_warmup(s, at->steps_per_epoch);
  double t = (double)at->step, from = s->warmup_factor;
  if (at->step < warmup && from > 0) return lr * (from + (1 - from) * t / (double)warmup);
  if (at->step < warmup) return lr * (t + 1) / (double)warmup;
  point_t p = point_of(at, lr, &s);
  return schedules[s->kind](s, &p);
}

double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum)
{
  const ct_schedule_opts_t *s = at->opts;
  if (!s || momentum == 0) return momentum;
  point_t p = point_of(at, 0, &s);
  if (s->kind != KIND_one_cycle || !s->cycle_momentum) return momentum;
  return two_phases(s, &p, s->max_momentum, s->base_momentum, s->max_momentum);
}
