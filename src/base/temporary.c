/* The registry of temporary files.  It is in static memory, since a process that ends early must
 * not allocate. */
#include "base/ct_temporary.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_file.h"
#include "base/ct_text.h"

enum { FILES = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char file[FILES][CT_PATH_MAX]; /* "": free */
static int next;                      /* the oldest slot, used if none is free */

/* Returns the slot of a path, or NULL. */
static char *temporary_find(const char *path)
{
  for (int i = 0; i < FILES; i++)
    if (strcmp(file[i], path) == 0) return file[i];
  return NULL;
}

void ct_temporary_begin(const char *path)
{
  if (!*path || strlen(path) >= CT_PATH_MAX) return;
  pthread_mutex_lock(&lock);
  char *at = temporary_find(path);
  if (!at) at = temporary_find("");
  if (!at) {
    at = file[next];
    next = (next + 1) % FILES;
  }
  strcpy(at, path);
  pthread_mutex_unlock(&lock);
}

void ct_temporary_end(const char *path)
{
  pthread_mutex_lock(&lock);
  char *at = temporary_find(path);
  if (at) *at = '\0';
  pthread_mutex_unlock(&lock);
}

void ct_temporary_remove(void)
{
  pthread_mutex_lock(&lock);
  for (int i = 0; i < FILES; i++)
    if (file[i][0]) ct_file_remove(file[i]);
  memset(file, 0, sizeof file);
  pthread_mutex_unlock(&lock);
}
