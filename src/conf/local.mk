libctrain_a_SOURCES += \
  %D%/ct_opt.h \
  %D%/ct_opt_short.h \
  %D%/ct_yaml.h \
  %D%/opt.c \
  %D%/opt.h \
  %D%/opt_names.c \
  %D%/opt_out.c \
  %D%/opt_short.c \
  %D%/opt_value.c \
  %D%/yaml.c \
  %D%/yaml_dump.c \
  %D%/yaml_parse.c \
  %D%/yaml_parts.h \
  %D%/yaml_set.c
