/* A timeline: what is told while it is on, by any thread, is in the JSON, and nothing else. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_mem.h"
#include "base/ct_trace.h"
#include "tests/harness/ct_test.h"

/* One second later by the shared clock. */
static double later(const void *ctx, double s)
{
  return s - *(const double *)ctx + 1;
}

static json_t *events(double zero, int64_t lost_expected)
{
  int64_t lost;
  ct_str_t text = {0}, whole = {0};
  CT_ASSERT_OK(ct_trace_json(3, "rank 3 (node1)", later, &zero, &text, &lost));
  CT_ASSERT_INT(lost, lost_expected);
  CT_ASSERT_OK(ct_str_add(&whole, "[%s{}]", text.data));
  json_t *o = json_loads(whole.data, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(o);
  ct_str_clear(&text);
  ct_str_clear(&whole);
  return o;
}

static const json_t *find(const json_t *o, const char *name, const char *ph)
{
  size_t i;
  json_t *e;
  json_array_foreach(o, i, e)
  {
    const char *n = json_string_value(json_object_get(e, "name"));
    const char *p = json_string_value(json_object_get(e, "ph"));
    if (n && strcmp(n, name) == 0 && strcmp(p, ph) == 0) return e;
  }
  return NULL;
}

static double number(const json_t *e, const char *key)
{
  return json_number_value(json_object_get(e, key));
}

static void *read_something(void *begin)
{
  ct_trace_between("read", NULL, -1, *(double *)begin, *(double *)begin + 0.5);
  return NULL;
}

static void spans_of_threads(void)
{
  pthread_t thread;
  ct_trace_span("too early", NULL, -1, 0);
  double start = ct_clock();
  CT_ASSERT_OK(ct_trace_start(100));
  double begin = ct_clock();
  ct_trace_between("conv", "backward", 7, begin + 0.25, begin + 0.375);
  pthread_create(&thread, NULL, read_something, &begin);
  pthread_join(thread, NULL);
  ct_trace_between("since long", NULL, -1, begin - 100, begin);
  ct_trace_stop();
  ct_trace_span("too late", NULL, -1, begin);
  json_t *o = events(begin, 0);
  const json_t *conv = find(o, "conv backward 7", "X"), *read = find(o, "read", "X");
  const json_t *old = find(o, "since long", "X");
  CU_ASSERT_FATAL(conv && read && old);
  CT_ASSERT_NEAR(number(conv, "ts"), 1.25e6, 0.01);
  CT_ASSERT_NEAR(number(conv, "dur"), 0.125e6, 0.01);
  CT_ASSERT_INT(number(conv, "pid"), 3);
  CT_ASSERT_INT(number(conv, "tid"), 0);
  CU_ASSERT(number(read, "tid") > 0);
  CT_ASSERT_NEAR(number(read, "dur"), 0.5e6, 0.01);
  CU_ASSERT(number(old, "ts") >= 0);
  CU_ASSERT(number(old, "dur") <= 1e6 * (begin - start) + 1); /* from the start on */
  CU_ASSERT_PTR_NULL(find(o, "too early", "X"));
  CU_ASSERT_PTR_NULL(find(o, "too late", "X"));
  CU_ASSERT_PTR_NOT_NULL(find(o, "process_name", "M"));
  json_decref(o);
  ct_trace_clear();
}

static void messages_overlap(void)
{
  CT_ASSERT_OK(ct_trace_start(100));
  double begin = ct_clock();
  ct_trace_flight("gradients", 1, begin);
  ct_trace_flight("gradients", 2, begin);
  json_t *o = events(begin, 0);
  const json_t *b1 = find(o, "gradients 1", "b"), *e1 = find(o, "gradients 1", "e");
  const json_t *b2 = find(o, "gradients 2", "b"), *e2 = find(o, "gradients 2", "e");
  CU_ASSERT_FATAL(b1 && e1 && b2 && e2);
  CU_ASSERT(json_equal(json_object_get(b1, "id2"), json_object_get(e1, "id2")));
  CU_ASSERT(!json_equal(json_object_get(b1, "id2"), json_object_get(b2, "id2")));
  CU_ASSERT(number(e1, "ts") >= number(b1, "ts") && number(e2, "ts") >= number(b2, "ts"));
  json_decref(o);
  ct_trace_clear();
}

static void too_many_are_counted(void)
{
  CT_ASSERT_OK(ct_trace_start(2));
  for (int i = 0; i < 5; i++)
    ct_trace_span("work", NULL, i, ct_trace_now());
  json_t *o = events(ct_clock(), 3);
  CU_ASSERT_PTR_NOT_NULL(find(o, "work 1", "X"));
  CU_ASSERT_PTR_NULL(find(o, "work 2", "X"));
  json_decref(o);
  ct_trace_clear();
}

static void nothing_is_kept_when_off(void)
{
  int64_t calls = ct_mem_calls();
  CT_ASSERT_NEAR(ct_trace_now(), 0, 0);
  ct_trace_span("work", NULL, -1, 0);
  ct_trace_flight("message", 1, 0);
  CT_ASSERT_INT(ct_mem_calls(), calls);
  json_t *o = events(0, 0);
  CU_ASSERT_PTR_NULL(find(o, "work", "X"));
  json_decref(o);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(nothing_is_kept_when_off), CT_TEST(spans_of_threads),
                                    CT_TEST(messages_overlap), CT_TEST(too_many_are_counted),
                                    CT_TEST_END};
  return ct_test_main("trace", tests, argc, argv);
}
