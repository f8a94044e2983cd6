/* Loads vendor-specific backends at run time, so that the program starts on machines without the
 * vendor's libraries and can report why a device is not usable. */
#include "config.h"

#include "comm/ct_module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"

/* Writes dir/ctrain-NAME.so to path; 1 if it exists. */
static int is_in(const char *dir, const char *name, char *path, size_t cap)
{
  char file[64];
  return ct_text_format(file, sizeof file, "ctrain-%s.so", name) == CT_OK &&
         ct_path_join(path, cap, dir, file) == CT_OK && ct_file_exists(path);
}

/* Searches next to the program, as in a build tree, and at the installation directory relative to
 * it, which also works if the installation was moved. */
static int find_beside(const char *name, char *path, size_t cap)
{
  char dir[CT_PATH_MAX], lib[CT_PATH_MAX];
  if (ct_file_program_dir(dir, sizeof dir) != CT_OK) return 0;
  if (is_in(dir, name, path, cap)) return 1;
  return ct_path_join(lib, sizeof lib, dir, "../lib/ctrain-hpc") == CT_OK &&
         is_in(lib, name, path, cap);
}

static int module_find(const char *name, char *path, size_t cap)
{
  const char *set = secure_getenv("CTRAIN_PLUGIN_DIR");
  if (set && *set) {
    if (is_in(set, name, path, cap)) return CT_OK;
    return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__,
                      "CTRAIN_PLUGIN_DIR is '%s', which does not contain ctrain-%s.so", set, name);
  }
  if (find_beside(name, path, cap) || is_in(CT_MODULE_DIR, name, path, cap)) return CT_OK;
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "this build does not contain ctrain-%s.so",
                    name);
}

int ct_module_exists(const char *name)
{
  char path[CT_PATH_MAX];
  return module_find(name, path, sizeof path) == CT_OK;
}

static int module_check(const ct_module_t *m, const char *path)
{
  if (m->size == sizeof *m && m->backend_size == CT_MODULE_BACKEND_SIZE &&
      strcmp(m->version, PACKAGE_VERSION) == 0)
    return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__,
                    "%s is of another build than this program (ctrain-hpc " PACKAGE_VERSION ")",
                    path);
}

int ct_module_load(const char *name, const ct_module_t **out)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  void *handle = NULL;
  ct_module_fn *entry;
  *out = NULL;
  CT_TRY(module_find(name, path, sizeof path));
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) CT_FAIL(CT_ERR_DEVICE, "%s", dlerror());
  *(void **)&entry = dlsym(handle, "ctrain_module");
  if (!entry) CT_FAIL(CT_ERR_DEVICE, "%s is not a plug-in of ctrain-hpc", path);
  CT_TRY(module_check(entry(), path));
  *out = entry();
  handle = NULL;
out:
  if (handle) dlclose(handle);
  return rc;
}
