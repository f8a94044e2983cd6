#!/usr/bin/env python3
"""Model families over tokens beside transformers in float64: logits, losses of three steps, gradients, weights.

    check_language.py CTRAIN [DEVICE...] [WORD...]      prints TAP; only cases whose names have one of the words
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from transformers import EsmConfig, EsmForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.pytorch_utils import Conv1D

from beside_torch import Case, Refused, compare

V, T = 37, 11


def model_of(base, skip=lambda name: False):
    """A model of transformers as a function of ids and perhaps a mask of valid tokens; without the parameters to skip."""

    class Net(base):
        def forward(self, x, keys=None, first=None):
            places = None
            if first is not None:  # documents: of the first token's place for each token
                i = torch.arange(T)
                places = (i - first).long()
                seen = (i[None, None] >= first[..., None]) & (i[None, None] <= i[None, :, None])
                keys = torch.zeros(len(x), 1, T, T).masked_fill(~seen[:, None], torch.finfo(x.dtype).min)
            more = {} if places is None else {"position_ids": places}
            return super().forward(input_ids=x.long(), attention_mask=keys, **more).logits

        def state_dict(self, *a, **k):
            state = super().state_dict(*a, **k)
            names = dict(self.named_parameters())
            return {n: v for n, v in state.items() if n in names}

        def named_parameters(self, *a, **k):
            return ((n, p) for n, p in super().named_parameters(*a, **k) if not skip(n))

    return Net


def drawn(net):
    """Weights with which no layer is near the identity or zero."""
    for p in net.parameters():
        if p.dim() == 1:
            nn.init.uniform_(p, 0.5, 1.5)
        else:
            nn.init.normal_(p, std=0.3)
    for n, p in net.named_parameters():
        if n.endswith("bias"):
            nn.init.normal_(p, std=0.2)
    return net.double()


def case(net, model, batch=3, keys=None, ids=V):
    net = drawn(net)
    x = torch.randint(0, ids, (batch, T)).float()
    target = torch.randint(0, V, (batch, T))
    target[0, 3] = -100
    loss = lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten(), ignore_index=-100)
    made = Case(None, net, x, target, {"kind": "cross_entropy", "ignore_index": -100}, loss, keys={
        "model": {**model, "vocab": V, "classes": V}})
    made.predict = ("--values", "outputs")
    made.turned = {n + ".weight" for n, m in net.named_modules() if isinstance(m, Conv1D)}
    if keys is not None:
        made.extra = {"keys": keys}  # N x 1 x T in the file: arrays of one shape would be one input
    return made


def gpt2(tie=True, bias=True, exact=False):
    c = GPT2Config(vocab_size=V, n_positions=16, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0.0, embd_pdrop=0.0,
                   attn_pdrop=0.0, tie_word_embeddings=tie, activation_function="gelu" if exact else "gelu_new",
                   bos_token_id=0, eos_token_id=0)
    net = model_of(GPT2LMHeadModel, skip=lambda n: not bias and n.endswith("bias"))(c)
    model = {"family": "gpt2", "layers": 2, "heads": 3, "dim": 24, "context": 16, "dropout": 0}
    model.update({} if tie else {"tie": False}, **({"activation": "gelu"} if exact else {}))
    model.update({} if bias else {"bias": False})
    made = case(net, model)
    for p in made.net.parameters():
        if not bias and all(p is not q for _, q in made.net.named_parameters()):
            nn.init.zeros_(p).requires_grad_(False)
    return made


def llama(tie=False, kv=2, scaled=False, head_dim=None, bias=False):
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    c = LlamaConfig(vocab_size=V, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=kv, rms_norm_eps=1e-6, tie_word_embeddings=tie, head_dim=head_dim,
                    max_position_embeddings=64, attention_bias=bias, mlp_bias=bias, bos_token_id=0, eos_token_id=0,
                    rope_parameters=rope if scaled else {"rope_type": "default", "rope_theta": 10000.0})
    model = {"family": "llama", "layers": 2, "heads": 4, "kv_heads": kv, "dim": 24, "hidden": 40, "eps": 1e-6,
             "tie": tie}
    if head_dim:
        model["head_dim"] = head_dim
    if bias:
        model["bias"] = True
    if scaled:
        model.update(rope_theta=500000, rope_scaling="llama3", rope_context=32)
    return case(model_of(LlamaForCausalLM)(c), model)


def esm2(padded=True, dropout=True):
    c = EsmConfig(vocab_size=V, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52,
                  pad_token_id=1, mask_token_id=32, position_embedding_type="rotary", token_dropout=dropout,
                  emb_layer_norm_before=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                  layer_norm_eps=1e-5, tie_word_embeddings=True)
    net = model_of(EsmForMaskedLM, skip=lambda n: "contact_head" in n)(c)
    model = {"family": "esm2", "layers": 2, "heads": 3, "dim": 24, "hidden": 52, "pad_id": 1}
    if dropout:
        model.update(token_dropout=True, mask_id=32)
    keys = torch.ones(3, T)
    keys[0, 7:] = keys[2, 10:] = 0
    made = case(net, model, keys=keys if padded else None)
    made.x[:, 2] = made.x[0, 4] = 32
    return made


def documents(made):
    first = torch.zeros(3, T)
    first[0, 4:] = 4
    first[1, 1:] = 1
    first[1, 8:] = 8
    made.extra = {"first": first}
    return made


CASES = {
    "gpt2": gpt2,
    "gpt2, untied": lambda: gpt2(tie=False),
    "gpt2, as nanoGPT": lambda: gpt2(exact=True, bias=False),
    "llama, groups of queries": llama,
    "llama, tied, all heads": lambda: llama(tie=True, kv=4),
    "llama 3, scaled rotation, head_dim": lambda: llama(kv=1, scaled=True, head_dim=10),
    "llama, biases": lambda: llama(bias=True),
    "gpt2, documents": lambda: documents(gpt2()),
    "llama, documents": lambda: documents(llama()),
    "esm2, padded": esm2,
    "esm2, plain": lambda: esm2(padded=False, dropout=False),
    "esm2, masked": lambda: esm2(padded=False),
}


def main(program, *words):
    devices = [w for w in words if w in ("cpu", "ref", "cuda")]
    only = [w for w in words if w not in devices]
    tests = [(n, d) for n in CASES for d in devices or ("cpu", "ref") if not only or any(w in n for w in only)]
    print(f"1..{len(tests)}")
    for i, (name, device) in enumerate(tests):
        torch.manual_seed(1 + i)
        try:
            wrong = compare(CASES[name](), program, device, 1e-5, forward=True)
        except Refused as e:
            wrong = str(e)
        if wrong:
            print(f"# {wrong}")
        print(f"{'not ok' if wrong else 'ok'} {i + 1} - {name}, {device}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
