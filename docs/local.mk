# The pages for users, which are installed with their links to each other.
nobase_dist_doc_DATA = README.md CHANGELOG.md hdf5io/FORMAT.md \
  %D%/cluster.md \
  %D%/configuration.md \
  %D%/data.md \
  %D%/exit-codes.md \
  %D%/figures.md \
  %D%/gpu.md \
  %D%/install.md \
  %D%/metrics.md \
  %D%/models.md \
  %D%/recipes.md \
  %D%/scaling.md \
  %D%/study-account.svg \
  %D%/study-throughput.svg
EXTRA_DIST += %D%/configuration.awk

# Writes the page of the configuration anew, of the option tables.
docs: ctrain-hpc$(EXEEXT)
	./ctrain-hpc train --help | LC_ALL=C $(AWK) -f $(srcdir)/%D%/configuration.awk >$(srcdir)/%D%/configuration.md
.PHONY: docs
