/* Samples in tar files.  The members of a sample have the same name up to the last dot: a/b.jpg,
 * a/b.cls and a/b.json.  They need not be adjacent.  For names with a single dot this is
 * WebDataset's rule, in which a key ends at the first dot.  There f.001.jpg and f.001.cls are two
 * fields of one sample "f"; here they are one sample.  WebDataset's KEY.seg.png beside KEY.png is
 * recognized and skipped, which is logged. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "pack/list.h"
#include "pack/tar.h"

enum { MOST_TEXT = 1 << 20 /* limit of a member with a label, in bytes */, NONE = -1 };

typedef enum { IMAGE, CLS, JSON, KINDS, OTHER = KINDS } kind_t;

/* An image or a label.  Texts are offsets in the text of the reader. */
typedef struct member {
  int64_t name;
  int64_t link; /* target of a link; NONE: a file */
  int64_t at, bytes;
  int32_t stem; /* length of its name up to the last dot */
  int32_t key;  /* length of its name up to the first dot */
  kind_t kind;
  int64_t label; /* the text of a label, NONE: empty; for an image: its label */
  int64_t from;  /* for an image: the member that has its label */
  int used;      /* for a label: an image uses it; for an image: it is left out */
} member_t;

typedef struct reading {
  ct__pack_list_t *l;
  ct__tar_t tar;
  int32_t number;
  char *text;
  int64_t text_bytes, text_cap;
  member_t *m; /* the members of one archive */
  int64_t n, cap;
  member_t **order; /* [n] sorted by stem and kind */
  /* label of each image in the list, as an offset in the text; NONE: none */
  int64_t *label, *where, label_cap, where_cap;
  int64_t labelled;
  /* for the summary at the end: the number, and the first one */
  int64_t aside, alone, first_aside, first_alone;
} reading_t;

static int list_tar_add_text(reading_t *r, const char *text, int64_t *place)
{
  int rc = CT_OK;
  int64_t bytes = (int64_t)strlen(text) + 1;
  CT_TRY(ct_mem_grow((void **)&r->text, &r->text_cap, r->text_bytes + bytes, 1));
  memcpy(r->text + r->text_bytes, text, (size_t)bytes);
  *place = r->text_bytes;
  r->text_bytes += bytes;
out:
  return rc;
}

static const char *name_of(const reading_t *r, const member_t *m)
{
  return r->text + m->name;
}

static int bad_member(const reading_t *r, const member_t *m, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: %s: %s", r->tar.path, name_of(r, m),
                    why);
}

/* ---- members ---- */

static kind_t list_tar_kind_of(const char *name)
{
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
  const char *dot = strrchr(base, '.');
  if (*base == '.' || !dot) return OTHER; /* ._a.jpg: what macOS adds to a.jpg */
  if (strcasecmp(dot, ".cls") == 0) return CLS;
  if (strcasecmp(dot, ".json") == 0) return JSON;
  return ct__pack_is_image(name) ? IMAGE : OTHER;
}

static int take_member(reading_t *r, const ct__tar_member_t *from)
{
  int rc = CT_OK;
  const char *slash = strrchr(from->name, '/');
  member_t m = {.at = from->at,
                .bytes = from->bytes,
                .kind = list_tar_kind_of(from->name),
                .link = NONE,
                .label = NONE,
                .from = NONE};
  if (m.kind == OTHER || (from->type >= '3' && from->type <= '6') || from->type == 'D')
    return CT_OK;
  m.stem = (int32_t)(strrchr(from->name, '.') - from->name);
  m.key = (int32_t)(strchr(slash ? slash : from->name, '.') - from->name);
  CT_TRY(list_tar_add_text(r, from->name, &m.name));
  if (from->type == '2')
    CT_TRY(bad_member(r, &m, "is a symbolic link: images and labels must lie in the file itself"));
  if (from->type == '1') CT_TRY(list_tar_add_text(r, from->link, &m.link));
  CT_TRY(ct_mem_grow((void **)&r->m, &r->cap, r->n + 1, sizeof *r->m));
  r->m[r->n++] = m;
  ct_heartbeat_progress();
out:
  return rc;
}

static int compare_stems(const char *a, int32_t a_bytes, const char *b, int32_t b_bytes)
{
  int order = memcmp(a, b, (size_t)(a_bytes < b_bytes ? a_bytes : b_bytes));
  return order ? order : a_bytes - b_bytes;
}

static const char *sorted_text; /* qsort() has no argument; lists are made by one thread */

static int by_stem(const void *a, const void *b)
{
  const member_t *x = *(member_t *const *)a, *y = *(member_t *const *)b;
  int order = compare_stems(sorted_text + x->name, x->stem, sorted_text + y->name, y->stem);
  return order                ? order
         : x->kind != y->kind ? (int)x->kind - (int)y->kind
         : x->name != y->name ? (x->name < y->name ? -1 : 1)
                              : 0;
}

static int sort_members(reading_t *r)
{
  ct_mem_free(r->order);
  r->order = ct_mem_array(r->n, sizeof *r->order, "members of a tar file");
  if (!r->order) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < r->n; i++)
    r->order[i] = &r->m[i];
  sorted_text = r->text;
  qsort(r->order, (size_t)r->n, sizeof *r->order, by_stem);
  return CT_OK;
}

/* Finds the first member in sorted order with this stem; NULL: none. */
static member_t **find_stem(const reading_t *r, const char *text, int32_t bytes)
{
  int64_t low = 0, high = r->n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    const member_t *m = r->order[middle];
    if (compare_stems(name_of(r, m), m->stem, text, bytes) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == r->n) return NULL;
  const member_t *m = r->order[low];
  return compare_stems(name_of(r, m), m->stem, text, bytes) == 0 ? r->order + low : NULL;
}

/* Resolves hard links, which tar writes for further names of a file; the content is stored under
 * the first name. */
static int follow_link(reading_t *r, member_t *m)
{
  const char *to = r->text + m->link, *dot = strrchr(to, '.');
  member_t **at = dot ? find_stem(r, to, (int32_t)(dot - to)) : NULL;
  for (; at && at < r->order + r->n && (*at)->stem == dot - to; at++) {
    if (strncmp(name_of(r, *at), to, (size_t)(dot - to)) != 0) break;
    if (strcmp(name_of(r, *at), to) != 0 || (*at)->link != NONE) continue;
    m->at = (*at)->at;
    m->bytes = (*at)->bytes;
    return CT_OK;
  }
  return bad_member(r, m, "is a link to a member that is not an image or label of this archive");
}

/* ---- labels ---- */

static int json_text(reading_t *r, member_t *m, const char *text, size_t bytes)
{
  static const char *const keys[] = {"label", "cls", "class"};
  int rc = CT_OK;
  char number[40];
  json_t *o = json_loadb(text, bytes, JSON_DECODE_ANY, NULL), *value = NULL;
  if (!o) CT_TRY(bad_member(r, m, "is not valid JSON"));
  for (int i = 0; i < 3 && !value; i++)
    value = json_object_get(o, keys[i]);
  if (!value) goto out; /* it has another use */
  if (json_is_string(value)) {
    CT_TRY(list_tar_add_text(r, json_string_value(value), &m->label));
  } else if (json_is_number(value)) {
    CT_TRY(json_is_integer(value)
               ? ct_text_format(number, sizeof number, "%" JSON_INTEGER_FORMAT,
                                json_integer_value(value))
               : ct_text_format(number, sizeof number, "%.17g", json_real_value(value)));
    CT_TRY(list_tar_add_text(r, number, &m->label));
  } else if (json_is_boolean(value)) {
    CT_TRY(list_tar_add_text(r, json_is_true(value) ? "1" : "0", &m->label));
  } else
    CT_TRY(bad_member(r, m, "its label is neither a number nor a text"));
out:
  json_decref(o);
  return rc;
}

/* Reads the text of a label, once. */
static int read_label(reading_t *r, member_t *m)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes = (size_t)m->bytes;
  if (m->label != NONE) return CT_OK;
  if (m->bytes > MOST_TEXT) return bad_member(r, m, "is too long for a label");
  text = ct_mem_alloc(bytes + 1, "a label");
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(ct_file_read_at(r->tar.fd, r->tar.path, m->at, text, bytes));
  text[bytes] = '\0';
  char *json = strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
  if (m->kind == JSON) {
    CT_TRY(json_text(r, m, json, bytes - (size_t)(json - text)));
  } else {
    if (strlen(text) != bytes) CT_TRY(bad_member(r, m, "contains zero bytes: expected a label"));
    CT_TRY(list_tar_add_text(r, text, &m->label));
  }
out:
  ct_mem_free(text);
  return rc;
}

/* KEY.cls and KEY.json both have a label: equal numbers are the same label. */
static int check_both(const reading_t *r, const member_t *cls, const member_t *json)
{
  int64_t a, b;
  char x[64], y[64], *px = x, *py = y;
  if (ct_text_format(x, sizeof x, "%s", r->text + cls->label) != CT_OK ||
      ct_text_format(y, sizeof y, "%s", r->text + json->label) != CT_OK)
    return CT_OK; /* names */
  if (ct__pack_label_kind(&px, &a) == CT__LABEL_NUMBER &&
      ct__pack_label_kind(&py, &b) == CT__LABEL_NUMBER && a != b)
    return bad_member(r, json, "has another label than the member KEY.cls beside it");
  return CT_OK;
}

/* Assigns to an image the label of the members with its stem, CLS before JSON. */
static int give_label(reading_t *r, member_t *image, member_t *cls, member_t *json)
{
  int rc = CT_OK;
  if (cls) CT_TRY(read_label(r, cls));
  if (json) CT_TRY(read_label(r, json));
  if (cls && json && json->label != NONE) CT_TRY(check_both(r, cls, json));
  member_t *from = cls ? cls : json && json->label != NONE ? json : NULL;
  if (!from) return CT_OK;
  from->used = 1;
  image->label = from->label;
  image->from = from->name;
out:
  return rc;
}

/* Takes the members with one stem, one of each kind. */
static int take_group(reading_t *r, member_t **group, member_t *of[KINDS])
{
  int rc = CT_OK;
  const member_t *first = group[0];
  memset(of, 0, KINDS * sizeof *of);
  for (; group < r->order + r->n; group++) {
    member_t *m = *group, *other = of[m->kind];
    if (compare_stems(name_of(r, m), m->stem, name_of(r, first), first->stem) != 0) break;
    if (other && strcmp(name_of(r, m), name_of(r, other)) == 0)
      CT_TRY(bad_member(r, m, "is there twice: which one counts?"));
    if (other)
      CT_FAIL(CT_ERR_FORMAT, "%s: the sample %.*s has two %s, of which %s is the second",
              r->tar.path, m->stem, name_of(r, m), m->kind == IMAGE ? "images" : "labels",
              name_of(r, m));
    of[m->kind] = m;
  }
out:
  return rc;
}

/* ---- samples ---- */

/* Assigns labels to images with the same stem. */
static int pair_stems(reading_t *r)
{
  int rc = CT_OK;
  member_t *of[KINDS];
  for (int64_t i = 0; i < r->n; i++) {
    const member_t *before = i ? r->order[i - 1] : NULL, *m = r->order[i];
    if (before && compare_stems(name_of(r, before), before->stem, name_of(r, m), m->stem) == 0)
      continue;
    CT_TRY(take_group(r, &r->order[i], of));
    if (of[IMAGE]) CT_TRY(give_label(r, of[IMAGE], of[CLS], of[JSON]));
  }
out:
  return rc;
}

/* Handles an image KEY.x.png without a label by WebDataset's rule: it is another field of a sample
 * whose image is KEY.png, or it is the image of KEY.cls. */
static int pair_key(reading_t *r, member_t *image)
{
  int rc = CT_OK;
  member_t *of[KINDS], **group = find_stem(r, name_of(r, image), image->key);
  if (!group) return CT_OK;
  CT_TRY(take_group(r, group, of));
  if (of[IMAGE]) {
    image->used = 1;
    if (r->aside++ == 0) r->first_aside = image->name;
    return CT_OK;
  }
  if ((of[CLS] && of[CLS]->used) || (of[JSON] && of[JSON]->used))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the sample %.*s has two images, of which %s is the second: which one is labelled? "
            "Give each its own label: NAME.cls beside NAME.png",
            r->tar.path, image->key, name_of(r, image), name_of(r, image));
  CT_TRY(give_label(r, image, of[CLS], of[JSON]));
out:
  return rc;
}

static int pair_keys(reading_t *r)
{
  int rc = CT_OK, labels = 0;
  for (int64_t i = 0; i < r->n; i++)
    labels |= r->m[i].kind != IMAGE;
  for (int64_t i = 0; i < r->n && labels; i++) {
    member_t *m = &r->m[i];
    if (m->kind == IMAGE && m->label == NONE && m->key < m->stem) CT_TRY(pair_key(r, m));
  }
out:
  return rc;
}

static int add_image(reading_t *r, const member_t *m)
{
  int rc = CT_OK;
  int64_t i = r->l->n;
  CT_TRY(ct__pack_list_add_member(r->l, name_of(r, m), r->number, m->at, m->bytes));
  CT_TRY(ct_mem_grow((void **)&r->label, &r->label_cap, i + 1, sizeof *r->label));
  CT_TRY(ct_mem_grow((void **)&r->where, &r->where_cap, i + 1, sizeof *r->where));
  r->label[i] = m->label;
  r->where[i] = m->from;
  r->labelled += m->label != NONE;
out:
  return rc;
}

/* Finds the samples when all members of an archive are known. */
static int end_archive(reading_t *r)
{
  int rc = CT_OK;
  CT_TRY(sort_members(r));
  for (int64_t i = 0; i < r->n; i++)
    if (r->m[i].link != NONE) CT_TRY(follow_link(r, &r->m[i]));
  CT_TRY(pair_stems(r));
  CT_TRY(pair_keys(r));
  for (int64_t i = 0; i < r->n; i++) {
    const member_t *m = &r->m[i];
    if (m->kind == IMAGE && !m->used) CT_TRY(add_image(r, m));
    if (m->kind == CLS && !m->used && r->alone++ == 0) r->first_alone = m->name;
  }
  r->n = 0;
out:
  return rc;
}

static int read_tar(reading_t *r, const char *path)
{
  int rc = CT_OK, archive = 0;
  ct__tar_member_t m;
  ct_heartbeat_file(path);
  CT_TRY(ct__tar_open(path, &r->tar));
  for (;;) {
    CT_TRY(ct__tar_next(&r->tar, &m));
    if (!m.type) break;
    if (m.archive != archive) CT_TRY(end_archive(r));
    archive = m.archive;
    CT_TRY(take_member(r, &m));
  }
  CT_TRY(end_archive(r));
  if (archive)
    ct_log(CT_LOG_INFO, "%s: %d archives follow each other in it, all are read", path, archive + 1);
out:
  ct_heartbeat_file(NULL);
  ct__tar_close(&r->tar);
  return rc;
}

/* ---- all files ---- */

static int check_labels(const reading_t *r, const char *pattern)
{
  int rc = CT_OK;
  const ct__pack_list_t *l = r->l;
  int64_t i = 0;
  if (r->alone)
    ct_log(CT_LOG_WARN, "%s: %" PRId64 " label%s of no image, such as %s", pattern, r->alone,
           r->alone == 1 ? " is" : "s are", r->text + r->first_alone);
  if (r->aside)
    ct_log(CT_LOG_WARN,
           "%s: %" PRId64 " image%s left out, such as %s: its sample has another image, KEY.png",
           pattern, r->aside, r->aside == 1 ? " is" : "s are", r->text + r->first_aside);
  while (r->labelled && i < l->n && r->label[i] != NONE)
    i++;
  if (r->labelled && r->labelled < l->n)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: %s has no label, which others have: expected KEY.cls, or a label in KEY.json (so "
            "%" PRId64 " of %" PRId64 " images)",
            ct__pack_list_text(l, l->tar_name[l->entry[i].tar]),
            ct__pack_list_text(l, l->entry[i].name), l->n - r->labelled, l->n);
  if (r->alone && !r->labelled)
    CT_FAIL(CT_ERR_FORMAT, "%s: no image has a label, but there is %s: expected KEY.png, KEY.cls",
            pattern, r->text + r->first_alone);
out:
  return rc;
}

/* If there are no labels, the folders are the classes. */
static int add_folder(reading_t *r, int64_t i, ct__pack_labels_t *to)
{
  int rc = CT_OK;
  const ct__pack_entry_t *e = &r->l->entry[i];
  const char *tar = ct__pack_list_text(r->l, r->l->tar_name[e->tar]);
  const char *name = ct__pack_list_text(r->l, e->name), *base = strrchr(name, '/');
  char folder[CT_PATH_MAX], where[CT_PATH_MAX];
  while (strncmp(name, "./", 2) == 0)
    name += 2;
  if (!base || base < name)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: %s has no label: expected KEY.cls, a label in KEY.json, or images in a folder for "
            "each class",
            tar, name);
  CT_TRY(ct_text_format(folder, sizeof folder, "%.*s", (int)(base - name), name));
  ct_text_fit(where, sizeof where, "%s: %s", tar, name);
  to->only_names = 1;
  CT_TRY(ct__pack_labels_add(to, folder, where));
out:
  return rc;
}

static int add_label(const reading_t *r, int64_t i, ct__pack_labels_t *to)
{
  int rc = CT_OK;
  char where[CT_PATH_MAX], *copy = ct_mem_strdup(r->text + r->label[i]);
  if (!copy) return CT_ERR_NOMEM;
  ct_text_fit(where, sizeof where, "%s: %s",
              ct__pack_list_text(r->l, r->l->tar_name[r->l->entry[i].tar]), r->text + r->where[i]);
  CT_TRY(ct__pack_labels_add(to, copy, where));
out:
  ct_mem_free(copy);
  return rc;
}

static int give_labels(reading_t *r, const char *pattern)
{
  int rc = CT_OK;
  ct__pack_labels_t labels = {0};
  for (int64_t i = 0; i < r->l->n; i++)
    CT_TRY(r->labelled ? add_label(r, i, &labels) : add_folder(r, i, &labels));
  CT_TRY(ct__pack_labels_finish(&labels, pattern));
  CT_TRY(ct__pack_list_label(r->l, &labels));
  if (!r->labelled && labels.classes == 1)
    ct_log(CT_LOG_WARN, "%s: has no labels, and its images lie in one folder: all are of one class",
           pattern);
out:
  ct__pack_labels_clear(&labels);
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
    const char *name = file[i]; /* glob() has prefixed our "." */
    if (strncmp(name, "./", 2) == 0 && strncmp(pattern, "./", 2) != 0) name += 2;
    CT_TRY(ct__pack_list_add_text(l, name, &l->tar_name[i]));
    l->tars = i + 1;
    r.number = i;
    CT_TRY(read_tar(&r, name));
  }
  if (l->n == 0) CT_FAIL(CT_ERR_FORMAT, "%s: contains no images", pattern);
  CT_TRY(check_labels(&r, pattern));
  CT_TRY(give_labels(&r, pattern));
out:
  ct_file_list_free(file, files);
  ct_mem_free(r.text);
  ct_mem_free(r.m);
  ct_mem_free(r.order);
  ct_mem_free(r.label);
  ct_mem_free(r.where);
  return rc;
}
