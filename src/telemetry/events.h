/** \file events.h  Event messages, shared by events.c and events_run.c. */
#ifndef CT_RUN_EVENTS_H
#define CT_RUN_EVENTS_H
#include "base/ct_proto.h"
#include "telemetry/ct_events.h"

/** Begins an Event; the caller adds its fields, except for the time, to the returned message. */
ct_proto_t *ct__event_begin(ct_events_t *e);
/** Writes the Event as a record. */
void ct__event_end(ct_events_t *e);

#endif
