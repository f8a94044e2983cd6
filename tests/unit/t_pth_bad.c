/* Hostile and damaged .pth files: each gets one error that names the file, and nothing is read that
 * is not there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/pth_make.h"
#include "weights/pth/ct_weights_pth.h"

static const ct_weights_ops_t *const pth = &ct_weights_pth;

/* Pickles by hand: a dict with the tensor 'w' of a storage, place, size and stride. */
#define STORAGE(type, key, n) "(X\7\0\0\0storagec" type "\nX\1\0\0\0" key "X\3\0\0\0cpuK" n "tQ"
#define FLOATS                STORAGE("torch\nFloatStorage", "0", "\20")
#define MAKE                  "ctorch._utils\n_rebuild_tensor_v2\n"
#define REST \
  "\x89"     \
  "ccollections\nOrderedDict\n)RtR"
#define TENSOR(storage, view) MAKE "(" storage view REST
#define DICT(value)           "\x80\2}X\1\0\0\0w" value "s."
#define GOOD                  TENSOR(FLOATS, "K\0K\2\x85K\1\x85")

typedef struct bad {
  const char *text; /* of the error */
  const char *pickle;
  size_t bytes;
} bad_t;
#define BAD(text, pickle)            \
  {                                  \
    text, pickle, sizeof(pickle) - 1 \
  }

static const bad_t pickles[] = {
    BAD("data.pkl, byte 2: ends in the middle", "\x80\2"),
    BAD("byte 3: ends in the middle", "\x80\2X\5\0"),
    BAD("ends in the middle", "\x80\2X\xff\xff\xff\3w."),
    BAD("a text of more than 256 MiB", "\x80\2X\xff\xff\xff\xff"
                                       "w."),
    BAD("ends with more or less than one value", "\x80\2."),
    BAD("ends with more or less than one value", "\x80\2NN."),
    BAD("ends with more or less than one value", "\x80\2N(."),
    BAD("opcode 0x69 does not occur in weights that torch.save wrote", "\x80\2(ios\nsystem\n."),
    BAD("opcode 0x97", "\x80\2\x97"), /* NEXT_BUFFER */
    BAD("protocol 6, expected at most 5", "\x80\6N."),
    BAD("takes a value from an empty stack", "\x80\2R."),
    BAD("takes a value from an empty stack", "\x80\2N(\x85."),
    BAD("takes a value from an empty stack", "\x80\2(e."),
    BAD("a tuple without a mark", "\x80\2t."),
    BAD("items without a mark", "\x80\2]e."),
    BAD("adds items to an object that has none", "\x80\2K\1K\2a."),
    BAD("adds items to an object that has none", "\x80\2]K\1K\2s."),
    BAD("a key without a value", "\x80\2}(K\1K\2K\3u."),
    BAD("refers to an object that was not memoized", "\x80\2h\0."),
    BAD("refers to an object that was not memoized", "\x80\2Nq\5h\4."),
    BAD("memoizes more than", "\x80\2Nr\xff\xff\xff\xff."),
    BAD("takes a value from an empty stack", "\x80\2q\0."),
    BAD("arguments are not a tuple", "\x80\2ca\nb\nNR."),
    BAD("sets the state of an object that has none", "\x80\2NNb."),
    BAD("a persistent id is not a tuple", "\x80\2NQ."),
    BAD("an OrderedDict of items that are not pairs", "\x80\2"
                                                      "ccollections\nOrderedDict\n]]K\1aa\x85R."),
    BAD("is os.system, expected a dict", "\x80\2"
                                         "cos\nsystem\nX\4\0\0\0true\x85R."),
    BAD("is os.sys?em, expected a dict", "\x80\2"
                                         "cos\nsys\x1b"
                                         "em\n."),
    BAD("is a plain value, expected a dict", "\x80\2N."),
    BAD("no tensors found, neither at the top level nor in a dict inside it; 'w' is os.system",
        DICT("cos\nsystem\n)R")),
    BAD("no tensors found", "\x80\2}q\0X\1\0\0\0ah\0s."), /* it has itself */
    BAD("tensor 'w': its storage was not written by torch.save",
        DICT(TENSOR("N", "K\0K\2\x85K\1\x85"))),
    BAD("tensor 'w': its storage was not written by torch.save",
        DICT(TENSOR("N\x85Q", "K\0K\2\x85K\1\x85"))),
    BAD("tensor 'w': is in a os.system, expected one of",
        DICT(TENSOR(STORAGE("os\nsystem", "0", "\20"), "K\0K\2\x85K\1\x85"))),
    BAD("tensor 'w': its storage '7' is not in the file",
        DICT(TENSOR(STORAGE("torch\nFloatStorage", "7", "\20"), "K\0K\2\x85K\1\x85"))),
    BAD("its storage '?' is not in the file",
        DICT(TENSOR(STORAGE("torch\nFloatStorage", "\n", "\20"), "K\0K\2\x85K\1\x85"))),
    BAD("tensor 'w': its storage '0' has 64 bytes, expected 17 of float32",
        DICT(TENSOR(STORAGE("torch\nFloatStorage", "0", "\21"), "K\0K\2\x85K\1\x85"))),
    BAD("tensor 'w': reaches past its storage, which has 16 elements",
        DICT(TENSOR(FLOATS, "K\0K\21\x85K\1\x85"))),
    BAD("tensor 'w': reaches past its storage", DICT(TENSOR(FLOATS, "K\17K\2\x85K\1\x85"))),
    BAD("tensor 'w': reaches past its storage", DICT(TENSOR(FLOATS, "K\0K\2\x85K\20\x85"))),
    BAD("tensor 'w': reaches past its storage",
        DICT(TENSOR(FLOATS, "\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7fK\2\x85K\1\x85"))),
    BAD("tensor 'w': its size is too large",
        DICT(TENSOR(FLOATS, "K\0K\3\x85\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f\x85"))),
    BAD("tensor 'w': its size and stride must be numbers",
        DICT(TENSOR(FLOATS, "K\0J\xff\xff\xff\xff\x85K\1\x85"))),
    BAD("tensor 'w': its size and stride must be numbers",
        DICT(TENSOR(FLOATS, "K\0K\2\x85J\xff\xff\xff\xff\x85"))),
    BAD("tensor 'w': its size or stride is not a tuple", DICT(TENSOR(FLOATS, "K\0K\2K\1\x85"))),
    BAD("tensor 'w': its offset in the storage must be a number",
        DICT(TENSOR(FLOATS, "J\xff\xff\xff\xffK\2\x85K\1\x85"))),
    BAD("tensor 'w': the number of strides differs from that of dims",
        DICT(TENSOR(FLOATS, "K\0K\2\x85K\1K\1\x86"))),
    BAD("tensor 'w': is expanded to 1073741824 elements from 16",
        DICT(TENSOR(FLOATS, "K\0J\0\0\0\x40\x85K\0\x85"))),
    BAD("tensor 'w': has another number of arguments", DICT(MAKE "(" FLOATS "K\0tR")),
    BAD("tensor 'w': has attributes besides its numbers", DICT(GOOD "}b")),
    BAD("tensor 'w': is made of an object that is not a tensor",
        DICT("ctorch._utils\n_rebuild_parameter\nN\x88)\x87R")),
    BAD("no tensor that can be read: 'w' (is made by torch._utils._rebuild_parameter)",
        DICT("ctorch._utils\n_rebuild_parameter\n)R")),
    BAD("no tensor that can be read: 'w' (is a mine.Tensor)",
        DICT("ctorch._tensor\n_rebuild_from_type_v2\n(" MAKE "cmine\nTensor\n(" FLOATS
             "K\0K\2\x85K\1\x85tNtR")),
    BAD("tensor 'w' is there twice", "\x80\2}(X\1\0\0\0w" GOOD "X\1\0\0\0w" GOOD "u."),
    BAD("the name of a tensor is", "\x80\2}K\1" GOOD "s."),
    BAD("the name of a tensor is", "\x80\2}X\1\0\0\0\n" GOOD "s."),
    BAD("the name of a tensor is", "\x80\2}X\2\0\0\0w\0" GOOD "s."),
    BAD("the name of a tensor is", "\x80\2}X\1\0\0\0\xff" GOOD "s."),
};

static const char *in_dir(const char *name)
{
  static char path[2][CT_PATH_MAX];
  static const char *dir;
  static int next;
  char *buf = path[next++ % 2];
  if (!dir) dir = ct_test_dir();
  snprintf(buf, CT_PATH_MAX, "%s/%s", dir, name);
  return buf;
}

/* Without a wait for the disk, as there are thousands of them: file systems wait as well when an
 * old file gets other bytes. */
static void put(const char *path, const void *data, size_t bytes)
{
  remove(path);
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CT_ASSERT_INT(fwrite(data, 1, bytes, f), bytes);
  CT_ASSERT_INT(fclose(f), 0);
}

/* What is wrong with the archive around these opcodes. */
static void expect_refusal(const bad_t *b)
{
  int64_t live = ct_mem_live();
  ct_weights_t *w;
  CU_ASSERT(pth_make(in_dir("bad.pth"), b->pickle, b->bytes));
  CT_ASSERT_FAILS(pth->open(in_dir("bad.pth"), NULL, &w), CT_ERR_FORMAT, b->text);
  CT_ASSERT_HAS(ct_err_last()->text, "bad.pth: ");
  CU_ASSERT_PTR_NULL(w);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void pickles_that_are_refused(void)
{
  for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
    expect_refusal(&pickles[i]);
}

/* The same opcodes without a mistake: what the table changes is all that is wrong. */
static void the_pickle_without_a_mistake(void)
{
  static const bad_t good = BAD("", DICT(GOOD));
  ct_weights_t *w;
  unsigned char got[8];
  CU_ASSERT(pth_make(in_dir("good.pth"), good.pickle, good.bytes));
  if (CT_ASSERT_OK(pth->open(in_dir("good.pth"), NULL, &w)) != CT_OK) return;
  CT_ASSERT_OK(pth->read(w, 0, 0, 2, got));
  CT_ASSERT_INT(got[7], 7);
  pth->close(w);
}

/* ---- bombs ---- */

/* `n` times the opcodes `unit` between a beginning and an end. */
static void repeated(const char *head, const char *unit, int64_t n, const char *tail, bad_t *out)
{
  size_t h = strlen(head), u = strlen(unit), t = strlen(tail);
  char *text = malloc(2 + h + (size_t)n * u + t);
  memcpy(text, "\x80\2", 2);
  memcpy(text + 2, head, h);
  for (int64_t i = 0; i < n; i++)
    memcpy(text + 2 + h + (size_t)i * u, unit, u);
  memcpy(text + 2 + h + (size_t)n * u, tail, t);
  out->pickle = text;
  out->bytes = 2 + h + (size_t)n * u + t;
}

static void bombs_end_at_a_limit(void)
{
  static const struct {
    const char *head, *unit, *tail, *text;
    int64_t n;
  } bombs[] = {
      {"", "(", "N.", "more than 64 objects inside each other", 65},
      {"", "N", ".", "more than 4194304 objects", 5 << 20},
      {"Nq1", "h1", ".", "its stack is too deep", 5 << 20},
      {"N", "q1h1\x86", ".", "is a tuple, expected a dict", 1000}, /* 2^1000 elements */
      {"", "\x85", ".", "takes a value", 10},
      {"N", "\x85", ".", "is a tuple, expected a dict", 1 << 20}, /* a million deep */
      {"N", "\x86", ".", "takes a value", 1},
  };
  for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
    bad_t b = {.text = bombs[i].text};
    repeated(bombs[i].head, bombs[i].unit, bombs[i].n, bombs[i].tail, &b);
    expect_refusal(&b);
    free((char *)b.pickle);
  }
}

/* ---- damaged files ---- */

/* A file's bytes as they are, or with one bit other; what it reads as, if anything, is the same:
 * all that is read has a checksum. */
static void expect_nothing_else(const char *data, size_t bytes, const unsigned char wanted[16])
{
  ct_weights_t *w;
  unsigned char got[16] = {0};
  put(in_dir("flip.pth"), data, bytes);
  int rc = pth->open(in_dir("flip.pth"), NULL, &w);
  if (rc == CT_OK) {
    CT_ASSERT_INT(pth->count(w), 1);
    rc = pth->read(w, 0, 0, 16 / 4, got);
    CU_ASSERT(rc != CT_OK || memcmp(got, wanted, 16) == 0);
    pth->close(w);
  }
  if (rc != CT_OK) {
    CT_ASSERT_INT(rc, CT_ERR_FORMAT);
    CT_ASSERT_HAS(ct_err_last()->text, "flip.pth: ");
  }
}

static void make_small(char **data, size_t *bytes)
{
  static const int64_t dim[2] = {2, 2};
  static const ct_tensor_t one = {"w", CT_ELEM_F32, 2, dim, 4};
  static const ct_weights_text_t text = {"config", "c"};
  static const float x[4] = {1, 2, 3, 4};
  ct_weights_out_t *o;
  CT_ASSERT_OK(pth->create(in_dir("small.pth"), &one, 1, &text, 1, &o));
  CT_ASSERT_OK(pth->put(o, 0, 0, 4, x));
  CT_ASSERT_OK(pth->commit(o));
  CT_ASSERT_OK(ct_file_read(in_dir("small.pth"), data, bytes));
}

static void flipped_bits_are_noticed(void)
{
  static const float x[4] = {1, 2, 3, 4};
  int64_t live = ct_mem_live();
  char *data;
  size_t bytes;
  make_small(&data, &bytes);
  for (size_t i = 0; i < bytes; i++) {
    char was = data[i];
    data[i] = (char)(was ^ 1 << i % 8);
    expect_nothing_else(data, bytes, (const unsigned char *)x);
    data[i] = (char)~was;
    expect_nothing_else(data, bytes, (const unsigned char *)x);
    data[i] = was;
  }
  ct_mem_free(data);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void ends_too_early(const char *path, size_t from)
{
  int64_t live = ct_mem_live();
  char *data;
  size_t bytes;
  ct_weights_t *w;
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  for (size_t n = from; n < bytes; n += 1 + n / 64) {
    put(in_dir("short.pth"), data, n);
    CT_ASSERT_FAILS(pth->open(in_dir("short.pth"), NULL, &w), CT_ERR_FORMAT, "short.pth: ");
  }
  ct_mem_free(data);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void truncated_files(void)
{
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/pth/views.pth", getenv("CT_SRC"));
  ends_too_early(path, 0);
  snprintf(path, sizeof path, "%s/tests/golden/pth/nested-old.pth", getenv("CT_SRC"));
  ends_too_early(path, 0);
}

/* One place of a file of goldens is other. */
static void changed(const char *golden, const char *from, const char *to, const char *text)
{
  char path[CT_PATH_MAX], *data;
  size_t bytes, n = strlen(from);
  ct_weights_t *w;
  snprintf(path, sizeof path, "%s/tests/golden/pth/%s", getenv("CT_SRC"), golden);
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  char *at = memmem(data, bytes, from, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  memcpy(at, to, n);
  put(in_dir("changed.pth"), data, bytes);
  CT_ASSERT_FAILS(pth->open(in_dir("changed.pth"), NULL, &w), CT_ERR_FORMAT, text);
  ct_mem_free(data);
}

static void changed_files(void)
{
  changed("views-old.pth", "little_endianq\2\x88", "little_endianq\2\x89", "big-endian order");
  changed("views-old.pth", "M\xe9\3", "M\xe8\3", "its version is not 1001");
  changed("views-old.pth", "FloatStorage", "Fl\nt\nStorage", "byte");
  changed("views.pth", "archive/data.pkl", "archive/data.pkk",
          "is not at the offset in the central directory");
  changed("views.pth", "little", "bigger", "record 'archive/byteorder' is damaged");
  changed("views.pth", "_rebuild_tensor_v2", "_rebuild_tensor_v4", "'archive/data.pkl' is damaged");
}

static void other_files(void)
{
  static char tar[512], text[] = "weights: none\n";
  ct_weights_t *w;
  memcpy(tar + 257, "ustar", 5);
  put(in_dir("tar.pth"), tar, sizeof tar);
  CT_ASSERT_FAILS(pth->open(in_dir("tar.pth"), NULL, &w), CT_ERR_FORMAT,
                  "tar archive of PyTorch before 0.4");
  put(in_dir("text.pth"), text, strlen(text));
  CT_ASSERT_FAILS(pth->open(in_dir("text.pth"), NULL, &w), CT_ERR_FORMAT, "is not a .pth file");
  put(in_dir("empty.pth"), "", 0);
  CT_ASSERT_FAILS(pth->open(in_dir("empty.pth"), NULL, &w), CT_ERR_FORMAT, "is not a .pth file");
  put(in_dir("plain.pth"), "\x80\2}.", 4);
  CT_ASSERT_FAILS(pth->open(in_dir("plain.pth"), NULL, &w), CT_ERR_FORMAT,
                  "pickle that torch.save did not write");
  /* zip64: the locator is so near to the beginning that no end has room before it */
  static const char early[] = "PK\3\4\0\0\0\0\0\0\0PK\6\7\0\0\0\0\0\0\0\0\0\0\0\x80\1\0\0\0"
                              "PK\5\6\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0";
  put(in_dir("early.pth"), early, sizeof early);
  CT_ASSERT_FAILS(pth->open(in_dir("early.pth"), NULL, &w), CT_ERR_FORMAT,
                  "zip archive without the zip64 record that it needs");
  CT_ASSERT_FAILS(pth->open(ct_test_dir(), NULL, &w), CT_ERR_IO, "is a directory");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_pickle_without_a_mistake),
                                    CT_TEST(pickles_that_are_refused),
                                    CT_TEST(bombs_end_at_a_limit),
                                    CT_TEST(flipped_bits_are_noticed),
                                    CT_TEST(truncated_files),
                                    CT_TEST(changed_files),
                                    CT_TEST(other_files),
                                    CT_TEST_END};
  return ct_test_main("bad .pth", tests, argc, argv);
}
