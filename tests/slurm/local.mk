# Tests that need a real Slurm: they bring one up, on nodes made of namespaces (see cluster).
slurm_tests = %D%/cluster.test %D%/launch.test %D%/fail.test %D%/slow.test %D%/finalize.test
slurm_tests += %D%/jobs.test %D%/stage.test
TESTS += $(slurm_tests)
EXTRA_DIST += %D%/cluster %D%/common.sh $(slurm_tests)

check-slurm: $(check_PROGRAMS) $(bin_PROGRAMS)
	CT_FINALIZE_RUNS=$${CT_FINALIZE_RUNS:-100} $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(slurm_tests)"
.PHONY: check-slurm
