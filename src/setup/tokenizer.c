/* The tokenizer of a run: `pack --tokens` stores it in each file of tokens, and commands that write
 * text look for it in the run directory. */
#include "setup/ct_setup.h"

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"

int ct_setup_copy_tokenizer(const ct_setup_t *s)
{
  int rc = CT_OK;
  size_t bytes = 0;
  char *blob = NULL, path[CT_PATH_MAX];
  const ct_dataset_t *d = &s->data;
  const char *file = d->info.tokens ? d->ops->file(d->reader, 0) : NULL;
  if (!file) return CT_OK;
  CT_TRY(ct_h5_bytes(file, "tokenizer", &blob, &bytes));
  if (!blob) goto out;
  CT_TRY(ct_path_join(path, sizeof path, s->cfg.run.dir, "tokenizer.blob"));
  CT_TRY(ct_file_write(path, blob, bytes));
out:
  ct_mem_free(blob);
  return rc;
}
