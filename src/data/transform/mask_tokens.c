/* mask_tokens: the corruption of masked language models (Devlin et al., "BERT", NAACL 2019; ESM-2
 * and DataCollatorForLanguageModeling of Hugging Face's transformers do the same).  Each place has
 * its own random numbers, so the labels are found without keeping the original tokens. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_rng.h"
#include "data/transform/transforms.h"

enum { SPECIAL = 64 };

typedef struct mask_tokens {
  int64_t mask, vocab;
  double p, masked, random;
  ct_opt_doubles_t special;
  int64_t id[SPECIAL]; /* option special */
  int64_t pad;
} mask_tokens_t;
static const ct_opt_t mask_tokens_rows[] = {
    CT_OPT_INT(mask_tokens_t, mask, NULL, 0, 1 << 24, "id of the mask token"),
    CT_OPT_DOUBLE(mask_tokens_t, p, "0.15", 0, 1, "probability that a token is selected"),
    CT_OPT_DOUBLE(mask_tokens_t, masked, "0.8", 0, 1,
                  "part of the selected tokens that become the mask token"),
    CT_OPT_DOUBLE(mask_tokens_t, random, "0.1", 0, 1,
                  "part of the selected tokens that become any token; the others stay as they are"),
    CT_OPT_DOUBLES(mask_tokens_t, special, "", "ids that are never selected, besides padding"),
    CT_OPT_INT(mask_tokens_t, vocab, "0", 0, 1 << 24,
               "ids from which random tokens are drawn; 0: the attribute vocab of the tokens"),
    CT_OPT_END};

static int plan_mask_tokens(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  mask_tokens_t *o = s->o;
  if (at->vocab < 0)
    return ct__transform_refuse(at, "is of windows of tokens: data.context is not set");
  if (o->special.n > SPECIAL)
    return ct__transform_refuse(at, "special: %d ids, expected at most %d", o->special.n, SPECIAL);
  CT_TRY(ct__transform_whole(at, "special", &o->special, o->id));
  if (o->masked + o->random > 1)
    return ct__transform_refuse(at, "masked and random are %g and %g: their sum is more than 1",
                                o->masked, o->random);
  if (o->vocab == 0) o->vocab = at->vocab;
  if (o->vocab == 0)
    return ct__transform_refuse(at, "vocab is not set, and the tokens have no attribute 'vocab'");
  if (o->mask >= o->vocab)
    return ct__transform_refuse(at, "mask is %lld, expected an id below vocab, %lld",
                                (long long)o->mask, (long long)o->vocab);
  o->pad = at->pad;
out:
  return rc;
}

static int is_selected(const mask_tokens_t *o, int64_t id, uint32_t drawn)
{
  int is_special = id == o->pad;
  for (int i = 0; i < o->special.n; i++)
    is_special |= id == o->id[i];
  return !is_special && drawn * 0x1p-32 < o->p;
}

static void mask_tokens(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                        float *scratch)
{
  const mask_tokens_t *o = s->o;
  int64_t n = ct_shape_sample(&s->in);
  (void)in;
  (void)scratch;
  for (int64_t i = 0; i < n; i++) {
    uint32_t u[4];
    ct_rng_block(d->key, CT_RNG_TRANSFORM, (uint32_t)i, d->id, u);
    if (!is_selected(o, (int64_t)out[i], u[0])) continue;
    double part = u[1] * 0x1p-32;
    if (part < o->masked)
      out[i] = (float)o->mask;
    else if (part < o->masked + o->random)
      out[i] = (float)((uint64_t)u[2] * (uint64_t)o->vocab >> 32);
  }
}

const ct__transform_kind_t ct__transform_mask_tokens = {
    .name = "mask_tokens",
    .help = "masked language models: replaces some tokens, which are then the only ones that are "
            "predicted; in evaluation too, always the same ones",
    .flags = CT__TRANSFORM_TOKENS | CT__TRANSFORM_IN_PLACE | CT__TRANSFORM_COLOUR |
             CT__TRANSFORM_ANY_SHAPE,
    .size = sizeof(mask_tokens_t),
    .rows = mask_tokens_rows,
    .plan = plan_mask_tokens,
    .apply = mask_tokens};

int ct__transforms_mask(const ct_yaml_t *list)
{
  const ct_yaml_t *n = list && list->kind == CT_YAML_LIST ? list->child : NULL;
  for (; n; n = n->next) {
    const char *name = n->kind == CT_YAML_MAP && n->child ? n->child->key : n->text;
    if (name && strcmp(name, ct__transform_mask_tokens.name) == 0) return 1;
  }
  return 0;
}

void ct__transforms_mask_labels(const ct_transforms_t *t, uint64_t seed, int64_t epoch, int64_t id,
                                int64_t n, int32_t ignored, int32_t *labels)
{
  for (int k = 0; t && k < t->steps; k++) {
    const ct__transform_t *s = &t->step[k];
    if (s->kind != &ct__transform_mask_tokens) continue;
    ct__draws_t d = ct__draws(seed, epoch, s->position, id);
    for (int64_t i = 0; i < n; i++) {
      uint32_t u[4];
      ct_rng_block(d.key, CT_RNG_TRANSFORM, (uint32_t)i, d.id, u);
      if (!is_selected(s->o, labels[i], u[0])) labels[i] = ignored;
    }
  }
}
