/* What this build contains: lists of backends, readers and file formats, versions, and the location
 * of the example.  This is the only file that names all backends. */
#include "setup/ct_builtin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "comm/ct_module.h"
#include "config.h"
#include "cpu/ct_cpu.h"
#include "hdf5io/ct_h5.h"
#include "ref/ct_ref.h"
#include "sim/ct_sim.h"
#include "weights/llmc/ct_weights_llmc.h"
#include "weights/pth/ct_weights_pth.h"
#include "weights/safetensors/ct_weights_safetensors.h"

/* Backends, fastest first.  A backend without a table here is a module (loaded with dlopen), which
 * needs its driver library. */
static const struct {
  const char *name;
  const ct_backend_t *backend;
  const char *driver, *driver_name, *missing; /* missing: reason why it is not in this build */
} backends[] = {{"cuda", NULL, "libcuda.so.1", "NVIDIA", NULL},
                {"cpu", &ct_backend_cpu, NULL, NULL, NULL},
                {"ref", &ct_backend_ref, NULL, NULL, NULL},
                {"sim", &ct_backend_sim, NULL, NULL, NULL}};
enum { BACKENDS = sizeof backends / sizeof *backends };

const ct_reader_ops_t *const ct_builtin_readers[] = {&ct_reader_hdf5, &ct_reader_images,
                                                     &ct_reader_synthetic, NULL};
const ct_store_ops_t *const ct_builtin_stores[] = {&ct_store_hdf5, NULL};
const ct_weights_ops_t *const ct_builtin_weights[] = {&ct_weights_hdf5, &ct_weights_safetensors,
                                                      &ct_weights_pth, &ct_weights_llmc, NULL};

/* ---- backends ---- */

/* Loads backend i.  CT_ERR_UNSUP: its module is not in this build. */
static int load(int i, const ct_backend_t **be, const ct_comm_ops_t **comm)
{
  int rc = CT_OK;
  const ct_module_t *module;
  *be = backends[i].backend;
  *comm = &ct_comm_mpi;
  if (backends[i].missing) CT_FAIL(CT_ERR_DEVICE, "%s", backends[i].missing);
  if (!*be) {
    CT_TRY(ct_module_load(backends[i].name, &module));
    *be = module->backend;
    *comm = module->comm;
  }
out:
  return rc;
}

/* Loads backend i if it has a device. */
static int usable(int i, const ct_backend_t **be, const ct_comm_ops_t **comm)
{
  int rc = CT_OK;
  char why[128];
  CT_TRY(load(i, be, comm));
  if ((*be)->probe(why) > 0) return CT_OK;
  CT_FAIL(CT_ERR_DEVICE, "%s", why);
out:
  *be = NULL;
  return rc;
}

/* Checks for the driver first, since loading the module with all its libraries is slow, and they
 * add 200 MB to the resident memory of the process. */
static int has_driver(int i)
{
  void *handle = dlopen(backends[i].driver, RTLD_LAZY | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != NULL;
}

static int worth_trying(int i)
{
  if (!backends[i].driver || !ct_module_exists(backends[i].name)) return !backends[i].driver;
  if (has_driver(i)) return 1;
  ct_log(CT_LOG_INFO, "device auto: not %s, since there is no %s driver", backends[i].name,
         backends[i].driver_name);
  return 0;
}

int ct_builtin_backend(int choice, const ct_backend_t **be, const ct_comm_ops_t **comm)
{
  int rc = CT_OK;
  const char *word = ct_config_device(choice);
  *be = NULL;
  for (int i = 0; i < BACKENDS && !*be; i++) {
    if (choice == CT_DEVICE_AUTO ? !worth_trying(i) : strcmp(word, backends[i].name) != 0) continue;
    rc = usable(i, be, comm);
    if (choice == CT_DEVICE_AUTO && rc == CT_ERR_DEVICE)
      ct_log(CT_LOG_INFO, "device auto: not %s, since %s", backends[i].name, ct_err_last()->text);
  }
  return *be ? CT_OK : ct_err_prefix(rc, "device %s is not usable: ", word);
}

int ct_builtin_cuda(const ct_backend_t **be)
{
  const ct_comm_ops_t *comm;
  return load(0, be, &comm);
}

/* ---- versions ---- */

static int backend_version(int i, const char *separator, ct_str_t *out)
{
  ct_dev_t *dev = NULL;
  ct_dev_opts_t one = {.threads = 1};
  const ct_backend_t *be;
  const ct_comm_ops_t *comm;
  int rc;
  if (backends[i].driver && ct_module_exists(backends[i].name) && !has_driver(i))
    return ct_str_add(out, "%s%s: there is no %s driver", separator, backends[i].name,
                      backends[i].driver_name);
  rc = usable(i, &be, &comm);
  if (rc != CT_OK)
    return ct_str_add(out, "%s%s: %s", separator, backends[i].name, ct_err_last()->text);
  rc = be->open(&one, &dev);
  if (rc == CT_OK) {
    const char *text = be->describe(dev), *thread = strstr(text, ", 1 thread");
    rc = ct_str_add(out, "%s%.*s", separator, (int)(thread ? thread - text : (long)strlen(text)),
                    text);
    be->close(dev);
  }
  return rc;
}

int ct_builtin_versions(const char *separator, ct_str_t *out)
{
  int rc = CT_OK, n;
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Get_library_version(mpi, &n);
  mpi[strcspn(mpi, "\n")] = '\0';
  for (char *p = mpi; *p; p++)
    if (*p == '\t') *p = ' ';
  CT_TRY(ct_str_add(out, "ctrain-hpc " PACKAGE_VERSION "%s%s%sHDF5 %s (own filters: %s)", separator,
                    mpi, separator, ct_h5_version(), ct_h5_filters()));
  for (int i = 0; i < BACKENDS; i++)
    CT_TRY(backend_version(i, separator, out));
out:
  return rc;
}

/* ---- the example ---- */

/* Sets \a path to the digits example's configuration below \a dir; returns 1 if the file exists. */
static int example_in(const char *dir, char *path, size_t cap)
{
  return ct_path_join(path, cap, dir, "digits/train.yaml") == CT_OK && ct_file_exists(path);
}

/* Directories relative to the program: those of an installation that was moved, and of a build
 * tree. */
static int example_beside(char *path, size_t cap)
{
  static const char *const places[] = {"../share/ctrain-hpc/examples", "../examples"};
  char dir[CT_PATH_MAX], examples[CT_PATH_MAX];
  if (ct_file_program_dir(dir, sizeof dir) != CT_OK) return 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (ct_path_join(examples, sizeof examples, dir, places[i]) == CT_OK &&
        example_in(examples, path, cap))
      return 1;
  return 0;
}

int ct_builtin_example(char *path, size_t cap)
{
  int rc = CT_OK;
  const char *set = getenv("CTRAIN_EXAMPLES");
  if (set && *set) {
    if (!example_in(set, path, cap))
      CT_FAIL(CT_ERR_USAGE, "CTRAIN_EXAMPLES is '%s', but '%s' does not exist", set, path);
    goto out;
  }
  if (example_beside(path, cap) || example_in(CT_EXAMPLES_SRC, path, cap) ||
      example_in(CT_EXAMPLES_DIR, path, cap))
    goto out;
  CT_FAIL(CT_ERR_USAGE,
          "the digits example is neither beside the program nor in '%s' or '%s'; CTRAIN_EXAMPLES "
          "can name its directory",
          CT_EXAMPLES_SRC, CT_EXAMPLES_DIR);
out:
  return rc;
}
