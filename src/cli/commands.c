/* The list of all commands with their flags; help and dispatch follow from it. */
#include "bench/ct_bench.h"
#include "commands/ct_commands.h"
#include "study/measure/ct_scale.h"
#include "sweep/ct_sweep.h"

#include <string.h>

#include "setup/ct_config.h"
#include "base/ct_err.h"
#include "base/ct_file.h"

/* Which weights a command looks at, and of a nested file which part. */
#define CT_MODEL_FLAGS                                                                      \
  {"checkpoint", "best|latest|FILE",                                                        \
   "weights: of the run, or of any file (default: the best with checkpoint.best, else the " \
   "newest)"},                                                                              \
  {                                                                                         \
    "key", "NAME", "which dict of a nested .pth file: model, state.ema"                     \
  }
#define CT_RUN_FLAG                                                                                \
  {                                                                                                \
    "checkpoint", "best|latest",                                                                   \
        "which one of a run's directory (default: the best with checkpoint.best, else the newest)" \
  }

static const ct_flag_t train_flags[] = {
    {"resume", "auto|never|FILE|DIR",
     "auto (default): the run's newest good checkpoint; never; a file; or a run's directory"},
    {"print-config", NULL, "print the whole configuration, as the run would have it, and end"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t eval_flags[] = {
    CT_MODEL_FLAGS,
    {"confusion", "FILE.csv", "write how many samples of each class are taken for which"},
    {"json", NULL, "as JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t predict_flags[] = {
    {"input", "X", "image or HDF5 file, folder or pattern; more may follow; default: data.val"},
    CT_MODEL_FLAGS,
    {"output", "FILE", "write to FILE.h5 or FILE.csv instead of the standard output"},
    {"top", "N", "tell the N most probable classes (default 1)"},
    {"names", "FILE", "names of the classes, a line each"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t quantize_flags[] = {
    CT_MODEL_FLAGS,
    {"output", "FILE.h5", "the quantized model"},
    {"batches", "N", "batches of data.train to calibrate with (default 8)"},
    {"method", "percentile|minmax|entropy", "how ranges are chosen (default percentile)"},
    {"percent", "P", "percentile: how many of the numbers lie within (default 99.99)"},
    {"dynamic", NULL, "only the weights of linear layers, LSTMs and attention; no calibration"},
    {"json", NULL, "as JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t summary_flags[] = {
    {"ranks", "N", "share the batch among so many ranks in the memory estimate (default 1)"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t doctor_flags[] = {
    {"json", NULL, "as JSON"},
    {"full", NULL, "read all samples (default: up to 4096 of each data set)"},
    {"steps", "N", "make N steps, to see how long they wait for data (default: none)"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t pack_flags[] = {
    {"images", "FILE", "IDX or NumPy file of samples: F, F.gz, F.npy, F.npz:NAME"},
    {"labels", "FILE", "the same of labels, or in NumPy's floats of targets"},
    {"csv", "FILE", "a sample a line: numbers and a label, or targets, plain or gzipped"},
    {"cifar", "PATTERN", "CIFAR-10 or -100, binary or Python files, such as 'data_batch_*'"},
    {"images-from", "DIR", "JPEG and PNG files, DIR/CLASS/NAME.jpg"},
    {"list", "FILE", "csv file of paths of images and labels, or with --targets of numbers"},
    {"root", "DIR", "list: where its paths begin (default: .)"},
    {"tar", "PATTERN", "tar files of KEY.jpg and KEY.cls or KEY.json, such as 'train-*.tar'"},
    {"encoded", NULL, "keep images as they are (default: decode them)"},
    {"resize", "S|H,W", "decoded: shorter side to S and the middle cut out, or to H x W"},
    {"channels", "N", "decoded: 3 (default) or 1"},
    {"shape", "C,H,W", "csv, NumPy: shape of a sample (default: flat; as it is)"},
    {"label", "last|first|N|fine|coarse",
     "csv: where it stands, N from 0 (default last); CIFAR-100: fine, coarse"},
    {"targets", "N", "csv, list: the last N columns are real-valued targets, instead of a label"},
    {"header", "auto|yes|no", "csv, list: the first line is no sample (auto: if it has no number)"},
    {"shuffle", "SEED", "put the rows into a random order, which depends on the seed alone"},
    {"range", "A:B", "then take rows A to B-1, counted from 0; either may be left out"},
    {"only", "A:B", "then keep only the classes A to B-1, which are counted from 0"},
    {"split", "PART", "such a part of them (0.9) goes to --output, what is left to --rest"},
    {"rest", "PATTERN", "shards for what --split leaves"},
    {"rest-shards", "N", "how many files of it (default 1)"},
    {"skip-bad", NULL, "leave out what cannot be read (default: list it and write nothing)"},
    {"output", "PATTERN", "shards, such as 'train-%03d.h5'; a plain name for one shard"},
    {"force", NULL, "replace files that are there (default: refuse)"},
    {"shards", "N", "how many files (default 1)"},
    {"deflate", "LEVEL", "compression, 0 (none) to 9 (default 4)"},
    {"classes", "N", "number of classes (default: highest label + 1)"},
    {0}};
static const ct_flag_t inspect_flags[] = {
    {"stats", NULL, "least and largest number, mean, deviation, and how many are not finite"},
    CT_RUN_FLAG,
    {"key", "NAME", "which dict of a nested file: model, state.ema"},
    {"json", NULL, "as JSON"},
    {0}};
static const ct_flag_t convert_flags[] = {
    CT_RUN_FLAG,
    {"key", "NAME", "which dict of a nested file: model, state.ema"},
    {"strip-prefix", "TEXT", "what the file's names begin with, such as module."},
    {"rename", "OLD=NEW,...", "other names of tensors or layers; '*' in both is any text"},
    {"config", "FILE", "configuration of the model, for a file that carries none"},
    {"external-data", NULL, "onnx: weights in a file of their own, OUT.data"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t bench_flags[] = {
    {"steps", "N", "step, predict, comm: timed steps, passes or calls (default 20); lr: 100"},
    {"warmup", "N", "step, predict, comm: those before them (default 3)"},
    {"modes", "LIST", "step: compare modes in one table: of single,ddp,dp,zero, such as ddp,dp"},
    {"ops", NULL, "step, predict: also time each op on its own, against the device's floor for it"},
    {"workers", "N", "io: threads of a rank (default: data.workers)"},
    {"seconds", "S", "io: for how long (default 5)"},
    {"from", "RATE", "lr: the first learning rate (default 1e-7)"},
    {"to", "RATE", "lr: the last one (default 10), if the loss does not diverge before"},
    {"bytes", "MIN:MAX", "comm: sizes, each four times the one before (default 1K:16M)"},
    {"json", NULL, "as JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t report_flags[] = {
    {"output", "FILE.html", "the page, also -o (default: report.html in the first directory)"},
    {"target", "SCORE=VALUE",
     "runs: also the time until, such as top1=0.9; default: what all reach"},
    {"predict", "LIST", "what so many ranks would do, such as 64,256,4096"},
    {"links", "FILE", "what `bench comm --json` found, for a network the study does not tell of"},
    {"csv", NULL, "print a line per size, or point of a curve; no page without --output"},
    {"json", NULL, "as JSON; no page without --output"},
    {0}};

static const ct_flag_t scale_flags[] = {
    {"ranks", "LIST", "sizes, such as 1,2,4; default: 1, 2, 4 … of a node, then 2, 4 … nodes, all"},
    {"nodes", "LIST", "sizes as nodes, with all ranks that were started on each, such as 1,2,3,4"},
    {"threads", "LIST", "threads of a rank, each with all sizes (default: as the configuration)"},
    {"weak", NULL, "the batch of a rank stays the same (the default)"},
    {"strong", NULL, "data.batch is shared among the ranks"},
    {"spread", NULL, "deal ranks to the nodes in turn; default: fill one node after another"},
    {"no-bases", NULL, "without points of one rank, and of a node's ranks without messages"},
    {"blocks", "N", "measure each size at least so often (default 6)"},
    {"steps", "N", "steps of a size in a round (default 50), after the warm-up"},
    {"fresh", NULL, "set each size up again in each round, instead of once"},
    {"error", "PERCENT", "go on until a median is known so well (default 2), at most 5 x blocks"},
    {"budget", "SECONDS", "begin no further point after so long; 0 (default): no limit"},
    {"dir", "DIR", "of the study (default scaling/NAME with run.name); an existing one is resumed"},
    {"predict", "LIST", "also predict these numbers of ranks, such as 64,256"},
    {"json", NULL, "the table as JSON"},
    {"submit", "JOBS",
     "on a login node: so many Slurm jobs, one after another, go on with the study"},
    {"sbatch", "OPTIONS",
     "with --submit: for sbatch, such as '--ntasks-per-node=8 --time=2:00:00'"},
    {"dry-run", NULL, "with --submit: print the command that submits, and do nothing"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t sweep_flags[] = {
    {"over", "KEY=VALUES", "V,V,... or, to draw from, lin:A..B or log:A..B; repeatable"},
    {"random", "N", "draw N different runs; default: all combinations of the values"},
    {"seed", "S", "with --random: of the draws (default 0); more runs begin with the same ones"},
    {"dir", "DIR", "of the sweep (default runs/NAME-sweep); an existing one is resumed"},
    {"retry", NULL, "make runs again that have failed"},
    {"part", "I/N", "only the runs of part I, counted from 0, of N; of a job array"},
    {"table", NULL, "run nothing: the table of the sweep whose directory stands for CONFIG"},
    {"json", NULL, "the table as JSON"},
    {"submit", "TASKS", "on a login node: a Slurm array of so many tasks shares the runs"},
    {"sbatch", "OPTIONS",
     "with --submit: for sbatch, such as '--ntasks-per-node=8 --time=2:00:00'"},
    {"dry-run", NULL, "with --submit: print the command that submits, and do nothing"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t watch_flags[] = {
    {"once", NULL, "once, and not until the run ends; so too where the output is no terminal"},
    {"interval", "SECONDS", "between two looks (default 2)"},
    {0}};

const ct_command_t ct_commands[] = {
    {"train", "[CONFIG]", "Trains; without CONFIG as ./ctrain.yaml says", 0, 1, 1, 1, train_flags,
     ct_cmd_train, ct_config_help, NULL},
    {"demo", "",
     "Trains the built-in example, handwritten digits, as the program without a command", 0, 0, 1,
     1, train_flags, ct_cmd_demo, NULL, NULL},
    {"eval", "CONFIG", "Evaluates a checkpoint: each validation sample exactly once", 1, 1, 1, 0,
     eval_flags, ct_cmd_eval, NULL, NULL},
    {"predict", "CONFIG|MODEL [X ...]",
     "Tells what a trained model makes of samples: of images, or HDF5 files", 1, 1000000, 1, 0,
     predict_flags, ct_cmd_predict, NULL, NULL},
    {"quantize", "CONFIG", "Writes a model with int8 weights; size and accuracy before, after", 1,
     1, 1, 0, quantize_flags, ct_cmd_quantize, NULL, NULL},
    {"summary", "CONFIG", "Shows the layers, their parameters and FLOPs, and the memory needed", 1,
     1, 0, 0, summary_flags, ct_cmd_summary, NULL, NULL},
    {"doctor", "[CONFIG]", "Says if ranks, cores, memory and files are set up well; 1: not so", 0,
     1, 1, 0, doctor_flags, ct_cmd_doctor, NULL, NULL},
    {"pack", "", "Makes HDF5 shards from folders or tar files of images, from IDX or csv files", 0,
     0, 1, 0, pack_flags, ct_cmd_pack, NULL, NULL},
    {"inspect", "FILE", "Lists what a checkpoint, safetensors, .pth or HDF5 file holds", 1, 1, 0, 0,
     inspect_flags, ct_cmd_inspect, NULL, NULL},
    {"convert", "IN OUT", "Writes a model file in another format: .h5, .safetensors, .pth, .onnx",
     2, 2, 0, 0, convert_flags, ct_cmd_convert, NULL, NULL},
    {"report", "STUDY|RUN [...]",
     "One HTML page: where the time of scaling studies went, or runs beside each other", 1, 1000, 0,
     0, report_flags, ct_cmd_report, NULL, NULL},
    {"watch", "RUN", "Shows how a run stands, live in a terminal, from its run directory", 1, 1, 0,
     0, watch_flags, ct_cmd_watch, NULL, NULL},
    {"bench", "step|io|predict|lr CONFIG, or comm",
     "Measures steps, predictions, reading or messages; lr looks for a learning rate", 1, 2, 1, 0,
     bench_flags, ct_cmd_bench, NULL, NULL},
    {"scale", "CONFIG", "Scaling study: many sizes in one launch, with intervals and an account", 1,
     1, 1, 0, scale_flags, ct_cmd_scale, NULL, ct_scale_before_mpi},
    {"sweep", "CONFIG", "Trains with different settings, and says which were the best", 1, 1, 1, 1,
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
