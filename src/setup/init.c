/* Initial weights from `init.from`: rank 0 opens the file, matches its tensors to the parameters,
 * and reads them. */
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_model_file.h"
#include "setup/ct_setup.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "weights/ct_init.h"

/* Rank 0.  Opens the file and matches its tensors to the parameters. */
static int open_weights(const ct_setup_t *s, ct_weights_file_t *f, ct_match_t *m)
{
  int rc = CT_OK;
  const ct_init_opts_t *o = &s->cfg.init;
  char file[CT_PATH_MAX];
  CT_TRY(ct_model_path(o->from, NULL, file, sizeof file));
  CT_TRY(ct_match_open(ct_builtin_weights, file, s->graph, o, f, m));
  const char *path = f->path; /* path of the checkpoint if init.from is a run directory */
  const char *remark = f->ops->remark(f->w);
  if (remark) ct_log(CT_LOG_INFO, "%s: %s", path, remark);
  CT_TRY(ct_match_judge(m, o, path));
  ct_log(CT_LOG_INFO, "initial weights from %s: %d of the model's %d arrays", path, m->taken,
         s->graph->params);
out:
  return rc;
}

int ct_setup_init(ct_setup_t *s)
{
  int rc = CT_OK;
  ct_weights_file_t f = {0};
  ct_match_t m = {0};
  CT_TRY(ct_setup_constants(s));
  if (!s->cfg.init.from[0]) return CT_OK;
  ct_heartbeat_at("reading the initial weights", -1);
  CT_TRY_ALL(s->topo, s->topo->rank == 0 ? open_weights(s, &f, &m) : CT_OK);
  CT_TRY(ct_trainer_load(s->trainer, &f, m.from));
out:
  ct_match_clear(&m);
  ct_weights_close(&f);
  return rc;
}
