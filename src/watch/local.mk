libctrain_a_SOURCES += \
  %D%/ask.c \
  %D%/ct_watch.h \
  %D%/net.c \
  %D%/networks.c \
  %D%/proc.c \
  %D%/proof.c \
  %D%/proof.h \
  %D%/pump.c \
  %D%/thread.h \
  %D%/verdict.c \
  %D%/watch.c \
  %D%/watch.h
