/* Samples that are image files: parts of them have the pixels of the whole, the head of the
 * transforms sees what the transforms see, Pillow and torchvision agree, and what is damaged is
 * told.  The files are of golden/make_encoded.py. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "config.h"
#include "data/feed/ct_feed.h"
#include "data/image/ct_image.h"
#include "hdf5io/ct_h5.h"
#include "tests/harness/ct_test.h"

#if defined HAVE_PNG && defined HAVE_JPEG

enum { FILES = 8, CROP = 16, LARGE = 7, CROPPED = 3 * CROP * CROP };
static const char *const names[FILES] = {"0-420.jpg",   "1-422.jpg",  "2-444.jpg", "3-grey.jpg",
                                         "4-steps.jpg", "5-cmyk.jpg", "6-rgb.png", "7-large.jpg"};

static void path_of(const char *name, char *path, size_t cap)
{
  ct_text_fit(path, cap, "%s/tests/golden/encoded/%s", getenv("CT_SRC"), name);
}

static char *read_file(const char *name, size_t *bytes)
{
  char path[CT_PATH_MAX], *file = NULL;
  path_of(name, path, sizeof path);
  CT_ASSERT_OK(ct_file_read(path, &file, bytes));
  return file;
}

/* ---- parts ---- */

static void compare_part(const uint8_t *whole, int64_t width, const ct_image_part_t *p,
                         const uint8_t *part, const char *name)
{
  for (int64_t y = 0; y < p->height; y++)
    if (memcmp(part + 3 * y * p->width, whole + 3 * ((p->top + y) * width + p->left),
               (size_t)(3 * p->width)) != 0) {
      CT_ASSERT_TEXT(name, "a part is not as it is in the whole");
      return;
    }
}

/* Of the image at 1 / reduce of its size. */
static void check_parts(const char *name, int reduce)
{
  size_t bytes;
  ct_image_info_t is;
  char *file = read_file(name, &bytes);
  CT_ASSERT_OK(ct_image_info(file, bytes, &is));
  int64_t h = (is.height + reduce - 1) / reduce, w = (is.width + reduce - 1) / reduce;
  uint8_t *whole = malloc((size_t)(3 * h * w)), *part = malloc((size_t)(3 * h * w));
  ct_image_part_t all = {reduce, 0, 0, h, w};
  CT_ASSERT_OK(ct_image_decode_part(file, bytes, &is, &all, 3, whole));
  unsigned r = 1;
  for (int i = 0; i < 200; i++) {
    int64_t n[4];
    for (int k = 0; k < 4; k++)
      n[k] = (int64_t)((r = r * 1664525 + 1013904223) >> 16);
    ct_image_part_t p = {reduce, n[0] % h, n[1] % w, 0, 0};
    p.height = 1 + n[2] % (h - p.top);
    p.width = 1 + n[3] % (w - p.left);
    CT_ASSERT_OK(ct_image_decode_part(file, bytes, &is, &p, 3, part));
    compare_part(whole, w, &p, part, name);
  }
  free(whole);
  free(part);
  ct_mem_free(file);
}

static void parts_are_of_the_whole(void)
{
  for (int i = 0; i < FILES; i++)
    check_parts(names[i], 1);
}

static void parts_of_reduced_images_are_too(void)
{
  for (int reduce = 2; reduce <= 8; reduce *= 2)
    for (int i = 0; i < FILES; i++)
      if (!strstr(names[i], "png")) check_parts(names[i], reduce);
}

/* ---- as data sets ---- */

static ct_reader_info_t plain_info;

/* As if samples were stored decoded: then the transforms do all. */
static const ct_reader_info_t *info_of_decoded(const ct_reader_t *r)
{
  plain_info = *ct_reader_images.info(r);
  plain_info.encoded = 0;
  return &plain_info;
}

static int open_data(const ct_reader_ops_t *ops, const char *file, const char *yaml, int training,
                     int exact, ct_dataset_t *d)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], *one = path;
  ct_yaml_t *n = NULL;
  const ct_opt_texts_t files = {&one, 1};
  int is_h5 = strstr(file, ".h5") != NULL;
  path_of(file, path, sizeof path);
  if (file[0] == '/') ct_text_fit(path, sizeof path, "%s", file);
  ct_reader_spec_t spec = {.dir = "/",
                           .files = &files,
                           .input = "images",
                           .target = is_h5 ? "labels" : "",
                           .channels = 3};
  *d = (ct_dataset_t){0};
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {
      .list = ct_yaml_find(n, "t"), .training = training, .exact_decode = exact};
  CT_TRY(ct_dataset_open(ops, &spec, &o, "x.yaml", d));
out:
  ct_yaml_free(n);
  return rc;
}

typedef struct seen {
  float x[FILES][CROPPED];
  int32_t labels[FILES];
} seen_t;

static void see(const ct_dataset_t *d, int workers, seen_t *s)
{
  int64_t sample = ct_shape_sample(&d->x);
  const ct_batch_t *b;
  ct_feed_t *f;
  ct_sampler_t sampler = {.seed = 5, .samples = d->info.samples, .batch = 3, .shuffle = 1};
  ct_feed_opts_t o = {.size = 1, .workers = workers, .one_epoch = 1};
  memset(s, 0, sizeof *s);
  if (CT_ASSERT_OK(ct_feed_open(d, &sampler, &o, &f)) != CT_OK) return;
  CU_ASSERT_FATAL(sample <= CROPPED);
  for (;;) {
    if (CT_ASSERT_OK(ct_feed_next(f, &b)) != CT_OK || !b) break;
    for (int i = 0; i < b->n; i++) {
      memcpy(s->x[b->ids[i]], b->x + i * sample, (size_t)sample * sizeof(float));
      s->labels[b->ids[i]] = b->labels[i];
    }
  }
  ct_feed_close(f);
}

static seen_t want, got;

/* A maximum of doubles by fmax() stops GCC 12 for 64-bit ARM with an internal error. */
static double worst(const seen_t *a, const seen_t *b)
{
  float most = 0;
  for (int i = 0; i < FILES; i++)
    for (int k = 0; k < CROPPED; k++)
      most = fmaxf(most, fabsf(a->x[i][k] - b->x[i][k]));
  return (double)most;
}

/* Steps of uint8 when nothing is scaled; the head rounds, the transforms do not. */
static void the_head_sees_what_the_transforms_see(void)
{
  static const char *const lists[] = {
      "t: [{random_resized_crop: {size: [15, 16]}}, random_flip]",
      "t: [{resize: {size: 20}}, {center_crop: {size: 16}}]",
      "t: [{resize: {size: [14, 15]}}, random_flip, {random_erasing: {p: 1}}]",
      "t: [{random_crop: {size: 30}}, {random_resized_crop: {size: 16}}]",
      "t: [{random_crop: {size: [16, 14]}}, random_flip]",
      "t: [{resize: {size: 18}}, {random_crop: {size: 16}}, {random_flip: {p: 1}}]"};
  ct_reader_ops_t decoded = ct_reader_images;
  decoded.info = info_of_decoded;
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
    ct_dataset_t d;
    CT_ASSERT_OK(open_data(&decoded, "[0-9]*", lists[k], 1, 1, &d));
    CU_ASSERT(!d.decode_time && d.info.varies);
    see(&d, 0, &want);
    ct_dataset_close(&d);
    CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", lists[k], 1, 1, &d));
    CU_ASSERT(d.decode_time && !d.info.varies);
    see(&d, k % 3, &got);
    ct_dataset_close(&d);
    double step = worst(&want, &got);
    if (step > 0.501) printf("# list %zu: %g\n", k, step);
    CU_ASSERT(step <= 0.501);
  }
}

static void what_is_no_head_is_left_to_the_transforms(void)
{
  static const char *const lists[] = {"t: [{random_erasing: {p: 1}}, {resize: {size: [8, 8]}}]",
                                      "t: [{center_crop: {size: 16}}]", /* may need zeros */
                                      "t: [{random_crop: {size: 16, padding: 1}}]"};
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
    ct_dataset_t d;
    CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", lists[k], 1, 1, &d));
    CU_ASSERT(!d.decode_time && d.info.varies);
    see(&d, 0, &got);
    ct_dataset_close(&d);
  }
}

/* On processors that fuse products with sums, too.  PNG, since decoders of JPEG differ. */
static void samples_have_the_same_bits_everywhere(void)
{
  ct_dataset_t d;
  CT_ASSERT_OK(open_data(&ct_reader_images, "6-rgb.png",
                         "t: [{random_resized_crop: {size: 16}}, to_tensor, {color_jitter: "
                         "{brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}}, "
                         "{normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}]",
                         1, 0, &d));
  memset(&got, 0, sizeof got);
  see(&d, 0, &got);
  ct_dataset_close(&d);
  uint64_t hash = ct_hash(got.x[0], sizeof got.x[0], 0);
  if (hash != 0xb49f559a29e23ee7)
    printf("# %016" PRIx64 ", of %.9g …\n", hash, (double)got.x[0][0]);
  CU_ASSERT(hash == 0xb49f559a29e23ee7);
}

/* The map of the channels is the conversion's, so that a device can do it. */
static void bytes_stay_bytes(void)
{
  ct_dataset_t d;
  CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*",
                         "t: [{random_resized_crop: {size: 16}}, random_flip, to_tensor, "
                         "{normalize: {mean: 0.5, std: 0.25}}]",
                         1, 0, &d));
  CU_ASSERT(ct_dataset_is_bytes(&d));
  CU_ASSERT(fabs((double)d.affine.a[0] - 1 / 255.0 / 0.25) < 1e-6);
  CU_ASSERT(fabs((double)d.affine.b[0] + 2) < 1e-6);
  ct_dataset_close(&d);
}

/* Pillow's pixels, torchvision's resize, both rounded. */
static void pixels_are_torchvisions(void)
{
  size_t bytes;
  ct_dataset_t d;
  char *file = read_file("resized.rgb", &bytes);
  const uint8_t *gold = (const uint8_t *)file;
  int most = 0;
  CU_ASSERT_EQUAL_FATAL(bytes, FILES * CROPPED);
  CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*",
                         "t: [{resize: {size: 24}}, {center_crop: {size: 16}}]", 0, 0, &d));
  see(&d, 0, &got);
  for (int i = 0; i < FILES; i++)
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < CROP * CROP; k++) {
        int is = (int)got.x[i][c * CROP * CROP + k], was = gold[i * CROPPED + 3 * k + c];
        if (abs(is - was) > most) most = abs(is - was);
      }
  CT_ASSERT_INT(most <= 1, 1);
  ct_dataset_close(&d);
  ct_mem_free(file);
}

/* Only in training, and only if it is allowed. */
static void large_images_are_reduced(void)
{
  static const char list[] = "t: [{resize: {size: 24}}, {center_crop: {size: 16}}]";
  ct_dataset_t d;
  CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", list, 1, 1, &d));
  see(&d, 0, &want);
  ct_dataset_close(&d);
  CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", list, 1, 0, &d));
  see(&d, 0, &got);
  ct_dataset_close(&d);
  double step = worst(&want, &got);
  CU_ASSERT(step > 0.5 && step < 40); /* a disc has edges */
  CU_ASSERT(memcmp(want.x[6], got.x[6], sizeof want.x[6]) == 0);
  CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", list, 0, 0, &d));
  see(&d, 0, &got);
  ct_dataset_close(&d);
  CU_ASSERT(worst(&want, &got) == 0);
}

/* ---- HDF5 ---- */

static void files_in_hdf5_are_the_same(void)
{
  static const char *const lists[] = {"t: [{random_resized_crop: {size: 16}}, random_flip]",
                                      "t: [{resize: {size: 20}}, {random_crop: {size: 16}}]"};
  static const char *const h5[] = {"joined.h5", "apart.h5"};
  for (int k = 0; k < 4; k++) {
    ct_dataset_t d;
    CT_ASSERT_OK(open_data(&ct_reader_images, "[0-9]*", lists[k / 2], 1, 0, &d));
    see(&d, 0, &want);
    ct_dataset_close(&d);
    CT_ASSERT_OK(open_data(&ct_reader_hdf5, h5[k % 2], lists[k / 2], 1, 0, &d));
    CT_ASSERT_INT(d.info.layout.by_hdf5, k % 2);
    see(&d, 2, &got);
    ct_dataset_close(&d);
    CU_ASSERT(worst(&want, &got) == 0);
    for (int i = 0; i < FILES; i++)
      CT_ASSERT_INT(got.labels[i], i % 3);
  }
}

/* Also for another rank, and decoded as a whole. */
static void sizes_are_shared(void)
{
  void *known = NULL;
  size_t bytes = 0;
  ct_shape_t x;
  ct_reader_t *r = NULL, *other = NULL;
  char path[CT_PATH_MAX], *one = path;
  path_of("joined.h5", path, sizeof path);
  const ct_opt_texts_t files = {&one, 1};
  ct_reader_spec_t spec = {.dir = "/", .files = &files, .input = "images", .target = "labels"};
  CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &r));
  CT_ASSERT_OK(ct_reader_hdf5.share(r, &known, &bytes));
  spec.known = known;
  spec.known_bytes = bytes;
  CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &other));
  CU_ASSERT_FATAL(r && other);
  CT_ASSERT_INT(ct_reader_hdf5.info(other)->x.dim[2], 240);
  CT_ASSERT_INT(ct_reader_hdf5.info(other)->x.dim[3], 320);
  CT_ASSERT_INT(ct_reader_hdf5.info(other)->varies, 1);
  for (int64_t i = 0; i < FILES; i++) {
    ct_reader_hdf5.shape(other, i, &x);
    uint8_t *a = malloc((size_t)ct_shape_sample(&x)), *b = malloc((size_t)ct_shape_sample(&x));
    CT_ASSERT_OK(ct_reader_hdf5.read(r, 1, &i, a, NULL));
    CT_ASSERT_OK(ct_reader_hdf5.read(other, 1, &i, b, NULL));
    CU_ASSERT(memcmp(a, b, (size_t)ct_shape_sample(&x)) == 0);
    free(a);
    free(b);
  }
  spec.known_bytes = bytes - 4;
  ct_reader_hdf5.close(other);
  CT_ASSERT_FAILS(ct_reader_hdf5.open(&spec, &other), CT_ERR_ARG, "truncated");
  ct_reader_hdf5.close(r);
  ct_mem_free(known);
}

/* Without sizes a data set needs a head. */
static void unknown_sizes_need_a_head(void)
{
  ct_dataset_t d;
  const ct_batch_t *b;
  ct_feed_t *f;
  CT_ASSERT_OK(open_data(&ct_reader_hdf5, "apart.h5", "t: [random_flip]", 1, 0, &d));
  CU_ASSERT(!d.decode_time && !d.info.varies && d.info.unsized);
  ct_sampler_t sampler = {.samples = FILES, .batch = FILES};
  ct_feed_opts_t o = {.size = 1, .one_epoch = 1};
  CT_ASSERT_OK(ct_feed_open(&d, &sampler, &o, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_FORMAT, "apart.h5, sample 1: is 97 x 75 pixels");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* ---- damage ---- */

/* A copy of joined.h5 in which bytes from \a at on are others. */
static void damage(const char *to, const char *find, size_t length, size_t skip, char with)
{
  size_t bytes;
  char *file = read_file("joined.h5", &bytes);
  char *at = memmem(file, bytes, find, length);
  CU_ASSERT_FATAL(at && at + skip + 200 < file + bytes);
  memset(at + skip, with, 200);
  CT_ASSERT_OK(ct_file_write(to, file, bytes));
  ct_mem_free(file);
}

static void a_damaged_sample_is_named(void)
{
  char path[CT_PATH_MAX];
  size_t bytes;
  ct_dataset_t d;
  const ct_batch_t *b;
  ct_feed_t *f;
  char *first = read_file(names[2], &bytes);
  ct_text_fit(path, sizeof path, "%s/damaged.h5", ct_test_dir());
  damage(path, first, 300, 0, 'x');
  ct_mem_free(first);
  CT_ASSERT_OK(
      open_data(&ct_reader_hdf5, path, "t: [{random_resized_crop: {size: 16}}]", 1, 0, &d));
  ct_sampler_t sampler = {.samples = FILES, .batch = FILES};
  ct_feed_opts_t o = {.size = 1, .one_epoch = 1};
  CT_ASSERT_OK(ct_feed_open(&d, &sampler, &o, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_FORMAT,
                  "damaged.h5, sample 2: is neither a PNG nor a JPEG file");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void what_is_too_small_is_told_at_once(void)
{
  ct_dataset_t d;
  CT_ASSERT_FAILS(
      open_data(&ct_reader_hdf5, "joined.h5", "t: [{random_crop: {size: 34}}]", 1, 0, &d),
      CT_ERR_USAGE,
      "joined.h5, sample 6 has shape 1x3x33x40, which the transform random_crop cannot take");
}

/* Whatever stands in a file, it is an image or an error; under a sanitizer also no harm. */
static void no_damage_does_harm(void)
{
  for (int i = 0; i < FILES - 1; i++) {
    size_t bytes;
    ct_image_info_t is;
    uint8_t out[3 * 20 * 20];
    char *file = read_file(names[i], &bytes);
    unsigned r = (unsigned)i + 1;
    for (int k = 0; k < 3000; k++) {
      size_t at = (r = r * 1664525 + 1013904223) % bytes;
      char was = file[at];
      file[at] = (char)(r >> 24);
      size_t cut = k % 3 ? bytes : at + 1;
      char *copy = malloc(cut);
      memcpy(copy, file, cut);
      if (ct_image_info(copy, cut, &is) == CT_OK && is.height < 200 && is.width < 200) {
        int reduce = ct_image_reduces(copy, cut) ? 1 << k % 4 : 1;
        int64_t h = (is.height + reduce - 1) / reduce, w = (is.width + reduce - 1) / reduce;
        ct_image_part_t p = {reduce, h / 2, w / 2, h - h / 2, w - w / 2};
        if (p.height > 20) p.height = 20;
        if (p.width > 20) p.width = 20;
        (void)ct_image_decode_part(copy, cut, &is, &p, 3, out);
      }
      free(copy);
      file[at] = was;
    }
    ct_mem_free(file);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(parts_are_of_the_whole),
                                    CT_TEST(parts_of_reduced_images_are_too),
                                    CT_TEST(the_head_sees_what_the_transforms_see),
                                    CT_TEST(what_is_no_head_is_left_to_the_transforms),
                                    CT_TEST(samples_have_the_same_bits_everywhere),
                                    CT_TEST(bytes_stay_bytes),
                                    CT_TEST(pixels_are_torchvisions),
                                    CT_TEST(large_images_are_reduced),
                                    CT_TEST(files_in_hdf5_are_the_same),
                                    CT_TEST(sizes_are_shared),
                                    CT_TEST(unknown_sizes_need_a_head),
                                    CT_TEST(a_damaged_sample_is_named),
                                    CT_TEST(what_is_too_small_is_told_at_once),
                                    CT_TEST(no_damage_does_harm),
                                    CT_TEST_END};
  return ct_test_main("encoded", tests, argc, argv);
}

#else

int main(void)
{
  return 77;
}

#endif
