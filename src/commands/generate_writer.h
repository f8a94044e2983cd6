/** \file generate_writer.h  The writer of `generate`.  Module-internal. */
#ifndef COMMANDS_GENERATE_WRITER_H
#define COMMANDS_GENERATE_WRITER_H
#include "base/ct_out.h"
#include "commands/generate.h"
#include "token/ct_tokenizer.h"

struct ct__writer {
  ct_tokenizer_t *tokenizer; /**< NULL: none; then ids are written */
  ct_out_t out;              /**< not begun: results go to the standard output */
  int ids;                   /**< 1: ids are written */
  int lines;                 /**< 1: a line of JSON for each prompt, or of its ids */
  int streamed;              /**< 1: the text was written while it was generated */
  ct_token_text_t text;      /**< not written yet */
  int64_t sequences, tokens; /**< new tokens of all sequences */
  int64_t stops[4];          /**< by ct_text_end_t */
};

#endif
