/* Reads safetensors files and sets of them; format table entry.
 *
 * Files stay open and tensors are read on demand: only headers are kept in memory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "weights/safetensors/safetensors.h"

typedef struct part {
  char *path;
  int fd;
  int64_t data; /* offset after the header */
} part_t;

struct ct_weights {
  part_t *part;
  int parts;
  ct__safetensors_list_t list;
  ct_str_t remark;
};

static void close_file(ct_weights_t *w)
{
  if (!w) return;
  for (int i = 0; i < w->parts; i++) {
    if (w->part[i].fd >= 0) close(w->part[i].fd);
    ct_mem_free(w->part[i].path);
  }
  ct_mem_free(w->part);
  ct__safetensors_clear(&w->list);
  ct_str_clear(&w->remark);
  ct_mem_free(w);
}

/* ---- opening ---- */

/* Reads the length of the header; *left: bytes of the file after the header. */
static int header_bytes(const part_t *p, size_t *header, int64_t *left)
{
  int rc = CT_OK;
  struct stat st;
  unsigned char head[8];
  uint64_t n = 0;
  if (fstat(p->fd, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: %s", p->path, strerror(errno));
  if (st.st_size < 8)
    CT_FAIL(CT_ERR_FORMAT, "%s: %lld bytes are too few for a safetensors file", p->path,
            (long long)st.st_size);
  CT_TRY(ct_file_read_at(p->fd, p->path, 0, head, sizeof head));
  for (int i = 7; i >= 0; i--)
    n = n << 8 | head[i];
  if (n > CT__SAFETENSORS_HEADER)
    CT_FAIL(CT_ERR_FORMAT, "%s: a header of %llu bytes, expected up to %d: is it safetensors?",
            p->path, (unsigned long long)n, CT__SAFETENSORS_HEADER);
  if ((int64_t)n > st.st_size - 8)
    CT_FAIL(CT_ERR_FORMAT, "%s: ends at byte %lld, within its header of %llu bytes", p->path,
            (long long)st.st_size, (unsigned long long)n);
  *header = (size_t)n;
  *left = st.st_size - 8 - (int64_t)n;
out:
  return rc;
}

static int open_fd(const char *path, int *fd)
{
  int rc = CT_OK;
  CT_TRY(ct_file_regular(path));
  ct_heartbeat_file(path);
  *fd = ct_file_open(path, O_RDONLY, 0);
  ct_heartbeat_file(NULL);
  if (*fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
out:
  return rc;
}

static int open_part(ct_weights_t *w, const char *path)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes = 0;
  int64_t left = 0;
  part_t *p = &w->part[w->parts];
  *p = (part_t){.path = ct_mem_strdup(path), .fd = -1};
  w->parts++;
  CT_TRY(p->path ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(open_fd(path, &p->fd));
  CT_TRY(header_bytes(p, &bytes, &left));
  text = ct_mem_alloc(bytes + 1, "the header of a safetensors file");
  CT_TRY(text ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_file_read_at(p->fd, path, 8, text, bytes));
  p->data = 8 + (int64_t)bytes;
  CT_TRY(ct__safetensors_parse(path, text, bytes, left, w->parts - 1, &w->list));
out:
  ct_mem_free(text);
  return rc;
}

static int open_one(ct_weights_t *w, const char *path)
{
  w->part = ct_mem_array(1, sizeof *w->part, "a safetensors file");
  return w->part ? open_part(w, path) : CT_ERR_NOMEM;
}

static int open_set(ct_weights_t *w, const char *path)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], file[CT_PATH_MAX];
  ct__safetensors_set_t s;
  CT_TRY(ct__safetensors_set_read(path, &s));
  w->part = ct_mem_array(s.files, sizeof *w->part, "safetensors files");
  CT_TRY(w->part ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  for (int i = 0; i < s.files; i++) {
    CT_TRY(ct_path_join(file, sizeof file, dir, s.file[i]));
    CT_TRY(open_part(w, file));
  }
  CT_TRY(ct__safetensors_set_check(path, &s, &w->list));
  CT_TRY(ct_str_add(&w->remark, "is a set of %d file%s", s.files, s.files == 1 ? "" : "s"));
out:
  ct__safetensors_set_clear(&s);
  return rc;
}

static int open_file(const char *path, const char *key, ct_weights_t **out)
{
  static const char index_suffix[] = ".json";
  int rc = CT_OK;
  size_t n = strlen(path), k = strlen(index_suffix);
  ct_weights_t *w = ct_mem_alloc(sizeof *w, "a safetensors file");
  *out = NULL;
  if (!w) return CT_ERR_NOMEM;
  if (key && *key)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' cannot be selected, since safetensors files are not nested",
            path, key);
  CT_TRY(n > k && strcmp(path + n - k, index_suffix) == 0 ? open_set(w, path) : open_one(w, path));
  CT_TRY(ct__safetensors_alias(&w->list));
  if (w->list.aliases > 0)
    CT_TRY(ct_str_add(&w->remark, "%shas %d name%s of tensors with two names",
                      w->remark.len ? ", " : "", w->list.aliases, w->list.aliases == 1 ? "" : "s"));
  *out = w;
  w = NULL;
out:
  close_file(w);
  return rc;
}

/* ---- content ---- */

static int count(const ct_weights_t *w)
{
  return (int)w->list.n;
}

static void tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  const ct__safetensors_entry_t *e = &w->list.entry[i];
  *out = (ct_tensor_t){
      .name = e->name, .type = e->type, .ndim = e->ndim, .dim = e->dim, .count = e->count};
}

static int read_tensor(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  const ct__safetensors_entry_t *e = &w->list.entry[i];
  const part_t *p = &w->part[e->part];
  int64_t size = ct_elem_bits(e->type) / 8;
  return ct_file_read_at(p->fd, p->path, p->data + e->begin + first * size, to, (size_t)(n * size));
}

static const char *text_of(const ct_weights_t *w, const char *name)
{
  char key[200];
  if (ct_text_format(key, sizeof key, CT__SAFETENSORS_TEXT "%s", name) != CT_OK) return NULL;
  return json_string_value(json_object_get(w->list.meta, key));
}

static const char *remark(const ct_weights_t *w)
{
  return w->remark.data;
}

/* Returns 1 if the file starts with a plausible length, followed by JSON. */
static int probe(FILE *f)
{
  unsigned char head[9];
  uint64_t n = 0;
  if (fread(head, 1, sizeof head, f) != sizeof head) return 0;
  for (int i = 7; i >= 0; i--)
    n = n << 8 | head[i];
  return n >= 2 && n <= CT__SAFETENSORS_HEADER && head[8] == '{';
}

const ct_weights_ops_t ct_weights_safetensors = {
    .format = {"safetensors", {".safetensors", ".safetensors.index.json"}, probe},
    .conv1d = 1,
    .open = open_file,
    .count = count,
    .tensor = tensor,
    .read = read_tensor,
    .text = text_of,
    .remark = remark,
    .close = close_file,
    .create = ct__safetensors_create,
    .put = ct__safetensors_put,
    .commit = ct__safetensors_commit,
    .discard = ct__safetensors_discard,
};
