/* The configuration's part of `train --help`, from the same tables that read it. */
#include "app/config_parts.h"
#include "base/ct_err.h"
#include "model/ct_family.h"

static int models_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\nModel families (model.family):\n"));
  for (const ct_family_t *const *f = ct_families; *f; f++)
    CT_TRY(ct_str_add(out, "  %-10s %s%s%s\n", (*f)->name, (*f)->help,
                      (*f)->depths[0] ? "; depth " : "", (*f)->depths));
  CT_TRY(ct_str_add(
      out,
      "\nLayer kinds; model.layers is a list of `KIND: {options}`, each with `name: NAME` and\n"
      "`from: NAME` or `from: [NAME, NAME]` if it does not read the layer before it:\n"));
  for (const ct_layer_ops_t *const *k = ct_layer_kinds; *k; k++) {
    CT_TRY(ct_str_add(out, " %s: %s\n", (*k)->kind, (*k)->help));
    CT_TRY(ct_opt_help((*k)->opts, "", out));
  }
out:
  return rc;
}

int ct_config_help(ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "Configuration (YAML; `--set section.key=value` sets any key):\n"));
  CT_TRY(ct_opt_help(ct__config_rows, "", out));
  for (const ct_section_t *s = ct__config_sections; s->name; s++) {
    CT_TRY(ct_str_add(out, "\n%s: %s\n", s->name, s->help));
    CT_TRY(ct_opt_help(s->rows, s->name, out));
  }
  CT_TRY(ct_str_add(out, "\nTransforms:\n"));
  CT_TRY(ct_transforms_help(out));
  CT_TRY(models_help(out));
out:
  return rc;
}
