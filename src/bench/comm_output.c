/* Output of `bench comm`: for each call and algorithm a table with the columns of nccl-tests, and
 * for each level the fitted latency and bandwidth that the scaling model uses. */
#include "bench/comm_output.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"

/* ---- latency-bandwidth fit of one algorithm's all-reduces ---- */

static int same_table(const ct_bench_comm_row_t *a, const ct_bench_comm_row_t *b)
{
  return a->call == b->call && strcmp(a->over, b->over) == 0 && strcmp(a->level, b->level) == 0;
}

/* Returns the number of rows of the table that starts with row \a first. */
static int64_t table_rows(const ct_bench_comm_t *b, int64_t first)
{
  int64_t n = 1;
  while (first + n < b->rows && same_table(&b->row[first], &b->row[first + n]))
    n++;
  return n;
}

typedef struct line {
  ct_link_t link;
  double error;
} line_t;

/* Fits the line and returns 1 if the table has all-reduces of a level with one kind of link.  The
 * bandwidth is infinite if large messages took no longer than small ones, as on busy cores. */
static int fit(const ct_bench_comm_row_t *row, int64_t n, line_t *out)
{
  if (row->call != CT_COMM_ALL_REDUCE || strcmp(row->level, "all") == 0 || n < 2) return 0;
  ct_link_point_t *p = ct_mem_array(n, sizeof *p, "points");
  if (!p) return 0;
  for (int64_t i = 0; i < n; i++)
    p[i] = (ct_link_point_t){ct_comm_cost(row[i].call, row[i].algorithm, row[i].ranks),
                             (double)row[i].count * sizeof(float), row[i].seconds};
  out->error = ct_link_fit(p, (int)n, &out->link);
  ct_mem_free(p);
  return 1;
}

/* ---- text ---- */

static double output_bytes_of(const ct_bench_comm_row_t *r)
{
  return (double)r->count * sizeof(float);
}

/* bandwidth in GB/s */
static double rate_of(const ct_bench_comm_row_t *r)
{
  return output_bytes_of(r) / r->seconds * 1e-9;
}

static const char *redop_of(const ct_bench_comm_row_t *r)
{
  return r->call == CT_COMM_ALL_GATHER ? "none" : "sum";
}

static int add_table(const ct_bench_comm_row_t *row, int64_t n, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out,
                    "\n# %s over %s, level %s: ranks %d, nodes %d\n"
                    "#%37s  %35s  %35s\n"
                    "#%11s %11s %7s %5s  %10s %8s %8s %6s  %10s %8s %8s %6s\n"
                    "#%11s %11s %7s %5s  %10s %8s %8s %6s  %10s %8s %8s\n",
                    ct_comm_call_name(row->call), row->over, row->level, row->ranks, row->nodes, "",
                    "out of place", "in place", "size", "count", "type", "redop", "time", "algbw",
                    "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", "(B)", "(elements)", "",
                    "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)"));
  for (const ct_bench_comm_row_t *r = row; r < row + n; r++)
    CT_TRY(ct_str_add(out, "%12.0f %11lld %7s %5s  %10s %8s %8s %6s  %10.2f %8.3f %8.3f %6lld\n",
                      output_bytes_of(r), (long long)r->count, "float", redop_of(r), "-", "-", "-",
                      "-", 1e6 * r->seconds, rate_of(r),
                      rate_of(r) * ct_comm_bus_factor(r->call, r->ranks), (long long)r->wrong));
out:
  return rc;
}

int ct_bench_comm_text(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out)
{
  int rc = CT_OK;
  char library[128];
  line_t line;
  ct_topo_library(library, sizeof library);
  CT_TRY(ct_str_add(out, "# ranks %d, nodes %d, %s\n", t->size, t->nodes, library));
  for (int64_t i = 0, n; i < b->rows; i += n) {
    n = table_rows(b, i);
    CT_TRY(add_table(&b->row[i], n, out));
  }
  CT_TRY(ct_str_add(out, "\nlinks, fitted to the in-place all-reduces: latency and bandwidth\n"));
  for (int64_t i = 0, n; i < b->rows; i += n) {
    n = table_rows(b, i);
    if (fit(&b->row[i], n, &line) && isfinite(line.link.bytes_per_s))
      CT_TRY(ct_str_add(out, "  %-5s over %-8s %10.2f us %10.3f GB/s   at most %.0f %% off\n",
                        b->row[i].level, b->row[i].over, 1e6 * line.link.alpha_s,
                        1e-9 * line.link.bytes_per_s, 100 * line.error));
  }
out:
  return rc;
}

/* ---- JSON ---- */

static json_t *row_object(const ct_bench_comm_row_t *r)
{
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:n, s:{s:f, s:f, s:f, s:I}}",
                   "op", ct_comm_call_name(r->call), "over", r->over, "level", r->level, "ranks",
                   r->ranks, "nodes", r->nodes, "bytes", (json_int_t)output_bytes_of(r), "count",
                   (json_int_t)r->count, "type", "float32", "redop", redop_of(r), "out_of_place",
                   "in_place", "time_s", r->seconds, "algbw_gbs", rate_of(r), "busbw_gbs",
                   rate_of(r) * ct_comm_bus_factor(r->call, r->ranks), "wrong",
                   (json_int_t)r->wrong);
}

int ct_bench_comm_json(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out)
{
  char library[128];
  line_t line;
  json_t *rows = json_array(), *links = json_array();
  ct_topo_library(library, sizeof library);
  for (int64_t i = 0; i < b->rows; i++)
    json_array_append_new(rows, row_object(&b->row[i]));
  for (int64_t i = 0, n; i < b->rows; i += n) {
    const ct_bench_comm_row_t *r = &b->row[i];
    n = table_rows(b, i);
    if (fit(r, n, &line))
      json_array_append_new(links, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "level", r->level,
                                             "over", r->over, "ranks", r->ranks, "alpha_s",
                                             ct_json_number(line.link.alpha_s), "bytes_per_s",
                                             ct_json_number(line.link.bytes_per_s), "error",
                                             ct_json_number(line.error)));
  }
  json_t *o = json_pack("{s:i, s:i, s:i, s:o, s:o, s:o}", "ranks", t->size, "nodes", t->nodes,
                        "local_ranks", t->local_size, "library", ct_json_words(library), "rows",
                        rows, "links", links);
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}
