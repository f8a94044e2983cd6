/* At which address the watch listens, and at which ports. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "tests/harness/ct_test.h"
#include "watch/watch.h"

enum { RANKS = 4 };

static ct__watch_addresses_t all[RANKS];

/* "10.0.0.1/24 fd00::1/64" */
static void node(int rank, uint64_t network, const char *text)
{
  char word[64], address[64];
  int bits, used;
  all[rank] = (ct__watch_addresses_t){.network = network};
  for (; sscanf(text, " %63s%n", word, &used) == 1; text += used) {
    ct__watch_address_t *a = &all[rank].address[all[rank].n++];
    int four = !strchr(word, ':');
    CT_ASSERT_INT(sscanf(word, "%63[^/]/%d", address, &bits), 2);
    a->bits = four ? bits + 96 : bits;
    if (four) a->at.s6_addr[10] = a->at.s6_addr[11] = 0xff;
    CT_ASSERT_INT(inet_pton(four ? AF_INET : AF_INET6, address, &a->at.s6_addr[four ? 12 : 0]), 1);
  }
}

/* The nth choice, "127.0.0.1"; "" if there is none. */
static const char *choice(int ranks, int rank, int n)
{
  static char text[64];
  struct in6_addr at;
  if (!ct__watch_choose(all, ranks, rank, n, &at)) return "";
  return ct__watch_address_text(&at, text, sizeof text);
}

static void on_one_node_it_is_loopback(void)
{
  for (int r = 0; r < RANKS; r++)
    node(r, 7, "10.0.0.1/24 fd00::1/64");
  for (int r = 0; r < RANKS; r++) {
    CT_ASSERT_TEXT(choice(RANKS, r, 0), "127.0.0.1");
    CT_ASSERT_TEXT(choice(RANKS, r, 1), "");
    CU_ASSERT(ct__watch_far(all, RANKS, r) == NULL);
  }
}

static void a_node_without_addresses_has_loopback(void)
{
  node(0, 7, "");
  node(1, 7, "");
  CT_ASSERT_TEXT(choice(2, 1, 0), "127.0.0.1");
}

static void networks_of_all_nodes_come_in_order(void)
{
  node(0, 7, "192.168.3.1/24 10.0.0.1/16 10.1.0.1/16 fd00::1/64");
  node(1, 7, "192.168.3.1/24 10.0.0.1/16 10.1.0.1/16 fd00::1/64");
  node(2, 8, "fd00::2/64 10.1.7.2/16 10.0.7.2/16 192.168.4.1/24");
  CT_ASSERT_TEXT(choice(3, 0, 0), "10.0.0.1");
  CT_ASSERT_TEXT(choice(3, 1, 0), "10.0.0.1");
  CT_ASSERT_TEXT(choice(3, 2, 0), "10.0.7.2");
  CT_ASSERT_TEXT(choice(3, 0, 1), "10.1.0.1");
  CT_ASSERT_TEXT(choice(3, 2, 1), "10.1.7.2");
  CT_ASSERT_TEXT(choice(3, 0, 2), "fd00::1");
  CT_ASSERT_TEXT(choice(3, 2, 2), "fd00::2");
  CT_ASSERT_TEXT(choice(3, 0, 3), "");
  CT_ASSERT_TEXT(choice(3, 2, 3), "");
}

static void a_bridge_that_each_node_has_is_no_network(void)
{
  node(0, 7, "172.17.0.1/16 10.0.0.1/24");
  node(1, 8, "172.17.0.1/16 10.0.0.2/24");
  CT_ASSERT_TEXT(choice(2, 1, 0), "10.0.0.2");
  CT_ASSERT_TEXT(choice(2, 0, 1), "");
}

static void two_addresses_in_a_network_are_one_choice(void)
{
  node(0, 7, "10.0.0.1/24 10.0.0.9/24");
  node(1, 8, "10.0.0.2/24");
  CT_ASSERT_TEXT(choice(2, 0, 0), "10.0.0.1");
  CT_ASSERT_TEXT(choice(2, 0, 1), "");
}

static void masks_are_compared_to_the_bit(void)
{
  node(0, 7, "10.0.0.1/23");
  node(1, 8, "10.0.1.2/23");
  CT_ASSERT_TEXT(choice(2, 1, 0), "10.0.1.2");
  node(1, 8, "10.0.2.2/23");
  CT_ASSERT_TEXT(choice(2, 1, 0), "");
  node(1, 8, "10.0.1.2/22");
  CT_ASSERT_TEXT(choice(2, 1, 0), "");
}

static void who_knows_nothing_of_its_network_is_far(void)
{
  node(0, 0, "10.0.0.1/24");
  node(1, 0, "10.0.0.1/24");
  CT_ASSERT_TEXT(choice(2, 0, 0), "");
  CU_ASSERT(ct__watch_far(all, 2, 0) == &all[1]);
  CU_ASSERT(ct__watch_far(all, 2, 1) == &all[0]);
}

/* Racks with networks of their own, and routers between them. */
static void routed_nodes_look_at_one_another(void)
{
  node(0, 7, "10.0.0.1/24");
  node(1, 7, "10.0.0.1/24");
  node(2, 8, "10.0.1.1/24");
  node(3, 9, "10.0.2.1/24");
  CT_ASSERT_TEXT(choice(4, 0, 0), "");
  CU_ASSERT(ct__watch_far(all, 4, 0) == &all[2]);
  CU_ASSERT(ct__watch_far(all, 4, 1) == &all[2]);
  CU_ASSERT(ct__watch_far(all, 4, 2) == &all[0]);
  CU_ASSERT(ct__watch_far(all, 4, 3) == &all[0]);
}

static void a_route_has_an_address_of_this_node(void)
{
  struct in6_addr at;
  char text[64];
  node(0, 7, "127.0.0.5/8");
  CT_ASSERT_INT(ct__watch_route(&all[0], &at), 1);
  CT_ASSERT_TEXT(ct__watch_address_text(&at, text, sizeof text), "127.0.0.1");
  node(0, 7, "");
  CT_ASSERT_INT(ct__watch_route(&all[0], &at), 0);
}

static void ports_are_a_range(void)
{
  static const char *const wrong[] = {"40000",   "5:4",      "0:9",   "1:65536", "1:2x", " 1:2",
                                      "1:2:3",   "-5:9",     "1:",    ":9",      "+1:2", "1 :2",
                                      "1:99999", "100000:1", "1:2\n", "any"};
  ct__watch_ports_t p;
  CT_ASSERT_OK(ct__watch_ports(NULL, &p));
  CT_ASSERT_INT(p.low + p.high, 0);
  CT_ASSERT_OK(ct__watch_ports("", &p));
  CT_ASSERT_INT(p.low + p.high, 0);
  CT_ASSERT_OK(ct__watch_ports("40000:40999", &p));
  CT_ASSERT_INT(p.low, 40000);
  CT_ASSERT_INT(p.high, 40999);
  CT_ASSERT_OK(ct__watch_ports("1:65535", &p));
  CT_ASSERT_OK(ct__watch_ports("7:7", &p));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CT_ASSERT_INT(ct__watch_ports(wrong[i], &p), CT_ERR_USAGE);
    CT_ASSERT_HAS(ct_err_last()->text, "expected LOW:HIGH");
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(on_one_node_it_is_loopback),
                                    CT_TEST(a_node_without_addresses_has_loopback),
                                    CT_TEST(networks_of_all_nodes_come_in_order),
                                    CT_TEST(a_bridge_that_each_node_has_is_no_network),
                                    CT_TEST(two_addresses_in_a_network_are_one_choice),
                                    CT_TEST(masks_are_compared_to_the_bit),
                                    CT_TEST(who_knows_nothing_of_its_network_is_far),
                                    CT_TEST(routed_nodes_look_at_one_another),
                                    CT_TEST(a_route_has_an_address_of_this_node),
                                    CT_TEST(ports_are_a_range),
                                    CT_TEST_END};
  return ct_test_main("watch networks", tests, argc, argv);
}
