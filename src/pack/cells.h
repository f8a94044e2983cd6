/** \file cells.h  Lines of csv files, cell by cell.  Internal.
 *
 * A file has one separator: a semicolon, a tab or a comma, the first of them that is in its first
 * row, or blanks.  Cells may be quoted ("a ""b""").  Numbers are decimal, with a point: what stands
 * there is read as it was meant, or not at all. */
#ifndef CT_PACK_CELLS_H
#define CT_PACK_CELLS_H
#include <stddef.h>
#include <stdint.h>

/** The separator of a file with that line: ';', '\t' or ','; ' ': blanks. */
char ct__cells_separator(const char *line);
/** The cell at *p, without quotes and the blanks around it, into buf; *p is what follows, NULL
 * behind the last one.  A separator at the end of a line begins no cell.  1, or 0: the quote does
 * not end in this line, or the cell does not fit. */
int ct__cells_take(const char **p, char separator, char *buf, size_t cap);
/** How many cells a line has; -1: ct__cells_take() fails. */
int64_t ct__cells_count(const char *line, char separator);
/** 1: a cell is a number of finite size in decimal notation. */
int ct__cells_number(const char *cell, double *value);
/** The end of a message on a cell that should be a number: what may have been meant.  Borrowed. */
const char *ct__cells_hint(const char *cell);
/** 1: a line names columns: no cell is a number, or looks like one that is spoilt (1,5), at most
 * one is empty, and none is a word for a value that is missing (NA). */
int ct__cells_is_header(const char *line);

#endif
