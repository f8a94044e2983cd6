/** \file config_parts.h  What the files of the configuration share. */
#ifndef CT_CONFIG_PARTS_H
#define CT_CONFIG_PARTS_H
#include "app/ct_config.h"

/** A section: a table, and where its struct lies in ct_config_t. */
typedef struct ct_section {
  const char *name;
  const ct_opt_t *rows;
  size_t offset;
  const char *help;
} ct_section_t;

/** Ends with a name of NULL; the order is that of help and dump. */
extern const ct_section_t ct__config_sections[];
/** The keys outside of sections. */
extern const ct_opt_t ct__config_rows[];

/** The values as a tree. */
int ct__config_tree(const ct_config_t *c, ct_yaml_t **out);

#endif
