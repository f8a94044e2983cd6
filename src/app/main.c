/* main() alone: a library of everything else can be linked into tests. */
#include <signal.h>

#include "app/app.h"

int main(int argc, char **argv)
{
  signal(SIGXFSZ, SIG_IGN); /* a file at its size limit fails the write, as a full disk does */
  return ct_app_run(argc, argv);
}
