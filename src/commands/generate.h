/** \file generate.h  Prompts and results of `generate`.  Module-internal. */
#ifndef COMMANDS_GENERATE_H
#define COMMANDS_GENERATE_H
#include "generate/ct_generate.h"
#include "setup/ct_command.h"

/** Prompts as ids; all ranks have all of them. */
typedef struct ct__prompts {
  void *block; /**< owned */
  size_t bytes;
  int64_t n;
  int32_t eot;          /**< id that ends a sequence; -1: none */
  const int64_t *first; /**< [n + 1]: the ids of prompt i are id[first[i]] … id[first[i + 1] - 1] */
  const int32_t *id;
} ct__prompts_t;

/** Writes the results on rank 0. */
typedef struct ct__writer ct__writer_t;

/** Local, rank 0.  Opens the output and finds the tokenizer: --tokenizer, or that of the run or
 * directory of \a model, the file of the weights. */
int ct__writer_open(const ct_args_t *a, const char *model, ct__writer_t **out);
/** Local, rank 0.  Reads and encodes the prompts.  CT_ERR_USAGE: there is none, or it is text and
 * there is no tokenizer. */
int ct__prompts_read(const ct_args_t *a, const ct__writer_t *w, ct__prompts_t *out);
/** Collective.  Sends the prompts of rank 0 to all ranks.  \a rc: rank 0's result of reading. */
int ct__prompts_share(const ct_topo_t *topo, int rc, ct__prompts_t *p);
void ct__prompts_clear(ct__prompts_t *p);
int64_t ct__prompts_longest(const ct__prompts_t *p);
/** Local.  Makes \a count sequences with memory for their new tokens. */
int ct__prompts_sequences(const ct__prompts_t *p, const ct_generate_opts_t *o, int64_t first,
                          int64_t count, ct_generated_t **out);
void ct__sequences_free(ct_generated_t *s, int64_t count);

/** Local, rank 0: a ct_generate_take_t that writes text as it is generated. */
int ct__writer_stream(void *writer, const ct_generated_t *s);
/** Collective.  Writes the sequences of all ranks in their order. */
int ct__writer_gather(ct__writer_t *w, const ct_topo_t *topo, const ct_generated_t *s,
                      int64_t count);
/** Local, rank 0.  Logs the speed and why the sequences have ended. */
void ct__writer_log(const ct__writer_t *w, double seconds, int cached);
/** Local, rank 0.  Completes the output file. */
int ct__writer_commit(ct__writer_t *w);
/** \a w may be NULL.  Removes a file that was not completed. */
void ct__writer_close(ct__writer_t *w);

#endif
