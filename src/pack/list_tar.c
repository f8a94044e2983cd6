/* Samples in tar files, as WebDataset writes them: the members of a sample follow each other, and
 * their names are alike up to the first dot. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/list.h"
#include "pack/tar.h"

enum { MOST_TEXT = 1 << 20 /* bytes of a label's member */, UNKNOWN = -1 };

/* A sample while its members are found. */
typedef struct sample {
  char key[CT_PATH_MAX]; /**< "": none */
  int64_t image;         /**< its number in the list; -1: none yet */
  int64_t label;
} sample_t;

typedef struct reading {
  ct__pack_list_t *l;
  ct__tar_t tar;
  int32_t number;
  sample_t s;
  int64_t labelled;
  int64_t *folder; /**< of each image's key, as a place in the texts */
  int64_t folder_cap;
} reading_t;

/* "a/b.c.jpg": the key is a/b, the extension c.jpg.  NULL: there is no dot. */
static char *split_key(char *name)
{
  char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash : name, '.');
  if (!dot) return NULL;
  *dot = '\0';
  return dot + 1;
}

static int bad_label(const reading_t *r, const ct__tar_member_t *m, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: %s.%s: %s", r->tar.path, r->s.key,
                    m->name + strlen(m->name) + 1, why);
}

static int64_t label_of_json(const char *text, size_t bytes)
{
  static const char *const keys[] = {"label", "cls", "class"};
  int64_t label = -1;
  json_t *o = json_loadb(text, bytes, 0, NULL);
  for (int i = 0; i < 3 && label < 0; i++) {
    const json_t *value = json_object_get(o, keys[i]);
    if (json_is_integer(value)) label = json_integer_value(value);
  }
  json_decref(o);
  return label;
}

/* From KEY.cls or KEY.json; a json without a label tells something else. */
static int read_label(reading_t *r, const ct__tar_member_t *m, int is_json)
{
  int rc = CT_OK;
  int64_t label = -1;
  char *text = NULL;
  if (m->bytes > MOST_TEXT) return bad_label(r, m, "is too long for a label");
  text = ct_mem_alloc((size_t)m->bytes + 1, "a label");
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(ct_file_read_at(r->tar.fd, r->tar.path, m->at, text, (size_t)m->bytes));
  if (is_json) {
    label = label_of_json(text, (size_t)m->bytes);
    if (label < 0) goto out;
  } else {
    text[strcspn(text, " \r\n")] = '\0';
    if (ct_text_int(text, &label) != CT_OK) label = -1;
  }
  if (label < 0 || label >= INT32_MAX)
    CT_TRY(bad_label(r, m, "is no class number: expected one from 0"));
  r->s.label = label;
out:
  ct_mem_free(text);
  return rc;
}

static int add_image(reading_t *r, const ct__tar_member_t *m, const char *extension)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  if (r->s.image >= 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: the sample %s has two images, of which %s.%s is the second",
            r->tar.path, r->s.key, r->s.key, extension);
  if (m->type != '0' && m->type != '7')
    CT_FAIL(CT_ERR_FORMAT, "%s: %s.%s is a link: images must lie in the file itself", r->tar.path,
            r->s.key, extension);
  r->s.image = r->l->n;
  CT_TRY(ct_text_format(name, sizeof name, "%s.%s", r->s.key, extension));
  CT_TRY(ct__pack_list_add_member(r->l, name, r->number, m->at, m->bytes));
  CT_TRY(ct_mem_grow((void **)&r->folder, &r->folder_cap, r->l->n, sizeof *r->folder));
  CT_TRY(ct_path_dir(name, sizeof name, r->s.key));
  CT_TRY(ct__pack_list_add_text(r->l, name, &r->folder[r->s.image]));
out:
  return rc;
}

/* What is known of a sample when the next one begins. */
static void end_sample(reading_t *r)
{
  ct__pack_list_t *l = r->l;
  if (r->s.image >= 0) l->entry[r->s.image].label = (int32_t)r->s.label;
  if (r->s.image >= 0 && r->s.label >= 0) {
    r->labelled++;
    if (r->s.label >= l->classes) l->classes = r->s.label + 1;
  }
  r->s = (sample_t){.image = -1, .label = UNKNOWN};
}

static int take_member(reading_t *r, ct__tar_member_t *m)
{
  int rc = CT_OK;
  int is_image = ct__pack_is_image(m->name);
  const char *extension = split_key(m->name);
  if (m->type == '5' || !extension) return CT_OK;
  if (strcmp(r->s.key, m->name) != 0) {
    end_sample(r);
    memcpy(r->s.key, m->name, sizeof r->s.key);
  }
  if (is_image && !strchr(extension, '.')) /* KEY.seg.png is something else */
    CT_TRY(add_image(r, m, extension));
  else if (strcasecmp(extension, "cls") == 0 || strcasecmp(extension, "json") == 0)
    CT_TRY(read_label(r, m, strcasecmp(extension, "json") == 0));
out:
  return rc;
}

static int read_tar(reading_t *r, const char *path)
{
  int rc = CT_OK;
  ct__tar_member_t m;
  ct_beat_file(path);
  r->s = (sample_t){.image = -1, .label = UNKNOWN};
  CT_TRY(ct__tar_open(path, &r->tar));
  for (;;) {
    CT_TRY(ct__tar_next(&r->tar, &m));
    if (!m.type) break;
    CT_TRY(take_member(r, &m));
  }
  end_sample(r);
out:
  ct_beat_file(NULL);
  ct__tar_close(&r->tar);
  return rc;
}

static int check_labels(const reading_t *r)
{
  int rc = CT_OK;
  const ct__pack_list_t *l = r->l;
  if (r->labelled == 0) return ct__pack_list_classify(r->l, r->folder);
  for (int64_t i = 0; r->labelled < l->n && i < l->n; i++)
    if (l->entry[i].label == UNKNOWN)
      CT_FAIL(CT_ERR_FORMAT, "%s: %s has no label, which others have: expected KEY.cls or KEY.json",
              ct__pack_list_text(l, l->tar_name[l->entry[i].tar]),
              ct__pack_list_text(l, l->entry[i].name));
out:
  return rc;
}

int ct__pack_list_tar(const char *pattern, ct__pack_list_t *l)
{
  int rc = CT_OK, files = 0;
  char **file = NULL;
  reading_t r = {.l = l};
  CT_TRY(ct_file_glob(".", pattern, &file, &files));
  CT_TRY(ct__pack_list_add_text(l, "", &l->root));
  for (int i = 0; i < files; i++) {
    CT_TRY(ct_mem_grow((void **)&l->tar_name, &l->tar_cap, i + 1, sizeof *l->tar_name));
    const char *name = file[i]; /* glob() has put our "." before it */
    if (strncmp(name, "./", 2) == 0 && strncmp(pattern, "./", 2) != 0) name += 2;
    CT_TRY(ct__pack_list_add_text(l, name, &l->tar_name[i]));
    l->tars = i + 1;
    r.number = i;
    CT_TRY(read_tar(&r, name));
  }
  if (l->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: there is no image in it", pattern);
  CT_TRY(check_labels(&r));
out:
  ct_file_list_free(file, files);
  ct_mem_free(r.folder);
  return rc;
}
