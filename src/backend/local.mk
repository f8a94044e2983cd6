libctrain_a_SOURCES += %D%/ct_op.h %D%/op.c %D%/op_check.c %D%/ct_rules.h %D%/ct_update.h %D%/ct_backend.h %D%/ct_dropout.h %D%/ct_fake_quant.h %D%/ct_host.h %D%/host.c
libctrain_a_SOURCES += %D%/ct_strided.h %D%/strided.c
libctrain_a_SOURCES += %D%/ct_int8.h %D%/int8.c
libctrain_a_SOURCES += %D%/ct_expr.h %D%/expr.c %D%/ct_expr_view.h %D%/expr_view.c %D%/ct_random.h
