# User documentation, installed with its relative links; the installed links `examples` and `jobs` lead
# to these folders, which are installed elsewhere.
nobase_dist_doc_DATA = README.md CHANGELOG.md CONTRIBUTING.md LICENSE hdf5io/FORMAT.md src/README.md src/NEW_OP.md \
  %D%/cluster.md \
  %D%/configuration.md \
  %D%/data.md \
  %D%/exit-codes.md \
  %D%/figures.md \
  %D%/gpu.md \
  %D%/install.md \
  %D%/language.md \
  %D%/memory.md \
  %D%/metrics.md \
  %D%/import.md \
  %D%/models.md \
  %D%/recipes.md \
  %D%/release.md \
  %D%/scaling.md \
  %D%/study-account.svg \
  %D%/study-throughput.svg
EXTRA_DIST += %D%/configuration.awk

install-links:
	for to in examples jobs; do ln -sfn '$(pkgdatadir)'/$$to '$(DESTDIR)$(docdir)'/$$to || exit 1; done
	ln -sfn '$(docdir)/docs' '$(DESTDIR)$(pkgdatadir)/docs'
uninstall-links:
	cd '$(DESTDIR)$(docdir)' 2>/dev/null && rm -f examples jobs || :
	rm -f '$(DESTDIR)$(pkgdatadir)/docs'
.PHONY: install-links uninstall-links

# Regenerates docs/configuration.md from the option tables.
docs: ctrain-hpc$(EXEEXT)
	./ctrain-hpc train --help | LC_ALL=C $(AWK) -f $(srcdir)/%D%/configuration.awk >$(srcdir)/%D%/configuration.md
.PHONY: docs

# Manual pages and completions for bash and zsh are generated from the help of the program.
EXTRA_DIST += %D%/man.awk contrib/completion/tables.awk contrib/completion/ctrain-hpc.bash contrib/completion/ctrain-hpc.zsh
if RUNS_HERE
man1_MANS = \
  %D%/man/ctrain-hpc.1 \
  %D%/man/ctrain-hpc-bench.1 \
  %D%/man/ctrain-hpc-convert.1 \
  %D%/man/ctrain-hpc-demo.1 \
  %D%/man/ctrain-hpc-doctor.1 \
  %D%/man/ctrain-hpc-eval.1 \
  %D%/man/ctrain-hpc-generate.1 \
  %D%/man/ctrain-hpc-import.1 \
  %D%/man/ctrain-hpc-inspect.1 \
  %D%/man/ctrain-hpc-pack.1 \
  %D%/man/ctrain-hpc-predict.1 \
  %D%/man/ctrain-hpc-quantize.1 \
  %D%/man/ctrain-hpc-stats.1 \
  %D%/man/ctrain-hpc-report.1 \
  %D%/man/ctrain-hpc-scale.1 \
  %D%/man/ctrain-hpc-summary.1 \
  %D%/man/ctrain-hpc-sweep.1 \
  %D%/man/ctrain-hpc-tokenize.1 \
  %D%/man/ctrain-hpc-train.1 \
  %D%/man/ctrain-hpc-watch.1
man5_MANS = %D%/man/ctrain-hpc-config.5
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = contrib/completion/ctrain-hpc
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = contrib/completion/_ctrain-hpc
CLEANFILES += $(man1_MANS) $(man5_MANS) %D%/man/help.txt %D%/man/made \
  $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA)
else
install-data-local:
	@echo "cross compiled: manual pages and completions are not installed; those of a native build fit"
endif

# The output of ctrain-hpc --help, then the help of each command.
%D%/man/help.txt: ctrain-hpc$(EXEEXT)
	@$(MKDIR_P) %D%/man
	$(AM_V_GEN)ASAN_OPTIONS=detect_leaks=0; export ASAN_OPTIONS; ./ctrain-hpc --help >$@.new && \
	  for command in `sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' $@.new`; do \
	  ./ctrain-hpc $$command --help >>$@.new || exit 1; done && mv -f $@.new $@
%D%/man/made: %D%/man/help.txt $(srcdir)/%D%/man.awk
	$(AM_V_at)rm -f $(man1_MANS) $(man5_MANS)
	$(AM_V_GEN)LC_ALL=C $(AWK) -v dir=%D%/man -v version=$(PACKAGE_VERSION) \
	  -v day="`sed -n 's/.*[ (]\([0-9][0-9-]*\))".*/\1/p' commit.h`" -f $(srcdir)/%D%/man.awk %D%/man/help.txt
	$(AM_V_at)touch $@
$(man1_MANS) $(man5_MANS): %D%/man/made
contrib/completion/ctrain-hpc: %D%/man/help.txt $(srcdir)/contrib/completion/tables.awk $(srcdir)/contrib/completion/ctrain-hpc.bash
	@$(MKDIR_P) contrib/completion
	$(AM_V_GEN){ LC_ALL=C $(AWK) -v shell=bash -f $(srcdir)/contrib/completion/tables.awk %D%/man/help.txt && \
	  cat $(srcdir)/contrib/completion/ctrain-hpc.bash; } >$@.new && mv -f $@.new $@
contrib/completion/_ctrain-hpc: %D%/man/help.txt $(srcdir)/contrib/completion/tables.awk $(srcdir)/contrib/completion/ctrain-hpc.zsh
	@$(MKDIR_P) contrib/completion
	$(AM_V_GEN){ LC_ALL=C $(AWK) -v shell=zsh -f $(srcdir)/contrib/completion/tables.awk %D%/man/help.txt && \
	  cat $(srcdir)/contrib/completion/ctrain-hpc.zsh; } >$@.new && mv -f $@.new $@

# Recipes for package managers, and a module file with the paths of this installation.
EXTRA_DIST += contrib/apptainer/cpu.def contrib/apptainer/cuda.def contrib/module/ctrain-hpc.in \
  contrib/conda-forge/recipe.yaml contrib/conda-forge/variants.yaml \
  contrib/easybuild/ctrain-hpc-0.2.0-foss-2024a.eb contrib/easybuild/oneDNN-3.6-GCCcore-13.3.0.eb \
  contrib/export_pt2.py \
  contrib/metrics2/metrics2 \
  contrib/spack/spack_repo/ctrain/repo.yaml \
  contrib/spack/spack_repo/ctrain/packages/ctrain_hpc/package.py \
  debian/changelog debian/control debian/copyright debian/ctrain-hpc.lintian-overrides debian/rules \
  debian/source/format debian/source/lintian-overrides
environmentmoduledir = $(pkgdatadir)/modulefiles/ctrain-hpc
nodist_environmentmodule_DATA = contrib/module/$(PACKAGE_VERSION)
CLEANFILES += $(nodist_environmentmodule_DATA)
contrib/module/$(PACKAGE_VERSION): $(srcdir)/contrib/module/ctrain-hpc.in Makefile
	@$(MKDIR_P) contrib/module
	$(AM_V_GEN)sed -e 's,@version[@],$(PACKAGE_VERSION),' -e 's,@pkgdatadir[@],$(pkgdatadir),' \
	  -e 's,@bindir[@],$(bindir),' -e 's,@mandir[@],$(mandir),' -e 's,@datadir[@],$(datadir),' \
	  $(srcdir)/contrib/module/ctrain-hpc.in >$@.new && mv -f $@.new $@
