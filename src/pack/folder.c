/* Folders of images, one folder a class, by the rules of torchvision's ImageFolder, so that
 * class numbers are equal to torchvision's. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "pack/list.h"

enum { MOST_DEEP = 64 }; /* a deeper path means a link to a parent folder */

/* A list of texts with its own memory. */
typedef struct names {
  char **v;
  int64_t n, cap;
} names_t;

static void folder_clear(names_t *l)
{
  for (int64_t i = 0; i < l->n; i++)
    ct_mem_free(l->v[i]);
  ct_mem_free(l->v);
  *l = (names_t){0};
}

static int push(names_t *l, const char *text)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v));
  char *copy = ct_mem_strdup(text);
  if (!copy) return CT_ERR_NOMEM;
  l->v[l->n++] = copy;
out:
  return rc;
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(names_t *l)
{
  if (l->n) qsort(l->v, (size_t)l->n, sizeof *l->v, by_text);
}

static int is_dir(const char *path, const struct dirent *entry)
{
  if (entry->d_type == DT_DIR) return 1;
  return (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) && ct_file_is_dir(path);
}

/* Lists the entries of root/dir, prefixed with dir: folders and others, both sorted. */
static int list_dir(const char *root, const char *dir, names_t *dirs, names_t *files)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], name[CT_PATH_MAX];
  const struct dirent *entry;
  CT_TRY(ct_path_join(path, sizeof path, root, dir));
  DIR *d = opendir(path);
  if (!d) CT_FAIL(CT_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  while (rc == CT_OK && (entry = readdir(d))) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    rc = *dir ? ct_text_format(name, sizeof name, "%s/%s", dir, entry->d_name)
              : ct_text_format(name, sizeof name, "%s", entry->d_name);
    if (rc == CT_OK) rc = ct_path_join(path, sizeof path, root, name);
    if (rc != CT_OK) break;
    names_t *to = is_dir(path, entry) ? dirs : files;
    if (to) rc = push(to, name);
  }
  closedir(d);
  if (dirs) sort(dirs);
  if (files) sort(files);
out:
  return rc;
}

/* Lists a folder and all folders below it. */
static int find_dirs(const char *root, const char *dir, int depth, names_t *all)
{
  int rc = CT_OK;
  names_t dirs = {0};
  if (depth > MOST_DEEP)
    CT_FAIL(CT_ERR_FORMAT, "%s/%s: folders lie more than %d deep: does a link lead back?", root,
            dir, MOST_DEEP);
  CT_TRY(push(all, dir));
  CT_TRY(list_dir(root, dir, &dirs, NULL));
  for (int64_t i = 0; i < dirs.n; i++)
    CT_TRY(find_dirs(root, dirs.v[i], depth + 1, all));
out:
  folder_clear(&dirs);
  return rc;
}

static int add_dir(ct__pack_list_t *l, const char *root, const char *dir, int32_t label)
{
  int rc = CT_OK;
  names_t files = {0};
  CT_TRY(list_dir(root, dir, NULL, &files));
  for (int64_t i = 0; i < files.n; i++)
    if (ct__pack_is_image(files.v[i])) CT_TRY(ct__pack_list_add_file(l, files.v[i], label));
out:
  folder_clear(&files);
  return rc;
}

static int add_class(ct__pack_list_t *l, const char *root, const char *name, int32_t label)
{
  int rc = CT_OK;
  int64_t before = l->n;
  names_t dirs = {0};
  CT_TRY(ct_mem_grow((void **)&l->class_name, &l->class_cap, l->class_names + 1,
                     sizeof *l->class_name));
  CT_TRY(ct__pack_list_add_text(l, name, &l->class_name[l->class_names]));
  l->class_names++;
  CT_TRY(find_dirs(root, name, 0, &dirs));
  sort(&dirs);
  for (int64_t i = 0; i < dirs.n; i++)
    CT_TRY(add_dir(l, root, dirs.v[i], label));
  if (l->n == before) CT_FAIL(CT_ERR_FORMAT, "%s/%s: contains no images", root, name);
out:
  folder_clear(&dirs);
  return rc;
}

/* Warns if the folders are not in natural order: as in ImageFolder, a folder 10 sorts before a
 * folder 2. */
static void tell_order(const char *dir, const names_t *classes)
{
  for (int64_t i = 1; i < classes->n; i++)
    if (ct__pack_natural(classes->v[i - 1], classes->v[i]) > 0) {
      ct_log(
          CT_LOG_WARN,
          "%s: its folders are classes in the order of their bytes, as torchvision's ImageFolder "
          "has them: '%s' is class %" PRId64 ", '%s' is class %" PRId64,
          dir, classes->v[i - 1], i - 1, classes->v[i], i);
      return;
    }
}

int ct__pack_list_files(const char *dir, char ***list, int64_t *n)
{
  int rc = CT_OK;
  names_t dirs = {0}, files = {0};
  CT_TRY(find_dirs(dir, "", 0, &dirs));
  for (int64_t i = 0; i < dirs.n; i++)
    CT_TRY(list_dir(dir, dirs.v[i], NULL, &files));
  sort(&files);
  *list = files.v;
  *n = files.n;
  files = (names_t){0};
out:
  folder_clear(&dirs);
  folder_clear(&files);
  return rc;
}

int ct__pack_list_folder(const char *dir, ct__pack_list_t *l)
{
  int rc = CT_OK;
  names_t classes = {0};
  CT_TRY(ct__pack_list_add_text(l, dir, &l->root));
  CT_TRY(list_dir(dir, "", &classes, NULL));
  if (classes.n == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: has no folders: expected one for each class, %s/CLASS/NAME.jpg",
            dir, dir);
  for (int64_t i = 0; i < classes.n; i++)
    CT_TRY(add_class(l, dir, classes.v[i], (int32_t)i));
  tell_order(dir, &classes);
out:
  folder_clear(&classes);
  return rc;
}
