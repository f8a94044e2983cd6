/** \file yaml_parts.h  Declarations that the files of the YAML tree share: yaml.c has the nodes,
 * yaml_parse.c reads text, yaml_dump.c writes text. */
#ifndef CT_BASE_YAML_PARTS_H
#define CT_BASE_YAML_PARTS_H
#include "conf/ct_yaml.h"

enum {
  CT__YAML_DEPTH = 48, /**< nesting levels at most: readers of a tree recurse */
  CT__YAML_KEY = 200   /**< bytes of a key at most: YAML requires a key and its colon within 1024
                            characters, escapes included */
};

/** 1 for an empty scalar without quotes. */
int ct__yaml_is_nothing(const ct_yaml_t *n);
/** 1 if the text can be written as a plain scalar: without quotes, on one line, in block style. */
int ct__yaml_is_plain(const char *text);
/** ct_yaml_parse() of a text that will be nested \a depth levels deep; *out stays NULL for an empty
 * text. */
int ct__yaml_parse_text(const char *text, size_t bytes, const char *name, int depth,
                        ct_yaml_t **out);

#endif
