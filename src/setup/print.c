/* Output to stdout, for results of commands only.  A failed write is an error. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"

static int unread;

int ct_app_unread(void)
{
  return unread;
}

int ct_app_write(const void *data, size_t bytes)
{
  int rc = CT_OK;
  if (unread) return CT_OK;
  errno = 0;
  if (fwrite(data, 1, bytes, stdout) == bytes && fflush(stdout) == 0) return CT_OK;
  unread = errno == EPIPE;
  if (!unread)
    CT_FAIL(CT_ERR_IO, "the result cannot be written to the standard output: %s", strerror(errno));
out:
  return rc;
}

int ct_app_print(const char *text)
{
  return ct_app_write(text, strlen(text));
}
