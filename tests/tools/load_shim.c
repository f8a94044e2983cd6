/* A machine that is busy beyond measure, to be preloaded: with OMP_DYNAMIC=true GNU's OpenMP then
 * gives one thread to each team. */
#include <stdlib.h>

int getloadavg(double load[], int n)
{
  for (int i = 0; i < n; i++)
    load[i] = 1000;
  return n;
}
