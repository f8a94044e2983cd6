/* Tests that run on all ranks.  Each case ends with a reduction of the results, so a rank whose
 * assertion failed must still reach its end. */
#include "tests/harness/ct_test_mpi.h"

#include <stdio.h>

#include "base/ct_err.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

ct_topo_t ct_test_topo;

/* Called by LeakSanitizer: ignores memory that MPI libraries keep until exit. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
  return "leak:libmpi";
}

static int on_all_ranks(int ok)
{
  ct_mpi_allreduce(&ct_test_topo, ct_test_topo.world, &ok, 1, MPI_INT, MPI_MIN);
  return ok;
}

int ct_test_mpi_main(const char *suite, const ct_test_t *tests, int argc, char **argv)
{
  if (ct_topo_open(&ct_test_topo, &argc, &argv) != CT_OK) {
    printf("Bail out! %s: %s\n", suite, ct_err_last()->text);
    return 1;
  }
  ct_test_combine = on_all_ranks;
  ct_test_prints = ct_test_topo.rank == 0;
  int failed = ct_test_main(suite, tests, argc, argv);
  ct_topo_close(&ct_test_topo);
  return failed;
}
