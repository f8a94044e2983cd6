/* Selects the address at which the watch listens: reachable by the ranks of this job, and by as few
 * others as possible. */
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include "watch/watch.h"

static const struct in6_addr loopback4 = {
    .s6_addr = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

/* ---- this node's addresses ---- */

/* Prefix length of a netmask. */
static int mask_bits(const unsigned char *mask, int bytes)
{
  int bits = 0;
  while (bits < 8 * bytes && mask[bits / 8] >> (7 - bits % 8) & 1)
    bits++;
  return bits;
}

/* Returns 0 for an address that other nodes cannot reach. */
static int usable(const struct ifaddrs *i, ct__watch_address_t *out)
{
  if (!i->ifa_addr || !i->ifa_netmask || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
    return 0;
  if (i->ifa_addr->sa_family == AF_INET) {
    const struct sockaddr_in *mask = (const struct sockaddr_in *)i->ifa_netmask;
    out->at = loopback4;
    memcpy(&out->at.s6_addr[12], &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
    out->bits = 96 + mask_bits((const unsigned char *)&mask->sin_addr, 4);
    return out->at.s6_addr[12] != 169 || out->at.s6_addr[13] != 254; /* exclude link-local
                                                                        addresses */
  }
  if (i->ifa_addr->sa_family != AF_INET6) return 0;
  out->at = ((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
  out->bits = mask_bits(((const struct sockaddr_in6 *)i->ifa_netmask)->sin6_addr.s6_addr, 16);
  return !IN6_IS_ADDR_LINKLOCAL(&out->at);
}

void ct__watch_addresses(ct__watch_addresses_t *out)
{
  struct ifaddrs *list = NULL;
  out->n = 0;
  if (getifaddrs(&list) != 0) return;
  for (struct ifaddrs *i = list; i && out->n < CT__WATCH_ADDRESSES; i = i->ifa_next)
    out->n += usable(i, &out->address[out->n]);
  freeifaddrs(list);
}

/* ---- selection ---- */

/* Returns 1 if both are in the same network namespace, so that loopback works. */
static int near(const ct__watch_addresses_t *a, const ct__watch_addresses_t *b)
{
  return a->network && a->network == b->network;
}

static int same_net(const ct__watch_address_t *a, const ct__watch_address_t *b)
{
  if (a->bits != b->bits) return 0;
  for (int i = 0; i < a->bits; i++)
    if ((a->at.s6_addr[i / 8] ^ b->at.s6_addr[i / 8]) >> (7 - i % 8) & 1) return 0;
  return 1;
}

/* Returns the address in a network; NULL: the rank has none there. */
static const ct__watch_address_t *in_net(const ct__watch_addresses_t *of,
                                         const ct__watch_address_t *net)
{
  for (int i = 0; i < of->n; i++)
    if (same_net(&of->address[i], net)) return &of->address[i];
  return NULL;
}

/* Returns 1 if all nodes are in the network with distinct addresses. Container bridges have the
 * same address on every node. */
static int is_common(const ct__watch_addresses_t *all, int ranks, const ct__watch_address_t *net)
{
  for (int r = 1; r < ranks; r++) {
    const ct__watch_address_t *a = in_net(&all[r], net);
    if (!a || (!near(&all[0], &all[r]) && IN6_ARE_ADDR_EQUAL(&a->at, &net->at))) return 0;
  }
  return 1;
}

static int all_near(const ct__watch_addresses_t *all, int ranks)
{
  for (int r = 0; r < ranks; r++)
    if (!near(&all[0], &all[r])) return 0;
  return 1;
}

int ct__watch_choose(const ct__watch_addresses_t *all, int ranks, int rank, int choice,
                     struct in6_addr *out)
{
  int found = 0;
  if (all_near(all, ranks)) {
    *out = loopback4;
    return choice == 0;
  }
  for (int i = 0; i < all[0].n; i++) {
    const ct__watch_address_t *net = &all[0].address[i];
    if (in_net(&all[0], net) != net || !is_common(all, ranks, net) || found++ < choice) continue;
    *out = in_net(&all[rank], net)->at;
    return 1;
  }
  return 0;
}

/* Returns the first other node for ranks on node 0, and node 0 for all other ranks. */
const ct__watch_addresses_t *ct__watch_far(const ct__watch_addresses_t *all, int ranks, int rank)
{
  if (!near(&all[0], &all[rank]) && rank) return &all[0];
  for (int r = 1; r < ranks; r++)
    if (!near(&all[0], &all[r])) return &all[r];
  return NULL;
}
