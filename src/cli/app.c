/* Runs a command for main(): parses arguments, starts MPI and the watchdog for commands with ranks,
 * and returns the same exit status on all ranks. */
#include "setup/ct_command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup/ct_builtin.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "comm/ct_agree.h"
#include "hdf5io/ct_h5.h"
#include "job/ct_launcher.h"
#include "job/ct_stop.h"
#include "watch/ct_watch.h"

/* ---- several processes without MPI ---- */

/* Returns 1 if a launcher's environment variables show that this is one of several processes
 * although the command does not use MPI. *speaks: 1 if this process prints for all processes. */
static int is_one_of_many(int *speaks)
{
  return ct_launcher_check(getenv, 1, "", speaks) != CT_OK;
}

static int speaks_for_all(void)
{
  int speaks;
  return !is_one_of_many(&speaks) || speaks;
}

/* ---- help ---- */

/* Prints the versions.  Ignores CTRAIN_PLUGIN_DIR, so that no module from the environment is
 * loaded. */
static int print_version(const char *version)
{
  int rc = CT_OK;
  ct_str_t text = {0}, line = {0};
  unsetenv("CTRAIN_PLUGIN_DIR");
  CT_TRY(ct_builtin_versions("\n", &text));
  CT_TRY(ct_str_add(&line, "ctrain-hpc %s%s\n", version, text.data + strcspn(text.data, "\n")));
  CT_TRY(ct_app_print(line.data));
out:
  ct_str_clear(&line);
  ct_str_clear(&text);
  return rc;
}

static int print_commands(void)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_str_add(&text, "ctrain-hpc trains neural networks on all ranks of an MPI job.\n\n"
                           "Usage: [mpirun -np N] ctrain-hpc COMMAND [CONFIG] [options]\n\n"));
  for (const ct_command_t *c = ct_commands; c->name; c++)
    CT_TRY(ct_str_add(&text, "  %-9s%-14s %s\n", c->name, c->args, c->help));
  CT_TRY(ct_str_add(
      &text,
      "\nWithout a command: demo.  ctrain-hpc COMMAND --help lists the options; the help of\n"
      "train also lists every key of the configuration.  ctrain-hpc --version\n"
      "CTRAIN_PROGRESS=1 in the environment shows the progress bar where no terminal is seen, as\n"
      "under srun; CTRAIN_PROGRESS=0 shows none.\n\n"
      "Exit status: 0 done; 75 stopped early with a good checkpoint (start it again);\n"
      "130 interrupted twice (Ctrl-C); 2 wrong usage or configuration; 1 any other error.\n"
      "The same on every rank.\n"));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

static int print_help(const ct_command_t *cmd)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_args_help(cmd, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- errors ---- */

/* Collective.  All ranks have the same error record.  The failed rank adds its host name; rank 0
 * prints. */
static void report(const ct_topo_t *topo, int code)
{
  int culprit = ct_err_last()->rank;
  if (code != CT_ERR_USAGE && topo->size > 1 && culprit >= 0) {
    ct_err_suffix(" (rank %d on %s)", culprit, topo->host);
    ct_agree(topo, topo->rank == culprit ? code : CT_OK);
  }
  if (topo->rank == 0) ct_log_fatal(ct_err_last()->text);
}

/* ---- running a command ---- */

static int log_level(const ct_args_t *a, ct_log_level_t *out)
{
  static const char *const levels[] = {"error", "warn", "info", "debug"};
  int rc = CT_OK;
  const char *word = ct_args_get(a, "log");
  *out = CT_LOG_INFO;
  if (!word) return CT_OK;
  for (int i = 0; i < 4; i++) {
    *out = (ct_log_level_t)i;
    if (strcmp(word, levels[i]) == 0) return CT_OK;
  }
  CT_FAIL(CT_ERR_USAGE, "--log %s: expected error, warn, info or debug", word);
out:
  return rc;
}

static int run_on_ranks(const ct_args_t *a, ct_log_level_t level, int *status)
{
  ct_topo_t topo;
  ct_watch_t *watch = NULL;
  if (a->cmd->stops) ct_stop_setup(); /* before MPI starts, which takes long in large jobs */
  int rc = ct_topo_open(&topo, NULL, NULL);
  if (rc != CT_OK) {
    ct_log(CT_LOG_ERROR, "%s", ct_err_last()->text); /* the launch check decides which process
                                                        logs */
    *status = ct_err_exit_status(rc);
    return CT_OK;
  }
  ct_log_setup(topo.rank, topo.size, level);
  int code = ct_watch_open(&topo, &watch);
  if (a->cmd->stops) ct_watch_show_start();
  if (code == CT_OK) code = a->cmd->run(a, &topo, status);
  if (code != CT_OK) {
    *status = ct_err_exit_status(code);
    report(&topo, code);
  }
  ct_watch_end(watch, *status);
  ct_topo_close(&topo);
  ct_watch_close(watch);
  return CT_OK;
}

static int run_alone(const ct_args_t *a, ct_log_level_t level, int *status)
{
  int rc = CT_OK, speaks;
  if (is_one_of_many(&speaks))
    CT_FAIL(CT_ERR_USAGE,
            "%s is done by one process: start it without mpirun or srun, or with one rank",
            a->cmd->name);
  ct_log_setup(0, 1, level);
  CT_TRY(a->cmd->run(a, NULL, status));
out:
  return rc;
}

static int run_command(const ct_command_t *cmd, int bare, int argc, char **argv, int *status)
{
  int rc = CT_OK, done = 0;
  ct_args_t a = {0};
  ct_log_level_t level;
  CT_TRY(ct_args_parse(&a, cmd, argc, argv));
  a.bare = bare;
  if (a.help) {
    if (speaks_for_all()) CT_TRY(print_help(cmd));
    goto out;
  }
  CT_TRY(ct_app_check_limits(cmd->ranks));
  CT_TRY(log_level(&a, &level));
  ct_h5_setup();
  if (cmd->before_mpi) CT_TRY(cmd->before_mpi(&a, &done));
  if (done) goto out;
  signal(SIGPIPE, SIG_IGN); /* a closed pipe on stderr or stdout must not kill the run */
  CT_TRY(cmd->ranks ? run_on_ranks(&a, level, status) : run_alone(&a, level, status));
out:
  ct_args_clear(&a);
  return rc;
}

static int dispatch(int argc, char **argv, const char *version, int *status)
{
  int rc = CT_OK;
  const ct_command_t *cmd;
  const char *first = argc > 1 ? argv[1] : "-";
  if (strcmp(first, "--version") == 0) return speaks_for_all() ? print_version(version) : CT_OK;
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
    return speaks_for_all() ? print_commands() : CT_OK;
  int bare = first[0] == '-';
  CT_TRY(ct_command_find(bare ? "demo" : first, &cmd));
  CT_TRY(run_command(cmd, bare, argc - !bare, argv + !bare, status));
out:
  return rc;
}

/* Writes the exit status to an existing file for job templates, since some launchers occasionally
 * return 0 although ranks failed.  The file exists only on the node that runs the template. */
static int note_status(int status)
{
  const char *path = getenv("CTRAIN_STATUS_FILE");
  int fd = path && *path && speaks_for_all() ? ct_file_open(path, O_WRONLY | O_TRUNC, 0) : -1;
  if (fd < 0) return status;
  if (dprintf(fd, "%d\n", status) < 0) ct_log(CT_LOG_DEBUG, "%s: cannot be written", path);
  close(fd);
  return status;
}

int ct_app_run(int argc, char **argv, const char *version)
{
  int status = 0;
  int rc = dispatch(argc, argv, version, &status);
  if (rc == CT_OK) return note_status(status);
  ct_err_info_t info = *ct_err_last();
  if (speaks_for_all()) {
    ct_err_put(&info);
    ct_log_fatal(ct_err_last()->text);
  }
  return note_status(ct_err_exit_status(rc));
}
