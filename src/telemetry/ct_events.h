/** \file ct_events.h  What TensorBoard reads of a run: event files in the run directory.  Layer 4.
 *
 * A file is records (tensorflow/core/lib/io/record_writer.h) of Event messages
 * (tensorboard/compat/proto/event.proto): a length, the data, and CRC-32C of both.  Each start of a
 * run has a file of its own; one that goes on says at which step, and TensorBoard leaves out what
 * earlier files have behind that.  Rank 0 alone; all functions are local, and accept NULL: then
 * nothing is written.  What cannot be written is left out, with a warning when that begins. */
#ifndef CT_EVENTS_H
#define CT_EVENTS_H
#include <jansson.h>

#include "conf/ct_yaml.h"
#include "model/ct_graph.h"

typedef struct ct_events ct_events_t;

/** Begins dir/events.out.tfevents.SECONDS.HOST.PID.0.  The run goes on behind \a step; \a anew: a
 * start before has written what begins from there once more. */
int ct_events_open(const char *dir, int64_t step, int anew, ct_events_t **out);
void ct_events_close(ct_events_t *e);

/** A line of metrics.jsonl: the numbers of `step`, `epoch` and `eval` become scalars, with tags
 * such as train/loss, speed/samples_per_s, epoch/loss, eval/top1. */
void ct_events_line(ct_events_t *e, const json_t *line);
/** The layers of the model, as a graph of TensorFlow's. */
void ct_events_graph(ct_events_t *e, const ct_graph_t *g);
/** A text, under a tag. */
void ct_events_text(ct_events_t *e, const char *tag, const char *text);
/** The settings of the run for the HParams tab: each scalar of \a settings and of its maps. */
void ct_events_settings(ct_events_t *e, const ct_yaml_t *settings);
/** How the run ended, for the same. */
void ct_events_end(ct_events_t *e, int failed);
/** How the numbers of an array lie: a histogram of up to 64 bins.  What is not finite is left out.
 */
void ct_events_histogram(ct_events_t *e, const char *tag, int64_t step, const float *x, int64_t n);

#endif
