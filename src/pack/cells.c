/* Cells of csv files.  No dialect is guessed cell by cell: a file has one separator, and a cell
 * that is not a plain number is an error, even if strtod() accepts its beginning. */
#include "pack/cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

enum { LONGEST = CT_PATH_MAX };

char ct__cells_separator(const char *line)
{
  static const char kinds[] = ";\t,";
  int seen[3] = {0}, quoted = 0;
  for (const char *p = line; *p; p++) {
    const char *kind = strchr(kinds, *p);
    if (*p == '"') quoted = !quoted;
    if (kind && !quoted) seen[kind - kinds] = 1;
  }
  for (int i = 0; i < 3; i++)
    if (seen[i]) return kinds[i];
  return ' ';
}

static const char *blanks_of(char separator)
{
  return separator == '\t' ? " " : " \t";
}

static int ends_cell(char c, char separator)
{
  return c == '\0' || c == separator || (separator == ' ' && c == '\t');
}

/* Copies the text of a cell to buf; NULL: a quote is not closed, or text follows it. */
static const char *copy_cell(const char *at, char separator, char *buf, size_t cap)
{
  size_t n = 0, kept = 0; /* bytes; of these, without trailing blanks outside quotes */
  int is_quoted = *at == '"', inside = is_quoted;
  for (at += is_quoted; inside ? *at != '\0' : !ends_cell(*at, separator); at++) {
    if (inside && *at == '"' && *++at != '"') { /* two quotes stand for one */
      inside = 0;
      at--;
      continue;
    }
    if (is_quoted && !inside && !strchr(" \t", *at)) return NULL;
    if (n + 1 >= cap) return NULL;
    buf[n++] = *at;
    if (inside || !strchr(blanks_of(separator), *at)) kept = n;
  }
  buf[kept] = '\0';
  return inside ? NULL : at;
}

int ct__cells_take(const char **p, char separator, char *buf, size_t cap)
{
  const char *blanks = blanks_of(separator), *at = *p + strspn(*p, blanks);
  at = copy_cell(at, separator, buf, cap);
  if (!at) return 0;
  at += separator == ' ' ? strspn(at, blanks) : *at != '\0';
  *p = at[strspn(at, blanks)] ? at : NULL;
  return 1;
}

int64_t ct__cells_count(const char *line, char separator)
{
  char cell[LONGEST];
  int64_t n = 0;
  for (const char *p = line; p; n++)
    if (!ct__cells_take(&p, separator, cell, sizeof cell)) return -1;
  return n;
}

int ct__cells_number(const char *cell, double *value)
{
  return ct_text_double(cell, value) == CT_OK && isfinite((float)*value);
}

const char *ct__cells_hint(const char *cell)
{
  if (strchr(cell, ',')) return " (a decimal comma? write a point)";
  if (strpbrk(cell, " ;\t")) return " (a file has one separator, that of its first row)";
  return "";
}

static int is_missing(const char *cell)
{
  static const char *const words[] = {"NA", "N/A", "null", "none", "?", "-"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasecmp(cell, words[i]) == 0) return 1;
  return 0;
}

/* Returns 1 for cells that resemble a number: 5, 0x10, nan, also 1,5 or 1 000. */
static int is_numeric(const char *cell)
{
  char *end;
  strtod(cell, &end);
  if (end != cell && !*end) return 1;
  return !cell[strspn(cell, "0123456789+-.,eE_'% ")] && strpbrk(cell, "0123456789");
}

int ct__cells_is_header(const char *line)
{
  char cell[LONGEST], separator = ct__cells_separator(line);
  int words = 0, empty = 0;
  for (const char *p = line; p;) {
    if (!ct__cells_take(&p, separator, cell, sizeof cell)) return 0;
    if (is_numeric(cell) || is_missing(cell)) return 0;
    *(*cell ? &words : &empty) += 1;
  }
  return words > 0 && empty <= 1; /* pandas does not name its index */
}
