/** \file yaml_parts.h  What the files of the YAML tree share: yaml.c has the nodes, yaml_parse.c
 * reads text, yaml_dump.c writes it. */
#ifndef CT_BASE_YAML_PARTS_H
#define CT_BASE_YAML_PARTS_H
#include "conf/ct_yaml.h"

enum {
  CT__YAML_DEPTH = 48, /**< the readers of a tree recurse */
  CT__YAML_KEY = 200   /**< bytes: YAML wants a key and its colon within 1024 characters, escapes
                          included */
};

/** 1 for a scalar without a text, and without quotes. */
int ct__yaml_is_nothing(const ct_yaml_t *n);
/** 1 if the text stands for itself without quotes, on one line, in a block. */
int ct__yaml_is_plain(const char *text);
/** ct_yaml_parse() of what will stand \a depth levels deep; *out stays NULL for an empty text. */
int ct__yaml_parse_text(const char *text, size_t bytes, const char *name, int depth,
                        ct_yaml_t **out);

#endif
