/* Proposes a list for evaluation where val_transforms is missing: the usual replacement of random
 * transforms. */
#include "base/ct_err.h"
#include "data/transform/transforms.h"

/* Returns the step of an item of the list; NULL: the item was folded into a map. */
static const ct__transform_t *step_of(const ct_transforms_t *t, int position)
{
  for (int i = 0; i < t->steps; i++)
    if (t->step[i].kind != &ct__transform_affine && t->step[i].position == position)
      return &t->step[i];
  for (int i = 0; i < t->mixes; i++)
    if (t->mix[i].position == position) return &t->mix[i];
  return NULL;
}

static int add_size(const char *name, int64_t h, int64_t w, ct_str_t *out)
{
  if (h == w) return ct_str_add(out, "{%s: {size: %lld}}", name, (long long)h);
  return ct_str_add(out, "{%s: {size: [%lld, %lld]}}", name, (long long)h, (long long)w);
}

/* Returns 1 for a random step that keeps the size; it is dropped in evaluation. */
static int is_dropped(const ct__transform_t *s)
{
  int random = s && s->kind->flags & CT__TRANSFORM_RANDOM;
  return random && (s->kind->flags & CT__TRANSFORM_MIX || ct_shape_same(&s->in, &s->out));
}

/* 256 and 224 are the sizes of the usual evaluation on ImageNet (torchvision's
 * references/classification). */
static int add_step(const ct__transform_t *s, const ct_yaml_t *item, ct_str_t *out)
{
  int rc = CT_OK;
  if (!s || !(s->kind->flags & CT__TRANSFORM_RANDOM)) return ct_yaml_flow(item, out);
  int64_t h = s->out.dim[2], w = s->out.dim[3];
  if (s->kind->flags & CT__TRANSFORM_RESIZES) {
    CT_TRY(add_size("resize", (h * 256 + 112) / 224, (w * 256 + 112) / 224, out));
    CT_TRY(ct_str_add(out, ", "));
  }
  CT_TRY(add_size("center_crop", h, w, out));
out:
  return rc;
}

int ct__transforms_usual(const ct_yaml_t *list, const ct_transforms_t *trained, ct_str_t *out)
{
  int rc = CT_OK, position = 0, n = 0;
  CT_TRY(ct_str_add(out, "["));
  for (const ct_yaml_t *item = list->child; item; item = item->next) {
    const ct__transform_t *s = step_of(trained, position++);
    if (is_dropped(s)) continue;
    if (n++) CT_TRY(ct_str_add(out, ", "));
    CT_TRY(add_step(s, item, out));
  }
  CT_TRY(ct_str_add(out, "]"));
out:
  return rc;
}
