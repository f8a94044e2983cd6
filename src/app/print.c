/* The one way to the standard output, which is for a command's result: a result that could not be
 * written is an error. */
#include <stdio.h>

#include "app/app.h"
#include "base/ct_err.h"

int ct_app_print(const char *text)
{
  int rc = CT_OK;
  if (fputs(text, stdout) == EOF || fflush(stdout) != 0)
    CT_FAIL(CT_ERR_IO, "the result cannot be written to the standard output");
out:
  return rc;
}
