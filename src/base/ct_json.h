/** \file ct_json.h  What this program adds to jansson: JSON as text of its own kind.  Layer 0.
 * All functions are local. */
#ifndef CT_JSON_H
#define CT_JSON_H
#include <jansson.h>

#include "base/ct_text.h"

/** A string, whatever bytes the text has: a file's name need not be UTF-8.  NULL: no memory. */
json_t *ct_json_words(const char *text);
/** A number; null for NaN and infinity, which JSON does not have. */
json_t *ct_json_number(double value);
/** Indented, and a newline; NULL is an object there was no memory for.  Appended.  CT_ERR_NOMEM. */
int ct_json_add(const json_t *o, ct_str_t *out);
/** Adds a line to a file of JSON lines, and waits until it is on the disk; frees \a o; NULL is an
 * object there was no memory for.  CT_ERR_IO, CT_ERR_NOMEM. */
int ct_json_append(const char *path, json_t *o);
/** Removes what a process that was killed left behind the last whole line of such a file, if it is
 * there: then a line is there whole, or not at all. */
int ct_json_heal(const char *path);

#endif
