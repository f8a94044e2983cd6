/* Who belongs to the job: the keyed hash, the seals of packets, and the handshake of connections,
 * with strangers at the door. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "tests/harness/ct_test.h"
#include "watch/proof.h"
#include "watch/watch.h"

/* ---- SipHash-2-4 ---- */

/* The key 00 01 ... 0f over 00 01 ... : the value of 15 bytes stands in the paper's appendix A, the
 * others are what OpenSSL 3.0 says. */
static void the_hash_is_that_of_the_paper(void)
{
  static const struct {
    size_t bytes;
    uint64_t hash;
  } of[] = {{0, 0x726fdb47dd0e0e31U}, {1, 0x74f839c593dc67fdU}, {7, 0xab0200f58b01d137U},
            {8, 0x93f5f5799a932462U}, {9, 0x9e0082df0ba9e4b0U}, {15, 0xa129ca6149be45e5U},
            {63, 0x958a324ceb064572U}};
  ct_sip_key_t key = {{0x0706050403020100U, 0x0f0e0d0c0b0a0908U}};
  unsigned char data[64];
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (unsigned char)i;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    CU_ASSERT(ct_sip(&key, data, of[i].bytes) == of[i].hash);
}

static void random_bytes_are_not_repeated(void)
{
  ct_sip_key_t a = {{0, 0}}, b = {{0, 0}};
  CT_ASSERT_OK(ct_random(&a, sizeof a));
  CT_ASSERT_OK(ct_random(&b, sizeof b));
  CU_ASSERT(memcmp(&a, &b, sizeof a) != 0);
  CU_ASSERT(a.k[0] && a.k[1]);
}

/* ---- packets ---- */

#define KEY 0x0123456789abcdefU, 0xfedcba9876543210U
static const ct_sip_key_t key = {{KEY}};

static void a_seal_holds_for_that_packet_alone(void)
{
  unsigned char packet[75];
  for (size_t i = 0; i < sizeof packet; i++)
    packet[i] = (unsigned char)(3 * i);
  ct__watch_seal(&key, 9, packet, sizeof packet);
  CT_ASSERT_INT(ct__watch_sealed(&key, packet, sizeof packet), 9);
  for (size_t bit = 0; bit < 8 * sizeof packet; bit++) {
    packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
    CT_ASSERT_INT(ct__watch_sealed(&key, packet, sizeof packet), 0);
    packet[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  for (size_t bytes = 0; bytes < sizeof packet; bytes++)
    CT_ASSERT_INT(ct__watch_sealed(&key, packet, bytes), 0);
}

static void another_key_makes_another_seal(void)
{
  unsigned char packet[40] = {0};
  ct_sip_key_t other = key;
  other.k[1] ^= 1;
  ct__watch_seal(&other, 1, packet, sizeof packet);
  CT_ASSERT_INT(ct__watch_sealed(&key, packet, sizeof packet), 0);
}

static void the_key_is_not_in_a_packet(void)
{
  unsigned char packet[40] = {0};
  ct__watch_seal(&key, 1, packet, sizeof packet);
  for (int i = 0; i < 2; i++)
    CU_ASSERT(memmem(packet, sizeof packet, &key.k[i], sizeof key.k[i]) == NULL);
}

static void a_packet_is_heard_once(void)
{
  ct__watch_heard_t h = {0};
  CT_ASSERT_INT(ct__watch_is_new(&h, 0), 0);
  CT_ASSERT_INT(ct__watch_is_new(&h, 1), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 1), 0);
  CT_ASSERT_INT(ct__watch_is_new(&h, 40), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 39), 1); /* overtaken */
  CT_ASSERT_INT(ct__watch_is_new(&h, 39), 0);
  CT_ASSERT_INT(ct__watch_is_new(&h, 1), 0);
  CT_ASSERT_INT(ct__watch_is_new(&h, 103), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 40), 0); /* as far back as is remembered */
  CT_ASSERT_INT(ct__watch_is_new(&h, 41), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 2), 0); /* further: it may have been here */
  CT_ASSERT_INT(ct__watch_is_new(&h, 1000000), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 999937), 1);
  CT_ASSERT_INT(ct__watch_is_new(&h, 999936), 0);
}

/* ---- connections ---- */

static ct__watch_net_t net;
static ct__watch_sockets_t place;
static ct__watch_door_t door;
static const ct__watch_pair_t pair = {.key = {{KEY}}, .from = 2, .to = 3};

static void open_door(void)
{
  static const ct__watch_ports_t any;
  struct in6_addr at = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
  CT_ASSERT_INT(ct__watch_net_open(&net, &at, &any, &place), 0);
  ct__watch_door_init(&door);
}

static void close_door(void)
{
  ct__watch_door_clear(&door);
  ct__watch_net_close(&net);
}

typedef struct guest {
  ct__watch_pair_t pair;
  int fd, taken;
  unsigned char talk[200]; /* what the host has said to a silent one */
} guest_t;

static void *knock(void *arg)
{
  guest_t *g = arg;
  g->fd = ct__watch_net_connect(&place, 20);
  g->taken = g->fd >= 0 && ct__watch_knock(g->fd, &g->pair);
  if (!g->taken && g->fd >= 0) close(g->fd);
  return NULL;
}

/* The host's side until that thread's guest has been answered; the connection taken, or -1. */
static int receive(pthread_t thread)
{
  int taken = -1;
  while (pthread_tryjoin_np(thread, NULL) != 0) {
    struct pollfd wait = {.fd = net.listener, .events = POLLIN};
    poll(&wait, 1, 1);
    ct__watch_door_open(&door, net.listener);
    int fd = ct__watch_door_hear(&door, &pair);
    if (fd >= 0) taken = fd;
  }
  return taken;
}

static int visit(guest_t *g)
{
  pthread_t thread;
  CT_ASSERT_INT(pthread_create(&thread, NULL, knock, g), 0);
  return receive(thread);
}

static void who_has_the_key_is_taken(void)
{
  char word = 0;
  guest_t g = {.pair = pair};
  open_door();
  int fd = visit(&g);
  CU_ASSERT(fd >= 0 && g.taken);
  CT_ASSERT_INT(send(fd, "E", 1, MSG_NOSIGNAL), 1);
  CT_ASSERT_INT(recv(g.fd, &word, 1, 0), 1);
  CT_ASSERT_INT(word, 'E');
  close(fd);
  close(g.fd);
  close_door();
}

static void who_has_not_is_not(void)
{
  guest_t wrong[3] = {{.pair = pair}, {.pair = pair}, {.pair = pair}};
  wrong[0].pair.key.k[0] ^= 1;
  wrong[1].pair.from = 1; /* of this job, but another rank */
  wrong[2].pair.to = 2;
  open_door();
  for (int i = 0; i < 3; i++) {
    CT_ASSERT_INT(visit(&wrong[i]), -1);
    CT_ASSERT_INT(wrong[i].taken, 0);
  }
  close_door();
}

/* More of them than there is room for; nothing is waited for. */
static void silent_guests_keep_nobody_away(void)
{
  enum { SILENT = 3 * CT__WATCH_GUESTS };
  int silent[SILENT];
  guest_t g = {.pair = pair};
  open_door();
  for (int i = 0; i < SILENT; i++) {
    silent[i] = ct__watch_net_connect(&place, 20);
    CU_ASSERT(silent[i] >= 0);
    if (i % 2) (void)!send(silent[i], "noise", 5, MSG_NOSIGNAL);
  }
  int fd = visit(&g);
  CU_ASSERT(fd >= 0 && g.taken);
  close(fd);
  close(g.fd);
  for (int i = 0; i < SILENT; i++)
    close(silent[i]);
  close_door();
}

static void a_silent_guest_has_to_leave(void)
{
  open_door();
  int silent = ct__watch_net_connect(&place, 20);
  struct pollfd wait = {.fd = net.listener, .events = POLLIN};
  CT_ASSERT_INT(poll(&wait, 1, 20000), 1);
  ct__watch_door_open(&door, net.listener);
  CT_ASSERT_INT(ct__watch_door_hear(&door, &pair), -1);
  CU_ASSERT(door.guest[0].fd >= 0);
  door.guest[0].until = ct_clock() - 1;
  CT_ASSERT_INT(ct__watch_door_hear(&door, &pair), -1);
  CT_ASSERT_INT(door.guest[0].fd, -1);
  close(silent);
  close_door();
}

/* Who listens in on one connection knows nothing of use for another. */
static void what_was_said_once_does_not_open_again(void)
{
  unsigned char nonce[CT__WATCH_NONCE];
  ct__watch_hello_t hello = {0};
  open_door();
  guest_t g = {.pair = pair};
  int fd = visit(&g), again = -1;
  close(fd);
  close(g.fd);
  for (int i = 0; i < 2; i++) { /* a hello for the first nonce, said to the second */
    again = ct__watch_net_connect(&place, 20);
    struct pollfd wait = {.fd = net.listener, .events = POLLIN};
    CT_ASSERT_INT(poll(&wait, 1, 20000), 1);
    ct__watch_door_open(&door, net.listener);
    CT_ASSERT_INT(recv(again, nonce, sizeof nonce, MSG_WAITALL), sizeof nonce);
    if (i == 0) {
      struct {
        unsigned char host[CT__WATCH_NONCE], guest[CT__WATCH_NONCE];
        int32_t from, to, who, zero;
      } said = {.from = pair.from, .to = pair.to, .who = 'G'};
      memcpy(said.host, nonce, sizeof nonce);
      hello.proof = ct_sip(&pair.key, &said, sizeof said);
    }
    CT_ASSERT_INT(send(again, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    int taken = -1;
    double end = ct_clock() + 20;
    while (taken < 0 && door.guest[0].fd >= 0 && ct_clock() < end)
      taken = ct__watch_door_hear(&door, &pair);
    CU_ASSERT((taken >= 0) == (i == 0));
    if (taken >= 0) close(taken);
    close(again);
  }
  close_door();
}

/* A host that does not have the key is none. */
static void the_host_has_to_show_it_too(void)
{
  guest_t g = {.pair = pair};
  pthread_t thread;
  unsigned char nonce[CT__WATCH_NONCE] = {0};
  char got[64];
  open_door();
  CT_ASSERT_INT(pthread_create(&thread, NULL, knock, &g), 0);
  struct pollfd wait = {.fd = net.listener, .events = POLLIN};
  CT_ASSERT_INT(poll(&wait, 1, 20000), 1);
  int fd = accept(net.listener, NULL, NULL);
  CT_ASSERT_INT(send(fd, nonce, sizeof nonce, MSG_NOSIGNAL), sizeof nonce);
  ssize_t n = recv(fd, got, sizeof(ct__watch_hello_t), MSG_WAITALL);
  CT_ASSERT_INT(n, sizeof(ct__watch_hello_t));
  /* his own proof, sent back */
  CT_ASSERT_INT(send(fd, got + CT__WATCH_NONCE, sizeof(uint64_t), MSG_NOSIGNAL), sizeof(uint64_t));
  CT_ASSERT_INT(pthread_join(thread, NULL), 0);
  CT_ASSERT_INT(g.taken, 0);
  for (int i = 0; i < 2; i++)
    CU_ASSERT(memmem(got, (size_t)n, &key.k[i], sizeof key.k[i]) == NULL);
  close(fd);
  close_door();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_hash_is_that_of_the_paper),
                                    CT_TEST(random_bytes_are_not_repeated),
                                    CT_TEST(a_seal_holds_for_that_packet_alone),
                                    CT_TEST(another_key_makes_another_seal),
                                    CT_TEST(the_key_is_not_in_a_packet),
                                    CT_TEST(a_packet_is_heard_once),
                                    CT_TEST(who_has_the_key_is_taken),
                                    CT_TEST(who_has_not_is_not),
                                    CT_TEST(silent_guests_keep_nobody_away),
                                    CT_TEST(a_silent_guest_has_to_leave),
                                    CT_TEST(what_was_said_once_does_not_open_again),
                                    CT_TEST(the_host_has_to_show_it_too),
                                    CT_TEST_END};
  return ct_test_main("watch proof", tests, argc, argv);
}
