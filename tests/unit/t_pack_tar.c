/* tar files of every kind, and such as were made to do harm. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/tar.h"
#include "tests/harness/ct_test.h"

enum { BLOCK = 512 };

/* A tar file in memory. */
typedef struct made {
  unsigned char data[20 * BLOCK];
  size_t bytes;
} made_t;

static void sign(unsigned char *header)
{
  unsigned sum = 0;
  memset(header + 148, ' ', 8);
  for (int i = 0; i < BLOCK; i++)
    sum += header[i];
  snprintf((char *)header + 148, 8, "%06o", sum);
}

/* A header, and its content.  size: what the header says; NULL: the truth. */
static unsigned char *put(made_t *t, const char *name, char type, const char *content,
                          const char *size)
{
  unsigned char *header = t->data + t->bytes;
  size_t n = content ? strlen(content) : 0;
  char octal[32];
  snprintf(octal, sizeof octal, "%011zo", n);
  memcpy(header, name, strlen(name) < 100 ? strlen(name) : 100);
  memcpy(header + 124, size ? size : octal, strlen(size ? size : octal));
  header[156] = (unsigned char)type;
  memcpy(header + 257, "ustar\0", 6);
  if (n) memcpy(header + BLOCK, content, n);
  t->bytes += BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
  sign(header);
  return header;
}

/* The two blocks of zeros that end an archive. */
static made_t *end(made_t *t)
{
  t->bytes += 2 * BLOCK;
  return t;
}

static const char *store(const made_t *t)
{
  static char path[700];
  if (!*path) snprintf(path, sizeof path, "%s/t.tar", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(path, t->data, t->bytes));
  return path;
}

static void expect(const made_t *made, const char *name, int64_t at, int64_t bytes)
{
  made_t copy = *made, *t = end(&copy);
  ct__tar_t tar;
  ct__tar_member_t m;
  if (CT_ASSERT_OK(ct__tar_open(store(t), &tar)) == CT_OK) {
    CT_ASSERT_OK(ct__tar_next(&tar, &m));
    CT_ASSERT_TEXT(m.name, name);
    CT_ASSERT_INT(m.at, at);
    CT_ASSERT_INT(m.bytes, bytes);
    CT_ASSERT_OK(ct__tar_next(&tar, &m));
    CT_ASSERT_INT(m.type, 0);
  }
  ct__tar_close(&tar);
}

/* words: NULL: it is read to its end. */
static void expect_refused(const made_t *t, const char *words)
{
  ct__tar_t tar;
  ct__tar_member_t m = {.type = '0'};
  int rc = ct__tar_open(store(t), &tar);
  while (rc == CT_OK && m.type)
    rc = ct__tar_next(&tar, &m);
  if (words)
    CT_ASSERT_FAILS(rc, CT_ERR_FORMAT, words);
  else
    CT_ASSERT_OK(rc);
  ct__tar_close(&tar);
}

static void names_of_every_kind(void)
{
  made_t plain = {.bytes = 0}, prefix = {.bytes = 0}, gnu = {.bytes = 0}, pax = {.bytes = 0};
  unsigned char *header = put(&prefix, "b.jpg", '0', "xyz", NULL);
  char whole[101];
  put(&plain, "a/b.jpg", '0', "xyz", NULL);
  expect(&plain, "a/b.jpg", BLOCK, 3);
  memcpy(header + 345, "some/where", 10);
  sign(header);
  expect(&prefix, "some/where/b.jpg", BLOCK, 3);
  put(&gnu, "././@LongLink", 'L', "a long name", NULL);
  put(&gnu, "a lon", '0', "xyz", NULL);
  expect(&gnu, "a long name", 3 * BLOCK, 3);
  put(&pax, "x", 'g', "19 comment=nothing\n", NULL);
  put(&pax, "x", 'x', "18 path=dir/c.png\n", NULL);
  put(&pax, "c.png", '0', "xyz", NULL);
  expect(&pax, "dir/c.png", 5 * BLOCK, 3);
  made_t full = {.bytes = 0}; /* of 100 bytes there is no NUL */
  memset(whole, 'n', 100);
  whole[100] = '\0';
  put(&full, whole, '0', "xyz", NULL);
  expect(&full, whole, BLOCK, 3);
}

static void sizes_of_every_kind(void)
{
  made_t pax = {.bytes = 0}, dir = {.bytes = 0}, end = {.bytes = 0}, binary = {.bytes = 0};
  put(&pax, "x", 'x', "10 size=3\n", NULL);
  put(&pax, "c.png", '0', "xyz", "00000000000");
  expect(&pax, "c.png", 3 * BLOCK, 3);
  put(&dir, "folder/", '5', NULL, "00000000777"); /* no content, whatever it says */
  expect(&dir, "folder/", BLOCK, 0);
  put(&end, "a", '0', "xyz", NULL);
  end.bytes += 6 * BLOCK; /* more blocks of zeros */
  expect(&end, "a", BLOCK, 3);
  unsigned char *header = put(&binary, "a", '0', "xyz", NULL);
  memset(header + 124, 0, 12);
  header[124] = 0x80;
  header[135] = 3;
  sign(header);
  expect(&binary, "a", BLOCK, 3);
}

static void what_cannot_be_is_refused(void)
{
  static const struct {
    const char *name;
    char type;
    const char *content, *size, *words;
  } bad[] = {
      {"a", '0', "xyz", "77777777777", "'a' of 8589934591 bytes extends past the end"},
      {"a", '0', "xyz", "00000004000", "'a' of 2048 bytes extends past the end"},
      {"a", '0', "xyz", "0000000000x", "an invalid size"},
      {"a", '0', "xyz", "\xff\xff\xff\xff\xff\xff\xff\xff", "an invalid size"},
      {"a", '0', "xyz", "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "an invalid size"},
      {"", '0', "xyz", NULL, "has no name"},
      {"a", 'S', "xyz", NULL, "sparse"},
      {"x", 'x', "99 path=abc\n", NULL, "a malformed pax record"},
      {"x", 'x', "0 path=abc\n", NULL, "a malformed pax record"},
      {"x", 'x', "3 p", NULL, "a malformed pax record"},
      {"x", 'x', "path=abc", NULL, "a malformed pax record"},
      {"x", 'x', "999999999 path=abc\n", NULL, "a malformed pax record"},
      {"x", 'x', "11 size=-1\n", NULL, "an invalid size"},
      {"x", 'x', "26 size=99999999999999999\n", NULL, "is missing"},
      {"x", 'x', "28 size=9999999999999999999\n", NULL, "an invalid size"},
      {"x", 'x', "22 GNU.sparse.major=1\n", NULL, "sparse"},
      {"x", 'x', "12 path=abc\n", NULL, "is missing"},
      {"x", 'M', "xyz", NULL, "the rest of a file of another volume"},
      {"x", 'N', "xyz", NULL, "old GNU names"},
      {"x", 'L', "name", "00100000000", "extends past the end"},
      {"x", 'L', NULL, NULL, "an invalid name"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    made_t t = {.bytes = 0};
    put(&t, bad[i].name, bad[i].type, bad[i].content, bad[i].size);
    expect_refused(end(&t), bad[i].words);
  }
}

static void a_damaged_header_is_refused(void)
{
  for (int place = 1; place < BLOCK; place += 37) {
    made_t t = {.bytes = 0};
    put(&t, "a", '0', "xyz", NULL)[place] ^= 0x10;
    expect_refused(&t, "byte 0");
  }
}

/* Wherever the file ends, also at the boundary between members: an error that names the last. */
static void a_file_that_is_cut_off_is_refused(void)
{
  made_t whole = {.bytes = 0};
  put(&whole, "a", '0', "xyz", NULL);
  put(&whole, "b", '0', "xyz", NULL);
  for (size_t bytes = 0; bytes <= whole.bytes; bytes += 32) {
    made_t t = whole;
    t.bytes = bytes;
    expect_refused(&t, "t.tar");
    if (bytes >= 3 * BLOCK) expect_refused(&t, "'b'");
    if (bytes >= 2 * BLOCK && bytes < 3 * BLOCK)
      expect_refused(&t, "'a' without the end-of-archive blocks");
  }
  expect_refused(end(&whole), NULL);
}

/* cat a.tar b.tar, as tar pads them or not; each may be cut off. */
static void archives_that_follow_each_other(void)
{
  for (int zeros = 1; zeros < 5; zeros++) {
    made_t t = {.bytes = 0};
    put(&t, "a", '0', "xyz", NULL);
    t.bytes += (size_t)zeros * BLOCK;
    put(&t, "a", '0', "other", NULL);
    expect_refused(&t, "'a' without the end-of-archive blocks");
    end(&t);
    ct__tar_t tar;
    ct__tar_member_t m;
    CT_ASSERT_OK(ct__tar_open(store(&t), &tar));
    for (int i = 0; i < 2; i++) {
      CT_ASSERT_OK(ct__tar_next(&tar, &m));
      CT_ASSERT_INT(m.archive, i);
      CT_ASSERT_INT(m.bytes, i ? 5 : 3);
    }
    CT_ASSERT_OK(ct__tar_next(&tar, &m));
    CT_ASSERT_INT(m.type, 0);
    ct__tar_close(&tar);
    t.data[t.bytes] = 'x';
    t.bytes += 100;
    expect_refused(&t, "an archive ends before it, and no other one follows");
  }
}

/* tar -g: folders have lists of what is in them. */
static void incremental_archives_and_links(void)
{
  made_t t = {.bytes = 0};
  ct__tar_t tar;
  ct__tar_member_t m;
  put(&t, "label", 'V', NULL, NULL);
  put(&t, "dir/", 'D', "Ya.png", NULL);
  memcpy(put(&t, "dir/b", '1', NULL, "00000000777") + 157, "dir/a", 5);
  sign(t.data + t.bytes - BLOCK);
  put(&t, "x", 'K', "a long link", NULL);
  put(&t, "dir/c", '1', NULL, NULL);
  put(&t, "x", 'x', "19 linkpath=of pax\n", NULL);
  put(&t, "dir/d", '1', NULL, NULL);
  end(&t);
  CT_ASSERT_OK(ct__tar_open(store(&t), &tar));
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_INT(m.type, 'V');
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_INT(m.type, 'D');
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_TEXT(m.link, "dir/a");
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_TEXT(m.link, "a long link");
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_TEXT(m.link, "of pax");
  CT_ASSERT_OK(ct__tar_next(&tar, &m));
  CT_ASSERT_INT(m.type, 0);
  ct__tar_close(&tar);
}

static void other_files_are_none(void)
{
  made_t text = {.data = "this is a text", .bytes = 14}, gzip = {.data = "\x1f\x8b\x08"};
  gzip.bytes = 1000;
  expect_refused(&text, "is not a tar file");
  expect_refused(&gzip, "is compressed");
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(names_of_every_kind),
                                    CT_TEST(sizes_of_every_kind),
                                    CT_TEST(what_cannot_be_is_refused),
                                    CT_TEST(a_damaged_header_is_refused),
                                    CT_TEST(a_file_that_is_cut_off_is_refused),
                                    CT_TEST(archives_that_follow_each_other),
                                    CT_TEST(incremental_archives_and_links),
                                    CT_TEST(other_files_are_none),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("pack_tar", tests, argc, argv);
}
