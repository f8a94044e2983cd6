/** \file ct_test_mpi.h  The test harness under MPI: the same program runs on every rank.
 *
 *     int main(int argc, char **argv)
 *     {
 *       static const ct_test_t tests[] = {CT_TEST(adds), CT_TEST_END};
 *       return ct_test_mpi_main("arithmetic", tests, argc, argv);
 *     }
 *
 * Every rank runs every test; a case passes if it passes on all ranks. tests/mpi/run_np.sh starts
 * such a program with several rank counts. */
#ifndef CT_TEST_MPI_H
#define CT_TEST_MPI_H
#include "comm/ct_topo.h"
#include "tests/harness/ct_test.h"

/** The ranks of this program; open while tests run. */
extern ct_topo_t ct_test_topo;

/** Opens ct_test_topo, runs the tests as ct_test_main() does, and closes it.  Returns the same
 * result on all ranks. */
int ct_test_mpi_main(const char *suite, const ct_test_t *tests, int argc, char **argv);

#endif
