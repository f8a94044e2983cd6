ctrain_hpc_SOURCES = %D%/main.c
libctrain_a_SOURCES += \
  %D%/app.h %D%/app.c %D%/limits.c %D%/print.c %D%/args.c %D%/commands.h %D%/commands.c \
  %D%/builtin.h %D%/builtin.c \
  %D%/setup.h %D%/setup.c %D%/setup_order.c %D%/setup_cache.c %D%/setup_init.c %D%/setup_eval.c %D%/setup_names.c %D%/setup_reading.c %D%/cmd_train.c %D%/cmd_watch.c %D%/train_mllog.h %D%/train_mllog.c %D%/result.h %D%/result.c \
  %D%/setup_messages.c \
  %D%/model_file.h %D%/model_path.c %D%/model_file.c %D%/cmd_predict.c %D%/predict.h %D%/predict.c %D%/predict_out.c %D%/cmd_bench_predict.c %D%/passes.h %D%/passes.c \
  %D%/cmd_eval.c %D%/cmd_summary.c %D%/cmd_bench.c %D%/bench_io.h %D%/bench_io.c %D%/cmd_bench_io.c %D%/bench_comm.h %D%/bench_comm.c %D%/cmd_bench_comm.c %D%/bench.h %D%/bench.c %D%/bench_ops.c \
  %D%/cmd_pack.c %D%/cmd_report.c \
  %D%/few_steps.h %D%/few_steps.c %D%/lr_range.h %D%/lr_range.c %D%/cmd_bench_lr.c \
  %D%/submit.h %D%/submit.c \
  %D%/sweep.h %D%/sweep_over.c %D%/sweep_record.c %D%/sweep_table.c %D%/cmd_sweep.c \
  %D%/scale.h %D%/cmd_scale.c %D%/scale_launch.c %D%/scale_out.c %D%/scale_plan.c %D%/scale_point.c %D%/scale_machine.c %D%/scale_submit.c %D%/scale_study.c %D%/scale_timeline.c %D%/scale_world.c \
  %D%/cmd_doctor.c %D%/doctor_steps.c %D%/doctor_steps.h %D%/cmd_inspect.c %D%/cmd_convert.c %D%/convert.h %D%/convert_eight.h %D%/convert_eight.c %D%/convert_onnx.c %D%/convert_weights.c \
  %D%/cmd_quantize.c %D%/quantized.h %D%/quantized.c %D%/quantized_open.c

# The commit, for main.c alone: what else is built does not change with it.
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
