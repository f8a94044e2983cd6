/* Guesses which dim of a stored sample holds the channels.  N x 24 x 20 x 5 may be 5 channels of
 * 24x20 or 24 channels of 20x5; the smaller number is more likely the channels. */
#include "data/readers/ct_reader.h"

static int looks_like_channels(int64_t dim)
{
  return dim == 1 || dim == 3 || dim == 4;
}

/* Returns the smallest dim except the last. */
static int64_t least_before(const int64_t *dim, int n)
{
  int64_t least = dim[0];
  for (int i = 1; i < n - 1; i++)
    if (dim[i] < least) least = dim[i];
  return least;
}

int ct_reader_guess_last(const int64_t *dim, int n)
{
  if (n < 3 || looks_like_channels(dim[0])) return 0;
  int64_t last = dim[n - 1], least = least_before(dim, n);
  if (n == 3 && looks_like_channels(last)) return 1;
  int square = 1;
  for (int i = 1; i < n - 1; i++)
    square &= dim[i] == dim[0];
  return last < least && (square || 4 * last <= least);
}

int ct_reader_guess_doubtful(const int64_t *dim, int n)
{
  return n >= 3 && !ct_reader_guess_last(dim, n) && dim[n - 1] < least_before(dim, n);
}
