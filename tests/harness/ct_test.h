/** \file ct_test.h  Unit tests with CUnit and TAP output, also under MPI.
 *
 * A test program lists its functions and calls ct_test_main():
 *
 *     static void adds(void) { CU_ASSERT_EQUAL(1 + 1, 2); }
 *     int main(int argc, char **argv)
 *     {
 *       static const ct_test_t tests[] = {CT_TEST(adds), CT_TEST_END};
 *       return ct_test_main("arithmetic", tests, argc, argv);
 *     }
 *
 * Each function gives one TAP line "ok 1 - arithmetic: adds"; a failed assertion prints `#
 * file:line: text`.  With an argument, only tests whose name contains it run.  In a program linked
 * with test_mpi.c, a case passes only if it passes on all ranks, and only rank 0 prints. */
#ifndef CT_TEST_H
#define CT_TEST_H
#include <CUnit/CUnit.h>

typedef struct ct_test {
  const char *name;
  void (*run)(void);
} ct_test_t;
#define CT_TEST(f) \
  {                \
#    f, f          \
  }
#define CT_TEST_END \
  {                 \
    0, 0            \
  }

/** Runs the tests and prints TAP on stdout.  The first argument, if any, chooses tests: part of
 * their names, or =NAME; --list prints the names instead.  Returns 0 if all passed, else 1. */
int ct_test_main(const char *suite, const ct_test_t *tests, int argc, char **argv);

/** Set by an MPI harness before ct_test_main(). ct_test_combine() combines this rank's result (1:
 * passed) over all ranks; NULL: one process. ct_test_prints: 1 if this rank prints. */
extern int (*ct_test_combine)(int ok);
extern int ct_test_prints;

/** Call in a test whose environment lacks something: the case is reported as "ok N # SKIP reason".
 */
void ct_test_skip(const char *reason);

/** Creates a new empty directory under $TMPDIR, which is removed when the program ends.  Returns
 * static storage, overwritten by the next call. */
const char *ct_test_dir(void);
/** Writes a file below \a root; creates missing directories. */
void ct_test_put(const char *root, const char *path, const char *text);

/** A fake environment, "NAME=value NAME=value", and its getenv().  A returned value stays valid for
 * a few calls. */
extern const char *ct_test_environment;
char *ct_test_getenv(const char *name);

/** Assertions like CUnit's that print both values. */
#define CT_ASSERT_INT(a, b) \
  ct_test_int((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define CT_ASSERT_NEAR(a, b, tol) ct_test_near((a), (b), (tol), #a " ~ " #b, __FILE__, __LINE__)
#define CT_ASSERT_TEXT(a, b)      ct_test_text((a), (b), #a, __FILE__, __LINE__)
/** Asserts that text \a a contains text \a b. */
#define CT_ASSERT_HAS(a, b) ct_test_has((a), (b), #a, __FILE__, __LINE__)
/** Asserts that the call returns CT_OK; prints the error text otherwise. */
#define CT_ASSERT_OK(call) ct_test_ok((call), #call, __FILE__, __LINE__)
/** Asserts that the call fails with \a code and an error text that contains \a word. */
#define CT_ASSERT_FAILS(call, code, word) \
  ct_test_fails((call), (code), (word), #call, __FILE__, __LINE__)
/** Asserts that \a n float32 numbers differ by at most \a tol, see ct_test_off(); _REL: relative to
 * the expected value; there are also versions for double. */
#define CT_ASSERT_ARRAY(got, want, n, tol) CT__ASSERT_OFF(float, ct_test_off, got, want, n, tol)
#define CT_ASSERT_ARRAY_REL(got, want, n, tol) \
  CT__ASSERT_OFF(float, ct_test_off_rel, got, want, n, tol)
#define CT_ASSERT_DOUBLES(got, want, n, tol) \
  CT__ASSERT_OFF(double, ct_test_off_double, got, want, n, tol)
#define CT__ASSERT_OFF(type, off, got, want, n, tol)                                    \
  do {                                                                                  \
    const type *got_ = (got), *want_ = (want);                                          \
    ct_test_off_t off_ = off(got_, want_, (n));                                         \
    double a_ = off_.at < 0 ? 0 : got_[off_.at], b_ = off_.at < 0 ? 0 : want_[off_.at]; \
    ct_test_arrays(off_, a_, b_, (tol), #got " ~ " #want, __FILE__, __LINE__);          \
  } while (0)

#include <stdint.h>

/** The largest difference of two arrays. */
typedef struct ct_test_off {
  double most; /* INFINITY if one value is NaN or infinite and the other differs */
  int64_t at;  /* index of the first largest difference; -1: the arrays are equal */
} ct_test_off_t;
/** Returns the largest |got - want|. Infinities of the same sign are equal.  A NaN differs from
 * everything, including another NaN; a test that expects NaN uses isnan(). */
ct_test_off_t ct_test_off(const float *got, const float *want, int64_t n);
ct_test_off_t ct_test_off_double(const double *got, const double *want, int64_t n);
/** Returns the largest |got - want| / max(|want|, 1); otherwise as ct_test_off(). */
ct_test_off_t ct_test_off_rel(const float *got, const float *want, int64_t n);

void ct_test_int(int64_t a, int64_t b, const char *what, const char *file, int line);
void ct_test_near(double a, double b, double tol, const char *what, const char *file, int line);
void ct_test_arrays(ct_test_off_t off, double got, double want, double tol, const char *what,
                    const char *file, int line);
void ct_test_text(const char *a, const char *b, const char *what, const char *file, int line);
void ct_test_has(const char *a, const char *b, const char *what, const char *file, int line);
int ct_test_ok(int rc, const char *what, const char *file, int line);
void ct_test_fails(int rc, int code, const char *word, const char *what, const char *file,
                   int line);

#endif
