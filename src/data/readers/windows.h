/** \file windows.h  Samples that are windows over the frames of trajectories.  Internal to data. */
#ifndef CT_DATA_WINDOWS_H
#define CT_DATA_WINDOWS_H
#include "data/readers/ct_reader.h"

/** Reads windows; opened by ct__windows_open(). */
extern const ct_reader_ops_t ct__reader_windows;

/** Local.  Opens the arrays of spec->input as frames, and those of spec->target too if they are
 * others; *ops reads windows of spec->window.  On entry *ops is the reader of the files.  A sample
 * is window k of a trajectory: context frames from k * stride on, joined along the channels, and as
 * dense target the frames that follow.  Neighbours share the blocks that are read.  Windows are
 * numbered through the trajectories, which must have as many frames in all arrays.  CT_ERR_USAGE,
 * CT_ERR_FORMAT name the file or the array: no trajectory is long enough; an array does not fit. */
int ct__windows_open(const ct_reader_spec_t *spec, const ct_reader_ops_t **ops, ct_reader_t **out);

#endif
