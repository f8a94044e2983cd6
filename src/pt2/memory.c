/* Memory of a program: blocks that only grow and are freed at once, since a program has many small
 * texts and lists; and the arrays of values and nodes. */
#include <stdio.h>
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/pt2.h"

enum { BLOCK = 1 << 16 /* bytes */, ALIGN = 16 };

void *ct__pt2_alloc(ct__pt2_t *p, int64_t n, size_t size)
{
  const size_t head = (sizeof(ct__pt2_block_t) + ALIGN - 1) / ALIGN * ALIGN;
  size_t bytes = 0;
  ct__pt2_block_t *b = p->blocks;
  if (n < 0 || __builtin_mul_overflow((size_t)n, size, &bytes) || bytes > SIZE_MAX / 4) {
    ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "%s: no memory for a list of the program",
               p->g.path);
    return NULL;
  }
  bytes = (bytes + ALIGN) / ALIGN * ALIGN; /* at least one unit, so that each list has its own */
  if (!b || b->bytes - b->used < bytes) {
    size_t room = head + (bytes > BLOCK ? bytes : BLOCK);
    b = ct_mem_alloc(room, "a program of torch.export");
    if (!b) return NULL;
    *b = (ct__pt2_block_t){p->blocks, head, room};
    p->blocks = b;
  }
  char *at = (char *)b + b->used;
  b->used += bytes;
  return at;
}

const char *ct__pt2_copy(ct__pt2_t *p, const char *text)
{
  size_t bytes = strlen(text) + 1;
  char *copy = ct__pt2_alloc(p, (int64_t)bytes, 1);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

const char *ct__pt2_format(ct__pt2_t *p, const char *fmt, ...)
{
  char text[CT_ERR_TEXT];
  va_list args;
  va_start(args, fmt);
  ct_text_vfit(text, sizeof text, fmt, args);
  va_end(args);
  return ct__pt2_copy(p, text);
}

void ct__pt2_clear(ct__pt2_t *p)
{
  while (p->blocks) {
    ct__pt2_block_t *next = p->blocks->next;
    ct_mem_free(p->blocks);
    p->blocks = next;
  }
  for (int i = 0; i < p->g.values; i++)
    ct_mem_free(p->more[i].data);
  ct_mem_free(p->value);
  ct_mem_free(p->more);
  ct_mem_free(p->node);
}

static int memory_full(const ct__pt2_t *p, int n)
{
  int rc = CT_OK;
  if (n >= CT__PT2_MOST) CT_FAIL(CT_ERR_FORMAT, "%s: the program is too large", p->g.path);
out:
  return rc;
}

int ct__pt2_add_value(ct__pt2_t *p, const char *name, int *out)
{
  int rc = CT_OK, n = p->g.values;
  CT_TRY(memory_full(p, n));
  CT_TRY(ct_mem_grow((void **)&p->value, &p->value_cap, n + 1, sizeof *p->value));
  CT_TRY(ct_mem_grow((void **)&p->more, &p->more_cap, n + 1, sizeof *p->more));
  p->value[n] =
      (ct_pt2_value_t){.name = name, .type = CT_ELEMS, .node = -1, .tied = -1, .becomes = -1};
  p->more[n] = (ct__pt2_more_t){.view_of = -1,
                                .root = n,
                                .group = n,
                                .born = -1,
                                .suspect = -1,
                                .view_node = -1,
                                .now = n,
                                .item = -1};
  p->g.value = p->value;
  p->g.values = n + 1;
  *out = n;
out:
  return rc;
}

int ct__pt2_add_node(ct__pt2_t *p, const ct_pt2_node_t *node)
{
  int rc = CT_OK;
  CT_TRY(memory_full(p, p->g.nodes));
  CT_TRY(ct_mem_grow((void **)&p->node, &p->node_cap, p->g.nodes + 1, sizeof *p->node));
  p->node[p->g.nodes++] = *node;
  p->g.node = p->node;
out:
  return rc;
}

int ct__pt2_damaged(const ct__pt2_t *p, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  ct_err_vset(CT_ERR_FORMAT, __FILE__, __LINE__, fmt, args);
  va_end(args);
  return ct_err_prefix(CT_ERR_FORMAT, "%s: program: ", p->g.path);
}
