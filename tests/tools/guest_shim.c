/* Strangers who are quicker than the other ranks, to be preloaded: whatever socket the program
 * listens at gets three connections at once, which are held and say nothing, and one that says what
 * nobody understands.
 *
 * GUEST_SHIM_LOG=FILE  a line for each socket that the program binds: "tcp 127.0.0.1 40001"
 *
 * The sockets of MPI are left alone: their libraries' business. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUESTS = 4 };

/* 1: the call comes from the program itself. */
static int is_own(void *caller)
{
  Dl_info of;
  return dladdr(caller, &of) && of.dli_fname && strstr(of.dli_fname, "ctrain-hpc") &&
         !strstr(of.dli_fname, ".so");
}

static void note(const struct sockaddr *at, const char *kind)
{
  char text[INET6_ADDRSTRLEN] = "?", line[100];
  const char *path = getenv("GUEST_SHIM_LOG");
  const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
  const struct sockaddr_in *four = (const struct sockaddr_in *)at;
  int is_four = at->sa_family == AF_INET;
  FILE *f = path ? fopen(path, "ae") : NULL;
  if (!f) return;
  inet_ntop(at->sa_family, is_four ? (const void *)&four->sin_addr : (const void *)&six->sin6_addr,
            text, sizeof text);
  int n = snprintf(line, sizeof line, "%s %s %d\n", kind, text,
                   ntohs(is_four ? four->sin_port : six->sin6_port));
  fwrite(line, 1, (size_t)n, f);
  fclose(f);
}

static int type_of(int fd)
{
  int type = 0;
  socklen_t len = sizeof type;
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
  return type;
}

int bind(int fd, const struct sockaddr *at, socklen_t len)
{
  static int (*real)(int, const struct sockaddr *, socklen_t);
  struct sockaddr_storage got;
  socklen_t bytes = sizeof got;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "bind");
  int rc = real(fd, at, len);
  if (rc == 0 && is_own(__builtin_return_address(0)) &&
      getsockname(fd, (struct sockaddr *)&got, &bytes) == 0)
    note((struct sockaddr *)&got, type_of(fd) == SOCK_STREAM ? "tcp" : "udp");
  return rc;
}

int listen(int fd, int backlog)
{
  static const char noise[] = "GET / HTTP/1.1\r\nHost: somebody.who.scans.ports\r\n\r\n";
  static int (*real)(int, int);
  struct sockaddr_storage at;
  socklen_t len = sizeof at;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "listen");
  int rc = real(fd, backlog);
  if (rc != 0 || !is_own(__builtin_return_address(0)) ||
      getsockname(fd, (struct sockaddr *)&at, &len) != 0)
    return rc;
  for (int i = 0; i < GUESTS; i++) {
    int guest = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(guest, (struct sockaddr *)&at, len) != 0) abort();
    if (i + 1 == GUESTS) (void)!send(guest, noise, sizeof noise, MSG_NOSIGNAL);
  }
  errno = 0;
  return rc;
}
