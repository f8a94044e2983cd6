/* Plots as text.  Numbers have a tenth of a picture unit, which is a pixel on most screens. */
#include "study/output/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"

enum { LEFT = 74, RIGHT = 18, TOP = 16, BOTTOM = 48, MARKS = 8 };

const char *ct__svg_colour(int i)
{
  static const char *const colours[] = {
      "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8a7a00", "#777777",
      "#9fc8e4", "#f5d48a", "#8fd3bd", "#f0b48a", "#bfe3f7", "#ecc9dd", "#d3cb7f", "#bbbbbb"};
  return colours[i % (int)(sizeof colours / sizeof *colours)];
}

int ct__svg_text(ct_str_t *out, const char *text)
{
  int rc = CT_OK;
  uint32_t code;
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
out:
  return rc;
}

/* ---- places ---- */

static double part(const ct__axis_t *a, double v)
{
  if (a->log) return log(fmax(v, a->from * 1e-3) / a->from) / log(a->to / a->from);
  return (v - a->from) / (a->to - a->from);
}

static double within(double v)
{
  return fmin(fmax(v, -0.05), 1.05);
}

double ct__plot_x(const ct__plot_t *p, double x)
{
  return LEFT + within(part(&p->x, x)) * (p->width - LEFT - RIGHT);
}

double ct__plot_y(const ct__plot_t *p, double y)
{
  return p->height - BOTTOM - within(part(&p->y, y)) * (p->height - TOP - BOTTOM);
}

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten. */
static double round_step(double rough)
{
  double ten = pow(10, floor(log10(rough))), m = rough / ten;
  return ten * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static int log_marks(const ct__axis_t *a, double *mark)
{
  int n = 0;
  double factor = 2;
  while (log(a->to / a->from) / log(factor) > MARKS - 1)
    factor *= factor == 2 ? 2.5 : 2;
  if (!a->whole) factor = factor < 5 ? factor : 10;
  double first = a->whole ? 1 : pow(10, floor(log10(a->from)));
  for (double v = first; v <= a->to * 1.001 && n < 2 * MARKS; v *= factor)
    if (v >= a->from * 0.999) mark[n++] = a->whole ? round(v) : v;
  return n;
}

static int marks(const ct__axis_t *a, double *mark)
{
  int n = 0;
  if (a->log) return log_marks(a, mark);
  double step = round_step((a->to - a->from) / (MARKS - 2));
  if (a->whole) step = fmax(step, 1);
  for (double v = ceil(a->from / step - 1e-9) * step; v <= a->to + 1e-9 * step && n < 2 * MARKS;
       v += step)
    mark[n++] = fabs(v) < 1e-9 * step ? 0 : v;
  return n;
}

static int add_x(ct__plot_t *p)
{
  int rc = CT_OK;
  double mark[2 * MARKS], bottom = p->height - BOTTOM;
  int n = marks(&p->x, mark);
  for (int i = 0; i < n; i++) {
    double x = ct__plot_x(p, mark[i]);
    CT_TRY(ct_str_add(p->out,
                      "<line class=\"g\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g%s</text>\n",
                      x, x, TOP, bottom, x, bottom + 16, mark[i], p->x.unit ? p->x.unit : ""));
  }
  CT_TRY(ct_str_add(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                    (LEFT + p->width - RIGHT) / 2, p->height - 10));
  CT_TRY(ct__svg_text(p->out, p->x.label));
  CT_TRY(ct_str_add(p->out, "</text>\n"));
out:
  return rc;
}

static int add_y(ct__plot_t *p)
{
  int rc = CT_OK;
  double mark[2 * MARKS];
  int n = marks(&p->y, mark);
  for (int i = 0; i < n; i++) {
    double y = ct__plot_y(p, mark[i]);
    CT_TRY(ct_str_add(p->out,
                      "<line class=\"g\" x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g%s</text>\n",
                      LEFT, p->width - RIGHT, y, y, LEFT - 6, y + 4, mark[i],
                      p->y.unit ? p->y.unit : ""));
  }
  CT_TRY(ct_str_add(p->out,
                    "<text transform=\"translate(14 %.1f) rotate(-90)\" "
                    "text-anchor=\"middle\">",
                    (TOP + p->height - BOTTOM) / 2));
  CT_TRY(ct__svg_text(p->out, p->y.label));
  CT_TRY(ct_str_add(p->out, "</text>\n"));
out:
  return rc;
}

int ct__plot_begin(ct__plot_t *p, const char *title, const char *description)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(p->out, "<svg role=\"img\" viewBox=\"0 0 %g %g\" width=\"%g\">\n<title>",
                    p->width, p->height, p->width));
  CT_TRY(ct__svg_text(p->out, title));
  CT_TRY(ct_str_add(p->out, "</title><desc>"));
  CT_TRY(ct__svg_text(p->out, description));
  CT_TRY(ct_str_add(p->out, "</desc>\n"));
  if (p->x.label) CT_TRY(add_x(p));
  if (p->y.label) CT_TRY(add_y(p));
out:
  return rc;
}

int ct__plot_end(ct__plot_t *p)
{
  return ct_str_add(p->out, "</svg>\n");
}

/* ---- what is in them ---- */

static int add_places(ct__plot_t *p, const double *x, const double *y, int n, int backward)
{
  int rc = CT_OK;
  for (int k = 0; k < n; k++) {
    int i = backward ? n - 1 - k : k;
    CT_TRY(ct_str_add(p->out, "%.1f,%.1f ", ct__plot_x(p, x[i]), ct__plot_y(p, y[i])));
  }
out:
  return rc;
}

int ct__plot_line(ct__plot_t *p, const double *x, const double *y, int n, const char *colour,
                  const char *dashes)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(
      p->out, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\"%s%s%s points=\"", colour,
      dashes ? " stroke-dasharray=\"" : "", dashes ? dashes : "", dashes ? "\"" : ""));
  CT_TRY(add_places(p, x, y, n, 0));
  CT_TRY(ct_str_add(p->out, "\"/>\n"));
out:
  return rc;
}

int ct__plot_band(ct__plot_t *p, const double *x, const double *low, const double *high, int n,
                  const char *colour)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(p->out, "<polygon fill=\"%s\" fill-opacity=\"0.2\" points=\"", colour));
  CT_TRY(add_places(p, x, low, n, 0));
  CT_TRY(add_places(p, x, high, n, 1));
  CT_TRY(ct_str_add(p->out, "\"/>\n"));
out:
  return rc;
}

int ct__plot_point(ct__plot_t *p, double x, double y, double low, double high, const char *colour)
{
  double at = ct__plot_x(p, x), a = ct__plot_y(p, low), b = ct__plot_y(p, high);
  int rc = CT_OK;
  if (high > low)
    CT_TRY(ct_str_add(p->out,
                      "<path stroke=\"%s\" stroke-width=\"1.5\" fill=\"none\" "
                      "d=\"M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8\"/>",
                      colour, at, a, b, at - 4, a, at - 4, b));
  CT_TRY(ct_str_add(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", at,
                    ct__plot_y(p, y), colour));
out:
  return rc;
}

int ct__plot_box(ct__plot_t *p, double x0, double x1, double y0, double y1, const char *colour,
                 const char *hint)
{
  int rc = CT_OK;
  double a = ct__plot_x(p, x0), b = ct__plot_x(p, x1), top = ct__plot_y(p, fmax(y0, y1)),
         bottom = ct__plot_y(p, fmin(y0, y1));
  CT_TRY(ct_str_add(p->out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
                    "stroke=\"#fff\" stroke-width=\"0.5\"><title>",
                    a, top, fmax(b - a, 0.5), fmax(bottom - top, 0.5), colour));
  CT_TRY(ct__svg_text(p->out, hint ? hint : ""));
  CT_TRY(ct_str_add(p->out, "</title></rect>\n"));
out:
  return rc;
}

int ct__plot_text(ct__plot_t *p, double x, double y, double dx, double dy, const char *anchor,
                  const char *text)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                    ct__plot_x(p, x) + dx, ct__plot_y(p, y) + dy, anchor));
  CT_TRY(ct__svg_text(p->out, text));
  CT_TRY(ct_str_add(p->out, "</text>\n"));
out:
  return rc;
}
