/** \file ct_test.h  CUnit behind TAP, also under MPI.
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
 * Each function is one TAP line "ok 1 - arithmetic: adds"; a failed assertion prints `# file:line:
 * text`.  With an argument only the tests whose name contains it are run.  In a program linked with
 * test_mpi.c a case is ok only if it is on every rank, and rank 0 alone prints. */
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

/** Runs the tests; prints TAP on stdout; returns 0 if all passed, 1 otherwise. */
int ct_test_main(const char *suite, const ct_test_t *tests, int argc, char **argv);

/** Set by an MPI harness before ct_test_main(): combines this rank's verdict (1 ok, 0 not) over all
 * ranks, and says whether this rank prints.  NULL: alone. */
extern int (*ct_test_combine)(int ok);
extern int ct_test_prints;

/** Call inside a test: the rest of the program's environment lacks something; the case is reported
 * as "ok N # SKIP reason". */
void ct_test_skip(const char *reason);

/** A new empty directory under $TMPDIR at each call, removed at the end of the program; static
 * storage. */
const char *ct_test_dir(void);
/** Writes a file below root, and makes the directories above it. */
void ct_test_put(const char *root, const char *path, const char *text);

/** A stand-in for the environment, "NAME=value NAME=value", and what looks up in it: a value is
 * kept for some calls. */
extern const char *ct_test_environment;
char *ct_test_getenv(const char *name);

/** CUnit's message-less asserts with the values in the message. */
#define CT_ASSERT_INT(a, b) \
  ct_test_int((int64_t)(a), (int64_t)(b), #a " == " #b, __FILE__, __LINE__)
#define CT_ASSERT_NEAR(a, b, tol) ct_test_near((a), (b), (tol), #a " ~ " #b, __FILE__, __LINE__)
#define CT_ASSERT_TEXT(a, b)      ct_test_text((a), (b), #a, __FILE__, __LINE__)
/** Text \a b occurs in text \a a. */
#define CT_ASSERT_HAS(a, b) ct_test_has((a), (b), #a, __FILE__, __LINE__)
/** The call returns CT_OK; else the recorded error's text is shown. */
#define CT_ASSERT_OK(call) ct_test_ok((call), #call, __FILE__, __LINE__)
/** The call fails with \a code, and the recorded text contains \a word. */
#define CT_ASSERT_FAILS(call, code, word) \
  ct_test_fails((call), (code), (word), #call, __FILE__, __LINE__)
/** Arrays of \a n float32 numbers differ by no more than \a tol anywhere, see ct_test_off(); the
 * same in relation to what is wanted, and for doubles. */
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

/** Where two arrays differ most. */
typedef struct ct_test_off {
  double most; /* INFINITY: one number is NaN or infinite and the other is not equal to it */
  int64_t at;  /* the first index where they differ so much; -1: they are equal */
} ct_test_off_t;
/** The largest |got - want|.  Infinities of the same sign are equal.  A NaN differs from
 * everything, also from a NaN: what nobody could compute agrees with nothing; a test that wants one
 * asks isnan(). */
ct_test_off_t ct_test_off(const float *got, const float *want, int64_t n);
ct_test_off_t ct_test_off_double(const double *got, const double *want, int64_t n);
/** The largest |got - want| / max(|want|, 1), otherwise the same. */
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
