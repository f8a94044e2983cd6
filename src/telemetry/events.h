/** \file events.h  What the files of events share.  Internal to run. */
#ifndef CT_RUN_EVENTS_H
#define CT_RUN_EVENTS_H
#include "base/ct_proto.h"
#include "telemetry/ct_events.h"

/** Begins an Event: its fields but for the time go into what is returned. */
ct_proto_t *ct__event_begin(ct_events_t *e);
/** Writes it, as a record. */
void ct__event_end(ct_events_t *e);

#endif
