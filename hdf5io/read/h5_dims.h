/** \file h5_dims.h  Interprets the dims of a stored sample. Internal. */
#ifndef CT_H5_SEE_H
#define CT_H5_SEE_H
#include "hdf5io/read/h5_shard.h"

/** Needs the lock. Sets s->x, s->channels_last and how they were determined, from the array's dims,
 * its attribute `layout`, and the user's options. CT_ERR_FORMAT */
int ct__h5_see(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec);
/** Describes the interpretation in buf and returns it: "samples 24x20x5 read as 5 channels of 24x20
 * (data.layout: auto)"; "" for flat samples. */
const char *ct__h5_see_text(const ct__h5_shard_t *s, char *buf, size_t cap);

#endif
