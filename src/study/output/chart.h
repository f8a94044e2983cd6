/** \file chart.h  HTML text, and charts as inline SVG.  Internal to report.
 *
 * A chart is data: axes and series of marks, drawn by one call.  It has a title and a description
 * for screen readers (role img, title, desc).  Colour alone carries no meaning: each series has a
 * text beside it, or a table below the chart has its numbers.  Functions fail only with
 * CT_ERR_NOMEM. */
#ifndef CT_REPORT_CHART_H
#define CT_REPORT_CHART_H
#include "base/ct_text.h"

/** A named tick of an axis without numbers. */
typedef struct ct__tick {
  double at;
  char name[24];
} ct__tick_t;

typedef struct ct__axis {
  const char *label;      /**< NULL: none */
  double from, to;        /**< first and last value; if both are equal, the range of all marks and a
                               margin; > 0 if log is 1 */
  int log;                /**< 1: logarithmic */
  int whole;              /**< 1: ticks at whole numbers only */
  const char *unit;       /**< printed after each number: "%"; NULL: none */
  const ct__tick_t *tick; /**< names instead of numbers; NULL: numbers */
  int ticks;
} ct__axis_t;

/** One point of a series; the kind of the series says which members it reads. */
typedef struct ct__mark {
  double x;           /**< horizontal position; of a box: its left edge */
  double y;           /**< value of a line or point; not used for bands and boxes */
  double low, high;   /**< lower and upper edge of a band or box; interval of a point, which is not
                           drawn if both are equal */
  double to;          /**< right edge of a box */
  const char *colour; /**< colour of a box; NULL: that of the series */
  char text[48];      /**< beside a point, in a box; "": none */
  char hint[200];     /**< shown when the pointer is on a box */
} ct__mark_t;

typedef enum { CT__LINE, CT__BAND, CT__POINT, CT__BOX } ct__series_kind_t;

typedef struct ct__series {
  ct__series_kind_t kind;
  const char *colour;
  const char *label;  /**< text at the last mark; NULL: none */
  const char *dashes; /**< pattern of a dashed line, "5 4"; NULL: solid */
  ct__mark_t *mark;   /**< owned by the caller */
  int64_t n;          /**< number of marks */
  int64_t cap;        /**< capacity of mark, for ct__series_add() */
} ct__series_t;

typedef struct ct__chart {
  const char *heading;     /**< an h3 before the picture; NULL: none */
  const char *title;       /**< for screen readers; NULL: the heading */
  const char *description; /**< for screen readers */
  const char *left;        /**< text above the left end of the picture; or NULL */
  const char *right;       /**< text above the right end of the picture; or NULL */
  double width, height;    /**< pixels of the picture with its margins; width 0: 720 */
  ct__axis_t x, y;
} ct__chart_t;

/** Appends the chart with its series, the first one at the back. */
int ct__chart(const ct__chart_t *chart, const ct__series_t *series, int n, ct_str_t *out);
/** Appends a mark to a series.  s->mark is NULL or on the heap; the caller frees it with
 * ct_mem_free(). */
int ct__series_add(ct__series_t *s, const ct__mark_t *mark);

/** Returns the i-th colour of a palette that readers with any kind of colour vision can distinguish
 * (Okabe and Ito 2002), followed by lighter shades of the same colours; the palette repeats. */
const char *ct__colour(int i);
/** Appends \a before, \a text and \a after; HTML's special characters are escaped in \a text. */
int ct__html(ct_str_t *out, const char *before, const char *text, const char *after);

/** Appends the beginning of a page: its style, and its title, which is also its heading. */
int ct__page_begin(ct_str_t *out, const char *title);
int ct__page_end(ct_str_t *out);

#endif
