/* Colours of classes, for masks. */
#include "commands/predict_several.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

/* The colour map of the PASCAL VOC development kit (VOClabelcolormap.m): the bits of the class go
 * to the highest bits of the three colours in turn. */
static void voc(uint8_t rgb[256 * 3])
{
  for (int k = 0; k < 256; k++)
    for (int bit = 0; bit < 8; bit++)
      rgb[3 * k + bit % 3] |= (uint8_t)((k >> bit & 1) << (7 - bit / 3));
}

/* Reads three numbers from 0 to 255.  Returns 1 if the line begins with them. */
static int read_colour(const char *line, uint8_t *rgb)
{
  unsigned v[3];
  int end = 0;
  if (sscanf(line, "%3u %3u %3u%n", &v[0], &v[1], &v[2], &end) != 3) return 0;
  for (int i = 0; i < 3; i++) {
    if (v[i] > 255) return 0;
    rgb[i] = (uint8_t)v[i];
  }
  return line[end] == '\0' || strchr(" \t\r,;", line[end]) != NULL;
}

int ct__palette_read(const char *what, int64_t classes, uint8_t rgb[256 * 3])
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes;
  int64_t n = 0;
  memset(rgb, 0, 256 * 3);
  if (strcmp(what, "voc") == 0) voc(rgb);
  if (strcmp(what, "voc") == 0) return CT_OK;
  CT_TRY(ct_file_regular(what));
  CT_TRY(ct_file_read(what, &text, &bytes));
  for (char *at = text, *end = text + bytes; at < end; n++) {
    char *next = at + strcspn(at, "\n");
    *next = '\0';
    if (n >= 256) CT_FAIL(CT_ERR_USAGE, "%s: has more than 256 lines", what);
    if (!read_colour(at, rgb + 3 * n))
      CT_FAIL(CT_ERR_USAGE,
              "%s:%" PRId64 ": '%.60s' does not begin with a colour: expected R G B, "
              "each from 0 to 255",
              what, n + 1, at);
    at = next + 1;
  }
  if (n < classes)
    CT_FAIL(CT_ERR_USAGE, "%s: has %" PRId64 " colours, but the model has %" PRId64 " classes",
            what, n, classes);
out:
  ct_mem_free(text);
  return rc;
}
