/* The watch's sockets: one for packets, one to be connected to. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "watch/watch.h"

enum { RECEIVE_BYTES = 1 << 20, CONNECT_S = 2 };

/* ---- addresses ---- */

static const struct in6_addr loopback4 = {
    .s6_addr = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

/* 0: not an address that others can use. */
static int usable(const struct ifaddrs *i, struct in6_addr *out)
{
  if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK)) return 0;
  if (i->ifa_addr->sa_family == AF_INET) {
    *out = loopback4;
    memcpy(&out->s6_addr[12], &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
    return out->s6_addr[12] != 169 || out->s6_addr[13] != 254; /* of this link only */
  }
  if (i->ifa_addr->sa_family != AF_INET6) return 0;
  *out = ((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
  return !IN6_IS_ADDR_LINKLOCAL(out);
}

static void find_addresses(ct__watch_card_t *mine)
{
  struct ifaddrs *list = NULL;
  mine->addresses = 0;
  if (getifaddrs(&list) != 0) list = NULL;
  for (struct ifaddrs *i = list; i && mine->addresses < CT__WATCH_ADDRESSES; i = i->ifa_next)
    mine->addresses += usable(i, &mine->address[mine->addresses]);
  if (list) freeifaddrs(list);
  if (!mine->addresses) mine->address[mine->addresses++] = loopback4;
}

/* How many addresses of a rank to try, from *out on. */
static int addresses_of(const ct__watch_card_t *mine, const ct__watch_card_t *to,
                        const struct in6_addr **out)
{
  int near = mine->network && mine->network == to->network;
  *out = near ? &loopback4 : to->address;
  return near ? 1 : to->addresses;
}

/* 0: this kind of socket has no such addresses. */
static socklen_t fill(int family, const struct in6_addr *a, uint16_t port,
                      struct sockaddr_storage *out)
{
  memset(out, 0, sizeof *out);
  if (family == AF_INET6) {
    struct sockaddr_in6 *s = (struct sockaddr_in6 *)out;
    s->sin6_family = AF_INET6;
    s->sin6_port = htons(port);
    s->sin6_addr = *a;
    return sizeof *s;
  }
  if (!IN6_IS_ADDR_V4MAPPED(a)) return 0;
  struct sockaddr_in *s = (struct sockaddr_in *)out;
  s->sin_family = AF_INET;
  s->sin_port = htons(port);
  memcpy(&s->sin_addr, &a->s6_addr[12], 4);
  return sizeof *s;
}

/* ---- life ---- */

static int open_any_port(int family, int type, uint16_t *port)
{
  static const int off = 0;
  struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
  socklen_t len = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, (struct sockaddr *)&any, len) != 0 || (type == SOCK_STREAM && listen(fd, 8) != 0) ||
      getsockname(fd, (struct sockaddr *)&any, &len) != 0) {
    close(fd);
    return -1;
  }
  *port = ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&any)->sin6_port
                                   : ((struct sockaddr_in *)&any)->sin_port);
  return fd;
}

int ct__watch_net_open(ct__watch_net_t *net, ct__watch_card_t *mine)
{
  static const int bytes = RECEIVE_BYTES;
  net->family = AF_INET6;
  net->listener = -1;
  net->udp = open_any_port(net->family, SOCK_DGRAM, &mine->udp);
  if (net->udp < 0) {
    net->family = AF_INET;
    net->udp = open_any_port(net->family, SOCK_DGRAM, &mine->udp);
  }
  if (net->udp >= 0) net->listener = open_any_port(net->family, SOCK_STREAM, &mine->tcp);
  if (net->listener < 0) {
    ct__watch_net_close(net);
    return -1;
  }
  setsockopt(net->udp, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); /* the answers of many ranks */
  find_addresses(mine);
  return 0;
}

void ct__watch_net_close(ct__watch_net_t *net)
{
  if (net->udp >= 0) close(net->udp);
  if (net->listener >= 0) close(net->listener);
  net->udp = net->listener = -1;
}

/* ---- packets ---- */

void ct__watch_net_send(const ct__watch_net_t *net, const ct__watch_card_t *mine,
                        const ct__watch_card_t *to, const void *packet, size_t bytes)
{
  struct sockaddr_storage at;
  const struct in6_addr *address;
  int n = addresses_of(mine, to, &address);
  for (int i = 0; i < n; i++) {
    socklen_t len = fill(net->family, &address[i], to->udp, &at);
    if (len) (void)!sendto(net->udp, packet, bytes, 0, (struct sockaddr *)&at, len);
  }
}

/* ---- connections ---- */

static void set_patience(int fd)
{
  static const struct timeval patience = {.tv_sec = CONNECT_S};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* of connect() too */
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static int hears(int fd, const ct__watch_hello_t *expected)
{
  ct__watch_hello_t got;
  return recv(fd, &got, sizeof got, MSG_WAITALL) == sizeof got && got.key == expected->key &&
         got.from == expected->from && got.to == expected->to;
}

static int says(int fd, const ct__watch_hello_t *hello)
{
  return send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == sizeof *hello;
}

/* The one that was asked for, and nobody else, answers with the same words. */
static int try_address(int fd, const struct sockaddr_storage *at, socklen_t len,
                       const ct__watch_hello_t *hello)
{
  set_patience(fd);
  return connect(fd, (const struct sockaddr *)at, len) == 0 && says(fd, hello) && hears(fd, hello);
}

int ct__watch_net_connect(const ct__watch_net_t *net, const ct__watch_card_t *mine,
                          const ct__watch_card_t *to, const ct__watch_hello_t *hello)
{
  struct sockaddr_storage at;
  const struct in6_addr *address;
  int n = addresses_of(mine, to, &address);
  for (int i = 0; i < n; i++) {
    socklen_t len = fill(net->family, &address[i], to->tcp, &at);
    int fd = len ? socket(net->family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) continue;
    if (try_address(fd, &at, len, hello)) return fd;
    close(fd);
  }
  return -1;
}

int ct__watch_net_accept(const ct__watch_net_t *net, const ct__watch_hello_t *expected)
{
  int fd = accept4(net->listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return -1;
  set_patience(fd);
  if (hears(fd, expected) && says(fd, expected)) return fd;
  close(fd);
  return -1;
}
