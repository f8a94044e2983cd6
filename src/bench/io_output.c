/* Output of `bench io`: the rate, and how the reading threads spend their time. */
#include "bench/io_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"

int64_t ct_bench_io_disk(void)
{
  static const char key[] = "\nread_bytes: ";
  char *text = NULL;
  size_t bytes;
  int64_t disk = -1;
  if (ct_file_read("/proc/self/io", &text, &bytes) == CT_OK) {
    const char *line = strstr(text, key);
    if (line) sscanf(line + strlen(key), "%" SCNd64, &disk);
  }
  ct_mem_free(text);
  return disk;
}

static double io_output_share(const int64_t *ns, int phase)
{
  double all = 0;
  for (int i = 0; i < CT_IO_COUNT; i++)
    all += (double)ns[i];
  return all > 0 ? (double)ns[phase] / all : 0;
}

/* ---- JSON ---- */

static json_t *phases_json(const ct_bench_io_t *b)
{
  json_t *o = json_object();
  for (int i = 0; i < CT_IO_COUNT; i++)
    json_object_set_new(o, ct_io_name((ct_io_phase_t)i),
                        json_pack("{s:f, s:f, s:I, s:I}", "share", io_output_share(b->ns, i),
                                  "seconds", 1e-9 * (double)b->ns[i], "pieces",
                                  (json_int_t)b->times[i], "bytes", (json_int_t)b->bytes[i]));
  return o;
}

static json_t *threads_json(const ct_bench_io_t *b)
{
  json_t *list = json_array();
  for (int t = 0; t < b->threads; t++) {
    json_t *o = json_object();
    for (int i = 0; i < CT_IO_COUNT; i++)
      json_object_set_new(o, ct_io_name((ct_io_phase_t)i),
                          json_real(1e-9 * (double)b->thread_ns[t][i]));
    json_array_append_new(list, o);
  }
  return list;
}

int ct_bench_io_json(const ct_bench_io_t *b, ct_str_t *out)
{
  json_t *o = json_pack("{s:i, s:i, s:I, s:s, s:s, s:f, s:f, s:f}", "ranks", b->ranks, "threads",
                        b->threads, "batch", (json_int_t)b->batch, "stored", b->from, "sample",
                        b->to, "seconds", b->seconds, "samples_per_s", b->all,
                        "samples_per_s_per_thread", b->all / (b->ranks * b->threads));
  json_object_set_new(o, "phases", phases_json(b));
  json_object_set_new(o, "thread_seconds", threads_json(b));
  json_object_set_new(o, "disk_bytes", b->disk < 0 ? json_null() : json_integer(b->disk));
  json_object_set_new(o, "samples_of_a_block", b->mates > 0 ? json_real(b->mates) : json_null());
  json_object_set_new(o, "samples_of_a_block_full_shuffle",
                      b->mates > 0 ? json_real(b->full_mates) : json_null());
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

/* ---- text ---- */

/* Appends the time fractions of single threads, which differ if some have more work, such as larger
 * samples. */
static int add_threads(const ct_bench_io_t *b, int phase, ct_str_t *out)
{
  int rc = CT_OK;
  enum { SHOWN = 8 };
  for (int t = 0; t < b->threads && t < SHOWN && b->threads > 1; t++)
    CT_TRY(ct_str_add(out, " %5.1f", 100 * io_output_share(b->thread_ns[t], phase)));
  CT_TRY(ct_str_add(out, "  %s\n", ct_io_help((ct_io_phase_t)phase)));
out:
  return rc;
}

/* Appends a phase: its fraction of the time, and its rate while a thread is in it. */
static int add_phase(const ct_bench_io_t *b, int i, double samples, ct_str_t *out)
{
  int rc = CT_OK;
  char rate[32] = "", per_second[40] = "";
  if (b->ns[i] == 0) return rc;
  double seconds = 1e-9 * (double)b->ns[i];
  if (b->bytes[i])
    snprintf(per_second, sizeof per_second, "%s/s",
             ct_text_bytes((double)b->bytes[i] / seconds, rate, sizeof rate));
  CT_TRY(ct_str_add(out, "    %-10s %5.1f %12.2f %12s", ct_io_name((ct_io_phase_t)i),
                    100 * io_output_share(b->ns, i), samples > 0 ? 1e6 * seconds / samples : 0,
                    per_second));
  CT_TRY(add_threads(b, i, out));
out:
  return rc;
}

static int add_phases(const ct_bench_io_t *b, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "  time of the reading threads\n    %-10s %5s %12s %12s%s\n", "", "%",
                    "us/sample", "while at it",
                    b->threads > 1 ? "  % of each thread of rank 0" : ""));
  for (int i = 0; i < CT_IO_COUNT; i++)
    CT_TRY(add_phase(b, i, b->all * b->seconds, out));
out:
  return rc;
}

static int add_disk(const ct_bench_io_t *b, ct_str_t *out)
{
  char size[32], rate[32];
  if (b->disk < 0) return ct_str_add(out, "  from disks      unknown here\n");
  return ct_str_add(out, "  from disks      %s, %s/s\n",
                    ct_text_bytes((double)b->disk, size, sizeof size),
                    ct_text_bytes((double)b->disk / b->seconds, rate, sizeof rate));
}

int ct_bench_io_text(const ct_bench_io_t *b, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out,
                    "%d rank%s x %d reading thread%s, global batch %lld, %.1f s\n"
                    "  sample          %s to float32 %s\n"
                    "  samples/s       %.1f\n"
                    "  per thread      %.1f\n",
                    b->ranks, b->ranks == 1 ? "" : "s", b->threads, b->threads == 1 ? "" : "s",
                    (long long)b->batch, b->seconds, b->from, b->to, b->all,
                    b->all / (b->ranks * b->threads)));
  if (b->mates > 0)
    CT_TRY(ct_str_add(out,
                      "  order           a batch has %.1f samples of the block of each (full "
                      "shuffle: %.1f)\n",
                      b->mates, b->full_mates));
  CT_TRY(add_disk(b, out));
  CT_TRY(add_phases(b, out));
out:
  return rc;
}
