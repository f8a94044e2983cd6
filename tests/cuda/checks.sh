# What a CUDA device must show, a real one (tests/gpu/check-gpu) or the emulated one
# (tests/cuda/train.test). The caller has sourced tests/lib.sh, and sets
#   launch N PROGRAM ARGUMENTS...   runs a program of the build on N ranks
#   size                            small or large: how much is trained
gold=$CT_SRC/tests/golden
. "$gold/models.sh"
digits=$CT_SRC/examples/digits/train.yaml

# gpu RANKS NAME OPTIONS...: trains the digits on the GPU (or, with `--set device=...`, elsewhere)
# in $work/NAME; 0 if that ended well.
gpu() {
  local ranks=$1 name=$2
  shift 2
  rm -rf "$work/$name"
  launch "$ranks" ctrain-hpc train "$digits" --set device=cuda --set run.dir="$work/$name" \
    --set run.log_every=1 --set train.steps=$steps --set train.epochs=1 --set data.batch=64 \
    --set checkpoint.keep=1 "$@" >"$work/out" 2>"$work/err" && return 0
  tail -n 5 "$work/err"
  return 1
}

# losses NAME: of its steps
losses() { metric step loss "$work/$1/metrics.jsonl"; }

# alike A B TOLERANCE: the same losses, as near
alike() {
  losses "$1" >"$work/a.txt"
  losses "$2" >"$work/b.txt"
  columns_near "$work/a.txt" "$work/b.txt" "$3"
}

checkpoint() { ls "$work/$1"/checkpoints/step-*.h5 | tail -n 1; }
same_bits() { launch 1 tests/tools/same_ckpt "$(checkpoint "$1")" "$(checkpoint "$2")"; }

# train_like NAME REFERENCE TOLERANCE RANKS OPTIONS...
train_like() {
  local name=$1 reference=$2 tolerance=$3 ranks=$4
  shift 4
  gpu "$ranks" "$name" "$@" && alike "$name" "$reference" "$tolerance"
}

refused() { # WORDS RANKS OPTIONS...
  local words=$1 ranks=$2
  shift 2
  gpu "$ranks" refused "$@" >/dev/null && { echo "it was accepted"; return 1; }
  grep -q "$words" "$work/err" || { cat "$work/err"; return 1; }
}

check_golden() { # NAME
  ok "golden: $1" launch 1 tests/golden/t_golden cuda "$gold/models/$1.gold"
  [ "$size" = large ] && [ "$1" = resnet18-amp ] || return 0
  ok "golden: $1 in fp16" launch 1 tests/golden/t_golden cuda "$gold/models/$1.gold" fp16
}

check_goldens() {
  local name
  for name in $(gold_on "$([ "$size" = large ] && echo gpu || echo emu)"); do
    check_golden "$name"
  done
}

# Against the CPU, and across: checkpoints know nothing of devices.  Each of these checks runs alone,
# too.
check_training() {
  check_steps
  check_types
  check_adamw
  check_inputs
  check_averages
}

check_steps() {
  ok "the CPU trains" gpu 1 cpu --set device=cpu
  ok "the GPU has the CPU's losses" train_like eager cpu 2e-4 1 --set cuda.graph=false
  ok "a repeated step has the same bits" gpu 1 graph
  ok "  in all weights" same_bits graph eager
  ok "two runs have the same bits" gpu 1 again
  ok "  in all weights" same_bits graph again
  ok "no batch is copied ahead: the same bits" gpu 1 behind --set data.workers=0
  ok "  in all weights" same_bits graph behind
  local map="normalize: {mean: [4.88], std: [6.02]}"
  ok "the host converts the samples: the same bits" \
    gpu 1 host --set "transforms=[resize: {size: [8, 8]}, $map]"
  ok "  in all weights" same_bits graph host
  local moved="random_crop: {padding: 1}, random_flip: {}"
  ok "the host crops and flips bytes" gpu 1 moved --set "transforms=[$moved, $map]"
  ok "  or values: the same bits" \
    gpu 1 values --set "transforms=[$moved, resize: {size: [8, 8]}, $map]"
  ok "  in all weights" same_bits moved values
  ok "  the CPU does the same" gpu 1 moved-cpu --set device=cpu --set "transforms=[$moved, $map]"
  ok "  and has the same losses" alike moved moved-cpu 2e-4
  ok "a checkpoint of the GPU is evaluated on the CPU" across
}

check_types() {
  [ -d "$work/cpu" ] || ok "the CPU trains" gpu 1 cpu --set device=cpu
  ok "bf16" train_like bf16 cpu 0.05 1 --set train.amp=bf16
  ok "float32 with TF32 factors" train_like tf32 cpu 0.02 1 --set train.amp=tf32
  ok "  which the device is opened with" grep -q ", TF32" "$work/err"
  ok "  and a CPU does not have" refused "train.amp: tf32 is a format of NVIDIA" 1 \
    --set device=cpu --set train.amp=tf32
  ok "fp16 with loss scaling" train_like fp16 cpu 0.05 1 --set train.amp=fp16
  ok "fp16 as CUDA graphs and piece by piece: the same bits" \
    gpu 1 fp16-eager --set train.amp=fp16 --set cuda.graph=false
  ok "  in all weights" same_bits fp16 fp16-eager
  # with a larger rate the losses of bf16 leave those of float32 on a CPU, too
  local vit=(--set "model={family: vit, depth: 1, patch: 2, dim: 32, heads: 2}" \
    --set "optim={kind: adamw, lr: 1e-3}")
  ok "a transformer, on the CPU" gpu 1 vit-cpu --set device=cpu "${vit[@]}"
  ok "the same on the GPU" train_like vit vit-cpu 1e-3 1 "${vit[@]}"
  ok "  in bf16" train_like vit-bf16 vit-cpu 0.02 1 "${vit[@]}" --set train.amp=bf16
  ok "  in fp16" train_like vit-fp16 vit-cpu 0.02 1 "${vit[@]}" --set train.amp=fp16
}

check_adamw() {
  local adamw=(--set "optim={kind: adamw, lr: 1e-3}" --set train.clip_norm=1 \
    --set train.accumulate=2)
  ok "AdamW, clipping and pieces, on the CPU" gpu 1 adamw-cpu --set device=cpu "${adamw[@]}"
  ok "the same on the GPU" train_like adamw adamw-cpu 1e-3 1 "${adamw[@]}"
  local lamb=(--set "optim={kind: lamb, lr: 1e-2, weight_decay: 0.1}" --set train.clip_norm=1)
  local lars=(--set "optim={kind: lars, lr: 1, momentum: 0.9, weight_decay: 1e-3, trust: 0.01}")
  ok "LAMB, on the CPU" gpu 1 lamb-cpu --set device=cpu "${lamb[@]}"
  ok "the same on the GPU" train_like lamb lamb-cpu 1e-3 1 "${lamb[@]}"
  ok "LARS, on the CPU" gpu 1 lars-cpu --set device=cpu "${lars[@]}"
  ok "the same on the GPU" train_like lars lars-cpu 1e-3 1 "${lars[@]}"
}

check_inputs() {
  local digits=$CT_SRC/examples/inputs/train.yaml
  ok "two inputs of different shapes, on the CPU" gpu 1 inputs-cpu --set device=cpu
  ok "the same on the GPU" train_like inputs inputs-cpu 2e-4 1
}

check_averages() {
  ok "averaged weights, on the CPU" gpu 1 ema-cpu --set device=cpu "${two[@]}" --set train.ema=0.9
  ok "the GPU's are alike" averages_like ema ema-cpu 1e-3
  ok "quantization-aware training, on the CPU" gpu 1 qat-cpu --set device=cpu --set train.qat=true
  ok "the same on the GPU" train_like qat qat-cpu 0.02 1 --set train.qat=true
  ok "  step by step and as CUDA graphs: the same bits" \
    gpu 1 qat-eager --set train.qat=true --set cuda.graph=false
  ok "  in all weights" same_bits qat qat-eager
  ok "quantize is refused before any work; an int8 model is evaluated" no_int8
  ok "bf16 without averages" gpu 1 bf16-two "${two[@]}" --set train.amp=bf16
  ok "looking at averages in between changes nothing" averages_like ema-bf16 ema-cpu 1e-3 \
    --set train.amp=bf16
  ok "  in the losses" alike ema-bf16 bf16-two 0
}

no_int8() {
  local int8=$work/int8.h5
  launch 1 ctrain-hpc quantize "$work/qat" --set device=cuda --output "$int8" 2>"$work/err" &&
    return 1
  cat "$work/err"
  grep -q "quantize: device cuda cannot measure an int8 model: .*; set device: cpu" "$work/err" ||
    return 1
  launch 1 ctrain-hpc quantize "$work/qat" --set device=cpu --output "$int8" >"$work/out" &&
    evaluated_alike "$int8" 1e-2
}

# evaluated_alike MODEL TOLERANCE: the GPU, which has no int8 ops, computes in float32.
evaluated_alike() {
  local device loss=()
  for device in cuda cpu; do
    launch 1 ctrain-hpc eval "$1" --set device=$device --json >"$work/out" 2>"$work/err" ||
      { cat "$work/err"; return 1; }
    loss+=("$(sed -n 's/.*"loss": *\([0-9.e-]*\).*/\1/p' "$work/out")")
  done
  near "${loss[@]}" "$2"
}

# Two epochs, so that training goes on after an evaluation.
two=(--set train.epochs=2 --set data.batch=240)
averages_like() { # NAME REFERENCE TOLERANCE OPTIONS...
  local name=$1 reference=$2 tolerance=$3
  shift 3
  gpu 1 "$name" "${two[@]}" --set train.ema=0.9 "$@" || return 1
  metric eval loss "$work/$reference/metrics.jsonl" >"$work/a.txt"
  metric eval loss "$work/$name/metrics.jsonl" >"$work/b.txt"
  columns_near "$work/a.txt" "$work/b.txt" "$tolerance"
}

across() {
  local device
  for device in cuda cpu; do
    launch 1 ctrain-hpc eval "$digits" --set device=$device --set run.dir="$work/graph" \
      --checkpoint "$(checkpoint graph)" --json >"$work/eval-$device" 2>"$work/err" ||
      { cat "$work/err"; return 1; }
  done
  near "$(sed -n 's/.*"loss": *\([0-9.e-]*\).*/\1/p' "$work/eval-cuda")" \
    "$(sed -n 's/.*"loss": *\([0-9.e-]*\).*/\1/p' "$work/eval-cpu")" 1e-4
}

# NCCL with the ranks that there are GPUs for, here one: communicator, sums, a captured step.
check_nccl() {
  ok "NCCL: communicator, all-reduce, a step as CUDA graph" launch 1 tests/gpu/t_gpu_nccl
}

# Several ranks on one GPU: the staged communicator.
check_sharing() {
  local ranks
  [ -d "$work/eager" ] || ok "the GPU trains alone" gpu 1 eager --set cuda.graph=false
  ok "two ranks on one GPU are refused" refused "share_gpu" 2
  for ranks in 2 $([ "$size" = large ] && echo 4); do
    ok "$ranks ranks share a GPU" \
      train_like share$ranks eager 2e-4 "$ranks" --set parallel.share_gpu=true
  done
  ok "ZeRO-1 on a shared GPU" \
    train_like zero eager 2e-4 2 --set parallel.share_gpu=true --set parallel.zero=1
  ok "SyncBN: two ranks" syncbn 2
}

# A batchnorm's statistics over all ranks: the losses of one rank with the whole batch.
syncbn() {
  cat >"$work/bn.yaml" <<END
device: cuda
parallel: {share_gpu: true}
data: {train: synthetic, shape: [3, 8, 8], classes: 10, samples: 256, batch: 32}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
    - batchnorm
    - relu
    - conv2d: {out: 16, kernel: 3, stride: 2, bias: false}
    - batchnorm
    - relu
    - flatten
    - linear: {out: 10}
train: {steps: 6, sync_bn: world}
optim: {kind: sgd, lr: 0.1, momentum: 0.9}
END
  local ranks
  for ranks in 1 "$1"; do
    launch "$ranks" ctrain-hpc train "$work/bn.yaml" --set run.dir="$work/bn$ranks" \
      --set run.log_every=1 >"$work/out" 2>"$work/err" || { tail -n 5 "$work/err"; return 1; }
  done
  alike bn1 "bn$1" 1e-3
}
