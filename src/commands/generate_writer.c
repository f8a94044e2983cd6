/* The results of `generate`: text as it is generated, a line of JSON for each prompt, or ids. */
#include "commands/generate_writer.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"

/* ---- the tokenizer ---- */

static int has_tokenizer(const char *folder)
{
  static const char *const names[] = {"tokenizer.blob", "tokenizer.json", "vocab.json"};
  char path[CT_PATH_MAX];
  for (int i = 0; i < 3; i++)
    if (ct_path_join(path, sizeof path, folder, names[i]) == CT_OK && ct_file_exists(path))
      return 1;
  return 0;
}

/* Writes the first folder with a tokenizer among the argument, and the two above the weights: a
 * checkpoint is in RUN/checkpoints.  "": there is none. */
static void find_tokenizer(const char *what, const char *model, char *folder, size_t cap)
{
  ct_text_fit(folder, cap, "%s", what);
  if (ct_file_is_dir(folder) && has_tokenizer(folder)) return;
  ct_text_fit(folder, cap, "%s", model ? model : "");
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(folder, '/');
    if (!slash) break;
    *slash = '\0';
    if (has_tokenizer(folder)) return;
  }
  folder[0] = '\0';
}

static int open_tokenizer(const ct_args_t *a, const char *model, ct__writer_t *w)
{
  int rc = CT_OK;
  char folder[CT_PATH_MAX];
  const char *given = ct_args_get(a, "tokenizer");
  int needed = given || ct_args_get(a, "prompt") || ct_args_get(a, "input") || !w->ids;
  if (!given) find_tokenizer(a->rest[0], model, folder, sizeof folder);
  if (!given && !folder[0]) goto out;
  rc = ct_tokenizer_open(given ? given : folder, &w->tokenizer);
  if (rc == CT_OK)
    ct_log(CT_LOG_INFO, "tokenizer %s: %s", given ? given : folder,
           ct_tokenizer_name(w->tokenizer));
  if (rc == CT_OK || needed) goto out;
  ct_log(CT_LOG_INFO, "no tokenizer, and no id that ends a text: %s", ct_err_last()->text);
  rc = CT_OK;
out:
  return rc;
}

int ct__writer_open(const ct_args_t *a, const char *model, ct__writer_t **out)
{
  int rc = CT_OK;
  const char *path = ct_args_get(a, "output");
  ct__writer_t *w = *out = ct_mem_alloc(sizeof *w, "the output");
  if (!w) return CT_ERR_NOMEM;
  w->ids = ct_args_get(a, "output-tokens") != NULL;
  w->lines = ct_args_get(a, "input") || ct_args_get(a, "input-tokens");
  CT_TRY(open_tokenizer(a, model, w));
  if (!w->tokenizer) w->ids = 1;
  if (path) CT_TRY(ct_out_begin(&w->out, path));
out:
  return rc;
}

/* ---- the output ---- */

static int writer_put(ct__writer_t *w, const char *data, int64_t bytes)
{
  if (w->out.temporary[0]) return ct_out_put(&w->out, data, bytes);
  return ct_app_write(data, (size_t)bytes);
}

/* Decodes ids; the end of the text is not written. */
static int writer_decode(const ct__writer_t *w, const ct_generated_t *s, int64_t first, int64_t end,
                         ct_token_text_t *to)
{
  int whole = end == s->length && s->stop == CT_END_EOT && end > first;
  return ct_tokenizer_decode(w->tokenizer, s->id + first, end - first - whole, to);
}

int ct__writer_stream(void *writer, const ct_generated_t *s)
{
  int rc = CT_OK;
  ct__writer_t *w = writer;
  if (w->ids || w->lines) return CT_OK;
  int64_t first = w->streamed ? s->length - 1 : 0;
  w->streamed = 1;
  CT_TRY(writer_decode(w, s, first, s->length, &w->text));
  int64_t ready = s->stop ? w->text.n : ct_token_text_ready(&w->text);
  if (ready) CT_TRY(writer_put(w, w->text.data, ready));
  ct_token_text_drop(&w->text, ready);
out:
  return rc;
}

/* Returns a JSON string; JSON has no byte 0 in a text here, and no bytes that are not UTF-8. */
static json_t *writer_words(ct_token_text_t *t)
{
  static const char end = '\0';
  int rc = ct_mem_grow((void **)&t->data, &t->cap, t->n + 1, 1);
  if (rc != CT_OK) return NULL;
  for (int64_t i = 0; i < t->n; i++)
    if (!t->data[i]) t->data[i] = ' ';
  t->data[t->n] = end;
  return ct_json_words(t->data);
}

static int add_chunk(const char *text, size_t bytes, void *out)
{
  return ct_str_add(out, "%.*s", (int)bytes, text);
}

static int writer_json(ct__writer_t *w, const ct_generated_t *s)
{
  int rc = CT_OK;
  ct_token_text_t prompt = {0}, text = {0};
  ct_str_t line = {0};
  json_t *o = json_object();
  CT_TRY(writer_decode(w, s, 0, s->prompt, &prompt));
  CT_TRY(writer_decode(w, s, s->prompt, s->length, &text));
  int bad = json_object_set_new(o, "prompt", writer_words(&prompt)) |
            json_object_set_new(o, "text", writer_words(&text)) |
            json_object_set_new(o, "tokens", json_integer(s->length - s->prompt)) |
            json_object_set_new(o, "stop", json_string(ct_text_end_name(s->stop)));
  CT_TRY(bad || json_dump_callback(o, add_chunk, &line, JSON_COMPACT) ? CT_ERR_NOMEM : CT_OK);
  CT_TRY(ct_str_add(&line, "\n"));
  CT_TRY(writer_put(w, line.data, (int64_t)line.len));
out:
  json_decref(o);
  ct_str_clear(&line);
  ct_token_text_clear(&prompt);
  ct_token_text_clear(&text);
  return rc;
}

static int writer_ids(ct__writer_t *w, const ct_generated_t *s)
{
  int rc = CT_OK;
  ct_str_t line = {0};
  for (int64_t i = 0; i < s->length; i++)
    CT_TRY(ct_str_add(&line, "%s%d", i ? "," : "", (int)s->id[i]));
  CT_TRY(ct_str_add(&line, "\n"));
  CT_TRY(writer_put(w, line.data, (int64_t)line.len));
out:
  ct_str_clear(&line);
  return rc;
}

static int writer_text(ct__writer_t *w, const ct_generated_t *s)
{
  int rc = CT_OK;
  if (!w->streamed) {
    CT_TRY(writer_decode(w, s, 0, s->length, &w->text));
    CT_TRY(writer_put(w, w->text.data, w->text.n));
  }
  CT_TRY(writer_put(w, "\n", 1));
out:
  return rc;
}

static int writer_add(ct__writer_t *w, const ct_generated_t *s)
{
  w->sequences++;
  w->tokens += s->length - s->prompt;
  w->stops[s->stop]++;
  if (w->ids) return writer_ids(w, s);
  return w->lines ? writer_json(w, s) : writer_text(w, s);
}

/* ---- from all ranks ---- */

/* A sequence as it is sent: number of ids of the prompt, of all, reason of the end, the ids. */
enum { SENT_PROMPT, SENT_LENGTH, SENT_STOP, SENT_HEAD };

typedef struct arriving {
  ct__writer_t *w;
  int32_t *data;
  int64_t bytes, cap;
  int rc;
} arriving_t;

/* Writes the sequences that are complete, and keeps the rest. */
static int write_complete(arriving_t *a)
{
  int rc = CT_OK;
  int64_t have = a->bytes / (int64_t)sizeof *a->data, at = 0;
  while (have - at >= SENT_HEAD && have - at >= SENT_HEAD + a->data[at + SENT_LENGTH]) {
    int32_t *s = a->data + at;
    ct_generated_t one = {.id = s + SENT_HEAD,
                          .prompt = s[SENT_PROMPT],
                          .length = s[SENT_LENGTH],
                          .stop = (ct_text_end_t)s[SENT_STOP]};
    CT_TRY(writer_add(a->w, &one));
    at += SENT_HEAD + one.length;
  }
  a->bytes -= at * (int64_t)sizeof *a->data;
  memmove(a->data, a->data + at, (size_t)a->bytes);
out:
  return rc;
}

static void take_sequences(void *ctx, int rank, const void *data, size_t bytes)
{
  arriving_t *a = ctx;
  (void)rank;
  if (a->rc != CT_OK) return;
  a->rc = ct_mem_grow((void **)&a->data, &a->cap,
                      (a->bytes + (int64_t)bytes) / (int64_t)sizeof *a->data + 1, sizeof *a->data);
  if (a->rc != CT_OK) return;
  memcpy((char *)a->data + a->bytes, data, bytes);
  a->bytes += (int64_t)bytes;
  a->rc = write_complete(a);
}

int ct__writer_gather(ct__writer_t *w, const ct_topo_t *topo, const ct_generated_t *s,
                      int64_t count)
{
  int rc = CT_OK;
  arriving_t a = {.w = w};
  int64_t n = 0, at = 0;
  for (int64_t i = 0; i < count; i++)
    n += SENT_HEAD + s[i].length;
  int32_t *mine = ct_mem_array(n + 1, sizeof *mine, "the sequences");
  CT_TRY_ALL(topo, mine ? CT_OK : CT_ERR_NOMEM);
  for (int64_t i = 0; i < count; i++) {
    mine[at + SENT_PROMPT] = (int32_t)s[i].prompt;
    mine[at + SENT_LENGTH] = (int32_t)s[i].length;
    mine[at + SENT_STOP] = (int32_t)s[i].stop;
    memcpy(mine + at + SENT_HEAD, s[i].id, (size_t)s[i].length * sizeof *mine);
    at += SENT_HEAD + s[i].length;
  }
  ct_agree_each(topo, mine, (size_t)n * sizeof *mine, take_sequences, &a);
  CT_TRY(ct_agree(topo, a.rc));
out:
  ct_mem_free(mine);
  ct_mem_free(a.data);
  return rc;
}

void ct__writer_log(const ct__writer_t *w, double seconds, int cached)
{
  ct_str_t stops = {0};
  for (int i = CT_END_EOT; i <= CT_END_CONTEXT; i++)
    if (w->stops[i] && w->sequences > 1)
      (void)ct_str_add(&stops, "%s%lld %s", stops.len ? ", " : "", (long long)w->stops[i],
                       ct_text_end_name((ct_text_end_t)i));
    else if (w->stops[i])
      (void)ct_str_add(&stops, "%s", ct_text_end_name((ct_text_end_t)i));
  ct_log(CT_LOG_INFO, "generated %lld tokens in %.2f s, %.1f tokens/s, %s caches; ended by: %s",
         (long long)w->tokens, seconds, seconds > 0 ? (double)w->tokens / seconds : 0,
         cached ? "with" : "without", stops.data ? stops.data : "");
  if (w->stops[CT_END_CONTEXT])
    ct_log(CT_LOG_WARN, "%lld of %lld texts end because the model's context is full",
           (long long)w->stops[CT_END_CONTEXT], (long long)w->sequences);
  ct_str_clear(&stops);
}

int ct__writer_commit(ct__writer_t *w)
{
  return ct_out_commit(&w->out);
}

void ct__writer_close(ct__writer_t *w)
{
  if (!w) return;
  ct_out_drop(&w->out);
  ct_tokenizer_close(w->tokenizer);
  ct_token_text_clear(&w->text);
  ct_mem_free(w);
}
