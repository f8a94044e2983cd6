/* A long wire, for kernels that cannot delay packets (no netem):
 *
 *   cable INTERFACE TAP MICROSECONDS
 *
 * Each frame that INTERFACE receives comes out of TAP, a device that this makes, so much later, and
 * the other way round, until it is killed.  Frames keep their offload headers: a large segment is
 * one copy, not forty.  A direction that holds more than 64 MiB loses frames, as full buffers do.
 * INTERFACE is to be in no bridge, and answers no ARP of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ct_clock.h"

enum { FRAME_BYTES = 65536 + 256, SLOTS = 65536, AT_ONCE = 64 };
static const size_t room = (size_t)64 << 20;

typedef struct frame {
  double due; /* ct_clock() */
  size_t bytes;
  char *data;
} frame_t;

/* One direction. */
typedef struct lane {
  int from, to;
  uint32_t first, end; /* the next to go; behind the last */
  size_t held;
  frame_t frame[SLOTS];
} lane_t;

static lane_t lanes[2];

static void fail(const char *what)
{
  fprintf(stderr, "cable: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int open_interface(const char *name)
{
  static const int one = 1, big = 8 << 20;
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_ll at = {.sll_family = AF_PACKET,
                           .sll_protocol = htons(ETH_P_ALL),
                           .sll_ifindex = (int)if_nametoindex(name)};
  if (fd < 0 || at.sll_ifindex == 0) fail(name);
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0)
    fail("packet socket");
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) fail("bind");
  return fd;
}

static int open_tap(const char *name)
{
  struct ifreq want = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  int header = sizeof(struct virtio_net_hdr),
      fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail("/dev/net/tun");
  snprintf(want.ifr_name, sizeof want.ifr_name, "%s", name);
  if (ioctl(fd, TUNSETIFF, &want) != 0 || ioctl(fd, TUNSETVNETHDRSZ, &header) != 0 ||
      ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
    fail(name);
  return fd;
}

static void take(lane_t *l, double delay_s)
{
  static char buf[FRAME_BYTES];
  for (int i = 0; i < AT_ONCE; i++) {
    ssize_t n = read(l->from, buf, sizeof buf);
    if (n <= 0) return;
    frame_t *f = &l->frame[l->end % SLOTS];
    if (l->held + (size_t)n > room || l->end - l->first == SLOTS) continue;
    f->data = malloc((size_t)n);
    if (!f->data) continue;
    memcpy(f->data, buf, (size_t)n);
    f->bytes = (size_t)n;
    f->due = ct_clock() + delay_s;
    l->held += f->bytes;
    l->end++;
  }
}

/* When the next one is due; INFINITY: there is none. */
static double give(lane_t *l)
{
  static const double full_s = 50e-6;
  for (; l->first != l->end; l->first++) {
    frame_t *f = &l->frame[l->first % SLOTS];
    double now = ct_clock();
    if (f->due > now) return f->due;
    if (write(l->to, f->data, f->bytes) < 0 && (errno == EAGAIN || errno == ENOBUFS))
      return now + full_s;
    free(f->data);
    l->held -= f->bytes;
  }
  return INFINITY;
}

static void carry(double delay_s)
{
  double due = fmin(give(&lanes[0]), give(&lanes[1])), left = fmax(due - ct_clock(), 0);
  struct timespec t = {0, 0};
  if (left < 1) t.tv_nsec = (long)(1e9 * left);
  struct pollfd p[2] = {{.fd = lanes[0].from, .events = POLLIN},
                        {.fd = lanes[1].from, .events = POLLIN}};
  if (ppoll(p, 2, isinf(due) ? NULL : &t, NULL) < 0 && errno != EINTR) fail("poll");
  for (int i = 0; i < 2; i++)
    if (p[i].revents & POLLIN) take(&lanes[i], delay_s);
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fprintf(stderr, "usage: cable INTERFACE TAP MICROSECONDS\n");
    return 2;
  }
  double delay_s = 1e-6 * atof(argv[3]);
  lanes[0].from = lanes[1].to = open_interface(argv[1]);
  lanes[0].to = lanes[1].from = open_tap(argv[2]);
  /* Ranks that poll keep all cores busy: to come before them, and wake in time. */
  sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  for (;;)
    carry(delay_s);
}
