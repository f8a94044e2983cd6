/* Helpers of all kinds of transforms: error messages, and checks of numbers that the option tables
 * cannot express. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/ct_err.h"
#include "data/transform/transforms.h"

int ct__transform_refuse(const ct__transform_location_t *at, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int rc = ct_err_vset(CT_ERR_USAGE, __FILE__, __LINE__, fmt, args);
  va_end(args);
  ct_err_prefix(rc, "%s%s%s: ", at->key, at->name ? "." : "", at->name ? at->name : "");
  return ct_err_location(rc, at->where, at->line);
}

int ct__transform_whole(const ct__transform_location_t *at, const char *option,
                        const ct_opt_doubles_t *v, int64_t out[])
{
  for (int i = 0; i < v->n; i++) {
    if (v->v[i] != floor(v->v[i]))
      return ct__transform_refuse(at, "%s: %g must be an integer", option, v->v[i]);
    out[i] = (int64_t)v->v[i];
  }
  return CT_OK;
}

int ct__transform_range(const ct__transform_location_t *at, const char *option,
                        const ct_opt_doubles_t *v, double out[2])
{
  if (v->n != 2) return ct__transform_refuse(at, "%s: expected [min, max]", option);
  if (v->v[0] > v->v[1])
    return ct__transform_refuse(at, "%s: min %g is more than max %g", option, v->v[0], v->v[1]);
  memcpy(out, v->v, 2 * sizeof *out);
  return CT_OK;
}

ct__image_size_t ct__image_size(const ct_shape_t *s)
{
  return (ct__image_size_t){s->dim[1], s->dim[2], s->dim[3]};
}
