/* The list of all commands with their flags; help and dispatch follow from it. */
#include "bench/ct_bench.h"
#include "commands/ct_commands.h"
#include "study/measure/ct_scale.h"
#include "sweep/ct_sweep.h"

#include <string.h>

#include "setup/ct_config.h"
#include "base/ct_err.h"
#include "base/ct_file.h"

/* Flags of the commands that read weights; --key selects a part of a nested file. */
#define CT_MODEL_FLAGS                                                          \
  {"checkpoint", "best|latest|FILE",                                            \
   "weights: checkpoint or file (default: best if there is one, else latest)"}, \
  {                                                                             \
    "key", "NAME", "dict of a nested .pth file, such as model or state.ema"     \
  }
#define CT_RUN_FLAG                                                                  \
  {                                                                                  \
    "checkpoint", "best|latest",                                                     \
        "checkpoint of a run directory (default: best if there is one, else latest)" \
  }

static const ct_flag_t train_flags[] = {
    {"resume", "auto|never|FILE|DIR",
     "auto (default): newest intact checkpoint; never; a file or run directory"},
    {"print-config", NULL, "print the complete configuration of the run, and exit"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t eval_flags[] = {CT_MODEL_FLAGS,
                                       {"confusion", "FILE.csv", "write the confusion matrix"},
                                       {"stride", "N", "tokens: data.eval_stride"},
                                       {"json", NULL, "as JSON"},
                                       CT_CONFIG_FLAGS,
                                       {0}};
static const ct_flag_t predict_flags[] = {
    {"input", "X", "image or HDF5 file, directory or glob; repeatable; default: data.val"},
    CT_MODEL_FLAGS,
    {"output", "FILE", "write to FILE.h5 or FILE.csv instead of the standard output; DIR/: masks"},
    {"values", "probabilities|classes|outputs",
     "FILE.h5: what is written; outputs: the numbers of the model as they are"},
    {"layer", "NAME", "the output of this layer in place of the model's, such as embeddings"},
    {"palette", "voc|FILE", "DIR/: masks in colours; FILE has a line R G B for each class"},
    {"tile", "SIZE", "cut samples into tiles of this size: N, HxW or DxHxW"},
    {"overlap", "SIZE", "--tile: overlap of tiles (default: a quarter of the tile)"},
    {"blend", "linear|constant|gaussian", "--tile: weights where tiles overlap (default linear)"},
    {"top", "N", "print the N most probable classes (default 1)"},
    {"names", "FILE", "names of the classes, one per line"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t generate_flags[] = {
    {"prompt", "TEXT", "text to continue"},
    {"prompt-tokens", "1,2,3", "ids of tokens to continue"},
    {"input", "FILE", "texts to continue, one per line; prints a line of JSON for each"},
    {"input-tokens", "FILE", "ids of tokens to continue, such as 1,2,3, one list per line"},
    {"tokens", "N", "maximum number of new tokens (default 100)"},
    {"temperature", "T", "divisor of the logits (default 1); 0: always the most probable token"},
    {"top-k", "K", "draw from the K most probable tokens only (default 0: all)"},
    {"top-p", "P", "draw from the most probable tokens whose sum reaches P only (default 1: all)"},
    {"seed", "S", "seed of the draws (default 0)"},
    {"eot", "ID", "token that ends a text (default: that of the tokenizer); -1: none"},
    {"tokenizer", "T", "bytes, a file, or a directory (default: that of the run or directory)"},
    {"output", "FILE", "write to FILE instead of the standard output"},
    {"output-tokens", NULL, "print ids of tokens, of the prompt and the new ones"},
    {"batch", "N", "texts of a rank that are generated at the same time (default 8)"},
    {"no-cache", NULL, "compute the whole context for each token, to check the caches"},
    CT_MODEL_FLAGS,
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t quantize_flags[] = {
    CT_MODEL_FLAGS,
    {"output", "FILE.h5", "the quantized model"},
    {"batches", "N", "number of batches of data.train for calibration (default 8)"},
    {"method", "percentile|minmax|entropy", "how ranges are chosen (default percentile)"},
    {"percent", "P", "percentile: percentage of values inside the range (default 99.99)"},
    {"dynamic", NULL, "quantize only weights of linear, LSTM and attention layers; no calibration"},
    {"json", NULL, "as JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t stats_flags[] = {
    {"output", "FILE.h5", "the statistics, for normalize: {from: FILE.h5}"}, CT_CONFIG_FLAGS, {0}};
static const ct_flag_t summary_flags[] = {
    {"ranks", "N", "number of ranks for the memory estimate (default 1)"},
    {"memory", "4G,2G,1G", "what budgets of a rank (train.memory) cost in FLOPs and time"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t doctor_flags[] = {
    {"json", NULL, "print JSON"},
    {"full", NULL, "read all samples (default: up to 4096 of each data set)"},
    {"steps", "N", "run N steps to measure how long they wait for data (default 0)"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t pack_flags[] = {
    {"images", "FILE", "IDX or NumPy file of samples: F, F.gz, F.npy, F.npz:NAME"},
    {"labels", "FILE", "IDX or NumPy file of labels; NumPy floats are real-valued targets"},
    {"csv", "FILE", "one sample per line: numbers, then a label or targets; may be gzipped"},
    {"cifar", "PATTERN", "CIFAR-10 or -100, binary or Python files, such as 'data_batch_*'"},
    {"images-from", "DIR", "JPEG and PNG files, DIR/CLASS/NAME.jpg"},
    {"list", "FILE", "csv file of image paths with labels, or with targets (--targets)"},
    {"root", "DIR", "list: directory that its paths are relative to (default: .)"},
    {"tar", "PATTERN", "tar files of KEY.jpg and KEY.cls or KEY.json, such as 'train-*.tar'"},
    {"tokens", "SOURCE...", "text, JSON lines, FASTA or .bin: files, directories, patterns"},
    {"tokenizer", "T", "tokens: bytes (default), a directory, a file, residues, codons, kmers:K"},
    {"format", "auto|text|jsonl|fasta|bin", "tokens: kind of the sources (auto: by their suffix)"},
    {"text-key", "NAME", "tokens, JSON lines: key of the text (default text)"},
    {"eot", "before|after|none", "tokens: end-of-text token (after; before in .bin of llm.c)"},
    {"eot-id", "N", "tokens: the end-of-text token (default: the tokenizer's)"},
    {"vocab", "N", "tokens, .bin: number of ids (default: by header, meta.pkl or tokenizer)"},
    {"token-bits", "16|32", "tokens, .bin without a header: width of an id (default 16)"},
    {"encoded", NULL, "store the encoded images (default: decode them)"},
    {"resize", "S|H,W", "decoded: resize to H x W, or the shorter side to S and crop the center"},
    {"channels", "N", "decoded: number of channels, 3 (default) or 1"},
    {"shape", "C,H,W", "csv, NumPy: shape of a sample (default: flat; as it is)"},
    {"label", "last|first|N|fine|coarse",
     "csv: column of the label, N from 0 (default last); CIFAR-100: fine, coarse"},
    {"targets", "N", "csv, list: the last N columns are real-valued targets, instead of a label"},
    {"header", "auto|yes|no", "csv, list: skip the first line (auto: if it has no number)"},
    {"shuffle", "SEED", "shuffle the samples; the order depends on the seed alone"},
    {"range", "A:B", "then keep rows A to B-1, counted from 0; A or B may be omitted"},
    {"only", "A:B", "then keep only classes A to B-1, renumbered from 0"},
    {"split", "PART", "fraction written to --output, such as 0.9; the rest goes to --rest"},
    {"rest", "PATTERN", "shards for the samples that --split leaves"},
    {"rest-shards", "N", "number of files of --rest (default 1)"},
    {"skip-bad", NULL, "skip samples that cannot be read (default: list them and write nothing)"},
    {"output", "PATTERN", "shards, such as 'train-%03d.h5'; a plain name for one shard"},
    {"force", NULL, "replace existing files (default: refuse)"},
    {"shards", "N", "number of files (default 1)"},
    {"deflate", "LEVEL", "compression, 0 (none) to 9 (default 4)"},
    {"classes", "N", "number of classes (default: highest label + 1)"},
    {0}};
static const ct_flag_t inspect_flags[] = {
    {"stats", NULL, "minimum, maximum, mean, standard deviation, and count of non-finite numbers"},
    CT_RUN_FLAG,
    {"key", "NAME", "dict of a nested file, such as model or state.ema"},
    {"json", NULL, "as JSON"},
    {0}};
static const ct_flag_t import_flags[] = {
    {"check", "FILE", "compare the program's weights with this file's (.pth, ...), by name"}, {0}};
static const ct_flag_t convert_flags[] = {
    CT_RUN_FLAG,
    {"key", "NAME", "dict of a nested file, such as model or state.ema"},
    {"strip-prefix", "TEXT", "prefix to strip from tensor names, such as module."},
    {"rename", "OLD=NEW,...", "rename tensors or layers; '*' matches any text"},
    {"config", "FILE", "configuration of the model, for a file that contains none"},
    {"vocab", "N", "directory: rows of the embedding to write; leaves out a padded vocabulary's"},
    {"shard-gb", "GB", "directory: largest file of weights, in 10^9 bytes (default 5)"},
    {"cache", NULL, "onnx: one token at a time, with keys and values of those before as inputs"},
    {"external-data", NULL, "onnx: write the weights to a separate file, OUT.data"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t bench_flags[] = {
    {"steps", "N", "step, predict, comm: timed steps, passes or calls (default 20); lr: 100"},
    {"warmup", "N", "step, predict, comm: untimed ones before them (default 3)"},
    {"copy", NULL, "step: copy the batch to the device in each step, as training does"},
    {"modes", "LIST", "step: modes to compare in a table, of single,ddp,dp,zero"},
    {"ops", NULL, "step, predict: also time each op alone, and compare it with its roofline"},
    {"roofline", NULL, "step: compute the lower bound of each op on a GPU model; runs nothing"},
    {"gpu", "a100|h100|h200|b200", "--roofline: the model, which need not be here (default h100)"},
    {"cpu", "GB/S:GFLOP/S", "--roofline: rates of a copy and of a GEMM on cores, such as 75:2700"},
    {"workers", "N", "io: reading threads per rank (default: data.workers)"},
    {"seconds", "S", "io: duration of the measurement (default 5)"},
    {"from", "RATE", "lr: the first learning rate (default 1e-7)"},
    {"to", "RATE", "lr: the last learning rate (default 10); ends earlier if the loss diverges"},
    {"bytes", "MIN:MAX", "comm: range of message sizes, in steps of x4 (default 1K:16M)"},
    {"json", NULL, "as JSON"},
    CT_CONFIG_FLAGS,
    {0}};
static const ct_flag_t tokenize_flags[] = {
    {"tokenizer", "T",
     "bytes (default), residues, codons, kmers:K; a directory with tokenizer.json, or vocab.json "
     "and "
     "merges.txt; a tiktoken file; a list of tokens"},
    {"decode", NULL, "FILE has token ids; print their text"},
    {"special", NULL, "names of special tokens in the text become these tokens"},
    {0}};
static const ct_flag_t report_flags[] = {
    {"output", "FILE.html", "the HTML page, also -o (default: report.html in the first directory)"},
    {"target", "SCORE=VALUE", "runs: report the time to this score, such as top1=0.9"},
    {"predict", "LIST", "predict these numbers of ranks, such as 64,256,4096"},
    {"links", "FILE", "output of `bench comm --json`, for links that the study did not use"},
    {"csv", NULL, "print CSV: a line per size or point of a curve; no page without --output"},
    {"json", NULL, "print JSON; no page without --output"},
    {0}};

static const ct_flag_t scale_flags[] = {
    {"ranks", "LIST", "numbers of ranks; default: 1, 2, 4 … of a node, then 2, 4 … nodes, all"},
    {"nodes", "LIST", "numbers of nodes instead, with all ranks started on each, such as 1,2,4"},
    {"threads", "LIST", "threads per rank, for each number of ranks (default: cpu.threads)"},
    {"weak", NULL, "the batch per rank stays the same (the default)"},
    {"strong", NULL, "the global batch data.batch stays the same"},
    {"spread", NULL, "deal ranks to nodes round-robin; default: fill one node after another"},
    {"no-bases", NULL, "skip the measurements without communication"},
    {"blocks", "N", "minimum rounds; each measures every configuration once (default 6)"},
    {"steps", "N", "timed steps per configuration and round, after warm-up (default 50)"},
    {"fresh", NULL, "set up each configuration again in each round, instead of once"},
    {"error", "PERCENT", "interval of each median to reach (default 2), in at most 5 x N rounds"},
    {"budget", "SECONDS", "start no further measurement after this time; 0 (default): no limit"},
    {"dir", "DIR", "directory of the study; resumes an existing one (default scaling/NAME)"},
    {"predict", "LIST", "also predict these numbers of ranks, such as 64,256"},
    {"json", NULL, "the table as JSON"},
    {"submit", "JOBS", "on a login node: submit a chain of N Slurm jobs that continue the study"},
    {"sbatch", "OPTIONS", "with --submit: options of sbatch, such as '--time=2:00:00'"},
    {"dry-run", NULL, "with --submit: print the submit command without running it"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t sweep_flags[] = {
    {"over", "KEY=VALUES", "V,V,...; or a range to draw from, lin:A..B or log:A..B; repeatable"},
    {"random", "N", "draw N random combinations (default: all combinations)"},
    {"seed", "S", "with --random: seed (default 0); a larger N extends the same draws"},
    {"dir", "DIR", "directory of the sweep; resumes an existing one (default runs/NAME-sweep)"},
    {"retry", NULL, "repeat failed runs"},
    {"part", "I/N", "run only part I of N, counted from 0, as in a job array"},
    {"table", NULL, "run nothing; print the table of a sweep, whose directory replaces CONFIG"},
    {"json", NULL, "the table as JSON"},
    {"submit", "TASKS", "on a login node: submit a Slurm array of TASKS tasks that share the runs"},
    {"sbatch", "OPTIONS", "with --submit: options of sbatch, such as '--time=2:00:00'"},
    {"dry-run", NULL, "with --submit: print the submit command without running it"},
    CT_CONFIG_FLAGS,
    {0}};

static const ct_flag_t watch_flags[] = {
    {"once", NULL, "print once and end; the default if the output is not a terminal"},
    {"interval", "SECONDS", "time between two updates (default 2)"},
    {0}};

const ct_command_t ct_commands[] = {
    {"train", "[CONFIG]", "Trains a model; default CONFIG: ./ctrain.yaml", 0, 1, 1, 1, train_flags,
     ct_cmd_train, ct_config_help, NULL},
    {"demo", "", "Trains the built-in handwritten-digits example (the default command)", 0, 0, 1, 1,
     train_flags, ct_cmd_demo, NULL, NULL},
    {"eval", "CONFIG", "Evaluates a checkpoint: each validation sample exactly once", 1, 1, 1, 0,
     eval_flags, ct_cmd_eval, NULL, NULL},
    {"predict", "CONFIG|MODEL [X ...]",
     "Predicts images or the samples of HDF5 files with a trained model", 1, 1000000, 1, 0,
     predict_flags, ct_cmd_predict, NULL, NULL},
    {"generate", "MODEL", "Continues texts with a trained language model", 1, 1, 1, 0,
     generate_flags, ct_cmd_generate, NULL, NULL},
    {"quantize", "CONFIG", "Writes a model with int8 weights; prints size and accuracy", 1, 1, 1, 0,
     quantize_flags, ct_cmd_quantize, NULL, NULL},
    {"stats", "CONFIG", "Writes mean, deviation and range of each channel of data.train", 1, 1, 1,
     0, stats_flags, ct_cmd_stats, NULL, NULL},
    {"summary", "CONFIG", "Prints layers, parameters, FLOPs, and the memory that training needs", 1,
     1, 0, 0, summary_flags, ct_cmd_summary, NULL, NULL},
    {"doctor", "[CONFIG]", "Checks ranks, cores, memory and files; exit status 1 on problems", 0, 1,
     1, 0, doctor_flags, ct_cmd_doctor, NULL, NULL},
    {"pack", "", "Makes HDF5 shards from images, tar, IDX, NumPy, CIFAR or csv files, or text", 0,
     100000, 1, 0, pack_flags, ct_cmd_pack, NULL, NULL},
    {"inspect", "FILE", "Lists the contents of a checkpoint, safetensors, .pth or HDF5 file", 1, 1,
     0, 0, inspect_flags, ct_cmd_inspect, NULL, NULL},
    {"import", "FILE.pt2", "Shows the layers that a program of torch.export becomes", 1, 1, 0, 0,
     import_flags, ct_cmd_import, NULL, NULL},
    {"convert", "IN OUT",
     "Converts a model to another format: .h5, .safetensors, .pth, .onnx, or a directory", 2, 2, 0,
     0, convert_flags, ct_cmd_convert, NULL, NULL},
    {"tokenize", "FILE|-", "Prints the token ids of a text, or the text of ids", 1, 1, 0, 0,
     tokenize_flags, ct_cmd_tokenize, NULL, NULL},
    {"report", "STUDY|RUN [...]", "Writes an HTML page about scaling studies or training runs", 1,
     1000, 0, 0, report_flags, ct_cmd_report, NULL, NULL},
    {"watch", "RUN", "Shows the progress of a run, live, from its run directory", 1, 1, 0, 0,
     watch_flags, ct_cmd_watch, NULL, NULL},
    {"bench", "step|io|predict|lr CONFIG, or comm",
     "Measures performance; lr: finds a learning rate", 1, 2, 1, 0, bench_flags, ct_cmd_bench, NULL,
     NULL},
    {"scale", "CONFIG", "Measures and explains scaling over many numbers of ranks in one launch", 1,
     1, 1, 0, scale_flags, ct_cmd_scale, NULL, ct_scale_before_mpi},
    {"sweep", "CONFIG", "Trains with different settings and ranks the results", 1, 1, 1, 1,
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
