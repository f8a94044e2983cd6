/** \file doctor_judge.h  A made-up job, its judge, and what it must find. */
#ifndef DOCTOR_JUDGE_H
#define DOCTOR_JUDGE_H
#include <string.h>

#include "doctor/doctor.h"
#include "tests/harness/ct_test.h"

enum { MOST = 1024 };
static ct_rank_facts_t facts[MOST];
static ct_job_facts_t job;
static ct_findings_t found;

static const ct_finding_t *find(const char *key)
{
  for (int i = 0; i < found.n; i++)
    if (strcmp(found.list[i].key, key) == 0) return &found.list[i];
  return NULL;
}

static void judge(void)
{
  CT_ASSERT_OK(ct_doctor_judge(facts, &job, &found));
}

/* The finding is there, of that level, with those words in what it says and in its cure. */
static void expect(const char *key, int level, const char *what, const char *cure)
{
  const ct_finding_t *f = find(key);
  CT_ASSERT_TEXT(f ? f->key : "nothing", key);
  if (!f) return;
  CT_ASSERT_INT(f->level, level);
  CT_ASSERT_HAS(f->what, what);
  CT_ASSERT_HAS(f->cure, cure);
}

static void expect_good(void)
{
  judge();
  for (int i = 0; i < found.n; i++)
    if (found.list[i].level != CT_FINDING_OK) CT_ASSERT_TEXT(found.list[i].what, "nothing");
  CT_ASSERT_INT(ct_doctor_count(&found, CT_FINDING_BAD), 0);
  CU_ASSERT(found.n > 0);
}

#endif
