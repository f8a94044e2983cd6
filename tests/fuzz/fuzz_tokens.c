/* Fuzz target: any bytes as an input of `pack --tokens`.
 *
 * The first byte selects text, JSON lines, FASTA or ids; the second one the size of a read; the
 * third one where the input is cut.  Either the rest is refused with a message that names the
 * file, or both parts of the cut have the bytes and documents of the whole, which is read at once;
 * nothing stays allocated. */
#include "base/ct_mem.h"
#include "pack/tokens.h"
#include "tests/fuzz/fuzz.h"

typedef struct seen {
  char *data;
  int64_t n, cap, documents;
  int open, cut; /* cut: the last document goes on behind the cut */
} seen_t;

static int begin(void *of, int64_t at, int continued)
{
  seen_t *s = of;
  must(!s->open && at >= 0, "documents do not overlap");
  must(continued == s->cut, "a document that is cut goes on, and no other one");
  s->open = 1;
  s->documents += !continued;
  return CT_OK;
}

static int text(void *of, const char *from, int64_t n)
{
  int rc = CT_OK;
  seen_t *s = of;
  must(s->open && n >= 0, "text is in a document");
  CT_TRY(ct_mem_grow((void **)&s->data, &s->cap, s->n + n + 1, 1));
  memcpy(s->data + s->n, from, (size_t)n);
  s->n += n;
out:
  return rc;
}

static int end(void *of, int cut)
{
  seen_t *s = of;
  char line = '\n'; /* documents with the same bytes in all, but other limits, differ */
  must(s->open, "a document begins before it ends");
  s->cut = cut;
  if (!cut) must(text(s, &line, 1) == CT_OK, "there is memory");
  s->open = 0;
  return CT_OK;
}

static int ids(void *of, const void *id, int64_t n, int continued)
{
  seen_t *s = of;
  (void)continued;
  s->open = 1;
  s->documents = s->cut = 0;
  return text(s, id, n * 2);
}

static int part(const ct__tokens_input_t *in, int64_t at, int64_t stop, seen_t *s)
{
  int rc = CT_OK;
  ct__tokens_reader_t r;
  ct__tokens_sink_t sink = {begin, text, end, ids, s};
  CT_TRY(ct__tokens_open(in, in->file, at, stop, &r));
  CT_TRY(ct__tokens_parse(&r, &sink));
out:
  ct__tokens_close(&r);
  return rc;
}

/* Reads all at once, and again in two parts and by small reads. */
static void compare(ct__tokens_input_t *in, int chunk, int64_t position, const char *path)
{
  seen_t whole = {0}, parts = {0};
  int64_t cut = 0;
  in->chunk = in->bytes + in->bytes % 2; /* the default would be cleared each time */
  int bad = refused(part(in, 0, in->bytes, &whole), path);
  in->chunk = chunk;
  must(ct__tokens_cut(in, position, 1 + position / 2, &cut) == CT_OK, "a cut is found");
  must((cut >= position || cut == 0) && cut <= in->bytes, "cuts do not go back");
  int bad_parts = cut > 0 ? refused(part(in, 0, cut, &parts), path) : 0;
  if (!bad_parts && cut < in->bytes) bad_parts = refused(part(in, cut, in->bytes, &parts), path);
  must(bad == bad_parts, "parts are refused if the whole is");
  if (!bad) {
    must(parts.n == whole.n && parts.documents == whole.documents, "parts are the whole");
    must(whole.n == 0 || memcmp(parts.data, whole.data, (size_t)whole.n) == 0,
         "bytes are those of the whole");
  }
  ct_mem_free(whole.data);
  ct_mem_free(parts.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  static const ct_tokens_kind_t kinds[] = {CT_TOKENS_TEXT, CT_TOKENS_JSONL, CT_TOKENS_FASTA,
                                           CT_TOKENS_BIN};
  if (bytes < 4) return 0;
  char path[400];
  snprintf(path, sizeof path, "%s", scratch("in"));
  int64_t live = ct_mem_live(), n = (int64_t)bytes - 3;
  ct__tokens_file_t f = {.kind = (int32_t)kinds[data[0] % 4], .bytes = n};
  ct__tokens_input_t in = {.file = &f,
                           .n = 1,
                           .text = path,
                           .unit = 1,
                           .eot_id = -1,
                           .text_key = "text",
                           .vocab = 65536};
  put(path, data + 3, bytes - 3);
  in.bytes = n;
  int bad = 0;
  if (f.kind == CT_TOKENS_BIN) {
    in.unit = 0;
    bad = refused(ct__tokens_bin(&in, &f, 0), path);
    must(bad || (f.at >= 0 && f.at + f.bytes == n && f.bytes % in.unit == 0),
         "ids are in the file");
    in.bytes = f.bytes;
    in.eot = data[1] & 1 ? CT_EOT_BEFORE : CT_EOT_AFTER;
    if (!bad && in.eot_id < 0) in.eot_id = 257;
    if (!bad && in.unit == 4) in.unit = 2, in.eot_id = 1; /* one width is enough here */
  }
  int64_t position = in.bytes * data[2] / 256 / (in.unit ? in.unit : 1) * in.unit;
  if (!bad && in.bytes > 0) compare(&in, (data[1] % 16 + 1) * 8, position, path);
  must(ct_mem_live() == live, "nothing stays allocated");
  unlink(path);
  return 0;
}
