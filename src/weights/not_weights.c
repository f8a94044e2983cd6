/* Recognizes files and directories that are not weights, or hold them in an unsupported form, and
 * explains what they are and what to do. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_text.h"
#include "weights/ct_weights.h"
#include "weights/hf/ct_hf.h"

enum { HEAD = 512 };

/* ---- files ---- */

typedef struct head {
  unsigned char v[HEAD + 1]; /* NUL-terminated */
  size_t n;
} head_t;

static int begins(const head_t *h, const char *with, size_t n)
{
  return h->n >= n && memcmp(h->v, with, n) == 0;
}

/* Returns 1 for a web page, possibly after whitespace and a byte order mark. */
static int is_page(const head_t *h)
{
  static const char *const begin[] = {"<!doctype", "<html", "<head", "<?xml"};
  const char *at = (const char *)h->v + (begins(h, "\xef\xbb\xbf", 3) ? 3 : 0);
  at += strspn(at, " \t\r\n");
  for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
    if (strncasecmp(at, begin[i], strlen(begin[i])) == 0) return 1;
  return 0;
}

/* Protocol buffers have no magic number: checks for field 1 (format version) and field 2
 * (producer). */
static int is_onnx(const head_t *h, const char *path)
{
  size_t n = strlen(path);
  if (n > 5 && strcmp(path + n - 5, ".onnx") == 0) return 1;
  return h->n > 4 && h->v[0] == 0x08 && h->v[1] > 0 && h->v[1] < 32 && h->v[2] == 0x12 &&
         h->v[3] > 0 && h->v[3] < 64;
}

static const char *what_file(const head_t *h, const char *path)
{
  static const struct {
    const char *begin;
    size_t n;
    const char *what;
  } known[] = {
      {"version https://git-lfs", 23,
       "is a pointer of Git LFS, which stands for the file: get the file itself by `git lfs pull`"},
      {"\x1f\x8b", 2, "is compressed by gzip: unpack it first"},
      {"BZh", 3, "is compressed by bzip2: unpack it first"},
      {"\xfd"
       "7zXZ",
       5, "is compressed by xz: unpack it first"},
      {"\x28\xb5\x2f\xfd", 4, "is compressed by zstd: unpack it first"},
      {"GGUF", 4,
       "is a GGUF file of llama.cpp, which is not read here: expected safetensors or "
       ".pth"},
      {"\x93NUMPY", 6, "is an array of NumPy, not weights by name: expected safetensors or .pth"},
  };
  size_t length = strlen(path);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (begins(h, known[i].begin, known[i].n)) return known[i].what;
  if (is_page(h))
    return "is a page of the web (HTML or XML), not the file that was meant: download it again, "
           "and look at it if it stays so";
  if (length > 7 && strcmp(path + length - 7, ".distcp") == 0)
    return "is one part of a distributed checkpoint of PyTorch: make one file of its directory by "
           "`python -m torch.distributed.checkpoint.format_utils dcp_to_torch DIR FILE.pth`";
  if (is_onnx(h, path))
    return "is an ONNX file: it is written by `convert` and never read; give the checkpoint, "
           "safetensors or .pth file that it was made of";
  return NULL;
}

/* Unreadable files are left to the reader to report. Only regular files are opened, since opening a
 * FIFO would block. */
static int refuse_file(const char *path)
{
  int rc = CT_OK;
  head_t h = {.n = 0};
  struct stat st;
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;
  if (!f) return CT_OK;
  h.n = fread(h.v, 1, HEAD, f);
  fclose(f);
  const char *what = what_file(&h, path);
  if (what) CT_FAIL(CT_ERR_FORMAT, "%s: %s", path, what);
out:
  return rc;
}

/* ---- directories ---- */

static int has(const char *dir, const char *name)
{
  char path[CT_PATH_MAX];
  return ct_path_join(path, sizeof path, dir, name) == CT_OK && ct_file_exists(path);
}

static int has_suffix(const char *dir, const char *suffix)
{
  int found = 0;
  const ct_format_t f = {.suffixes = {suffix}};
  DIR *d = opendir(dir);
  for (struct dirent *e; d && !found && (e = readdir(d));)
    found = ct_format_has_suffix(&f, e->d_name);
  if (d) closedir(d);
  return found;
}

static int refuse_directory(const char *dir)
{
  int rc = CT_OK;
  static const char *const hub[] = {"diffusion_pytorch_model.safetensors",
                                    "open_clip_pytorch_model.bin"};
  char path[CT_PATH_MAX];
  if (has(dir, "checkpoints")) return CT_OK;            /* a run directory */
  if (ct_hf_find(dir, path, sizeof path)) return CT_OK; /* of Hugging Face */
  for (size_t i = 0; i < sizeof hub / sizeof *hub; i++)
    if (has(dir, hub[i]))
      CT_FAIL(CT_ERR_FORMAT,
              "%s: is a model's directory of Hugging Face: name the file in it, %s/%s", dir, dir,
              hub[i]);
  if (has(dir, "pytorch_model.bin.index.json"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is a model's directory of Hugging Face in several .bin files: write it by "
            "save_pretrained(..., safe_serialization=True), and name model.safetensors.index.json",
            dir);
  if (has(dir, "params.json") && has(dir, "consolidated.00.pth"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is a model's directory of Meta, whose rotary embeddings pair other rows: make one "
            "of Hugging Face of it by convert_llama_weights_to_hf.py of transformers",
            dir);
  if (has(dir, ".metadata") || has_suffix(dir, ".distcp"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is a distributed checkpoint of PyTorch: make one file of it by `python -m "
            "torch.distributed.checkpoint.format_utils dcp_to_torch %s FILE.pth`",
            dir, dir);
  if (has(dir, "zero_to_fp32.py"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is a checkpoint of DeepSpeed: make one file of it by `python zero_to_fp32.py . "
            "FILE` there",
            dir);
  if (has(dir, "saved_model.pb"))
    CT_FAIL(CT_ERR_FORMAT, "%s: is a SavedModel of TensorFlow, which is not read here", dir);
out:
  return rc;
}

int ct_weights_foreign(const char *path)
{
  return ct_file_is_dir(path) ? refuse_directory(path) : refuse_file(path);
}
