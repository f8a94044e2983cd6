ctrain_hpc_SOURCES = %D%/main.c
libctrain_a_SOURCES += \
  %D%/app.c \
  %D%/commands.c \
  %D%/limits.c

# The commit is compiled only into main.c, so that other objects need no rebuild when it changes.
commit.h: commit-again
	@new=$@.$$$$; sh $(srcdir)/%D%/commit.sh $(srcdir) header $(PACKAGE_VERSION) $@ >$$new && \
	  if cmp -s $@ $$new; then rm -f $$new; else mv -f $$new $@; fi
.PHONY: commit-again
%D%/main.$(OBJEXT): commit.h
CLEANFILES += commit.h
EXTRA_DIST += .commit .gitattributes %D%/commit.sh
dist-hook:
	sh $(srcdir)/%D%/commit.sh $(srcdir) >$(distdir)/.commit.new
	if test -s $(distdir)/.commit.new; then mv -f $(distdir)/.commit.new $(distdir)/.commit; \
	  else rm -f $(distdir)/.commit.new; fi
