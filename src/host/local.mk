libctrain_a_SOURCES += \
  %D%/cores.c \
  %D%/cpu.c \
  %D%/ct_cores.h \
  %D%/ct_energy.h \
  %D%/ct_host_cpu.h \
  %D%/ct_lock.h \
  %D%/ct_machine.h \
  %D%/ct_numa.h \
  %D%/ct_thread.h \
  %D%/energy.c \
  %D%/lock.c \
  %D%/machine.c \
  %D%/machine_parse.c \
  %D%/network.c \
  %D%/numa.c \
  %D%/stripes.c \
  %D%/thread.c \
  %D%/volume.c
