/** \file result.h  What a finished run leaves behind and says.  Layer 5. */
#ifndef CT_RESULT_H
#define CT_RESULT_H
#include <jansson.h>

#include "app/ct_config.h"

/** Local; rank 0.  summary.json in the run directory, and the final table on stdout. */
int ct_result_write(const ct_config_t *c, int ranks, const ct_loop_result_t *result);
/** The lines of an evaluation for people.  Appended. */
int ct_result_eval(const ct_eval_result_t *e, ct_str_t *out);
/** An object as indented text and a newline; NULL is an object there was no memory for.  Appended. */
int ct_result_json(const json_t *o, ct_str_t *out);

#endif
