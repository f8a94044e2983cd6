/** \file ct_events.h  Event files for TensorBoard in the run directory.  Layer 4.
 *
 * A file is a sequence of records (tensorflow/core/lib/io/record_writer.h), each with a length, an
 * Event message (tensorboard/compat/proto/event.proto), and the CRC-32C of both.  Each session (one
 * launch of the program for this run) writes its own file; a resumed run records its first step,
 * and TensorBoard ignores later steps in earlier files.  Rank 0 only.  All functions are local, and
 * do nothing for NULL.  An event that cannot be written is dropped; the first failure logs a
 * warning. */
#ifndef CT_EVENTS_H
#define CT_EVENTS_H
#include <jansson.h>

#include "conf/ct_yaml.h"
#include "model/ct_graph.h"

typedef struct ct_events ct_events_t;

/** Creates dir/events.out.tfevents.SECONDS.HOST.PID.0.  The run resumes after \a step.  \a anew: 1
 * if an earlier session has already written later steps.  CT_ERR_IO, CT_ERR_NOMEM. */
int ct_events_open(const char *dir, int64_t step, int anew, ct_events_t **out);
void ct_events_close(ct_events_t *e);

/** Writes the numbers of a `step`, `epoch` or `eval` line of metrics.jsonl as scalars, with tags
 * such as train/loss, speed/samples_per_s, epoch/loss, eval/top1. */
void ct_events_line(ct_events_t *e, const json_t *line);
/** Writes the layers of the model as a TensorFlow graph. */
void ct_events_graph(ct_events_t *e, const ct_graph_t *g);
/** Writes a text under a tag. */
void ct_events_text(ct_events_t *e, const char *tag, const char *text);
/** Writes the settings of the run for the HParams tab: each scalar of \a settings and of its maps.
 */
void ct_events_settings(ct_events_t *e, const ct_yaml_t *settings);
/** Writes the end of the run and whether it failed, for the HParams tab. */
void ct_events_end(ct_events_t *e, int failed);
/** Writes the histogram of an array, in up to 64 bins.  Ignores values that are not finite. */
void ct_events_histogram(ct_events_t *e, const char *tag, int64_t step, const float *x, int64_t n);

#endif
