/* Lists of image files: building them, and sending them to all ranks. */
#include "pack/list.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

void ct__pack_list_clear(ct__pack_list_t *l)
{
  ct_mem_free(l->entry);
  ct_mem_free(l->text);
  ct_mem_free(l->target);
  ct_mem_free(l->class_name);
  ct_mem_free(l->tar_name);
  *l = (ct__pack_list_t){0};
}

const char *ct__pack_list_text(const ct__pack_list_t *l, int64_t place)
{
  return l->text + place;
}

int ct__pack_list_add_text(ct__pack_list_t *l, const char *text, int64_t *place)
{
  int rc = CT_OK;
  int64_t bytes = (int64_t)strlen(text) + 1;
  CT_TRY(ct_mem_grow((void **)&l->text, &l->text_cap, l->text_bytes + bytes, 1));
  memcpy(l->text + l->text_bytes, text, (size_t)bytes);
  *place = l->text_bytes;
  l->text_bytes += bytes;
out:
  return rc;
}

static int list_add(ct__pack_list_t *l, const ct__pack_entry_t *e)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&l->entry, &l->cap, l->n + 1, sizeof *l->entry));
  l->entry[l->n++] = *e;
  ct_heartbeat_progress();
  if (e->label >= l->classes) l->classes = (int64_t)e->label + 1;
out:
  return rc;
}

int ct__pack_list_path(const ct__pack_list_t *l, const ct__pack_entry_t *e, char *path, size_t cap)
{
  if (e->tar >= 0)
    return ct_text_format(path, cap, "%s", ct__pack_list_text(l, l->tar_name[e->tar]));
  return ct_path_join(path, cap, ct__pack_list_text(l, l->root), ct__pack_list_text(l, e->name));
}

int ct__pack_list_add_file(ct__pack_list_t *l, const char *name, int32_t label)
{
  int rc = CT_OK;
  struct stat info;
  char path[CT_PATH_MAX];
  ct__pack_entry_t e = {.bytes = -1, .tar = -1, .label = label};
  CT_TRY(ct__pack_list_add_text(l, name, &e.name));
  CT_TRY(ct__pack_list_path(l, &e, path, sizeof path));
  if (stat(path, &info) == 0) {
    e.bytes = info.st_size;
    e.time = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
  }
  CT_TRY(list_add(l, &e));
out:
  return rc;
}

int ct__pack_list_add_member(ct__pack_list_t *l, const char *name, int32_t tar, int64_t at,
                             int64_t bytes)
{
  int rc = CT_OK;
  ct__pack_entry_t e = {.tar = tar, .at = at, .bytes = bytes};
  CT_TRY(ct__pack_list_add_text(l, name, &e.name));
  CT_TRY(list_add(l, &e));
out:
  return rc;
}

int ct__pack_list_label(ct__pack_list_t *l, const ct__pack_labels_t *labels)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < l->n; i++)
    l->entry[i].label = labels->number[i];
  CT_TRY(ct_mem_grow((void **)&l->class_name, &l->class_cap, labels->class_names,
                     sizeof *l->class_name));
  for (int64_t i = 0; i < labels->class_names; i++)
    CT_TRY(ct__pack_list_add_text(l, labels->text + labels->class_name[i], &l->class_name[i]));
  l->class_names = labels->class_names;
  l->classes = labels->classes;
out:
  return rc;
}

int ct__pack_is_image(const char *name)
{
  static const char *const suffix[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                       ".pgm", ".tif",  ".tiff", ".webp"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof suffix / sizeof *suffix; i++)
    if (strcasecmp(dot, suffix[i]) == 0) return 1;
  return 0;
}

/* ---- the other ranks ---- */

int ct__pack_share(const ct_topo_t *t, int rc, void **data, int64_t n, size_t size)
{
  size_t bytes = (size_t)n * size;
  char none = 0;
  void *copy = t->rank || n ? *data : &none;
  rc = ct_agree_bytes(t, rc, &copy, &bytes);
  if (t->rank) *data = copy;
  return rc;
}

int ct__pack_list_share(const ct_topo_t *t, int rc, ct__pack_list_t *l)
{
  ct__pack_list_t head = *l;
  void *copy = &head;
  size_t bytes = sizeof head;
  if (t->size == 1) return rc;
  CT_TRY(ct_agree_bytes(t, rc, &copy, &bytes));
  if (t->rank) {
    memcpy(&head, copy, sizeof head);
    ct_mem_free(copy);
    *l = head; /* the counts, followed by the arrays */
    l->entry = NULL;
    l->text = NULL;
    l->target = NULL;
    l->class_name = l->tar_name = NULL;
  }
  CT_TRY(ct__pack_share(t, rc, (void **)&l->entry, l->n, sizeof *l->entry));
  CT_TRY(ct__pack_share(t, rc, (void **)&l->text, l->text_bytes, 1));
  CT_TRY(ct__pack_share(t, rc, (void **)&l->target, l->n * l->targets, sizeof *l->target));
  CT_TRY(ct__pack_share(t, rc, (void **)&l->class_name, l->class_names, sizeof *l->class_name));
  CT_TRY(ct__pack_share(t, rc, (void **)&l->tar_name, l->tars, sizeof *l->tar_name));
out:
  return rc;
}
