/* Fuzz target: any bytes as a tar file of samples.
 *
 * Either they are refused with a message that names the file, or every image lies inside of it, has
 * a name that can be printed, and a class; nothing stays allocated. */
#include "base/ct_mem.h"
#include "pack/list.h"
#include "tests/fuzz/fuzz.h"

static void must_be_printable(const char *name)
{
  must(*name != 0, "names are not empty");
  for (; *name; name++)
    must((unsigned char)*name >= ' ' && *name != 0x7f, "names have no control characters");
}

static void check(const ct__pack_list_t *l, int64_t bytes)
{
  must(l->n > 0 && l->classes > 0, "there are images, and classes");
  for (int64_t i = 0; i < l->n; i++) {
    const ct__pack_entry_t *e = &l->entry[i];
    must(e->at >= 512 && e->bytes >= 0 && e->bytes <= bytes - e->at, "images lie in the file");
    must((e->label >= 0 || e->label == CT__PACK_IGNORED) && e->label < l->classes,
         "labels are those of classes");
    must_be_printable(ct__pack_list_text(l, e->name));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  const char *path = scratch("in");
  int64_t live = ct_mem_live();
  ct__pack_list_t l = {0};
  put(path, data, bytes);
  if (!refused(ct__pack_list_tar(path, &l), path)) check(&l, (int64_t)bytes);
  ct__pack_list_clear(&l);
  must(ct_mem_live() == live, "nothing stays allocated");
  unlink(path);
  return 0;
}
