/* The outputs of a model that begins from init.from, for the samples of data.val, which are one
 * batch: for check_weights.py.
 *
 *     weights_logits CONFIG OUT     writes float32, samples x classes */
#include <stdio.h>

#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

static int forward(const ct_setup_t *s, const char *path)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  ct_feed_t *feed = NULL;
  ct_loss_t sum = {0};
  int64_t n = s->val.info.samples, count = n * s->cfg.model.classes;
  ct_sampler_t in_order = {.samples = n, .batch = n};
  ct_feed_opts_t o = ct_trainer_feed_opts(s->trainer, 0);
  float *out = ct_mem_array(count, sizeof *out, "outputs");
  o.size = 1;
  o.one_epoch = 1;
  CT_TRY(out ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_feed_open(&s->val, &in_order, &o, &feed));
  CT_TRY(ct_feed_next(feed, &b));
  CT_TRY(ct_trainer_forward(s->trainer, b, &sum));
  CT_TRY(ct_trainer_logits(s->trainer, out));
  CT_TRY(ct_file_write(path, out, (size_t)count * sizeof *out));
out:
  ct_feed_close(feed);
  ct_mem_free(out);
  return rc;
}

static int run(const ct_topo_t *topo, char **argv)
{
  int rc = CT_OK;
  ct_args_t a = {0};
  ct_setup_t s = {.topo = topo};
  CT_TRY(ct_setup_config(&s, argv[1], &a));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_setup_trainer(&s, 0));
  CT_TRY(ct_setup_init(&s));
  CT_TRY(forward(&s, argv[2]));
out:
  ct_setup_close(&s);
  return rc;
}

int main(int argc, char **argv)
{
  ct_topo_t topo;
  if (argc != 3) return 2;
  if (ct_topo_open(&topo, NULL, NULL) != CT_OK) return 1;
  int rc = run(&topo, argv);
  if (rc != CT_OK) fprintf(stderr, "%s\n", ct_err_last()->text);
  ct_topo_close(&topo);
  return rc != CT_OK;
}
