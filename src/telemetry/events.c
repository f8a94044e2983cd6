/* Event files of TensorBoard: records, and lines of metrics.jsonl as scalars. */
#include "telemetry/events.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

struct ct_events {
  FILE *f;
  int losing; /* 1: a write has failed, and events are dropped */
  ct_proto_t event;
  char path[CT_PATH_MAX];
};

/* Field numbers of an Event, of a Summary in an Event, and of a Value in a Summary. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION = 7 };
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2 };

/* ---- records ---- */

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put_bytes(unsigned char *to, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

/* TensorFlow's masked CRC: a CRC over data that contains CRCs would be weak. */
static uint32_t masked(const void *data, size_t bytes)
{
  uint32_t crc = ct_crc32c(data, bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

static int write_record(ct_events_t *e)
{
  size_t n = (size_t)e->event.len;
  unsigned char head[12], tail[4];
  put_bytes(head, n, 8);
  put_bytes(head + 8, masked(head, 8), 4);
  put_bytes(tail, masked(e->event.data, n), 4);
  return fwrite(head, sizeof head, 1, e->f) == 1 && fwrite(e->event.data, n, 1, e->f) == 1 &&
         fwrite(tail, sizeof tail, 1, e->f) == 1 && fflush(e->f) == 0;
}

ct_proto_t *ct__event_begin(ct_events_t *e)
{
  e->event.len = 0;
  e->event.failed = 0;
  ct_proto_double(&e->event, WALL_TIME, now());
  return &e->event;
}

/* Writes a record.  After an incomplete record nothing is written, since readers stop at it. */
void ct__event_end(ct_events_t *e)
{
  if (e->losing) return;
  errno = 0;
  if (!e->event.failed && write_record(e)) return;
  e->losing = 1;
  ct_log(CT_LOG_WARN, "%s: cannot be written: %s; TensorBoard gets no more events of this session",
         e->path, e->event.failed ? "no memory" : strerror(errno));
}

/* ---- the file ---- */

static void begin_file(ct_events_t *e, int64_t step, int anew)
{
  ct_proto_text(ct__event_begin(e), FILE_VERSION, "brain.Event:2");
  ct__event_end(e);
  if (!anew) return;
  ct_proto_t *p = ct__event_begin(e);
  ct_proto_int(p, STEP, step + 1);
  int64_t log = ct_proto_begin(p, SESSION);
  ct_proto_int(p, 1, 1); /* SessionLog.START */
  ct_proto_end(p, log);
  ct__event_end(e);
}

int ct_events_open(const char *dir, int64_t step, int anew, ct_events_t **out)
{
  int rc = CT_OK;
  char name[200], host[80] = "host";
  ct_events_t *e = ct_mem_alloc(sizeof *e, "TensorBoard's events");
  if (!e) CT_TRY(CT_ERR_NOMEM);
  gethostname(host, sizeof host - 1);
  snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%ld.0", (long long)time(NULL), host,
           (long)getpid());
  CT_TRY(ct_path_join(e->path, sizeof e->path, dir, name));
  e->f = ct_file_new_stream(e->path);
  if (!e->f) CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %m", e->path);
  begin_file(e, step, anew);
  *out = e;
  e = NULL;
out:
  ct_events_close(e);
  return rc;
}

void ct_events_close(ct_events_t *e)
{
  if (!e) return;
  if (e->f) fclose(e->f);
  ct_proto_clear(&e->event);
  ct_mem_free(e);
}

/* ---- scalars ---- */

static void add_value(ct_proto_t *p, const char *folder, const char *key, double value)
{
  char tag[200];
  snprintf(tag, sizeof tag, "%s/%s", folder, key);
  int64_t at = ct_proto_begin(p, VALUE);
  ct_proto_text(p, TAG, tag);
  ct_proto_float(p, SIMPLE_VALUE, (float)value);
  ct_proto_end(p, at);
}

static int is_place(const char *key)
{
  static const char *const places[] = {"run", "elapsed_s", "step", "epoch", "samples"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (strcmp(key, places[i]) == 0) return 1;
  return 0;
}

/* Returns the tag group of a key: "speed" for keys of a step that end in seconds or "per second",
 * else "train" or the event. */
static const char *folder_of(const char *event, const char *key)
{
  size_t n = strlen(key);
  if (strcmp(event, "step") != 0) return event;
  return (n > 2 && strcmp(key + n - 2, "_s") == 0) || strstr(key, "_s_") ? "speed" : "train";
}

static void events_add_numbers(ct_proto_t *p, const json_t *line, const char *event)
{
  char of_set[40];
  const char *set = json_string_value(json_object_get(line, "set"));
  if (set) {
    snprintf(of_set, sizeof of_set, "%s/%.30s", event, set);
    event = of_set;
  }
  const char *key, *match;
  json_t *v, *rate;
  json_object_foreach((json_t *)(uintptr_t)line, key, v)
  {
    if (json_is_number(v) && !is_place(key))
      add_value(p, folder_of(event, key), key, json_number_value(v));
    if (strcmp(key, "lr_groups") == 0)
      json_object_foreach(v, match, rate) add_value(p, "train/lr", match, json_number_value(rate));
  }
}

void ct_events_line(ct_events_t *e, const json_t *line)
{
  const char *event = json_string_value(json_object_get(line, "event"));
  if (!e || !event) return;
  if (strcmp(event, "step") != 0 && strcmp(event, "epoch") != 0 && strcmp(event, "eval") != 0)
    return;
  ct_proto_t *p = ct__event_begin(e);
  ct_proto_int(p, STEP, json_integer_value(json_object_get(line, "step")));
  int64_t summary = ct_proto_begin(p, SUMMARY);
  events_add_numbers(p, line, event);
  ct_proto_end(p, summary);
  ct__event_end(e);
}
