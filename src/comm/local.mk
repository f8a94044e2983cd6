libctrain_a_SOURCES += \
  %D%/ct_topo.h %D%/topo.c \
  %D%/sharing.h %D%/sharing.c \
  %D%/ct_agree.h %D%/agree.c \
  %D%/ct_alarm.h %D%/alarm.c \
  %D%/ct_devices.h %D%/devices.c \
  %D%/ct_mpi.h %D%/mpi.c \
  %D%/ct_clocks.h %D%/clocks.c \
  %D%/mpich_finalize.c \
  %D%/ct_comm.h %D%/comm_turn.h %D%/comm_staged.c %D%/comm_mpi.h %D%/comm_mpi.c %D%/comm_transfers.c %D%/comm_group.c %D%/comm_rows.c \
  %D%/ct_comm_model.h %D%/comm_model.c \
  %D%/ct_comm_probe.h %D%/comm_probe.c \
  %D%/exchange.h %D%/exchange.c \
  %D%/window.h %D%/window.c \
  %D%/ct_module.h %D%/module.c
