# Every test prints TAP, so each case is counted, not each program.
TEST_EXTENSIONS = .test
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_LOG_DRIVER = $(LOG_DRIVER)
TEST_LOG_COMPILER = bash
AM_TESTS_ENVIRONMENT = . ./tests/env.sh;

# Lists have one name a line, sorted.

# Scripts.  Those of mpi/ start programs of launched_tests, those of cli/ the program itself.
shell_tests = \
  %D%/cli/app.test %D%/cli/energy.test %D%/cli/neighbour.test \
  %D%/cli/best.test %D%/cli/quantize.test \
  %D%/cli/augment.test %D%/cli/batchnorm.test %D%/cli/brackets.test \
  %D%/cli/bench_comm.test \
  %D%/cli/budgets.test \
  %D%/cli/compose.test %D%/cli/config.test \
  %D%/cli/convert.test \
  %D%/cli/docs.test \
  %D%/cli/doctor.test \
  %D%/cli/encoded.test %D%/cli/environment.test %D%/cli/eval.test \
  %D%/cli/examples.test \
  %D%/cli/outputs.test %D%/cli/order.test \
  %D%/cli/fields.test \
  %D%/cli/files.test \
  %D%/cli/implementations.test \
  %D%/cli/inspect.test \
  %D%/cli/report.test %D%/cli/runs.test \
  %D%/cli/init.test \
  %D%/cli/loss.test %D%/cli/manual.test %D%/cli/memory.test %D%/cli/messages.test \
  %D%/cli/inputs.test \
  %D%/cli/places.test \
  %D%/cli/onnx.test \
  %D%/cli/pack.test %D%/cli/pack_arrays.test %D%/cli/pack_images.test %D%/cli/pack_labels.test \
  %D%/cli/recipe_resume.test \
  %D%/cli/predict.test %D%/cli/quickstart.test \
  %D%/cli/resume.test \
  %D%/cli/scale.test \
  %D%/cli/sweep.test \
  %D%/cli/tokenize.test \
  %D%/cli/tokens.test \
  %D%/cli/bench_lr.test \
  %D%/cli/bench_roofline.test \
  %D%/cli/settings.test %D%/cli/shards.test \
  %D%/cli/skip.test \
  %D%/cli/slabs.test \
  %D%/cli/cache.test \
  %D%/cli/stage.test \
  %D%/cli/indices.test \
  %D%/cli/stored_integers.test \
  %D%/cli/account.test %D%/cli/stragglers.test \
  %D%/cli/token_windows.test \
  %D%/cli/trace.test %D%/cli/train.test %D%/cli/upgrade.test %D%/cli/watch.test %D%/cli/which.test \
  %D%/conform/cpu-direct.test \
  %D%/conform/cpu.test \
  %D%/conform/ref.test \
  %D%/conform/limits.test \
  %D%/conform/ways.test \
  %D%/faults/death.test \
  %D%/faults/disk.test \
  %D%/faults/guests.test \
  %D%/faults/hang.test \
  %D%/faults/inputs.test \
  %D%/faults/kill.test \
  %D%/faults/links.test \
  %D%/faults/names.test \
  %D%/faults/points.test \
  %D%/faults/retry.test \
  %D%/faults/rundir.test \
  %D%/faults/interrupt.test \
  %D%/faults/stop.test \
  %D%/faults/stop_eval.test \
  %D%/faults/truncate.test \
  %D%/faults/walltime.test \
  %D%/fuzz/fuzz.test \
  %D%/golden/golden.test \
  %D%/golden/ops.test \
  %D%/golden/runs.test \
  %D%/harness/lib.test \
  %D%/import/export.test \
  %D%/import/import.test \
  %D%/lint/circles.test \
  %D%/lint/format.test \
  %D%/lint/habits.test \
  %D%/lint/jobs.test \
  %D%/lint/layers.test \
  %D%/lint/names.test \
  %D%/lint/packages.test \
  %D%/lint/pages.test \
  %D%/lint/prose.test \
  %D%/lint/size.test \
  %D%/mpi/agree.test \
  %D%/mpi/clocks.test %D%/mpi/comm.test \
  %D%/mpi/comm_calls.test \
  %D%/mpi/comm_probe.test \
  %D%/mpi/comm_calls_staged.test \
  %D%/mpi/comm_staged.test \
  %D%/mpi/devices.test \
  %D%/mpi/loop.test \
  %D%/mpi/memory.test \
  %D%/mpi/oracle.test \
  %D%/mpi/recipe.test \
  %D%/mpi/account.test %D%/mpi/stragglers.test \
  %D%/mpi/topo.test \
  %D%/mpi/trainer.test \
  %D%/mpi/replay.test \
  %D%/mpi/trainer_ahead.test \
  %D%/mpi/trainer_dp.test \
  %D%/mpi/trainer_state.test \
  %D%/mpi/window.test \
  %D%/python/families.test \
  %D%/python/hf.test \
  %D%/python/language.test \
  %D%/python/metrics2.test \
  %D%/python/mllog.test \
  %D%/python/nets.test \
  %D%/python/onnx.test \
  %D%/python/others.test \
  %D%/python/generate.test \
  %D%/python/predict_fields.test \
  %D%/python/predict.test \
  %D%/python/inputs_onnx.test \
  %D%/python/predict_onnx.test \
  %D%/python/cf.test %D%/python/fields.test %D%/python/images.test %D%/python/pth.test %D%/python/tensorboard.test \
  %D%/python/tokenizer.test \
  %D%/python/tokens.test \
  %D%/python/token_windows.test \
  %D%/python/torchvision_onnx.test \
  %D%/python/weights.test

# What scripts and programs read.
EXTRA_DIST += $(shell_tests) \
  %D%/site/users.test \
  %D%/crash/kill.sh \
  %D%/faults/common.sh \
  %D%/faults/watched.sh \
  %D%/fuzz/corpus-arrays \
  %D%/fuzz/corpus-config \
  %D%/fuzz/corpus-h5-chunk \
  %D%/fuzz/corpus-hf \
  %D%/fuzz/corpus-image \
  %D%/fuzz/corpus-pt2 \
  %D%/fuzz/corpus-pth \
  %D%/fuzz/corpus-run-config \
  %D%/fuzz/corpus-safetensors \
  %D%/fuzz/corpus-tar \
  %D%/fuzz/corpus-tokenizer \
  %D%/fuzz/corpus-tokens \
  %D%/golden/cf.nc \
  %D%/golden/encoded \
  %D%/fuzz/fuzz.h \
  %D%/fuzz/make_pt2_corpus.py \
  %D%/fuzz/mutate_json.c \
  %D%/fuzz/fuzz_weights.h \
  %D%/golden/gold.h \
  %D%/golden/lstm-steps.onnx \
  %D%/golden/h5 \
  %D%/golden/make_upgrade.sh %D%/golden/upgrade \
  %D%/golden/make_cf.py \
  %D%/golden/make_encoded.py \
  %D%/golden/make_golden.py \
  %D%/golden/make_h5.py \
  %D%/golden/import %D%/golden/make_import.py \
  %D%/import/check_layers.py \
  %D%/import/check_refusals.py \
  %D%/import/families.py \
  %D%/golden/make_images.py \
  %D%/golden/make_resize.py \
  %D%/golden/make_sample.py \
  %D%/golden/make_fake_quant.py \
  %D%/golden/make_loss.py \
  %D%/golden/make_ops.py \
  %D%/golden/make_optim_golden.py \
  %D%/golden/make_pt2.py \
  %D%/golden/make_pth.py \
  %D%/golden/make_runs.py \
  %D%/golden/make_safetensors.py \
  %D%/golden/make_transform_golden.py \
  %D%/golden/models \
  %D%/golden/models.sh \
  %D%/golden/optim.gold \
  %D%/golden/pt2 \
  %D%/golden/pth \
  %D%/golden/resnet18-nodes.jsonl \
  %D%/golden/runs.gold \
  %D%/golden/inputs.gold %D%/golden/measures.gold %D%/golden/make_measures.py %D%/golden/places.gold \
  %D%/golden/make_inputs.py %D%/golden/make_places.py \
  %D%/golden/outputs.gold %D%/golden/make_outputs.py \
  %D%/golden/tied.safetensors \
  %D%/golden/tokenizer \
  %D%/golden/transforms.gold \
  %D%/golden/types.safetensors \
  %D%/lib.sh %D%/slowest.txt \
  %D%/lint/layers.txt \
  %D%/lint/names.awk \
  %D%/lint/uses.awk \
  %D%/lsan.supp \
  %D%/mpi/run_np.sh \
  %D%/mutants \
  %D%/import/check_export.py \
  %D%/import/check_import.py \
  %D%/import/nets.py %D%/import/nets_image.py %D%/import/nets_sequence.py \
  %D%/import/nets_fourier.py \
  %D%/import/nets_table.py \
  %D%/python/beside_torch.py \
  %D%/python/fake_mlflow.py \
  %D%/python/check_nets.py \
  %D%/python/check_onnx.py \
  %D%/python/check_others.py \
  %D%/python/check_predict_fields.py \
  %D%/python/check_predict.py \
  %D%/python/check_predict_onnx.py \
  %D%/python/check_cf.py \
  %D%/python/check_fields.py \
  %D%/python/check_tokens.py \
  %D%/python/check_token_windows.py \
  %D%/python/check_generate.py \
  %D%/python/check_families.py \
  %D%/python/check_hf.py \
  %D%/python/check_language.py \
  %D%/python/check_images.py \
  %D%/python/field_nets.py \
  %D%/python/check_pth.py \
  %D%/python/check_tokenizer.py \
  %D%/python/check_torchvision_onnx.py \
  %D%/python/check_weights.py \
  %D%/python/onnx_heads.h \
  %D%/python/onnx_models.h \
  %D%/python/torch_tables/README.md %D%/python/torch_tables/batched.py \
  %D%/python/torch_tables/express.py \
  %D%/python/torch_tables/imported.py \
  %D%/python/torch_tables/run.py \
  %D%/unit/ckpt_fake.h \
  %D%/unit/distribution.h \
  %D%/unit/doctor_judge.h \
  %D%/unit/feed_fake.h \
  %D%/unit/h5_files.h \
  %D%/unit/image_gold.h \
  %D%/unit/fake_quant_gold.h \
  %D%/unit/loss_gold.h \
  %D%/unit/sample_gold.h \
  %D%/unit/resize_gold.h \
  %D%/unit/model_make.h \
  %D%/unit/model_names.h \
  %D%/unit/net_eight.h \
  %D%/unit/net_run.h \
  %D%/unit/pgm_reader.h \
  %D%/unit/plan_make.h \
  %D%/unit/pth_make.h \
  %D%/unit/transform_list.h

if HAVE_TESTS

# What every test program is linked with.
check_LIBRARIES += libctest.a
libctest_a_SOURCES = \
  %D%/harness/compare.c \
  %D%/harness/ct_test.h \
  %D%/harness/ct_test_backend.h \
  %D%/harness/ct_test_mpi.h \
  %D%/harness/test.c \
  %D%/harness/test_backend.c \
  %D%/harness/test_mpi.c
test_ldadd = libctest.a libctrain.a $(CUNIT_LDFLAGS) $(CUNIT_LIBS)
LDADD = $(test_ldadd)
# A program that loads modules exports all functions, as they use some that it does not use itself.
load_modules = -Wl,--export-dynamic -Wl,--whole-archive,libctrain.a,--no-whole-archive

# Programs of one source file each, which run alone.
unit_tests = \
  %D%/unit/t_args \
  %D%/unit/t_base \
  %D%/unit/t_blocks \
  %D%/unit/t_ckpt \
  %D%/unit/t_ckpt_best \
  %D%/unit/t_ckpt_write \
  %D%/unit/t_compare \
  %D%/unit/t_config \
  %D%/unit/t_dataset \
  %D%/unit/t_doctor \
  %D%/unit/t_doctor_others \
  %D%/unit/t_families \
  %D%/unit/t_feed \
  %D%/unit/t_feed_sizes \
  %D%/unit/t_feed_skip \
  %D%/unit/t_feed_ahead \
  %D%/unit/t_file \
  %D%/unit/t_fold \
  %D%/unit/t_int8 \
  %D%/unit/t_observe \
  %D%/unit/t_range \
  %D%/unit/t_int8_ops \
  %D%/unit/t_plan_int8 \
  %D%/unit/t_freeze \
  %D%/unit/t_h5 \
  %D%/unit/t_cores \
  %D%/unit/t_h5_ahead \
  %D%/unit/t_h5_bad %D%/unit/t_h5_labels \
  %D%/unit/t_h5_cache \
  %D%/unit/t_h5_cf \
  %D%/unit/t_h5_layouts \
  %D%/unit/t_h5_matrix \
  %D%/unit/t_h5_slow \
  %D%/unit/t_h5_share \
  %D%/unit/t_h5_sources \
  %D%/unit/t_h5_views \
  %D%/unit/t_hf \
  %D%/unit/t_infer \
  %D%/unit/t_inputs \
  %D%/unit/t_measures \
  %D%/unit/t_runlog \
  %D%/unit/t_generate \
  %D%/unit/t_sample \
  %D%/unit/t_kern \
  %D%/unit/t_kern_update \
  %D%/unit/t_log \
  %D%/unit/t_loss \
  %D%/unit/t_loss_opts \
  %D%/unit/t_machine \
  %D%/unit/t_match \
  %D%/unit/t_metrics \
  %D%/unit/t_model \
  %D%/unit/t_model_layers \
  %D%/unit/t_model_shared \
  %D%/unit/t_model_general \
  %D%/unit/t_model_move \
  %D%/unit/t_model_windows \
  %D%/unit/t_model_seq \
  %D%/unit/t_names \
  %D%/unit/t_yaml \
  %D%/unit/t_onnx \
  %D%/unit/t_op \
  %D%/unit/t_opt \
  %D%/unit/t_optim \
  %D%/unit/t_optim_gold \
  %D%/unit/t_comm_model \
  %D%/unit/t_owner \
  %D%/unit/t_pace \
  %D%/unit/t_scaling \
  %D%/unit/t_sweep \
  %D%/unit/t_lr_range \
  %D%/unit/t_pack \
  %D%/unit/t_pack_arrays \
  %D%/unit/t_further_targets \
  %D%/unit/t_outputs \
  %D%/unit/t_pack_input \
  %D%/unit/t_network \
  %D%/unit/t_newer \
  %D%/unit/t_numa \
  %D%/unit/t_pack_labels \
  %D%/unit/t_pack_resize \
  %D%/unit/t_pack_tar \
  %D%/unit/t_elementwise \
  %D%/unit/t_plan \
  %D%/unit/t_plan_low \
  %D%/unit/t_plan_modes \
  %D%/unit/t_plan_run \
  %D%/unit/t_recompute \
  %D%/unit/t_head_loss \
  %D%/unit/t_pth \
  %D%/unit/t_pth_bad \
  %D%/unit/t_pt2 \
  %D%/unit/t_pt2_bad \
  %D%/unit/t_pt2_graph \
  %D%/unit/t_ref \
  %D%/unit/t_ref_low \
  %D%/unit/t_ref_math \
  %D%/unit/t_rundir \
  %D%/unit/t_sampler \
  %D%/unit/t_safetensors \
  %D%/unit/t_schedule \
  %D%/unit/t_seal \
  %D%/unit/t_setup \
  %D%/unit/t_sim \
  %D%/unit/t_cache \
  %D%/unit/t_stage \
  %D%/unit/t_image \
  %D%/unit/t_import \
  %D%/unit/t_encoded %D%/unit/t_events \
  %D%/unit/t_inspect_h5 \
  %D%/unit/t_io_times \
  %D%/unit/t_job \
  %D%/unit/t_stop \
  %D%/unit/t_store \
  %D%/unit/t_store_small \
  %D%/unit/t_subnormal \
  %D%/unit/t_survey \
  %D%/unit/t_targets \
  %D%/unit/t_text \
  %D%/unit/t_along %D%/unit/t_amx \
  %D%/unit/t_augment \
  %D%/unit/t_symmetry \
  %D%/unit/t_transform_boxes \
  %D%/unit/t_transform_draws \
  %D%/unit/t_transform_answers \
  %D%/unit/t_transform_feed \
  %D%/unit/t_tokens \
  %D%/unit/t_trace \
  %D%/unit/t_tokenizer \
  %D%/unit/t_transforms \
  %D%/unit/t_watch_networks \
  %D%/unit/t_watch_proof \
  %D%/unit/t_watch_verdict \
  %D%/unit/t_weights

# Programs that a script starts.
launched_tests = \
  %D%/conform/conform_backend \
  %D%/conform/products \
  %D%/conform/limits \
  %D%/conform/ways \
  %D%/conform/winograd \
  %D%/fuzz/fuzz_arrays \
  %D%/fuzz/fuzz_config \
  %D%/fuzz/fuzz_h5_chunk \
  %D%/fuzz/fuzz_hf \
  %D%/fuzz/fuzz_image \
  %D%/fuzz/fuzz_pt2 \
  %D%/fuzz/fuzz_pth \
  %D%/fuzz/fuzz_run_config \
  %D%/fuzz/fuzz_safetensors \
  %D%/fuzz/fuzz_tar \
  %D%/fuzz/fuzz_tokenizer \
  %D%/fuzz/fuzz_tokens \
  %D%/golden/t_golden \
  %D%/import/pt2_layers \
  %D%/mpi/t_account \
  %D%/mpi/t_agree \
  %D%/mpi/t_clocks \
  %D%/mpi/t_comm \
  %D%/mpi/t_comm_calls \
  %D%/mpi/t_comm_probe \
  %D%/mpi/t_devices \
  %D%/mpi/t_loop \
  %D%/mpi/t_memory \
  %D%/mpi/t_oracle \
  %D%/mpi/t_recipe \
  %D%/mpi/t_stragglers \
  %D%/mpi/t_topo \
  %D%/mpi/t_trainer \
  %D%/mpi/t_replay \
  %D%/mpi/t_trainer_ahead \
  %D%/mpi/t_trainer_dp \
  %D%/mpi/t_trainer_state \
  %D%/mpi/t_window \
  %D%/python/onnx_make \
  %D%/python/read_arrays \
  %D%/python/read_batches \
  %D%/python/token_records \
  %D%/python/weights_logits \
  %D%/tools/peak \
  %D%/tools/same_ckpt \
  %D%/tools/ways

if HAVE_DNNL
unit_tests += %D%/unit/t_formats
endif
check_PROGRAMS += $(unit_tests) $(launched_tests) %D%/golden/draws
TESTS += $(unit_tests) $(shell_tests)

%C%_unit_t_h5_slow_SOURCES = %D%/unit/t_h5_slow.c %D%/tools/slow_shim.c %D%/tools/slow_shim.h
%C%_unit_t_int8_ops_SOURCES = %D%/unit/t_int8_ops.c %D%/conform/draw.c %D%/conform/draw_conv_pool.c %D%/conform/draw_expr.c %D%/conform/draw_rope.c %D%/conform/draw_sizes.c %D%/conform/draws.c
%C%_unit_t_op_SOURCES = %D%/unit/t_op.c %D%/conform/cases_bad.c
%C%_conform_conform_backend_SOURCES = \
  %D%/conform/bytes.c \
  %D%/conform/cases.c \
  %D%/conform/cases.h \
  %D%/conform/cases_bad.c \
  %D%/conform/cases_conv_pool.c \
  %D%/conform/cases_expr.c \
  %D%/conform/cases_loss.c \
  %D%/conform/cases_norm.c \
  %D%/conform/cases_reduce.c \
  %D%/conform/cases_seq.c \
  %D%/conform/cases_move.c \
  %D%/conform/cases_rope.c \
  %D%/conform/cases_volume.c \
  %D%/conform/check.h \
  %D%/conform/conform_backend.c \
  %D%/conform/draw.c \
  %D%/conform/draw.h \
  %D%/conform/drawn.c \
  %D%/conform/draws.c \
  %D%/conform/draw_conv_pool.c \
  %D%/conform/draw_expr.c \
  %D%/conform/draw_rope.c \
    %D%/conform/draw_pool.c \
  %D%/conform/draw_sizes.c \
  %D%/conform/draw_sizes.h \
  %D%/conform/gradient.c \
  %D%/conform/kinds.c \
  %D%/conform/parity.c \
  %D%/conform/reorder.c \
  %D%/conform/repeat.c \
  %D%/conform/rig.c \
  %D%/conform/rig_again.c \
  %D%/conform/rig_parts.c \
  %D%/conform/rig.h \
  %D%/conform/rig_data.c \
  %D%/conform/rig_loss.c \
  %D%/conform/sync.c \
  %D%/conform/types.c \
  %D%/conform/update.c
%C%_conform_conform_backend_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
%C%_conform_limits_SOURCES = %D%/conform/limits.c
%C%_conform_limits_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
%C%_conform_ways_SOURCES = \
  %D%/conform/cases.c \
  %D%/conform/cases_volume.c \
  %D%/conform/draw.c \
  %D%/conform/draw_conv_pool.c \
  %D%/conform/draw_expr.c \
  %D%/conform/draw_rope.c \
  %D%/conform/draw_pool.c \
  %D%/conform/draw_sizes.c \
  %D%/conform/draw_sizes.h \
  %D%/conform/draws.c \
  %D%/conform/one_way.c \
  %D%/conform/one_way.h \
  %D%/conform/parity.c \
  %D%/conform/rig.c \
  %D%/conform/rig_again.c \
  %D%/conform/rig_parts.c \
  %D%/conform/rig_data.c \
  %D%/conform/rig_loss.c \
  %D%/conform/ways.c

%C%_conform_winograd_SOURCES = \
  %D%/conform/parity.c \
  %D%/conform/rig.c \
  %D%/conform/rig_again.c \
  %D%/conform/rig_parts.c \
  %D%/conform/rig_data.c \
  %D%/conform/rig_loss.c \
  %D%/conform/winograd.c

%C%_golden_t_golden_LDFLAGS = $(AM_LDFLAGS) $(load_modules)

comm_rig = %D%/mpi/comm_rig.c %D%/mpi/comm_rig.h
%C%_mpi_t_comm_SOURCES = %D%/mpi/t_comm.c $(comm_rig)
%C%_mpi_t_comm_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
%C%_mpi_t_comm_calls_SOURCES = %D%/mpi/t_comm_calls.c $(comm_rig)
%C%_mpi_t_comm_calls_LDFLAGS = $(AM_LDFLAGS) $(load_modules)
%C%_mpi_t_comm_probe_SOURCES = %D%/mpi/t_comm_probe.c $(comm_rig)
%C%_mpi_t_comm_probe_LDFLAGS = $(AM_LDFLAGS) $(load_modules)

%C%_mpi_t_memory_LDFLAGS = $(AM_LDFLAGS) $(load_modules)

trainer_rig = %D%/mpi/flaky.c %D%/mpi/flaky.h %D%/mpi/trainer_rig.c %D%/mpi/trainer_rig.h

%C%_mpi_t_loop_SOURCES = %D%/mpi/t_loop.c $(trainer_rig)
%C%_mpi_t_oracle_SOURCES = %D%/mpi/t_oracle.c $(trainer_rig)
%C%_mpi_t_recipe_SOURCES = %D%/mpi/t_recipe.c $(trainer_rig)
%C%_mpi_t_trainer_SOURCES = %D%/mpi/t_trainer.c $(trainer_rig)
%C%_mpi_t_replay_SOURCES = %D%/mpi/t_replay.c $(trainer_rig)
%C%_mpi_t_trainer_ahead_SOURCES = %D%/mpi/t_trainer_ahead.c $(trainer_rig)
%C%_mpi_t_trainer_dp_SOURCES = %D%/mpi/t_trainer_dp.c $(trainer_rig)
%C%_mpi_t_trainer_state_SOURCES = %D%/mpi/t_trainer_state.c $(trainer_rig)

%C%_fuzz_fuzz_arrays_SOURCES = %D%/fuzz/fuzz_arrays.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_config_SOURCES = %D%/fuzz/fuzz_config.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_h5_chunk_SOURCES = %D%/fuzz/fuzz_h5_chunk.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_hf_SOURCES = %D%/fuzz/fuzz_hf.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_image_SOURCES = %D%/fuzz/fuzz_image.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_pt2_SOURCES = %D%/fuzz/fuzz_main.c %D%/fuzz/fuzz_pt2.c
%C%_fuzz_fuzz_pth_SOURCES = %D%/fuzz/fuzz_main.c %D%/fuzz/fuzz_pth.c
%C%_fuzz_fuzz_run_config_SOURCES = %D%/fuzz/fuzz_run_config.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_tar_SOURCES = %D%/fuzz/fuzz_tar.c %D%/fuzz/fuzz_main.c
%C%_fuzz_fuzz_tokenizer_SOURCES = %D%/fuzz/fuzz_main.c %D%/fuzz/fuzz_tokenizer.c
%C%_fuzz_fuzz_tokens_SOURCES = %D%/fuzz/fuzz_main.c %D%/fuzz/fuzz_tokens.c
%C%_fuzz_fuzz_safetensors_SOURCES = %D%/fuzz/fuzz_safetensors.c %D%/fuzz/fuzz_main.c

# Libraries to preload, which play a full disk, a file system or an MPI.
check_PROGRAMS += %D%/tools/disk_shim.so %D%/tools/fs_shim.so %D%/tools/mpi_shim.so \
  %D%/tools/slow_shim.so %D%/tools/crowd_shim.so %D%/tools/energy_shim.so %D%/tools/nvml_fake.so \
  %D%/tools/load_shim.so %D%/tools/nfs_shim.so %D%/tools/cable \
  %D%/tools/guest_shim.so %D%/tools/yield_shim.so
%C%_tools_disk_shim_so_SOURCES = %D%/tools/disk_shim.c
%C%_tools_disk_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_disk_shim_so_LDFLAGS = -shared
%C%_tools_disk_shim_so_LDADD = -ldl
%C%_tools_fs_shim_so_SOURCES = %D%/tools/fs_shim.c
%C%_tools_fs_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_fs_shim_so_LDFLAGS = -shared $(CT_SAN)
%C%_tools_fs_shim_so_LDADD = -ldl
%C%_tools_guest_shim_so_SOURCES = %D%/tools/guest_shim.c
%C%_tools_guest_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_guest_shim_so_LDFLAGS = -shared
%C%_tools_guest_shim_so_LDADD = -ldl
%C%_tools_nfs_shim_so_SOURCES = %D%/tools/nfs_shim.c
%C%_tools_nfs_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_nfs_shim_so_LDFLAGS = -shared
%C%_tools_nfs_shim_so_LDADD = -ldl
%C%_tools_slow_shim_so_SOURCES = %D%/tools/slow_shim.c %D%/tools/slow_shim.h
%C%_tools_slow_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_slow_shim_so_LDFLAGS = -shared $(CT_SAN)
%C%_tools_slow_shim_so_LDADD = -ldl
%C%_tools_crowd_shim_so_SOURCES = %D%/tools/crowd_shim.c
%C%_tools_crowd_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_crowd_shim_so_LDFLAGS = -shared
%C%_tools_crowd_shim_so_LDADD =
%C%_tools_load_shim_so_SOURCES = %D%/tools/load_shim.c
%C%_tools_load_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_load_shim_so_LDFLAGS = -shared
%C%_tools_load_shim_so_LDADD =
%C%_tools_energy_shim_so_SOURCES = %D%/tools/energy_shim.c
%C%_tools_energy_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_energy_shim_so_LDFLAGS = -shared $(CT_SAN)
%C%_tools_energy_shim_so_LDADD = -ldl
%C%_tools_nvml_fake_so_SOURCES = %D%/tools/nvml_fake.c
%C%_tools_nvml_fake_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_nvml_fake_so_LDFLAGS = -shared
%C%_tools_nvml_fake_so_LDADD =
%C%_tools_yield_shim_so_SOURCES = %D%/tools/yield_shim.c
%C%_tools_yield_shim_so_CFLAGS = -std=gnu11 $(CT_WARN) -fPIC
%C%_tools_yield_shim_so_LDFLAGS = -shared
%C%_tools_yield_shim_so_LDADD = -ldl
%C%_tools_cable_SOURCES = %D%/tools/cable.c
%C%_tools_cable_LDADD = libctrain.a -lm
%C%_tools_mpi_shim_so_SOURCES = %D%/tools/mpi_shim.c
%C%_tools_mpi_shim_so_CFLAGS = $(AM_CFLAGS) -fPIC
%C%_tools_mpi_shim_so_LDFLAGS = -shared
%C%_tools_mpi_shim_so_LDADD =

endif
