libctrain_a_SOURCES += \
  %D%/ct_watch.h %D%/watch.h %D%/thread.h %D%/watch.c %D%/pump.c %D%/ask.c %D%/net.c %D%/networks.c \
  %D%/proof.h %D%/proof.c %D%/proc.c %D%/verdict.c
