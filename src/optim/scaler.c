/* Dynamic loss scaling: small gradients underflow in fp16, so the loss is scaled up until gradients
 * overflow now and then; a step with an overflow is skipped. */
#include "optim/ct_optim.h"

#include <math.h>

/* Constants of torch.amp.GradScaler: init_scale, growth_factor, backoff_factor, growth_interval. */
#define FIRST_SCALE 65536.0
#define GROWTH      2.0
#define BACKOFF     0.5
#define INTERVAL    2000

void ct_scaler_init(ct_scaler_t *s, int on)
{
  *s = (ct_scaler_t){.on = on, .scale = FIRST_SCALE};
}

double ct_scaler_scale(const ct_scaler_t *s)
{
  return s->on ? s->scale : 1;
}

/* Keeps the scale a float32, as PyTorch does, that is never infinite. */
void ct_scaler_update(ct_scaler_t *s, int nonfinite)
{
  if (!s->on) return;
  if (nonfinite) {
    s->scale = (float)(s->scale * BACKOFF);
    s->good = 0;
  } else if (++s->good == INTERVAL) {
    if (isfinite((float)(s->scale * GROWTH))) s->scale *= GROWTH;
    s->good = 0;
  }
}
