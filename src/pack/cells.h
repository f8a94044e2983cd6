/** \file cells.h  Parses lines of csv files into cells.  Internal.
 *
 * A file has one separator: a semicolon, a tab or a comma, whichever of these, tried in this order,
 * occurs in its first row, or else blanks.  Cells may be quoted ("a ""b""").  Numbers are decimal,
 * with a point.  Anything ambiguous is an error. */
#ifndef CT_PACK_CELLS_H
#define CT_PACK_CELLS_H
#include <stddef.h>
#include <stdint.h>

/** Returns the separator of a file with this first line: ';', '\t' or ','; ' ': blanks. */
char ct__cells_separator(const char *line);
/** Copies the cell at *p into buf, without quotes and surrounding blanks, and advances *p, to NULL
 * after the last cell.  A separator at the end of a line begins no cell.  Returns 1, or 0 if a
 * quote is not closed in this line or the cell does not fit. */
int ct__cells_take(const char **p, char separator, char *buf, size_t cap);
/** Returns the number of cells of a line; -1: ct__cells_take() fails. */
int64_t ct__cells_count(const char *line, char separator);
/** Returns 1 if a cell is a finite number in decimal notation. */
int ct__cells_number(const char *cell, double *value);
/** Returns a hint for the end of a message on a cell that should be a number.  Borrowed. */
const char *ct__cells_hint(const char *cell);
/** Returns 1 if a line is a header: no cell is a number or resembles one (1,5), at most one is
 * empty, and none is a word for a missing value (NA). */
int ct__cells_is_header(const char *line);

#endif
