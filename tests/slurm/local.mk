# Tests that need a real Slurm: they bring one up, on nodes made of namespaces (see cluster).
# the long ones first, beside which others run
slurm_tests = %D%/jobs.test %D%/fail.test %D%/finalize.test %D%/hang.test %D%/launch.test \
  %D%/slow.test %D%/many.test %D%/stage.test %D%/study.test %D%/cluster.test
TESTS += $(slurm_tests)
EXTRA_DIST += %D%/cluster %D%/many %D%/common.sh $(slurm_tests)

check-slurm: $(check_PROGRAMS) $(bin_PROGRAMS)
	CT_FINALIZE_RUNS=$${CT_FINALIZE_RUNS:-100} $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(slurm_tests)"
.PHONY: check-slurm
