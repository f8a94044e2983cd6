/* What chance decides in a run, for make_runs.py: the order of the samples, and what is mixed into
 * each.  draws SEED SAMPLES EPOCHS [TRANSFORMS]: a line "sample partner share top left height
 * width" for each place of each epoch; without a mixup or cutmix in the list of transforms the
 * partner is -1.  Samples are 1 x 8 x 8. */
#include "base/ct_err.h"
#include "conf/ct_yaml.h"
#include "data/order/ct_sampler.h"
#include "data/transform/transforms.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_list(const char *yaml, ct_transforms_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *list = NULL;
  ct_shape_t x = ct_shape(4, 1, 1, 8, 8);
  ct_affine_t first;
  ct_reader_info_t info = {.x.dtype = CT_U8};
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "TRANSFORMS", &list));
  ct_transforms_opts_t o = {.list = list, .training = 1};
  CT_TRY(ct__transforms_open(&o, "TRANSFORMS", &info, &x, &first, out));
out:
  ct_yaml_free(list);
  return rc;
}

static void print_epoch(const ct_sampler_t *s, const ct_transforms_t *t, int64_t epoch)
{
  for (int64_t i = 0; i < s->samples; i++) {
    int64_t id = ct_sampler_at(s, epoch, i);
    ct__transform_mix_t m = {.partner = -1, .share = 1};
    if (ct__transforms_mixes(t)) m = ct__transform_mix_draw(t, s->seed, epoch, id, s->samples);
    printf("%lld %lld %.9g %lld %lld %lld %lld\n", (long long)id, (long long)m.partner,
           (double)m.share, (long long)m.box.top, (long long)m.box.left, (long long)m.box.h,
           (long long)m.box.w);
  }
}

int main(int argc, char **argv)
{
  ct_transforms_t *t = NULL;
  if (argc < 4) return 2;
  ct_sampler_t s = {
      .seed = strtoull(argv[1], NULL, 10), .samples = atoll(argv[2]), .batch = 1, .shuffle = 1};
  if (argc > 4 && open_list(argv[4], &t) != CT_OK) {
    fprintf(stderr, "%s\n", ct_err_last()->text);
    return 2;
  }
  for (int64_t epoch = 0; epoch < atoll(argv[3]); epoch++)
    print_epoch(&s, t, epoch);
  ct__transforms_close(t);
  return 0;
}
