/* The test harness in one process: runs CUnit's suites and prints TAP, which CUnit's own runners
 * cannot; temporary directories, and assertions that print the values. */
#include "tests/harness/ct_test.h"

#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"

int (*ct_test_combine)(int ok);
int ct_test_prints = 1;

static const char *suite_name;
static int case_number, cases_failed;
static char skip_reason[200];

/* ---- directories ---- */

static char base_dir[512]; /* empty: none created yet */
static pid_t base_owner;   /* process that removes it, so that a forked child does not */

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *where)
{
  (void)st;
  (void)flag;
  (void)where;
  return remove(path);
}

static void remove_base(void)
{
  if (getpid() == base_owner) nftw(base_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_base(void)
{
  const char *tmp = getenv("TMPDIR");
  snprintf(base_dir, sizeof base_dir, "%s/ct-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(base_dir)) {
    printf("Bail out! cannot make a directory like %s\n", base_dir);
    exit(1);
  }
  base_owner = getpid();
  atexit(remove_base);
}

const char *ct_test_dir(void)
{
  enum { MAX_DIRS = 64 };
  static char dirs[MAX_DIRS][sizeof base_dir + 16];
  static int made;
  if (!base_dir[0]) make_base();
  if (made == MAX_DIRS) {
    printf("Bail out! a program may have %d test directories\n", MAX_DIRS);
    exit(1);
  }
  char *dir = dirs[made];
  snprintf(dir, sizeof dirs[0], "%s/%d", base_dir, made++);
  if (mkdir(dir, 0777) != 0) {
    printf("Bail out! cannot make the directory %s\n", dir);
    exit(1);
  }
  return dir;
}

/* ---- environment ---- */

const char *ct_test_environment = "";

char *ct_test_getenv(const char *name)
{
  static char value[16][2000];
  static int next;
  size_t len = strlen(name);
  for (const char *v = ct_test_environment; v; v = strchr(v, ' ')) {
    v += *v == ' ';
    if (strncmp(v, name, len) != 0 || v[len] != '=') continue;
    char *to = value[next++ % 16];
    snprintf(to, sizeof value[0], "%.*s", (int)strcspn(v + len + 1, " "), v + len + 1);
    return to;
  }
  return NULL;
}

/* ---- assertions ---- */

static int verdict(int ok, const char *text, const char *file, int line)
{
  return CU_assertImplementation(ok, (unsigned)line, text, file, "", CU_FALSE);
}

void ct_test_int(int64_t a, int64_t b, const char *what, const char *file, int line)
{
  char text[400];
  snprintf(text, sizeof text, "%s: %" PRId64 " != %" PRId64, what, a, b);
  verdict(a == b, text, file, line);
}

/* A computed tolerance may be infinite; then an infinite difference must still fail. */
static int is_within(double most, double tol)
{
  return most <= tol && most < INFINITY;
}

void ct_test_near(double a, double b, double tol, const char *what, const char *file, int line)
{
  char text[400];
  double most = ct_test_off_double(&a, &b, 1).most;
  snprintf(text, sizeof text, "%s: %.17g and %.17g differ by %.3g, more than %.3g", what, a, b,
           most, tol);
  verdict(is_within(most, tol), text, file, line);
}

void ct_test_arrays(ct_test_off_t off, double got, double want, double tol, const char *what,
                    const char *file, int line)
{
  char text[400];
  snprintf(text, sizeof text,
           "%s: element %" PRId64 " is %.9g, not %.9g: off by %.3g, more than %.3g", what, off.at,
           got, want, off.most, tol);
  verdict(is_within(off.most, tol), text, file, line);
}

void ct_test_text(const char *a, const char *b, const char *what, const char *file, int line)
{
  char text[2000];
  int ok = a && b ? strcmp(a, b) == 0 : a == b;
  snprintf(text, sizeof text, "%s: '%.800s' != '%.800s'", what, a ? a : "(null)", b ? b : "(null)");
  verdict(ok, text, file, line);
}

void ct_test_has(const char *a, const char *b, const char *what, const char *file, int line)
{
  char text[2000];
  snprintf(text, sizeof text, "%s: no '%.400s' in '%.1200s'", what, b ? b : "(null)",
           a ? a : "(null)");
  verdict(a && b && strstr(a, b), text, file, line);
}

int ct_test_ok(int rc, const char *what, const char *file, int line)
{
  char text[1200];
  snprintf(text, sizeof text, "%s: %s: %s", what, ct_err_name(rc), rc ? ct_err_last()->text : "");
  verdict(rc == CT_OK, text, file, line);
  return rc;
}

void ct_test_fails(int rc, int code, const char *word, const char *what, const char *file, int line)
{
  char text[1600];
  const char *said = rc == CT_OK ? "" : ct_err_last()->text;
  snprintf(text, sizeof text, "%s: expected %s with '%.300s', got %s: %s", what, ct_err_name(code),
           word, ct_err_name(rc), said);
  verdict(rc == code && strstr(said, word), text, file, line);
}

/* ---- TAP ---- */

void ct_test_skip(const char *reason)
{
  snprintf(skip_reason, sizeof skip_reason, "%s", reason);
}

/* Prints a failure with every line marked as a comment, since TAP is parsed line by line. */
static void print_failure(const CU_FailureRecord *f)
{
  FILE *to = ct_test_prints ? stdout : stderr; /* only rank 0 prints TAP */
  fprintf(to, "# %s:%u: ", f->strFileName, f->uiLineNumber);
  for (const char *p = f->strCondition; *p; p++)
    fputs(*p == '\n' ? "\n#   " : (char[]){*p, '\0'}, to);
  fputc('\n', to);
  fflush(to);
}

static void start_case(const CU_pTest test, const CU_pSuite suite)
{
  (void)test;
  (void)suite;
  skip_reason[0] = '\0';
}

static void complete_case(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord first)
{
  (void)suite;
  int ok = first == NULL;
  for (const CU_FailureRecord *f = first; f; f = f->pNext)
    print_failure(f);
  if (ct_test_combine) ok = ct_test_combine(ok);
  cases_failed += !ok;
  case_number++;
  if (!ct_test_prints) return;
  printf("%s %d - %s: %s", ok ? "ok" : "not ok", case_number, suite_name, test->pName);
  if (skip_reason[0]) printf(" # SKIP %s", skip_reason);
  printf("\n");
  fflush(stdout);
}

/* Prints the names of all tests, for scripts that run them one by one. */
static int list_tests(const ct_test_t *tests)
{
  for (; tests->name; tests++)
    printf("%s\n", tests->name);
  return 0;
}

/* \a part: part of a name, or =NAME. */
static int is_chosen(const char *name, const char *part)
{
  if (!part) return 1;
  return *part == '=' ? !strcmp(name, part + 1) : strstr(name, part) != NULL;
}

static int add_tests(CU_pSuite suite, const ct_test_t *tests, const char *part)
{
  int n = 0;
  for (; tests->name; tests++) {
    if (!is_chosen(tests->name, part)) continue;
    if (!CU_add_test(suite, tests->name, tests->run)) return -1;
    n++;
  }
  return n;
}

void ct_test_put(const char *root, const char *path, const char *text)
{
  char whole[CT_PATH_MAX], dir[CT_PATH_MAX];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  CT_ASSERT_OK(ct_path_dir(dir, sizeof dir, whole));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_file_write(whole, text, strlen(text)));
}

int ct_test_main(const char *suite, const ct_test_t *tests, int argc, char **argv)
{
  const char *part = argc > 1 ? argv[1] : NULL;
  suite_name = suite;
  case_number = cases_failed = 0;
  if (part && !strcmp(part, "--list")) return list_tests(tests);
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite cunit_suite = CU_add_suite(suite, NULL, NULL);
  int n = cunit_suite ? add_tests(cunit_suite, tests, part) : -1;
  if (n > 0) {
    if (ct_test_prints) printf("1..%d\n", n);
    fflush(stdout);
    CU_set_test_start_handler(start_case);
    CU_set_test_complete_handler(complete_case);
    CU_run_all_tests();
  } else {
    printf("Bail out! %s: %s\n", suite, n == 0 ? "no test has such a name" : CU_get_error_msg());
  }
  CU_cleanup_registry();
  return n <= 0 || case_number != n || cases_failed > 0;
}
