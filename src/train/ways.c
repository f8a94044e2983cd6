/* The ways to make a step, in the order of the words of parallel.mode. */
#include "train/ct_ways.h"

#define ROW(word, help) &ct_way_##word,
const ct_way_t *const ct_ways[] = {CT_WAYS(ROW, ROW)};
