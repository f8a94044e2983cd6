/** \file token_windows.h  Samples that are windows of tokens.  Internal to data. */
#ifndef CT_DATA_TOKEN_WINDOWS_H
#define CT_DATA_TOKEN_WINDOWS_H
#include "data/readers/ct_reader.h"

/** Reads windows of tokens; opened by ct__token_windows_open(). */
extern const ct_reader_ops_t ct__reader_token_windows;
/** Synthetic tokens, one after another; selected in place of ct_reader_synthetic. */
extern const ct_reader_ops_t ct__reader_synthetic_tokens;

/** Local.  Opens the array spec->input as tokens one after another; *ops reads windows of
 * spec->tokens.  On entry *ops is the reader of the files.  With C tokens of context and stride S,
 * window i of a file holds its tokens iS to iS + C: a sample is the first C of them, 1 x C, and its
 * labels, one for each place, are the last C.  Windows are numbered through the files, and none
 * crosses from one to the next.  CT_ERR_USAGE; CT_ERR_FORMAT names a file that is shorter than a
 * window. */
int ct__token_windows_open(const ct_reader_spec_t *spec, const ct_reader_ops_t **ops,
                           ct_reader_t **out);

#endif
