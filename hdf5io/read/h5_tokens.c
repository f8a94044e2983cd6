/* Arrays of tokens, as `pack --tokens` writes them: integers along one dim. */
#include "hdf5io/read/h5_tokens.h"

#include "base/ct_err.h"
#include "hdf5io/h5_glue.h"

/* Reads an attribute of the array; *out stays as it is if the attribute is missing. */
static int read_number(const ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec,
                       const char *name, int64_t least, int64_t most, int64_t *out)
{
  int rc = CT_OK;
  char kind[60];
  if (!ct__h5_has_attr(array, name)) return CT_OK;
  if (!ct__h5_attr_int(array, name, out))
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute '%s' of array '%s' is %s, expected one integer", s->path,
            name, spec->input, ct__h5_attr_kind(array, name, kind, sizeof kind));
  if (*out < least || *out > most)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute '%s' of array '%s' is %lld, expected %lld to %lld",
            s->path, name, spec->input, (long long)*out, (long long)least, (long long)most);
out:
  return rc;
}

int ct__h5_tokens_describe(ct__h5_shard_t *s, hid_t file, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  s->eot = s->pad = -1;
  s->documents = H5Lexists(file, "document_starts", H5P_DEFAULT) > 0;
  if (s->ndim > 2 || s->at.lead)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' has %d dims, expected one, of tokens one after another, or two, of "
            "padded rows, because of data.context",
            s->path, spec->input, s->ndim);
  if (s->x.dtype == CT_F32 || s->x.dtype == CT_F64)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' holds numbers read as %s, expected integers: ids of "
            "tokens, of up to 32 bits if they have no sign",
            s->path, spec->input, ct_dtype_name(s->x.dtype));
  CT_TRY(read_number(s, array, spec, "vocab", 1, CT_CLASSES_MAX, &s->classes));
  CT_TRY(read_number(s, array, spec, "eot", 0, CT_CLASSES_MAX - 1, &s->eot));
  CT_TRY(read_number(s, array, spec, "pad", 0, CT_CLASSES_MAX - 1, &s->pad));
  CT_TRY(read_number(s, array, spec, "bytes", 1, INT64_MAX, &s->text_bytes));
  if (!s->text_bytes && s->x.dtype == CT_U8 && s->ndim == 1) s->text_bytes = s->count;
out:
  return rc;
}
