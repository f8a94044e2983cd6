/* Fuzz target: any bytes as the configuration of a run.
 *
 * Either they are refused with a message, or the dump of the configuration reads back to the same
 * dump and the same hash, and differs in nothing from itself; and nothing stays allocated. */
#include "setup/ct_config.h"
#include "base/ct_mem.h"
#include "tests/fuzz/fuzz.h"

static void must_say(int rc)
{
  must((rc == CT_ERR_USAGE || rc == CT_ERR_ARG) && ct_err_last()->text[0],
       "a refusal has a message");
}

static void check_round_trip(const ct_config_t *c)
{
  ct_config_t again;
  ct_str_t first = {0}, second = {0}, told = {0};
  uint64_t a = 0, b = 1;
  must(ct_config_dump(c, &first) == CT_OK, "a configuration can be dumped");
  must(ct_config_parse(&again, first.data, first.len, "dump", NULL, 0) == CT_OK,
       "the dump can be read");
  must(ct_config_dump(&again, &second) == CT_OK && strcmp(first.data, second.data) == 0,
       "it reads back to the same");
  must(ct_config_hash(c, &a) == CT_OK && ct_config_hash(&again, &b) == CT_OK && a == b,
       "it has the same hash");
  must(ct_config_differences(&again, first.data, &told) == CT_OK && told.len == 0,
       "nothing differs from itself");
  ct_config_clear(&again);
  ct_str_clear(&first);
  ct_str_clear(&second);
  ct_str_clear(&told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_config_t c;
  int rc = ct_config_parse(&c, (const char *)data, bytes, "fuzz", NULL, 0);
  if (rc == CT_OK) {
    check_round_trip(&c);
    rc = ct_config_resolve(&c, "/home", 3);
    if (rc == CT_OK) rc = ct_config_check(&c, 3, 1);
    if (rc == CT_OK)
      check_round_trip(&c);
    else
      must_say(rc);
    ct_config_clear(&c);
  } else {
    must_say(rc);
  }
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
