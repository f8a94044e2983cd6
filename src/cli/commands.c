/* The list of all commands with their flags; help and dispatch follow from it. */
#include "bench/ct_bench.h"
#include "commands/ct_commands.h"
#include "study/measure/ct_scale.h"
#include "sweep/ct_sweep.h"

#include <string.h>

#include "setup/ct_config.h"
#include "base/ct_err.h"
#include "base/ct_file.h"

/* Options that select a weight file, and the group in a nested file. */
#define CT_MODEL_FLAGS                                                                      \
  {"checkpoint", "best|latest|FILE",                                                        \
   "a checkpoint of the run, or any weight file (default: best if checkpoint.best is set, " \
   "else latest)"},                                                                         \
  {                                                                                         \
    "key", "NAME", "name of the dict in a nested .pth file, such as model, state.ema"       \
  }
#define CT_RUN_FLAG                                                                            \
  {                                                                                            \
    "checkpoint", "best|latest",                                                               \
        "checkpoint of a run directory (default: best if checkpoint.best is set, else latest)" \
  }

static const ct_flag_t train_flags[] = {
    {"resume", "auto|never|FILE|DIR",
     "auto (default): newest good checkpoint of the run; never: from step 0; or a path"},
    {"print-config", NULL, "print the complete configuration of the run and exit"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t eval_flags[] = {CT_MODEL_FLAGS,
                                       {"confusion", "FILE.csv", "write the confusion matrix"},
                                       {"json", NULL, "print JSON"},
                                       CT_CONFIG_FLAGS,
                                       {0}};
static const ct_flag_t predict_flags[] = {
    {"input", "X",
     "image or HDF5 file, folder or pattern; several are allowed (default: data.val)"},
    CT_MODEL_FLAGS,
    {"output", "FILE", "write to FILE.h5 or FILE.csv instead of standard output"},
    {"top", "N", "print the N most probable classes (default 1)"},
    {"names", "FILE", "file with one class name per line"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t quantize_flags[] = {
    CT_MODEL_FLAGS,
    {"output", "FILE.h5", "output file of the quantized model"},
    {"batches", "N", "number of batches of data.train for calibration (default 8)"},
    {"method", "percentile|minmax|entropy",
     "how activation ranges are chosen (default percentile)"},
    {"percent", "P", "percentile: percentage of values inside the range (default 99.99)"},
    {"dynamic", NULL,
     "quantize only weights of linear layers, LSTMs and attention; no calibration"},
    {"json", NULL, "print JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t summary_flags[] = {
    {"ranks", "N", "number of ranks for the memory estimate (default 1)"}, CT_CONFIG_FLAGS, {0}};
static const ct_flag_t doctor_flags[] = {
    {"json", NULL, "print JSON"},
    {"full", NULL, "read all samples (default: up to 4096 of each data set)"},
    {"steps", "N", "run N training steps and measure how long they wait for data (default: none)"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t pack_flags[] = {
    {"images", "FILE", "IDX or NumPy file with samples: F, F.gz, F.npy, F.npz:NAME"},
    {"labels", "FILE", "IDX or NumPy file with labels; NumPy floats are real-valued targets"},
    {"csv", "FILE",
     "csv file, plain or gzipped: one sample per line, numbers and a label or targets"},
    {"cifar", "PATTERN", "CIFAR-10 or CIFAR-100 files, binary or Python, such as 'data_batch_*'"},
    {"images-from", "DIR", "folder with JPEG and PNG files, DIR/CLASS/NAME.jpg"},
    {"list", "FILE", "csv file with image paths and labels, or with --targets numbers"},
    {"root", "DIR", "list: base directory of its paths (default: .)"},
    {"tar", "PATTERN", "tar files with KEY.jpg and KEY.cls or KEY.json, such as 'train-*.tar'"},
    {"encoded", NULL, "store image files unchanged (default: decode them)"},
    {"resize", "S|H,W", "resize decoded images: shorter side to S and center crop, or to H x W"},
    {"channels", "N", "channels of decoded images: 3 (default) or 1"},
    {"shape", "C,H,W", "csv, NumPy: shape of a sample (default: csv: flat; NumPy: unchanged)"},
    {"label", "last|first|N|fine|coarse",
     "csv: column of the label, N from 0 (default last); CIFAR-100: fine, coarse"},
    {"targets", "N", "csv, list: the last N columns are real-valued targets instead of a label"},
    {"header", "auto|yes|no",
     "csv, list: whether the first line is a header (auto: if it has no number)"},
    {"shuffle", "SEED", "shuffle the rows; the order depends only on SEED"},
    {"range", "A:B", "then select rows A to B-1, counted from 0; A or B may be omitted"},
    {"only", "A:B", "then keep only classes A to B-1, renumbered from 0"},
    {"split", "PART", "fraction of samples for --output, such as 0.9; the others go to --rest"},
    {"rest", "PATTERN", "output shards for the samples that --split leaves out of --output"},
    {"rest-shards", "N", "number of shards of --rest (default 1)"},
    {"skip-bad", NULL, "skip samples that cannot be read (default: list them and write nothing)"},
    {"output", "PATTERN", "output shards, such as 'train-%03d.h5'; a plain name for one shard"},
    {"force", NULL, "replace existing files (default: refuse)"},
    {"shards", "N", "number of shards (default 1)"},
    {"deflate", "LEVEL", "compression level, 0 (none) to 9 (default 4)"},
    {"classes", "N", "number of classes (default: highest label + 1)"},
    {0}};
static const ct_flag_t inspect_flags[] = {
    {"stats", NULL, "print minimum, maximum, mean, standard deviation, count of non-finite values"},
    CT_RUN_FLAG,
    {"key", "NAME", "name of the dict in a nested file, such as model, state.ema"},
    {"json", NULL, "print JSON"},
    {0}};
static const ct_flag_t convert_flags[] = {
    CT_RUN_FLAG,
    {"key", "NAME", "name of the dict in a nested file, such as model, state.ema"},
    {"strip-prefix", "TEXT", "prefix to strip from tensor names, such as module."},
    {"rename", "OLD=NEW,...", "rename tensors or layers; '*' in both matches any text"},
    {"config", "FILE", "configuration of the model, for a file without one"},
    {"external-data", NULL, "onnx: store the weights in a separate file, OUT.data"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t bench_flags[] = {
    {"steps", "N", "number of timed steps, passes or calls (default 20; lr: 100); not for io"},
    {"warmup", "N", "step, predict, comm: number of untimed warm-up steps (default 3)"},
    {"modes", "LIST", "step: compare strategies in one table, a list of single, ddp, dp, zero"},
    {"ops", NULL, "step, predict: also time each op, next to its minimum time on this device"},
    {"workers", "N", "io: reader threads per rank (default: data.workers)"},
    {"seconds", "S", "io: duration of the measurement in seconds (default 5)"},
    {"from", "RATE", "lr: the first learning rate (default 1e-7)"},
    {"to", "RATE", "lr: the last learning rate (default 10), unless the loss diverges earlier"},
    {"bytes", "MIN:MAX", "comm: range of message sizes, in factors of 4 (default 1K:16M)"},
    {"json", NULL, "print JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t report_flags[] = {
    {"output", "FILE.html",
     "HTML file to write, also -o (default: report.html in the first directory)"},
    {"target", "SCORE=VALUE",
     "runs: show the time to a score, such as top1=0.9 (default: best that all reach)"},
    {"predict", "LIST", "study: predict the speed at these numbers of ranks, such as 64,256,4096"},
    {"links", "FILE",
     "study: output of `bench comm --json`, for links that the study did not measure"},
    {"csv", NULL, "print csv, a line per size or point of a curve; no page without --output"},
    {"json", NULL, "print JSON; no page without --output"},
    {0}};

static const ct_flag_t scale_flags[] = {
    {"ranks", "LIST",
     "numbers of ranks to measure (default: 1, 2, 4 … of a node, 2, 4 … nodes, all)"},
    {"nodes", "LIST", "numbers of nodes to measure, with all ranks of each node, such as 1,2,3,4"},
    {"threads", "LIST",
     "numbers of threads per rank, each with all sizes (default: configuration)"},
    {"weak", NULL, "weak scaling: constant batch per rank (the default)"},
    {"strong", NULL, "strong scaling: data.batch is divided among the ranks"},
    {"spread", NULL,
     "distribute ranks over nodes round-robin (default: fill one node after another)"},
    {"no-bases", NULL, "skip the baselines without communication: one rank alone, one node"},
    {"blocks", "N", "number of rounds: measure each size at least N times (default 6)"},
    {"steps", "N", "timed steps per size and round (default 50), after warm-up"},
    {"fresh", NULL, "set up each size again in each round (default: once)"},
    {"error", "PERCENT",
     "repeat until 95% intervals are within PERCENT (default 2), at most 5 x blocks"},
    {"budget", "SECONDS", "start no measurement after this time; 0 (default): no limit"},
    {"dir", "DIR",
     "study directory (default scaling/NAME of run.name); an existing study continues"},
    {"predict", "LIST", "also predict the speed at these numbers of ranks, such as 64,256"},
    {"json", NULL, "print the table as JSON"},
    {"submit", "JOBS", "on a login node: submit this number of dependent Slurm jobs for the study"},
    {"sbatch", "OPTIONS",
     "with --submit: options of sbatch, such as '--ntasks-per-node=8 --time=2:00:00'"},
    {"dry-run", NULL, "with --submit: only print the sbatch command"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t sweep_flags[] = {
    {"over", "KEY=VALUES",
     "values V,V,... or, with --random, a range lin:A..B or log:A..B; repeatable"},
    {"random", "N", "run N random combinations (default: all combinations of the values)"},
    {"seed", "S",
     "with --random: random seed (default 0); a larger N with the same seed adds runs"},
    {"dir", "DIR", "sweep directory (default runs/NAME-sweep); an existing sweep continues"},
    {"retry", NULL, "repeat runs that have failed"},
    {"part", "I/N", "only the runs of part I of N, counted from 0 (for job arrays)"},
    {"table", NULL, "only print the table of a sweep; give its directory as CONFIG"},
    {"json", NULL, "print the table as JSON"},
    {"submit", "TASKS", "on a login node: submit a Slurm array with this number of tasks"},
    {"sbatch", "OPTIONS",
     "with --submit: options of sbatch, such as '--ntasks-per-node=8 --time=2:00:00'"},
    {"dry-run", NULL, "with --submit: only print the sbatch command"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t watch_flags[] = {
    {"once", NULL, "print once, then stop (default if the output is not a terminal)"},
    {"interval", "SECONDS", "time between two updates (default 2)"},
    {0}};

const ct_command_t ct_commands[] = {
    {"train", "[CONFIG]", "Trains a model; default CONFIG: ./ctrain.yaml", 0, 1, 1, 1, train_flags,
     ct_cmd_train, ct_config_help, NULL},
    {"demo", "", "Trains the built-in example, handwritten digits (also runs without a command)", 0,
     0, 1, 1, train_flags, ct_cmd_demo, NULL, NULL},
    {"eval", "CONFIG", "Evaluates a checkpoint: each validation sample exactly once", 1, 1, 1, 0,
     eval_flags, ct_cmd_eval, NULL, NULL},
    {"predict", "CONFIG|MODEL [X ...]",
     "Predicts classes or values for images or HDF5 samples with a trained model", 1, 1000000, 1, 0,
     predict_flags, ct_cmd_predict, NULL, NULL},
    {"quantize", "CONFIG", "Quantizes a model to int8; shows size and accuracy before and after", 1,
     1, 1, 0, quantize_flags, ct_cmd_quantize, NULL, NULL},
    {"summary", "CONFIG", "Shows the layers, their parameters and FLOPs, and the memory needed", 1,
     1, 0, 0, summary_flags, ct_cmd_summary, NULL, NULL},
    {"doctor", "[CONFIG]", "Checks ranks, cores, memory, files and data; exit status 1 on problems",
     0, 1, 1, 0, doctor_flags, ct_cmd_doctor, NULL, NULL},
    {"pack", "", "Converts image folders, tar, NumPy, CIFAR, IDX or csv files to HDF5 shards", 0, 0,
     1, 0, pack_flags, ct_cmd_pack, NULL, NULL},
    {"inspect", "FILE", "Lists the contents of a checkpoint, safetensors, .pth or HDF5 file", 1, 1,
     0, 0, inspect_flags, ct_cmd_inspect, NULL, NULL},
    {"convert", "IN OUT", "Converts a model file to another format: .h5, .safetensors, .pth, .onnx",
     2, 2, 0, 0, convert_flags, ct_cmd_convert, NULL, NULL},
    {"report", "STUDY|RUN [...]",
     "Writes an HTML page that analyzes scaling studies or compares runs", 1, 1000, 0, 0,
     report_flags, ct_cmd_report, NULL, NULL},
    {"watch", "RUN", "Shows the progress of a run live in a terminal, from its run directory", 1, 1,
     0, 0, watch_flags, ct_cmd_watch, NULL, NULL},
    {"bench", "step|io|predict|lr CONFIG, or comm",
     "Times steps, inference, reading or collectives; lr finds a learning rate", 1, 2, 1, 0,
     bench_flags, ct_cmd_bench, NULL, NULL},
    {"scale", "CONFIG", "Measures how training scales, at many numbers of ranks in one launch", 1,
     1, 1, 0, scale_flags, ct_cmd_scale, NULL, ct_scale_before_mpi},
    {"sweep", "CONFIG", "Trains with different settings and shows which are best", 1, 1, 1, 1,
     sweep_flags, ct_cmd_sweep, NULL, ct_sweep_before_mpi},
    {0}};

int ct_command_find(const char *name, const ct_command_t **out)
{
  int rc = CT_OK, n = 0;
  const char *names[32], *dot = strrchr(name, '.');
  for (const ct_command_t *c = ct_commands; c->name; c++) {
    *out = c;
    if (strcmp(c->name, name) == 0) return CT_OK;
    names[n++] = c->name;
  }
  *out = NULL;
  if (!*name) CT_FAIL(CT_ERR_USAGE, "the command is an empty text: is a variable not set?");
  if (ct_file_exists(name) || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0)))
    CT_FAIL(CT_ERR_USAGE, "unknown command '%s'; did you mean 'train %s'?", name, name);
  const char *nearest = ct_text_nearest(name, names, n);
  if (nearest) CT_FAIL(CT_ERR_USAGE, "unknown command '%s'; did you mean '%s'?", name, nearest);
  CT_FAIL(CT_ERR_USAGE, "unknown command '%s'; see ctrain-hpc --help", name);
out:
  return rc;
}
