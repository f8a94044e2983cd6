/** \file ct_json.h  Helpers on top of jansson.  Layer 0.  All functions are local. */
#ifndef CT_JSON_H
#define CT_JSON_H
#include <jansson.h>

#include "base/ct_text.h"

/** Returns a new JSON string with a text that need not be UTF-8, such as the name of a file.  NULL:
 * out of memory. */
json_t *ct_json_words(const char *text);
/** Returns a new JSON number; null for NaN and infinity, which JSON does not have. */
json_t *ct_json_number(double value);
/** Appends a JSON value, indented, and a newline.  CT_ERR_NOMEM, also if \a o is NULL, which means
 * that the caller ran out of memory. */
int ct_json_add(const json_t *o, ct_str_t *out);
/** Appends a line to a JSON Lines file and calls fsync; frees \a o.  CT_ERR_IO; CT_ERR_NOMEM, also
 * if \a o is NULL. */
int ct_json_append(const char *path, json_t *o);
/** Removes an incomplete last line of a JSON Lines file, which a killed process may have left.  The
 * file may be missing. */
int ct_json_heal(const char *path);

#endif
