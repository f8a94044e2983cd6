/* Files of one sample each, frames of trajectories, and windows of frames, in each way of
 * storing. */
#include "base/ct_mem.h"
#include "data/ct_dataset.h"
#include "tests/unit/h5_files.h"

enum { N = 3, T = 5, H = 4, W = 6, C = 2, PIXELS = H * W, FILES = 4 };
static const int ways[] = {PLAIN, CHUNKED, SHUFFLED_DEFLATED, SPLIT, COMPACT, SWAPPED};
enum { WAYS = sizeof ways / sizeof ways[0] };

static ct_reader_spec_t views_spec(const char *dir, ct_view_t view)
{
  ct_reader_spec_t spec = spec_of(dir);
  spec.target = "";
  spec.view = view;
  return spec;
}

static void a_file_is_a_sample(void)
{
  for (int way = 0; way < WAYS; way++) {
    const char *dir = ct_test_dir();
    char name[20], path[700];
    ct_reader_t *r, *known;
    float x[PIXELS];
    for (int i = 0; i < FILES; i++) { /* rows of a sample are numbered through the files */
      array_t a = {i == 2 ? PLAIN : ways[way], CT_F32, 2, {H, W}, 2};
      snprintf(name, sizeof name, "%d.h5", i);
      write_shard(dir, name, &a, (int64_t)i * H);
    }
    ct_reader_spec_t spec = views_spec(dir, CT_VIEW_FILE);
    if (CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &r)) != CT_OK) return;
    void *bytes;
    CT_ASSERT_OK(ct_reader_hdf5.share(r, &bytes, &spec.known_bytes));
    spec.known = bytes;
    CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &known));
    CT_ASSERT_INT(ct_reader_hdf5.info(known)->samples, FILES);
    for (int64_t i = FILES - 1; i >= 0; i--) {
      CT_ASSERT_OK(ct_reader_hdf5.read(i % 2 ? known : r, 1, &i, x, NULL));
      int wrong = 0;
      for (int k = 0; k < PIXELS; k++)
        wrong += x[k] != (float)element(i * H + k / W, k % W);
      CT_ASSERT_INT(wrong, 0);
    }
    ct_reader_hdf5.close(known);
    CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &known));
    array_t other = {ways[way], CT_F32, 2, {H, W + 1}, 2};
    write_shard(dir, "1.h5", &other, 0);
    int64_t one = 1;
    CT_ASSERT_INT(ct_reader_hdf5.read(known, 1, &one, x, NULL), CT_ERR_FORMAT);
    snprintf(path, sizeof path,
             "%s/1.h5: array 'images' is float32 1x1x4x7, expected float32 1x1x4x6 as in %s/0.h5",
             dir, dir);
    CT_ASSERT_TEXT(ct_err_last()->text, path);
    ct_reader_hdf5.close(known);
    ct_reader_hdf5.close(r);
    ct_mem_free(bytes);
  }
}

/* Element of frame t, channel c and pixel p of a trajectory with channels last. */
static float frame_element(int64_t trajectory, int64_t t, int64_t c, int64_t p)
{
  return (float)element(trajectory, (t * PIXELS + p) * C + c);
}

/* Checks a window of 2 + 1 frames, stored as in the file. */
static int count_wrong(const ct_dataset_t *d, int64_t index)
{
  float x[2 * C * PIXELS], y[C * PIXELS];
  int wrong = 0;
  int64_t windows = T - 2, n = index / windows, t = index % windows;
  CT_ASSERT_OK(d->ops->read(d->reader, 1, &index, x, y));
  for (int i = 0; i < 3 * C * PIXELS; i++) {
    int c = i % C, p = i / C % PIXELS, frame = i / (C * PIXELS);
    float is = frame < 2 ? x[i] : y[i - 2 * C * PIXELS];
    wrong += is != frame_element(n, t + frame, c, p);
  }
  return wrong;
}

static void windows_are_slices_of_trajectories(void)
{
  static char *input[] = {"images"};
  static const ct_opt_texts_t names = {input, 1};
  for (int way = 0; way < WAYS; way++)
    for (int beside = 1; beside <= 2; beside++) { /* trajectories in a chunk */
      const char *dir = ct_test_dir();
      ct_dataset_t d;
      array_t a = {ways[way], CT_F32, 5, {N, T, H, W, C}, (hsize_t)beside};
      array_t b = {ways[way], CT_F32, 5, {1, T, H, W, C}, 1};
      write_shard(dir, "a.h5", &a, 0);
      write_shard(dir, "b.h5", &b, N);
      ct_reader_spec_t spec = views_spec(dir, CT_VIEW_TRAJECTORIES);
      spec.window = (ct_window_t){2, 1, 1};
      spec.target = "images";
      spec.inputs = spec.targets_of = &names;
      spec.layout = 2;
      if (beside == 2) spec.cache_bytes = 0;
      if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d)) != CT_OK) return;
      CT_ASSERT_INT(d.info.samples, (N + 1) * (T - 2));
      CT_ASSERT_INT(d.x.dim[1], 2 * C);
      CT_ASSERT_INT(d.dense_target.dim[1], C);
      for (int64_t i = 0; i < d.info.samples; i++)
        CT_ASSERT_INT(count_wrong(&d, i), 0);
      ct_dataset_close(&d);
      spec.window.context = T;
      CT_ASSERT_INT(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "t", &d), CT_ERR_FORMAT);
      CU_ASSERT(strstr(ct_err_last()->text, "the longest trajectory has 5 frames") != NULL);
    }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_file_is_a_sample),
                                    CT_TEST(windows_are_slices_of_trajectories), CT_TEST_END};
  return ct_test_main("h5_views", tests, argc, argv);
}
