/* Rules: embeddings and indices. */
#include <inttypes.h>

#include "import/import.h"

static int index_embedding(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, w, ids, x;
  int64_t pad = -1;
  (void)data;
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 0, &w));
  CT_TRY(ct_pt2_int(t->g, n, "padding_idx", &pad));
  CT_TRY(ct__im_in(t, n, "indices", 0, &ids));
  const ct_shape_t s = t->layer[ids].shape;
  const ct_pt2_value_t *v = &t->g->value[w];
  ct_shape_t y;
  CT_TRY(ct__im_result(t, n, &y));
  if (ct__im_owned(t, w, CT__IM_EMBEDDING) && s.batch) {
    ct__im_form_t form;
    (void)form;
    const char *more = pad >= 0 ? ct__im_format(t, ", padding_idx: %" PRId64, pad) : "";
    if (!more) return CT_ERR_NOMEM;
    CT_TRY(ct__im_one(t, &x, "embedding", &y, ids, "rows: %" PRId64 ", dim: %" PRId64 "%s",
                      v->dim[0].n, v->dim[1].n, more));
    ct__im_weight(t, x, "weight", w);
  } else {
    if (pad >= 0 && v->kind == CT_PT2_PARAMETER)
      return ct__im_refuse("padding_idx with a weight that other ops use, too");
    CT_TRY(ct__im_operand(t, w, &x));
    CT_TRY(ct__im_add(t, &x, "rows", &y, 2, (int[]){x, ids}, NULL));
  }
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

const ct__im_rule_t ct__im_indexes[] = {{"aten.embedding", index_embedding, NULL},
                                        {NULL, NULL, NULL}};
