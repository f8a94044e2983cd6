/* Plans with a limit of the arena: what is made again, and that limits do not depend on the past.
 * The results of such plans are compared in tests/conform/limits.c. */
#include "tests/unit/plan_make.h"
#include <stdio.h>

static ct_graph_t *net; /* of all plans of deep() */

static ct_plan_t *deep(int b, int sync_bn)
{
  if (!net) net = family("resnet", 18, ct_shape(4, 1, 3, 32, 32));
  return plan_with(b, net, &(ct_plan_opts_t){.n = 4, .training = 1, .sync_bn = sync_bn}, NULL);
}

static int count_again(const ct_plan_t *p)
{
  int n = 0;
  for (int i = 0; i < p->launches; i++)
    n += p->launch[i].again;
  return n;
}

static size_t middle(ct_plan_t *p, int percent)
{
  CT_ASSERT_INT(ct_plan_limit(p, 1), CT_ERR_NOMEM);
  return p->again.least + (p->again.most - p->again.least) / 100 * (size_t)percent;
}

static void limits_are_met(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    ct_plan_t *p = deep(b, 0);
    double share = 1;
    size_t most = p->arena_bytes;
    for (int percent = 0; percent <= 90; percent += 30) {
      size_t limit = middle(p, percent);
      CT_ASSERT_OK(ct_plan_limit(p, limit));
      CU_ASSERT(p->arena_bytes <= limit && p->again.most == most);
      CT_ASSERT_INT(count_again(p), p->again.launches);
      CU_ASSERT(p->again.flops > 0 && p->again.share > 0 && p->again.share <= share);
      share = p->again.share;
    }
    CU_ASSERT(share < 0.02 && p->again.least < most / 10 * 7);
    CT_ASSERT_OK(ct_plan_limit(p, most));
    CT_ASSERT_INT(p->again.launches, 0);
    ct_plan_free(p);
  }
}

static void the_order_of_limits_does_not_matter(void)
{
  ct_plan_t *p = deep(CPU, 0), *q = deep(CPU, 0);
  size_t bytes = (size_t)p->launches * sizeof *p->launch;
  size_t some = middle(p, 40), few = middle(p, 5);
  CT_ASSERT_OK(ct_plan_limit(p, few));
  CT_ASSERT_OK(ct_plan_limit(p, some));
  CT_ASSERT_OK(ct_plan_limit(q, some));
  CT_ASSERT_INT(p->launches, q->launches);
  CT_ASSERT_INT(p->values, q->values);
  CU_ASSERT(!memcmp(p->launch, q->launch, (size_t)p->launches * sizeof *p->launch));
  for (int v = 0; v < p->values; v++)
    CU_ASSERT(p->value[v].offset == q->value[v].offset);
  ct_plan_free(q);
  q = deep(CPU, 0);
  CT_ASSERT_OK(ct_plan_limit(p, SIZE_MAX));
  CT_ASSERT_INT(p->launches, q->launches);
  CU_ASSERT(!memcmp(p->launch, q->launch, bytes) && p->arena_bytes == q->arena_bytes);
  ct_plan_free(p);
  ct_plan_free(q);
}

static void what_cannot_be_met_changes_nothing(void)
{
  char number[32];
  ct_plan_t *p = deep(CPU, 0);
  size_t limit = middle(p, 30);
  CT_ASSERT_OK(ct_plan_limit(p, limit));
  ct_plan_again_t before = p->again;
  int launches = p->launches;
  size_t bytes = p->arena_bytes;
  CT_ASSERT_INT(ct_plan_limit(p, before.least / 2), CT_ERR_NOMEM);
  snprintf(number, sizeof number, "(%zu bytes)", before.least);
  CU_ASSERT_PTR_NOT_NULL(strstr(ct_err_last()->text, number));
  CU_ASSERT_PTR_NOT_NULL(strstr(ct_err_last()->text, "of 4 samples cannot fit into"));
  CU_ASSERT(p->arena_bytes == bytes && p->launches == launches);
  CT_ASSERT_INT(p->again.launches, before.launches);
  CU_ASSERT(p->again.share == before.share);
  CT_ASSERT_OK(ct_plan_limit(p, before.least)); /* what the message promises */
  ct_plan_t *forward = plan_on(CPU, p->graph, 4, 0, NULL);
  CT_ASSERT_INT(ct_plan_limit(forward, forward->arena_bytes - 1), CT_ERR_NOMEM);
  CT_ASSERT_OK(ct_plan_limit(forward, forward->arena_bytes));
  ct_plan_free(forward);
  ct_plan_free(p);
}

/* Messages and buckets keep their order; a launch made again sends nothing, and reads what the
 * first one saved. */
static void messages_stay_as_they_are(void)
{
  ct_arena_map_t map;
  ct_bucket_t before[8], after[8];
  ct_plan_t *p = deep(CPU, 1);
  CT_ASSERT_OK(ct_arena_map_make(p, &map));
  int buckets = ct_buckets_make(p, &map, 1 << 20, 8, before), sums = 0, wanted = 0, again = 0;
  for (int i = 0; i < p->launches; i++)
    wanted += (p->launch[i].pass & (CT_FWD_STATS | CT_BWD_STATS)) != 0;
  CT_ASSERT_OK(ct_plan_limit(p, middle(p, 10)));
  CT_ASSERT_INT(ct_buckets_make(p, &map, 1 << 20, 8, after), buckets);
  for (int k = 0; k < buckets; k++) {
    CU_ASSERT(after[k].offset == before[k].offset && after[k].bytes == before[k].bytes);
    const ct_plan_launch_t *w = &p->launch[after[k].after];
    CT_ASSERT_INT(w->op, p->unlimited.launch[before[k].after].op);
  }
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    sums += (w->pass & (CT_FWD_STATS | CT_BWD_STATS)) != 0;
    if (!w->again) continue;
    CT_ASSERT_INT(w->pass, CT_FWD);
    CU_ASSERT(i > p->loss_launch && w->y >= p->unlimited.values);
    if (p->op[w->op].desc.kind != CT_OP_BNORM) continue;
    again++;
    CT_ASSERT_INT(w->saved, p->op[w->op].saved);
  }
  CT_ASSERT_INT(sums, wanted);
  CU_ASSERT(again > 0);
  ct_arena_map_clear(&map);
  ct_plan_free(p);
}

/* The skip connections of a U-Net are read by backward of the decoder and, much later, of the
 * encoder: what makes them runs once more for each. */
static void skips_are_made_twice(void)
{
  ct_graph_t *g = NULL;
  ct_shape_t input = ct_shape(4, 1, 3, 64, 64);
  double width[] = {16};
  ct_model_opts_t m = {.family = (char *)(uintptr_t) "unet", .widths = {width, 1}};
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  ct_plan_t *p = plan_with(CPU, g, &(ct_plan_opts_t){.n = 2, .training = 1}, NULL);
  int most = 0;
  CT_ASSERT_OK(ct_plan_limit(p, middle(p, 0)));
  CT_ASSERT_INT(count_again(p), p->again.launches);
  for (int o = 0; o < p->ops; o++) {
    int times = 0;
    for (int i = 0; i < p->launches; i++)
      times += p->launch[i].again && p->launch[i].op == o;
    if (times > most) most = times;
  }
  CT_ASSERT_INT(most, 2);
  ct_plan_free(p);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(limits_are_met),
                                    CT_TEST(the_order_of_limits_does_not_matter),
                                    CT_TEST(what_cannot_be_met_changes_nothing),
                                    CT_TEST(messages_stay_as_they_are),
                                    CT_TEST(skips_are_made_twice),
                                    CT_TEST_END};
  int rc = ct_test_main("recompute", tests, argc, argv);
  ct_graph_free(net);
  close_devices();
  return rc;
}
