/** \file yaml_parts.h  Declarations that the files of the YAML tree share: yaml.c has the nodes,
 * yaml_parse.c reads text, yaml_dump.c writes text. */
#ifndef CT_BASE_YAML_PARTS_H
#define CT_BASE_YAML_PARTS_H
#include "conf/ct_yaml.h"

enum {
  CT__YAML_DEPTH = 48, /**< maximum nesting depth: readers of a tree are recursive */
  CT__YAML_KEY = 200   /**< maximum bytes of a key: YAML requires a key and its colon within 1024
                            characters, escapes included */
};

/** Returns 1 for an empty scalar without quotes. */
int ct__yaml_is_nothing(const ct_yaml_t *n);
/** Returns 1 if the text can be written as a plain scalar: without quotes, on one line, in block
 * style. */
int ct__yaml_is_plain(const char *text);
/** Parses a text as ct_yaml_parse() does.  \a depth: the nesting depth at which the caller will
 * insert it.  *out stays NULL for an empty text. */
int ct__yaml_parse_text(const char *text, size_t bytes, const char *name, int depth,
                        ct_yaml_t **out);

#endif
