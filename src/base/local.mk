libctrain_a_SOURCES += \
  %D%/ct_types.h %D%/types.c \
  %D%/ct_err.h %D%/err.c \
  %D%/ct_log.h %D%/log.c %D%/ct_terminal.h %D%/terminal.c \
  %D%/ct_mem.h %D%/mem.c %D%/mem_block.c \
  %D%/ct_json.h %D%/json.c \
  %D%/ct_text.h %D%/text.c %D%/str.c %D%/path.c \
  %D%/ct_temporary.h %D%/temporary.c %D%/ct_file.h %D%/file.c %D%/entries.c %D%/missing.c \
  %D%/ct_format.h %D%/format.c \
  %D%/ct_proto.h %D%/proto.c \
  %D%/ct_lock.h %D%/lock.c %D%/ct_owner.h %D%/owner.c \
  %D%/ct_rng.h %D%/rng.c \
  %D%/ct_hash.h %D%/ct_int.h %D%/hash.c %D%/ct_sip.h %D%/sip.c \
  %D%/ct_beat.h %D%/beat.c \
  %D%/ct_fault.h %D%/fault.c \
  %D%/ct_clock.h %D%/clock.c %D%/ct_step_times.h %D%/step_times.c \
  %D%/ct_trace.h %D%/trace.c \
  %D%/ct_yaml.h %D%/yaml_parts.h %D%/yaml.c %D%/yaml_parse.c %D%/yaml_dump.c %D%/yaml_set.c \
  %D%/ct_opt.h %D%/opt.h %D%/opt.c %D%/ct_opt_short.h %D%/opt_short.c %D%/opt_value.c %D%/opt_out.c %D%/opt_names.c \
  %D%/ct_cpu.h %D%/cpu.c %D%/ct_energy.h %D%/energy.c %D%/ct_cores.h %D%/cores.c %D%/ct_thread.h %D%/thread.c %D%/ct_machine.h %D%/machine.c %D%/machine_parse.c %D%/network.c %D%/volume.c %D%/stripes.c
