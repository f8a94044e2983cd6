/* The checkpoint container: small models stay small, and two checkpoints of the same numbers can be
 * compared by their files, which keep no times. */
#include <stdio.h>

#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"
#include "tests/harness/ct_test.h"

static const ct_store_ops_t *const ops = &ct_store_hdf5;

static void the_structure_is_small(void)
{
  char path[CT_PATH_MAX];
  ct_shape_t one = ct_shape(1, (int64_t)1);
  char name[40], *data;
  size_t bytes;
  ct_store_t *s;
  float value = 1;
  snprintf(path, sizeof path, "%s/structure.h5", ct_test_dir());
  CT_ASSERT_OK(ops->create(path, &s));
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "/g%d/weight%d", i % 8, i);
    CT_ASSERT_OK(ops->put(s, name, &one, &value));
  }
  CT_ASSERT_OK(ops->commit(s));
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  CU_ASSERT(bytes < 40 * 450);
  ct_mem_free(data);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  for (int i = 0; i < 2; i++) {
    hbool_t kept = 1;
    hid_t group = H5Gopen2(file, i ? "/g3" : "/", H5P_DEFAULT), list = H5Gget_create_plist(group);
    CU_ASSERT(H5Pget_obj_track_times(list, &kept) >= 0);
    CT_ASSERT_INT(kept, 0);
    H5Pclose(list);
    H5Gclose(group);
  }
  H5Fclose(file);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_structure_is_small), CT_TEST_END};
  return ct_test_main("store_small", tests, argc, argv);
}
