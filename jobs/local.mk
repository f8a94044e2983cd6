# Templates of batch jobs; they work in the source tree and when installed.
nobase_dist_pkgdata_DATA += %D%/README.md %D%/lib.sh
nobase_dist_pkgdata_SCRIPTS = %D%/chain.sh %D%/train.slurm %D%/array.slurm %D%/scaling.slurm %D%/sweep.slurm \
  %D%/train.pbs %D%/train.flux

# Site settings; `make install` must not overwrite an edited file.
settingsdir = $(sysconfdir)/ctrain-hpc
settings = $(SHELL) $(srcdir)/contrib/install/settings.sh
EXTRA_DIST += %D%/env.sh contrib/install/settings.sh contrib/install/empty.sh
install-settings:
	$(settings) install $(srcdir)/%D%/env.sh '$(DESTDIR)' '$(settingsdir)' '$(pkgdatadir)/jobs'
uninstall-settings:
	$(settings) uninstall $(srcdir)/%D%/env.sh '$(DESTDIR)' '$(settingsdir)' '$(pkgdatadir)/jobs'
.PHONY: install-settings uninstall-settings
