/* Sockets of the watch: one for UDP packets and one TCP listener, both at one address. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "watch/watch.h"

enum { RECEIVE_BYTES = 1 << 20, LAST_PORT = 65535, WAITING = 128 };

/* ---- ports ---- */

int ct__watch_ports(const char *text, ct__watch_ports_t *out)
{
  int rc = CT_OK, end = 0;
  *out = (ct__watch_ports_t){0};
  if (!text || !*text) return CT_OK; /* the system chooses */
  if (strspn(text, "0123456789:") != strlen(text) ||
      sscanf(text, "%5d:%5d%n", &out->low, &out->high, &end) != 2 || text[end] || out->low < 1 ||
      out->high < out->low || out->high > LAST_PORT)
    CT_FAIL(CT_ERR_USAGE,
            "CTRAIN_WATCH_PORTS is '%s': expected LOW:HIGH, two ports of 1 to %d, such as "
            "40000:40999",
            text, LAST_PORT);
out:
  return rc;
}

/* ---- addresses ---- */

static socklen_t net_fill(const struct in6_addr *a, int port, struct sockaddr_storage *out)
{
  memset(out, 0, sizeof *out);
  if (!IN6_IS_ADDR_V4MAPPED(a)) {
    struct sockaddr_in6 *s = (struct sockaddr_in6 *)out;
    s->sin6_family = AF_INET6;
    s->sin6_port = htons((uint16_t)port);
    s->sin6_addr = *a;
    return sizeof *s;
  }
  struct sockaddr_in *s = (struct sockaddr_in *)out;
  s->sin_family = AF_INET;
  s->sin_port = htons((uint16_t)port);
  memcpy(&s->sin_addr, &a->s6_addr[12], 4);
  return sizeof *s;
}

/* Converts back; returns the port. */
static uint16_t net_take(const struct sockaddr_storage *from, struct in6_addr *out)
{
  if (from->ss_family == AF_INET6) {
    const struct sockaddr_in6 *s = (const struct sockaddr_in6 *)from;
    *out = s->sin6_addr;
    return ntohs(s->sin6_port);
  }
  const struct sockaddr_in *s = (const struct sockaddr_in *)from;
  memset(out, 0, sizeof *out);
  out->s6_addr[10] = out->s6_addr[11] = 0xff;
  memcpy(&out->s6_addr[12], &s->sin_addr, 4);
  return ntohs(s->sin_port);
}

static int open_socket(const struct in6_addr *at, int type)
{
  return socket(IN6_IS_ADDR_V4MAPPED(at) ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);
}

const char *ct__watch_address_text(const struct in6_addr *at, char *buf, size_t cap)
{
  int mapped = IN6_IS_ADDR_V4MAPPED(at);
  const void *from = mapped ? (const void *)&at->s6_addr[12] : (const void *)at;
  if (!inet_ntop(mapped ? AF_INET : AF_INET6, from, buf, (socklen_t)cap)) snprintf(buf, cap, "?");
  return buf;
}

/* Connects a UDP socket: no packet is sent, the system only looks up the route. */
int ct__watch_route(const ct__watch_addresses_t *to, struct in6_addr *out)
{
  struct sockaddr_storage at, own;
  for (int i = 0; i < to->n; i++) {
    socklen_t len = net_fill(&to->address[i].at, 9, &at), bytes = sizeof own;
    int fd = open_socket(&to->address[i].at, SOCK_DGRAM);
    int found = fd >= 0 && connect(fd, (struct sockaddr *)&at, len) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &bytes) == 0;
    if (fd >= 0) close(fd);
    if (!found) continue;
    net_take(&own, out);
    return 1;
  }
  return 0;
}

/* ---- opening and closing ---- */

/* Opens a socket bound to the port, or to any port if it is 0. -1: errno. */
static int open_port(const struct in6_addr *address, int type, int port, uint16_t *got)
{
  static const int on = 1;
  struct sockaddr_storage at;
  struct in6_addr same;
  socklen_t len = net_fill(address, port, &at);
  int fd = open_socket(address, type | SOCK_NONBLOCK);
  if (fd < 0) return -1;
  /* a previous run's connections may still occupy ports of a narrow range */
  if (type == SOCK_STREAM) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, len) == 0 &&
      (type != SOCK_STREAM || listen(fd, WAITING) == 0) &&
      getsockname(fd, (struct sockaddr *)&at, &len) == 0) {
    *got = net_take(&at, &same);
    return fd;
  }
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

static int open_in(const struct in6_addr *address, int type, const ct__watch_ports_t *ports,
                   uint16_t *got)
{
  int fd = -1;
  for (int port = ports->low; fd < 0 && port <= ports->high; port++)
    fd = open_port(address, type, port, got);
  return fd;
}

int ct__watch_net_open(ct__watch_net_t *net, const struct in6_addr *at,
                       const ct__watch_ports_t *ports, ct__watch_sockets_t *sockets)
{
  static const int bytes = RECEIVE_BYTES;
  *sockets = (ct__watch_sockets_t){.at = *at};
  net->udp = open_in(at, SOCK_DGRAM, ports, &sockets->udp);
  net->listener = net->udp < 0 ? -1 : open_in(at, SOCK_STREAM, ports, &sockets->tcp);
  if (net->listener < 0) {
    ct__watch_net_close(net);
    return -1;
  }
  setsockopt(net->udp, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); /* space for the replies of
                                                                        many ranks */
  sockets->open = 1;
  return 0;
}

void ct__watch_net_shut(ct__watch_net_t *net)
{
  if (net->listener >= 0) close(net->listener);
  net->listener = -1;
}

void ct__watch_net_close(ct__watch_net_t *net)
{
  ct__watch_net_shut(net);
  if (net->udp >= 0) close(net->udp);
  net->udp = -1;
}

/* ---- packets ---- */

void ct__watch_net_send(const ct__watch_net_t *net, const ct__watch_sockets_t *to,
                        const void *packet, size_t bytes)
{
  struct sockaddr_storage at;
  socklen_t len = net_fill(&to->at, to->udp, &at);
  (void)!sendto(net->udp, packet, bytes, 0, (struct sockaddr *)&at, len);
}

/* ---- connections ---- */

int ct__watch_net_connect(const ct__watch_sockets_t *to, double seconds)
{
  struct timeval patience = {.tv_sec = (time_t)seconds};
  struct sockaddr_storage at;
  socklen_t len = net_fill(&to->at, to->tcp, &at);
  int fd = open_socket(&to->at, SOCK_STREAM);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* also limits connect() */
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, (const struct sockaddr *)&at, len) == 0) return fd;
  close(fd);
  return -1;
}
