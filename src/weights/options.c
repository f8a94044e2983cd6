/* The option table of the section `init`. */
#include "base/ct_err.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

const ct_opt_t ct_init_rows[] = {
    CT_OPT_PATH(ct_init_opts_t, from, "", NULL,
                "weights to begin from: a checkpoint, a safetensors or .pth file, or a run "
                "directory, whose best, else newest checkpoint is taken; empty: weights are "
                "drawn"),
    CT_OPT_TEXT(ct_init_opts_t, key, "",
                "of a nested .pth file, which of its dicts, such as model or state.ema; empty: "
                "the one that can be meant"),
    CT_OPT_BOOL(ct_init_opts_t, strict, "true",
                "names and shapes have to be the model's; false: what fits is taken, and what "
                "does not is told"),
    CT_OPT_TEXT(ct_init_opts_t, strip_prefix, "",
                "beginning of the file's names that is left out, such as module."),
    CT_OPT_TEXTS(ct_init_opts_t, rename, "",
                 "rules OLD=NEW for the file's names, one after the other; each * is any text, "
                 "the same on both sides; without * a tensor or all of a layer"),
    CT_OPT_TEXTS(ct_init_opts_t, replace, "",
                 "layers or patterns of parameters that begin with fresh weights, such as fc"),
    CT_OPT_END};

int ct_init_check(const ct_init_opts_t *o)
{
  int rc = CT_OK;
  const char *alone = o->replace.n         ? "replace"
                      : o->rename.n        ? "rename"
                      : o->strip_prefix[0] ? "strip_prefix"
                      : o->key[0]          ? "key"
                                           : NULL;
  if (alone && !o->from[0])
    CT_FAIL(CT_ERR_USAGE, "init.%s is of no use without init.from, the weights to begin from",
            alone);
  CT_TRY(ct_names_check(&o->rename, "init.rename"));
out:
  return rc;
}
