/** \file svg.h  Plots as inline SVG: axes, lines, bands, bars, points, text.  Internal to report.
 *
 * A plot has a title and a description for who cannot see it (role img, title, desc), and no
 * meaning that is in a colour alone: what is drawn has a text beside it, or a number that its table
 * has too.  Nothing fails but for memory: CT_ERR_NOMEM. */
#ifndef CT_REPORT_SVG_H
#define CT_REPORT_SVG_H
#include "base/ct_text.h"

typedef struct ct__axis {
  const char *label;
  double from, to; /**< from < to; log: from > 0 */
  int log;
  int whole;        /**< 1: marks at whole numbers only */
  const char *unit; /**< behind each mark: "%"; NULL: nothing */
} ct__axis_t;

typedef struct ct__plot {
  ct_str_t *out; /**< borrowed */
  ct__axis_t x, y;
  double width, height; /**< of the picture; what is inside the axes is smaller */
} ct__plot_t;

/** Colours that are told apart with any kind of colour vision (Okabe and Ito 2002), then the same
 * lighter; again from the first behind the last. */
const char *ct__svg_colour(int i);
/** Text with what HTML must not have in it escaped.  Appended. */
int ct__svg_text(ct_str_t *out, const char *text);

/** Everything in front of the parts of a page: its style, its title, which is its heading, too. */
int ct__page_begin(ct_str_t *out, const char *title);
int ct__page_end(ct_str_t *out);

/** Begins a picture with its axes and marks. */
int ct__plot_begin(ct__plot_t *p, const char *title, const char *description);
int ct__plot_end(ct__plot_t *p);
/** In picture units. */
double ct__plot_x(const ct__plot_t *p, double x);
double ct__plot_y(const ct__plot_t *p, double y);
/** dashes: "5 4"; NULL: a full line. */
int ct__plot_line(ct__plot_t *p, const double *x, const double *y, int n, const char *colour,
                  const char *dashes);
int ct__plot_band(ct__plot_t *p, const double *x, const double *low, const double *high, int n,
                  const char *colour);
/** A point with its interval; low = high: without. */
int ct__plot_point(ct__plot_t *p, double x, double y, double low, double high, const char *colour);
/** A rectangle of the plot's units; \a hint is shown when it is pointed at. */
int ct__plot_box(ct__plot_t *p, double x0, double x1, double y0, double y1, const char *colour,
                 const char *hint);
/** anchor: "start", "middle" or "end"; dx, dy in picture units. */
int ct__plot_text(ct__plot_t *p, double x, double y, double dx, double dy, const char *anchor,
                  const char *text);

#endif
