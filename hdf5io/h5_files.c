/* Which files of a data set are open.  There may be thousands, and each takes memory and a
 * descriptor: the one whose use is the longest ago makes room. */
#include "hdf5io/h5_files.h"

#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct__h5_files_make(ct__h5_files_t *f, int shards)
{
  int n = shards < CT__H5_FILES_OPEN ? shards : CT__H5_FILES_OPEN;
  f->v = ct_mem_array(n, sizeof *f->v, "the opened files");
  if (!f->v) return CT_ERR_NOMEM;
  f->n = n;
  for (int i = 0; i < f->n; i++)
    f->v[i].shard = -1;
  return CT_OK;
}

static void shut(ct__h5_file_t *f)
{
  if (f->shard < 0) return;
  ct__h5_array_shut(&f->array);
  ct__h5_drop(f->file);
  f->shard = -1;
}

static ct__h5_file_t *find(ct__h5_files_t *f, int shard)
{
  for (int i = 0; i < f->n; i++)
    if (f->v[i].shard == shard) return &f->v[i];
  return NULL;
}

/* An empty place, or that of the file whose use is the longest ago. */
static ct__h5_file_t *make_place(ct__h5_files_t *f)
{
  ct__h5_file_t *oldest = &f->v[0];
  for (int i = 0; i < f->n; i++) {
    if (f->v[i].shard < 0) return &f->v[i];
    if (f->v[i].used < oldest->used) oldest = &f->v[i];
  }
  shut(oldest);
  return oldest;
}

int ct__h5_files_open(ct__h5_files_t *f, int shard, const char *path, ct__h5_file_t **out)
{
  int rc = CT_OK;
  hid_t file;
  ct_beat_file(path); /* until HDF5's lock is given back */
  *out = find(f, shard);
  if (!*out) {
    CT_TRY(ct__h5_open(path, &file));
    *out = make_place(f);
    **out = (ct__h5_file_t){.shard = shard, .file = file, .array = {.id = -1}};
  }
  (*out)->used = ++f->time;
out:
  return rc;
}

void ct__h5_files_shut(ct__h5_files_t *f, int shard)
{
  ct__h5_file_t *file = find(f, shard);
  if (file) shut(file);
}

void ct__h5_files_clear(ct__h5_files_t *f)
{
  for (int i = 0; i < f->n; i++)
    shut(&f->v[i]);
  ct_mem_free(f->v);
  *f = (ct__h5_files_t){0};
}
