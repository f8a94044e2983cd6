/* nanoGPT's ckpt.pt: a dict with the state dict `model` and the arguments of its GPT, `model_args`.
 *
 * Names are those of GPT-2 in transformers, but layers are torch.nn.Linear: a weight is out x in,
 * with the same name and, if it is square, the same shape as the Conv1D of transformers. GELU is
 * the exact one. Other programs write a `model_args` with other keys: those are not touched. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/pth/pth.h"

enum { MOST = 1 << 30 };

static int value_of(const ct_pickle_t *p, int dict, const char *key)
{
  if (dict < 0 || p->node[dict].kind != CT_PICKLE_DICT) return -1;
  for (int c = p->node[dict].first; c >= 0; c = ct__pth_next(p, c)) {
    const char *name = ct__pth_key(p, c);
    if (name && strcmp(name, key) == 0) return ct__pth_value(p, c);
  }
  return -1;
}

static int add_text(ct_weights_t *w, const char *name, ct_str_t *text)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&w->text, &w->text_cap, w->texts + 1, sizeof *w->text));
  w->text[w->texts++] = (ct_weights_text_t){name, text->data};
  *text = (ct_str_t){0};
out:
  return rc;
}

int ct__pth_nanogpt(ct_weights_t *w)
{
  static const char *const keys[][2] = {{"n_layer", "layers"},
                                        {"n_head", "heads"},
                                        {"n_embd", "dim"},
                                        {"block_size", "context"},
                                        {"vocab_size", "vocab"}};
  enum { KEYS = sizeof keys / sizeof *keys };
  int rc = CT_OK;
  ct_str_t text = {0}, order = {0};
  const ct_pickle_t *p = &w->pickle;
  int args = value_of(p, p->root, "model_args"), bias = value_of(p, args, "bias");
  int64_t number[KEYS];
  if (bias < 0 || p->node[bias].kind != CT_PICKLE_BOOL) return CT_OK;
  for (int i = 0; i < KEYS; i++) {
    int v = value_of(p, args, keys[i][0]);
    if (v < 0 || p->node[v].kind != CT_PICKLE_INT) return CT_OK;
    number[i] = p->node[v].value;
    if (number[i] < 1 || number[i] > MOST)
      CT_FAIL(CT_ERR_FORMAT, "%s: model_args: %s is %lld, expected 1 to 2^30", w->path, keys[i][0],
              (long long)number[i]);
  }
  CT_TRY(ct_str_add(&text, "{family: gpt2, activation: gelu, bias: %s",
                    p->node[bias].value ? "yes" : "no"));
  for (int i = 0; i < KEYS; i++)
    CT_TRY(ct_str_add(&text, ", %s: %lld", keys[i][1], (long long)number[i]));
  CT_TRY(ct_str_add(&text, ", input: [%lld], classes: %lld}\n", (long long)number[3],
                    (long long)number[4]));
  CT_TRY(ct_str_add(&order, "out,in"));
  CT_TRY(add_text(w, "model", &text));
  CT_TRY(add_text(w, "conv1d", &order));
  CT_TRY(ct_str_add(&w->remark, "%sis a checkpoint of nanoGPT", w->remark.len ? ", " : ""));
out:
  ct_str_clear(&text);
  ct_str_clear(&order);
  return rc;
}
