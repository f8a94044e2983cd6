/* Charts as SVG text.  Coordinates have one decimal: a tenth of a pixel on most screens. */
#include "study/output/chart.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { LEFT = 74, RIGHT = 18, TOP = 16, BOTTOM = 48, TICKS = 8, WIDTH = 720 };

const char *ct__colour(int i)
{
  static const char *const colours[] = {
      "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8a7a00", "#777777",
      "#9fc8e4", "#f5d48a", "#8fd3bd", "#f0b48a", "#bfe3f7", "#ecc9dd", "#d3cb7f", "#bbbbbb"};
  return colours[i % (int)(sizeof colours / sizeof *colours)];
}

int ct__html(ct_str_t *out, const char *before, const char *text, const char *after)
{
  int rc = CT_OK;
  uint32_t code;
  CT_TRY(ct_str_add(out, "%s", before));
  for (int n; *text; text += n) {
    n = ct_text_utf8(text, &code);
    if (n == 0 || (code < ' ' && code != '\n')) {
      CT_TRY(ct_str_add(out, "?"));
      n = 1;
    } else if (code == '&' || code == '<' || code == '>' || code == '"' || code == '\'') {
      CT_TRY(ct_str_add(out, "&#%d;", (int)code));
    } else {
      CT_TRY(ct_str_add(out, "%.*s", n, text));
    }
  }
  CT_TRY(ct_str_add(out, "%s", after));
out:
  return rc;
}

int ct__series_add(ct__series_t *s, const ct__mark_t *mark)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&s->mark, &s->cap, s->n + 1, sizeof *s->mark));
  s->mark[s->n++] = *mark;
out:
  return rc;
}

/* ---- from values to pixels ---- */

static double fraction(const ct__axis_t *a, double v)
{
  double f = a->log ? log(fmax(v, a->from * 1e-3) / a->from) / log(a->to / a->from)
                    : (v - a->from) / (a->to - a->from);
  return fmin(fmax(f, -0.05), 1.05);
}

static double x_of(const ct__chart_t *c, double v)
{
  return LEFT + fraction(&c->x, v) * (c->width - LEFT - RIGHT);
}

static double y_of(const ct__chart_t *c, double v)
{
  return c->height - BOTTOM - fraction(&c->y, v) * (c->height - TOP - BOTTOM);
}

/* Sets the limits of an axis without limits from the marks; begins at 0 if 0 is near and the axis
 * is not logarithmic. */
static void fit(ct__axis_t *a, int is_x, const ct__series_t *series, int n)
{
  double low = INFINITY, high = -INFINITY;
  if (a->from < a->to) return;
  for (const ct__series_t *s = series; s < series + n; s++)
    for (const ct__mark_t *m = s->mark; m < s->mark + s->n; m++) {
      int has_y = s->kind == CT__LINE || s->kind == CT__POINT, has_range = m->high > m->low;
      if (is_x || has_y) {
        low = fmin(low, is_x ? m->x : m->y);
        high = fmax(high, is_x ? fmax(m->x, s->kind == CT__BOX ? m->to : m->x) : m->y);
      }
      if (is_x || !has_range) continue;
      low = fmin(low, m->low);
      high = fmax(high, m->high);
    }
  double margin = high > low ? 0.05 * (high - low) : 0.1 * fabs(high) + 1e-9;
  a->from = a->log ? low / 1.25 : low >= 0 && low < 0.5 * high ? 0 : low - margin;
  a->to = a->log ? high * 1.25 : high + margin;
}

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten. */
static double round_step(double rough)
{
  double ten = pow(10, floor(log10(rough))), m = rough / ten;
  return ten * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static int log_ticks(const ct__axis_t *a, double *tick)
{
  int n = 0;
  double factor = 2;
  while (log(a->to / a->from) / log(factor) > TICKS - 1)
    factor *= factor == 2 ? 2.5 : 2;
  if (!a->whole) factor = factor < 5 ? factor : 10;
  double first = a->whole ? 1 : pow(10, floor(log10(a->from)));
  for (double v = first; v <= a->to * 1.001 && n < 2 * TICKS; v *= factor)
    if (v >= a->from * 0.999) tick[n++] = a->whole ? round(v) : v;
  return n;
}

static int ticks(const ct__axis_t *a, double *tick)
{
  int n = 0;
  if (a->log) return log_ticks(a, tick);
  double step = round_step((a->to - a->from) / (TICKS - 2));
  if (a->whole) step = fmax(step, 1);
  for (double v = ceil(a->from / step - 1e-9) * step; v <= a->to + 1e-9 * step && n < 2 * TICKS;
       v += step)
    tick[n++] = fabs(v) < 1e-9 * step ? 0 : v;
  return n;
}

static int chart_add_text(ct_str_t *out, double x, double y, const char *anchor, const char *text)
{
  char tag[96];
  snprintf(tag, sizeof tag, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  return ct__html(out, tag, text, "</text>\n");
}

/* Appends the text of a tick, and a grid line if the tick is a number. */
static int add_tick(const ct__chart_t *c, int is_x, double at, const char *name, int line,
                    ct_str_t *out)
{
  int rc = CT_OK;
  double x = x_of(c, at), y = y_of(c, at), bottom = c->height - BOTTOM;
  if (line)
    CT_TRY(ct_str_add(out, "<path class=\"g\" d=\"M%.1f %.1f%c%.1f\"/>", is_x ? x : LEFT,
                      is_x ? TOP : y, is_x ? 'V' : 'H', is_x ? bottom : c->width - RIGHT));
  CT_TRY(is_x ? chart_add_text(out, x, bottom + 16, "middle", name)
              : chart_add_text(out, LEFT - 6, y + 4, "end", name));
out:
  return rc;
}

static int add_axis(const ct__chart_t *c, int is_x, ct_str_t *out)
{
  int rc = CT_OK;
  const ct__axis_t *a = is_x ? &c->x : &c->y;
  double tick[2 * TICKS];
  char text[64];
  int n = a->tick ? 0 : ticks(a, tick);
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%.6g%s", tick[i], a->unit ? a->unit : "");
    CT_TRY(add_tick(c, is_x, tick[i], text, 1, out));
  }
  for (int i = 0; i < a->ticks; i++)
    CT_TRY(add_tick(c, is_x, a->tick[i].at, a->tick[i].name, 0, out));
  if (!a->label) return CT_OK;
  if (is_x)
    return chart_add_text(out, (LEFT + c->width - RIGHT) / 2, c->height - 10, "middle", a->label);
  snprintf(text, sizeof text, "<text transform=\"translate(14 %.1f) rotate(-90)\" ",
           (TOP + c->height - BOTTOM) / 2);
  CT_TRY(ct_str_add(out, "%s", text));
  CT_TRY(ct__html(out, "text-anchor=\"middle\">", a->label, "</text>\n"));
out:
  return rc;
}

/* ---- series ---- */

static int chart_add_line(const ct__chart_t *c, const ct__series_t *s, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out,
                    "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" "
                    "stroke-dasharray=\"%s\" points=\"",
                    s->colour, s->dashes ? s->dashes : "none"));
  for (int64_t i = 0; i < s->n; i++)
    CT_TRY(ct_str_add(out, "%.1f,%.1f ", x_of(c, s->mark[i].x), y_of(c, s->mark[i].y)));
  CT_TRY(ct_str_add(out, "\"/>\n"));
out:
  return rc;
}

static int add_band(const ct__chart_t *c, const ct__series_t *s, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "<polygon fill=\"%s\" fill-opacity=\"0.2\" points=\"", s->colour));
  for (int64_t k = 0; k < 2 * s->n; k++) {
    const ct__mark_t *m = &s->mark[k < s->n ? k : 2 * s->n - 1 - k];
    CT_TRY(ct_str_add(out, "%.1f,%.1f ", x_of(c, m->x), y_of(c, k < s->n ? m->low : m->high)));
  }
  CT_TRY(ct_str_add(out, "\"/>\n"));
out:
  return rc;
}

static int add_point(const ct__chart_t *c, const ct__series_t *s, const ct__mark_t *m,
                     ct_str_t *out)
{
  double x = x_of(c, m->x), y = y_of(c, m->y), low = y_of(c, m->low), high = y_of(c, m->high);
  int rc = CT_OK;
  if (m->high > m->low)
    CT_TRY(ct_str_add(out,
                      "<path stroke=\"%s\" stroke-width=\"1.5\" fill=\"none\" "
                      "d=\"M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8\"/>",
                      s->colour, x, low, high, x - 4, low, x - 4, high));
  CT_TRY(ct_str_add(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", x, y,
                    s->colour));
  if (*m->text) CT_TRY(chart_add_text(out, x + 8, y + 16, "start", m->text));
out:
  return rc;
}

static int add_box(const ct__chart_t *c, const ct__series_t *s, const ct__mark_t *m, ct_str_t *out)
{
  double a = x_of(c, m->x), b = x_of(c, m->to), top = y_of(c, m->high), bottom = y_of(c, m->low);
  int rc = CT_OK;
  CT_TRY(ct_str_add(out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
                    "stroke=\"#fff\" stroke-width=\"0.5\">",
                    a, top, fmax(b - a, 0.5), fmax(bottom - top, 0.5),
                    m->colour ? m->colour : s->colour));
  CT_TRY(ct__html(out, "<title>", m->hint, "</title></rect>\n"));
  if (*m->text) CT_TRY(chart_add_text(out, (a + b) / 2, (top + bottom) / 2 + 4, "middle", m->text));
out:
  return rc;
}

static int add_series(const ct__chart_t *c, const ct__series_t *s, ct_str_t *out)
{
  int rc = CT_OK;
  if (s->n == 0) return CT_OK;
  if (s->kind == CT__LINE) CT_TRY(chart_add_line(c, s, out));
  if (s->kind == CT__BAND) CT_TRY(add_band(c, s, out));
  for (int64_t i = 0; i < s->n && (s->kind == CT__POINT || s->kind == CT__BOX); i++)
    CT_TRY(s->kind == CT__POINT ? add_point(c, s, &s->mark[i], out)
                                : add_box(c, s, &s->mark[i], out));
  const ct__mark_t *last = &s->mark[s->n - 1];
  if (s->label)
    CT_TRY(chart_add_text(out, x_of(c, last->x) - 6, y_of(c, last->y) - 8, "end", s->label));
out:
  return rc;
}

int ct__chart(const ct__chart_t *chart, const ct__series_t *series, int n, ct_str_t *out)
{
  int rc = CT_OK;
  ct__chart_t c = *chart;
  if (!(c.width > 0)) c.width = WIDTH;
  fit(&c.x, 1, series, n);
  fit(&c.y, 0, series, n);
  if (c.heading) CT_TRY(ct__html(out, "<h3>", c.heading, "</h3>\n"));
  CT_TRY(ct_str_add(out, "<svg role=\"img\" viewBox=\"0 0 %g %g\" width=\"%g\">\n", c.width,
                    c.height, c.width));
  CT_TRY(ct__html(out, "<title>", c.title ? c.title : c.heading, "</title>"));
  CT_TRY(ct__html(out, "<desc>", c.description, "</desc>\n"));
  for (int is_x = 1; is_x >= 0; is_x--)
    CT_TRY(add_axis(&c, is_x, out));
  for (int i = 0; i < n; i++)
    CT_TRY(add_series(&c, &series[i], out));
  if (c.left) CT_TRY(chart_add_text(out, LEFT, TOP - 4, "start", c.left));
  if (c.right) CT_TRY(chart_add_text(out, c.width - RIGHT, TOP - 4, "end", c.right));
  CT_TRY(ct_str_add(out, "</svg>\n"));
out:
  return rc;
}
