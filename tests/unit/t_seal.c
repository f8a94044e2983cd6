/* The end of a checkpoint file. */
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "hdf5io/store/h5_seal.h"
#include "tests/harness/ct_test.h"

/* The hash of a seal is made of pieces, each with the hash of the one before as its seed. */
static void a_seal_is_of_all_pieces(void)
{
  enum { PIECE = 4 << 20, BYTES = 2 * PIECE + 1000 };
  char path[600];
  snprintf(path, sizeof path, "%s/large", ct_test_dir());
  char *data = malloc(BYTES), *sealed;
  size_t bytes;
  uint64_t hash = 0, found;
  for (int i = 0; i < BYTES; i++)
    data[i] = (char)((unsigned)i * 2654435761u >> 9);
  CT_ASSERT_OK(ct_file_write(path, data, BYTES));
  CT_ASSERT_OK(ct__h5_seal_write(path));
  CT_ASSERT_OK(ct__h5_seal_check(path));
  for (int at = 0; at < BYTES; at += PIECE)
    hash = ct_hash(data + at, BYTES - at < PIECE ? (size_t)(BYTES - at) : PIECE, hash);
  CT_ASSERT_OK(ct_file_read(path, &sealed, &bytes));
  CT_ASSERT_INT(bytes, BYTES + 32);
  memcpy(&found, sealed + BYTES + 24, sizeof found);
  CU_ASSERT(le64toh(found) == hash);
  ct_mem_free(sealed);
  static const int places[] = {0, PIECE - 1, PIECE, 2 * PIECE - 1, 2 * PIECE, BYTES - 1};
  int fd = open(path, O_WRONLY);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char flipped = data[places[i]] ^ 16;
    CT_ASSERT_INT(pwrite(fd, &flipped, 1, places[i]), 1);
    CT_ASSERT_FAILS(ct__h5_seal_check(path), CT_ERR_FORMAT, "is damaged: its checksum");
    CT_ASSERT_INT(pwrite(fd, &data[places[i]], 1, places[i]), 1);
  }
  close(fd);
  CT_ASSERT_OK(ct__h5_seal_check(path));
  free(data);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_seal_is_of_all_pieces), CT_TEST_END};
  return ct_test_main("seal", tests, argc, argv);
}
