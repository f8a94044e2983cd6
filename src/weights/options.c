/* The option table of the section `init`. */
#include "base/ct_err.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

const ct_opt_t ct_init_rows[] = {
    CT_OPT_PATH(ct_init_opts_t, from, "", NULL,
                "initial weights: a checkpoint, a safetensors or .pth file, or a run directory "
                "(its best checkpoint, else the newest); empty: random initialization"),
    CT_OPT_TEXT(ct_init_opts_t, key, "",
                "which dict of a nested .pth file to load, such as model or state.ema; empty: the "
                "one that matches the model"),
    CT_OPT_BOOL(ct_init_opts_t, strict, "true",
                "true: names and shapes must match the model; false: load what matches and log "
                "what does not"),
    CT_OPT_TEXT(ct_init_opts_t, strip_prefix, "",
                "prefix to strip from the file's tensor names, such as module."),
    CT_OPT_TEXTS(ct_init_opts_t, rename, "",
                 "rules OLD=NEW to rename the file's tensors, applied in order; each * matches any "
                 "text, the same on both sides; without * a rule means a tensor or a whole layer"),
    CT_OPT_TEXTS(ct_init_opts_t, replace, "",
                 "layers or patterns of parameters to initialize randomly instead, such as fc"),
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
