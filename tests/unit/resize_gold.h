/* Made by tests/golden/make_resize.py with Pillow 13.0.0. */
enum { RESIZE_H = 61, RESIZE_W = 90 };
static const struct {
  int channels, height, width;
  unsigned crc;
} resized[] = {
    {1, 7, 5, 0x542be5f3},   {1, 32, 24, 0x643a3777}, {1, 33, 71, 0xe8f6dcfb},
    {1, 100, 3, 0x5d24e036}, {1, 61, 90, 0x725db35f}, {1, 1, 1, 0x62d277af},
    {1, 61, 45, 0xc7b8d61c}, {1, 16, 90, 0x9f1a694c}, {3, 7, 5, 0xb19f0122},
    {3, 32, 24, 0xf2f8a873}, {3, 33, 71, 0x37e86ebf}, {3, 100, 3, 0x064dc763},
    {3, 61, 90, 0x96b139fb}, {3, 1, 1, 0xc3273dca},   {3, 61, 45, 0x03ae48ef},
    {3, 16, 90, 0x482bfa2d},
};
