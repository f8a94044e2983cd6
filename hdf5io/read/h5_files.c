/* Keeps the files of a data set open. There may be thousands, each of which needs memory and a
 * descriptor, so the least recently used file is closed if too many are open. */
#include "hdf5io/read/h5_files.h"

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "hdf5io/read/h5_offset_vfd.h"

static void free_table(ct__h5_files_t *f)
{
  for (int i = 0; f->v && i < f->n; i++)
    ct_mem_free(f->v[i].array);
  ct_mem_free(f->v);
  ct_mem_free(f);
}

int ct__h5_files_make(int files, int arrays, int threads, ct__h5_files_t **out)
{
  int rc = CT_OK;
  ct__h5_files_t *f = *out = ct_mem_alloc(sizeof *f, "the opened files");
  if (!f) return CT_ERR_NOMEM;
  f->most = files < CT__H5_FILES_OPEN ? files : CT__H5_FILES_OPEN;
  f->arrays = arrays;
  f->n = f->most + arrays * threads;
  f->v = ct_mem_array(f->n, sizeof *f->v, "the opened files");
  if (!f->v) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < f->n; i++) {
    f->v[i].shard = -1;
    f->v[i].array = ct_mem_array(arrays, sizeof *f->v[i].array, "the opened files");
    if (!f->v[i].array) CT_TRY(CT_ERR_NOMEM);
  }
out:
  if (rc != CT_OK) {
    free_table(f);
    *out = NULL;
  }
  return rc;
}

int ct__h5_files_join(ct__h5_files_t *f, int *number)
{
  if (f->next == f->arrays)
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "more readers than planned share files");
  *number = f->next++;
  f->users++;
  return CT_OK;
}

static void shut(ct__h5_files_t *all, ct__h5_file_t *f)
{
  if (f->shard < 0) return;
  for (int i = 0; i < all->arrays; i++)
    ct__h5_array_shut(&f->array[i]);
  ct__h5_drop(f->file);
  f->shard = -1;
}

static int is_held(const ct__h5_file_t *f)
{
  return atomic_load_explicit(&f->held, memory_order_acquire) > 0;
}

static ct__h5_file_t *files_find(ct__h5_files_t *f, int shard)
{
  for (int i = 0; i < f->n; i++)
    if (f->v[i].shard == shard && !f->v[i].abandoned) return &f->v[i];
  return NULL;
}

/* Returns an empty entry; closes the least recently used file if too many are open. An entry is
 * always available, since the calling thread holds no file. */
static ct__h5_file_t *new_entry(ct__h5_files_t *f)
{
  ct__h5_file_t *empty = NULL, *oldest = NULL;
  int open = 0;
  for (int i = 0; i < f->n; i++) {
    ct__h5_file_t *file = &f->v[i];
    if (file->abandoned && !is_held(file)) shut(f, file);
    if (file->shard < 0)
      empty = file;
    else if (open++, !is_held(file) && (!oldest || file->used < oldest->used))
      oldest = file;
  }
  if (open < f->most || !oldest) return empty;
  shut(f, oldest);
  return oldest;
}

int ct__h5_files_open(ct__h5_files_t *f, int shard, const char *path, ct__h5_file_t **out)
{
  int rc = CT_OK;
  hid_t file;
  ct_heartbeat_file(path); /* shown by the watch until HDF5's lock is released */
  *out = files_find(f, shard);
  if (!*out) {
    CT_TRY(ct__h5_open(path, &file));
    *out = new_entry(f);
    (*out)->shard = shard;
    (*out)->file = file;
    for (int i = 0; i < f->arrays; i++)
      (*out)->array[i] = (ct__h5_array_t){.id = -1};
    (*out)->abandoned = 0;
  }
  (*out)->used = ++f->time;
out:
  return rc;
}

void ct__h5_file_hold(ct__h5_file_t *f)
{
  atomic_fetch_add_explicit(&f->held, 1, memory_order_relaxed);
}

void ct__h5_file_release(ct__h5_file_t *f)
{
  atomic_fetch_sub_explicit(&f->held, 1, memory_order_release);
}

static void abandon_of(hid_t object)
{
  int *descriptor = NULL;
  hid_t file = object < 0 ? -1 : H5Iget_file_id(object);
  if (file >= 0 && H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) >= 0)
    ct__h5_note_abandon(descriptor);
  ct__h5_drop(file);
}

/* Abandons a shard's file and the file of its array, which is another one if its name is a link. */
void ct__h5_files_abandon(ct__h5_files_t *f, int shard)
{
  ct__h5_file_t *file = files_find(f, shard);
  if (!file) return;
  abandon_of(file->file);
  for (int i = 0; i < f->arrays; i++)
    abandon_of(file->array[i].id);
  file->abandoned = 1;
  if (!is_held(file)) shut(f, file);
}

void ct__h5_files_shut(ct__h5_files_t *f, int shard)
{
  ct__h5_file_t *file = files_find(f, shard);
  if (file) shut(f, file);
}

void ct__h5_files_leave(ct__h5_files_t *f, int number)
{
  for (int i = 0; i < f->n; i++) {
    if (f->v[i].shard >= 0) ct__h5_array_shut(&f->v[i].array[number]);
    if (f->users == 1) shut(f, &f->v[i]);
  }
  if (number == f->next - 1) f->next--; /* as for a reader that is opened again */
  if (--f->users == 0) free_table(f);
}
