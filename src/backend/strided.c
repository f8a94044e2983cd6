/* Maps of strided copies in the order of memory, their loops, inverses and sums.  A copy in a
 * layout of images is a copy of plain tensors with other dims, so only this file knows about
 * layouts. */
#include "backend/ct_strided.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- the map of an op ---- */

static int lanes_of(ct_layout_t layout)
{
  return layout == CT_C16 ? 16 : layout == CT_C8 ? 8 : 1;
}

static void plain_map(const ct_op_desc_t *d, ct_map_t *m)
{
  int x = d->u.strided.x_view_dims, y = d->u.strided.y_view_dims;
  memset(m, 0, sizeof *m);
  m->source_dims = x ? x : d->x.ndim;
  m->target_dims = y ? y : d->y.ndim;
  memcpy(m->source, x ? d->u.strided.x_view : d->x.dim, CT_MAX_DIMS * sizeof *m->source);
  memcpy(m->target, y ? d->u.strided.y_view : d->y.dim, CT_MAX_DIMS * sizeof *m->target);
  for (int i = 0; i < CT_MAX_DIMS; i++) {
    m->from[i] = d->u.strided.from[i];
    m->step[i] = d->u.strided.step[i];
    m->start[i] = d->u.strided.start[i];
    m->edge[i] = d->u.strided.edge[i];
  }
}

/* Returns the only dim of the target that reads dim s of the source; -1: none or several. */
static int reader_of(const ct_map_t *m, int s)
{
  int found = -1;
  for (int i = 0; i < m->target_dims; i++) {
    if (m->from[i] != s) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Returns 1 if blocks of channels stay together at the same place of the dims. */
static int keeps_blocks(const ct_op_desc_t *d, const ct_map_t *m, int lanes)
{
  int64_t start = m->start[1], in = d->x.dim[1], out = d->y.dim[1];
  if (d->y.ndim != d->x.ndim || reader_of(m, 1) != 1 || m->step[1] != 1) return 0;
  if (start < 0 || start % lanes || start + out > in) return 0;
  return out % lanes == 0 || (start + out == in && d->u.strided.value == 0);
}

/* Returns the dim of y that is all channels of x; -1: none. */
static int dim_of_channels(const ct_op_desc_t *d, const ct_map_t *m, int lanes)
{
  int i = reader_of(m, 1);
  if (i < 0 || m->step[i] != 1 || m->start[1] != 0 || d->y.dim[i] != d->x.dim[1]) return -1;
  return d->x.dim[1] % lanes == 0 && d->y.ndim < CT_MAX_DIMS ? i : -1;
}

/* Returns the dim of a plain x that becomes all channels of y, an image; -1: none. */
static int source_of_channels(const ct_op_desc_t *d, const ct_map_t *m, int lanes)
{
  int s = m->from[1];
  if (d->u.strided.x_view_dims || d->u.strided.y_view_dims) return -1;
  if (d->y.ndim < 4 || d->y.ndim > 5 || s < 0 || reader_of(m, s) != 1) return -1;
  if (m->step[1] != 1 || m->start[s] != 0 || d->x.dim[s] != d->y.dim[1]) return -1;
  return d->y.dim[1] % lanes == 0 && d->x.ndim < CT_MAX_DIMS ? s : -1;
}

int ct_strided_layout(const ct_op_desc_t *d)
{
  ct_map_t m;
  int lanes = lanes_of(d->x.layout), wanted = lanes_of(d->y.layout);
  if (d->x.layout == CT_PLAIN) {
    plain_map(d, &m);
    return wanted > 1 && source_of_channels(d, &m, wanted) >= 0 ? (int)d->y.layout : CT_PLAIN;
  }
  if (d->u.strided.x_view_dims || d->u.strided.y_view_dims) return -1;
  if (d->x.ndim < 4 || d->x.ndim > 5) return -1;
  plain_map(d, &m);
  if (d->x.layout == CT_NHWC)
    return d->y.ndim == d->x.ndim && reader_of(&m, 1) == 1 ? CT_NHWC : CT_PLAIN;
  if (keeps_blocks(d, &m, lanes)) return (int)d->x.layout;
  return dim_of_channels(d, &m, lanes) >= 0 ? CT_PLAIN : -1;
}

/* Makes dim s of the source its last one. */
static void source_last(ct_map_t *m, int s)
{
  int last = m->source_dims - 1, edge = m->edge[s];
  int64_t size = m->source[s], start = m->start[s];
  for (int i = s; i < last; i++) {
    m->source[i] = m->source[i + 1];
    m->start[i] = m->start[i + 1];
    m->edge[i] = m->edge[i + 1];
  }
  m->source[last] = size;
  m->start[last] = start;
  m->edge[last] = edge;
  for (int i = 0; i < m->target_dims; i++)
    m->from[i] = m->from[i] == s ? last : m->from[i] - (m->from[i] > s);
}

/* Inserts a dim of the target. */
static void insert_target(ct_map_t *m, int at, int64_t size, int from, int64_t step)
{
  for (int i = m->target_dims++; i > at; i--) {
    m->target[i] = m->target[i - 1];
    m->from[i] = m->from[i - 1];
    m->step[i] = m->step[i - 1];
  }
  m->target[at] = size;
  m->from[at] = from;
  m->step[at] = step;
}

static void remove_target(ct_map_t *m, int at)
{
  m->target_dims--;
  for (int i = at; i < m->target_dims; i++) {
    m->target[i] = m->target[i + 1];
    m->from[i] = m->from[i + 1];
    m->step[i] = m->step[i + 1];
  }
}

/* Splits the channels of both sides into blocks; dim `at` of the target has them, and the place in
 * a block becomes its dim `place`. */
static void split_channels(ct_map_t *m, int lanes, int at, int place)
{
  int last = m->source_dims++;
  m->source[last] = lanes;
  m->start[last] = 0;
  m->edge[last] = CT_EDGE_VALUE;
  m->source[1] = (m->source[1] + lanes - 1) / lanes;
  m->start[1] /= lanes;
  m->target[at] = (m->target[at] + lanes - 1) / lanes;
  insert_target(m, place, lanes, last, 1);
}

/* Splits the channels of the target, which read dim s of a plain source, into blocks. */
static void split_plain(ct_map_t *m, int s, int lanes)
{
  for (int i = m->source_dims++; i > s; i--) {
    m->source[i] = m->source[i - 1];
    m->start[i] = m->start[i - 1];
    m->edge[i] = m->edge[i - 1];
  }
  m->source[s] /= lanes;
  m->source[s + 1] = lanes;
  for (int i = 0; i < m->target_dims; i++)
    m->from[i] += m->from[i] > s;
  m->target[1] /= lanes;
  insert_target(m, m->target_dims, lanes, s + 1, 1);
}

int ct_strided_map(const ct_op_desc_t *d, ct_map_t *out)
{
  int y = ct_strided_layout(d), lanes = lanes_of(d->x.layout);
  if (y < 0) return 0;
  plain_map(d, out);
  if (d->x.layout == CT_PLAIN && y != CT_PLAIN) {
    lanes = lanes_of((ct_layout_t)y);
    split_plain(out, source_of_channels(d, out, lanes), lanes);
  }
  if (d->x.layout == CT_PLAIN) return 1;
  if (d->x.layout == CT_NHWC) {
    source_last(out, 1);
    if (y != CT_NHWC) return 1;
    insert_target(out, out->target_dims, out->target[1], out->from[1], out->step[1]);
    remove_target(out, 1);
    return 1;
  }
  int at = y == CT_PLAIN ? dim_of_channels(d, out, lanes) : 1;
  split_channels(out, lanes, at, y == CT_PLAIN ? at + 1 : out->target_dims);
  return 1;
}

/* ---- loops ---- */

/* Returns 1 if dim s of the source is read at indices outside of it. */
static int leaves(const ct_map_t *m, int s)
{
  int64_t least = m->start[s], most = least;
  for (int i = 0; i < m->target_dims; i++) {
    if (m->from[i] != s) continue;
    int64_t move = m->step[i] * (m->target[i] - 1);
    if (move < 0)
      least += move;
    else
      most += move;
  }
  return least < 0 || most >= m->source[s];
}

static int64_t count_of(int n, const int64_t *dim)
{
  int64_t count = 1;
  for (int i = 0; i < n; i++)
    count *= dim[i];
  return count;
}

static void add_dim(ct_walk_t *w, int64_t size, int64_t step, int on)
{
  int last = w->dims - 1;
  if (size == 1) return;
  if (last >= 0 && on < 0 && w->on[last] < 0 && w->step[last] == step * size) {
    w->size[last] *= size;
    w->step[last] = step;
    return;
  }
  w->size[w->dims] = size;
  w->step[w->dims] = step;
  w->on[w->dims++] = on;
}

void ct_map_walk(const ct_map_t *m, ct_walk_t *out)
{
  int64_t stride[CT_MAP_DIMS] = {0}, all = 1;
  int edge[CT_MAP_DIMS];
  memset(out, 0, sizeof *out);
  out->count = count_of(m->target_dims, m->target);
  for (int s = m->source_dims - 1; s >= 0; s--) {
    stride[s] = all;
    all *= m->source[s];
  }
  for (int s = 0; s < m->source_dims && out->count; s++) {
    edge[s] = -1;
    if (leaves(m, s)) {
      edge[s] = out->edges;
      out->edge[out->edges++] = (ct_walk_edge_t){m->edge[s], m->source[s], m->start[s], stride[s]};
    } else {
      out->base += m->start[s] * stride[s];
    }
  }
  for (int i = 0; i < m->target_dims && out->count; i++) {
    int s = m->from[i], on = s < 0 ? -1 : edge[s];
    add_dim(out, m->target[i], s < 0 ? 0 : on < 0 ? m->step[i] * stride[s] : m->step[i], on);
  }
}

int ct_strided_keeps(const ct_op_desc_t *d)
{
  ct_map_t m;
  ct_walk_t w;
  plain_map(d, &m);
  ct_map_walk(&m, &w);
  return ct_shape_count(&d->x) == w.count && w.edges == 0 && w.base == 0 &&
         (w.dims == 0 || (w.dims == 1 && w.step[0] == 1));
}

/* ---- the inverse ---- */

static void drop_single(ct_map_t *m)
{
  for (int i = m->target_dims - 1; i >= 0; i--)
    if (m->target[i] == 1) remove_target(m, i);
}

/* Inverts the map in dim s, which dim t of the target reads.  Returns 0 if it cannot. */
static int invert_dim(const ct_map_t *m, int s, int t, ct_map_t *out)
{
  int64_t step = m->step[t];
  if (step != 1 && step != -1) return 0;
  out->from[s] = t;
  out->step[s] = step;
  out->start[t] = -step * m->start[s];
  out->edge[t] = CT_EDGE_VALUE;
  if (m->edge[s] == CT_EDGE_VALUE || !leaves(m, s)) return 1;
  out->edge[t] = CT_EDGE_WRAP;
  return m->edge[s] == CT_EDGE_WRAP && m->source[s] == m->target[t];
}

int ct_map_inverse(const ct_map_t *map, ct_map_t *out)
{
  ct_map_t m = *map;
  drop_single(&m);
  memset(out, 0, sizeof *out);
  out->target_dims = m.source_dims;
  out->source_dims = m.target_dims;
  memcpy(out->target, m.source, sizeof out->target);
  memcpy(out->source, m.target, sizeof out->source);
  for (int i = 0; i < m.target_dims; i++)
    if (m.from[i] < 0) return 0;
  for (int s = 0; s < m.source_dims; s++) {
    int t = reader_of(&m, s), n = 0;
    for (int i = 0; i < m.target_dims; i++)
      n += m.from[i] == s;
    out->from[s] = -1;
    if (n > 1 || (n == 1 && !invert_dim(&m, s, t, out))) return 0;
    if (n == 1) continue;
    /* one index of the dim is read: the others get the constant */
    int64_t at = ct_edge_place(m.edge[s], m.start[s], m.source[s]);
    if (m.source[s] == 1 && at == 0) continue;
    t = out->source_dims++;
    if (t >= CT_MAP_DIMS) return 0;
    out->source[t] = 1;
    out->start[t] = at < 0 ? 1 : -at;
    out->from[s] = t;
    out->step[s] = at < 0 ? 0 : 1;
  }
  return 1;
}

/* ---- sums ---- */

/* Limit on the size of joined dims, which have a list of all their indices. */
enum { LONGEST = 1 << 20 };

/* Joins dims that both sides have in the same order. */
static void join_equal(ct_map_t *m)
{
  for (int s = m->source_dims - 2; s >= 0; s--) {
    int a = reader_of(m, s), b = reader_of(m, s + 1);
    int equal = a >= 0 && b == a + 1 && m->source[s] * m->source[s + 1] <= LONGEST;
    for (int k = 0; equal && k < 2; k++)
      equal = m->step[a + k] == 1 && m->start[s + k] == 0 && m->target[a + k] == m->source[s + k];
    if (!equal) continue;
    m->target[b] *= m->target[a];
    m->source[s + 1] *= m->source[s];
    m->step[b] = 1;
    remove_target(m, a);
    source_last(m, s); /* nothing reads it any more */
    m->source_dims--;
  }
}

/* Calls for each tuple of the target's dims that read dim s: `add` gets its index and its place in
 * the target's memory. */
typedef struct lister {
  const ct_map_t *m;
  ct_readers_t *r;
  int s, write;
  int64_t *at; /* where the next entry of each index goes */
} lister_t;

static void list_one(lister_t *l, int64_t index, int64_t place)
{
  int64_t j = ct_edge_place(l->m->edge[l->s], index, l->m->source[l->s]);
  int64_t *begin = l->r->begin + l->r->place[l->s];
  if (j < 0) return;
  if (l->write)
    l->r->at[begin[j]++] = place;
  else
    begin[j + 1]++;
}

static void list_dim(lister_t *l, const int64_t *stride)
{
  const ct_map_t *m = l->m;
  int dim[CT_MAP_DIMS], n = 0;
  int64_t i[CT_MAP_DIMS] = {0}, index = m->start[l->s], place = 0;
  for (int t = 0; t < m->target_dims; t++)
    if (m->from[t] == l->s) dim[n++] = t;
  for (int k = 0; k >= 0;) {
    list_one(l, index, place);
    for (k = n - 1; k >= 0; k--) {
      int t = dim[k];
      index += m->step[t];
      place += stride[t];
      if (++i[k] < m->target[t]) break;
      i[k] = 0;
      index -= m->step[t] * m->target[t];
      place -= stride[t] * m->target[t];
    }
  }
}

/* Counts or writes the entries of all dims. */
static void list_all(const ct_map_t *m, ct_readers_t *r, const int64_t *stride, int write)
{
  for (int s = 0; s < m->source_dims; s++) {
    lister_t l = {.m = m, .r = r, .s = s, .write = write};
    list_dim(&l, stride);
  }
}

static void measure(const ct_map_t *m, ct_readers_t *r, const int64_t *stride)
{
  r->dims = m->source_dims;
  for (int s = 0; s < m->source_dims; s++) {
    int64_t entries = 1;
    r->size[s] = m->source[s];
    r->place[s] = r->begins;
    r->begins += m->source[s] + 1;
    for (int t = 0; t < m->target_dims; t++)
      if (m->from[t] == s) entries *= m->target[t];
    r->entries += entries;
  }
  for (int t = 0; t < m->target_dims; t++) {
    if (m->from[t] >= 0) continue;
    r->loop_size[r->loops] = m->target[t];
    r->loop_step[r->loops++] = stride[t];
  }
}

int ct_readers_make(const ct_map_t *map, ct_readers_t *out)
{
  int rc = CT_OK;
  ct_map_t m = *map;
  int64_t stride[CT_MAP_DIMS], all = 1;
  ct_readers_t r = {0};
  memset(out, 0, sizeof *out);
  drop_single(&m);
  join_equal(&m);
  for (int t = m.target_dims - 1; t >= 0; t--) {
    stride[t] = all;
    all *= m.target[t];
  }
  measure(&m, &r, stride);
  r.begin = ct_mem_array(r.begins + 1, sizeof *r.begin, "strided copy");
  r.at = ct_mem_array(r.entries + 1, sizeof *r.at, "strided copy");
  CT_TRY(r.begin && r.at ? CT_OK : CT_ERR_NOMEM);
  if (all) list_all(&m, &r, stride, 0);
  /* begin[j] becomes the sum of the numbers of entries before j; the dims follow each other */
  int64_t sum = 0;
  for (int s = 0; s < r.dims; s++) {
    int64_t *begin = r.begin + r.place[s];
    begin[0] = sum;
    for (int64_t j = 1; j <= r.size[s]; j++)
      begin[j] = sum += begin[j];
  }
  if (all) list_all(&m, &r, stride, 1);
  /* writing moved each begin[j] to the next one */
  for (int s = 0; s < r.dims; s++) {
    int64_t *begin = r.begin + r.place[s];
    for (int64_t j = r.size[s]; j > 0; j--)
      begin[j] = begin[j - 1];
    begin[0] = s ? r.begin[r.place[s - 1] + r.size[s - 1]] : 0;
  }
  *out = r;
  r = (ct_readers_t){0};
out:
  ct_readers_clear(&r);
  return rc;
}

void ct_readers_clear(ct_readers_t *r)
{
  ct_mem_free(r->begin);
  ct_mem_free(r->at);
  memset(r, 0, sizeof *r);
}
