#!/usr/bin/env python3
"""Models of transformers, nanoGPT and llm.c, there and back: the same logits to 1e-5.

    check_hf.py CTRAIN DIR [WORD...]      prints TAP; only cases whose names have one of the words
"""
import glob
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, EsmConfig, EsmForMaskedLM, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM)

ctrain, work, *words = sys.argv[1:]
V, T, NEAR = 37, 16, 1e-5
torch.manual_seed(1)
ids = torch.randint(0, V, (3, T))


def run(*command, status=0):
    done = subprocess.run([ctrain, *map(str, command)], text=True, capture_output=True)
    assert done.returncode == status, f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr}"
    return done.stdout + done.stderr


def near(got, want):
    got, want = torch.as_tensor(got).double(), torch.as_tensor(want).double()
    assert got.shape == want.shape, (got.shape, want.shape)
    off = float((got - want).abs().max() / max(1.0, float(want.abs().max())))
    assert off <= NEAR, f"logits differ by {off}"


def drawn(net):
    for n, p in net.named_parameters():
        nn.init.uniform_(p, 0.5, 1.5) if p.dim() == 1 and "bias" not in n else nn.init.normal_(p, std=0.2)
    return net.eval()


def logits(net):
    with torch.no_grad():
        out = net.double()(ids)
        net.float()
    return out if torch.is_tensor(out) else out.logits


def data(path):
    with h5py.File(path, "w") as f:
        f["images"] = ids.float().numpy()
        f["labels"] = np.roll(ids.int().numpy(), -1, 1)


def config(family, source, **model):
    """A configuration that names the family, and takes the numbers from the file."""
    with open("c.yaml", "w") as f:
        yaml.safe_dump({
            "run": {"dir": "run"}, "device": "cpu", "model": {"family": family, **model}, "init": {"from": str(source)},
            "data": {"train": "data.h5", "val": "data.h5", "batch": 3}, "train": {"steps": 1},
            "eval": {"every_epochs": 0}, "cpu": {"threads": 1}, "optim": {"kind": "sgd", "lr": 0.1}}, f)


def outputs(what, *more):
    run("predict", what, "--input", "data.h5", "--output", "y.h5", "--values", "outputs", *more)
    with h5py.File("y.h5") as f:
        return f["outputs"][...]


def opened(path, net):
    of = AutoModelForMaskedLM if isinstance(net, EsmForMaskedLM) else AutoModelForCausalLM
    other, info = of.from_pretrained(path, output_loading_info=True, dtype=torch.float32)
    left = {k for k in info["missing_keys"] if "contact_head" not in k and "inv_freq" not in k}
    assert not left and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return logits(other.eval())


def check(family, net, source, want=None, **convert):
    """Logits from the source; written as a directory, and by way of a checkpoint and a run."""
    want = logits(net) if want is None else want
    config(family, source)
    near(outputs("c.yaml", "--checkpoint", source), want)
    run("convert", source, "made", *(x for k, v in convert.items() for x in ("--" + k.replace("_", "-"), v)))
    vocab = convert.get("vocab", want.shape[2])
    near(opened("made", net), want[..., :vocab])
    run("convert", source, "c.h5")
    run("convert", "c.h5", "again/")
    near(opened("again", net), want)
    if isinstance(net, GPT2LMHeadModel):
        run("convert", "c.h5", "c.safetensors")
        state = {k.removeprefix("transformer."): v for k, v in net.state_dict().items()}
        for k, v in load_file("c.safetensors").items():
            assert "attn.bias" in k or "masked_bias" in k or torch.equal(v, state[k.removeprefix("transformer.")]), k
    run("train", "c.yaml")
    with open("run/tokenizer.blob", "w") as f:
        f.write("a tokenizer")
    run("convert", "run", "trained")
    assert open("trained/tokenizer.blob").read() == "a tokenizer"
    near(opened("trained", net), outputs("run"))


def gpt2(**more):
    c = {"resid_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0, **more}
    return drawn(GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=T, n_embd=24, n_layer=2, n_head=3, **c)))


def llama(**more):
    c = {"bos_token_id": 0, "eos_token_id": 1, **more}
    return drawn(LlamaForCausalLM(LlamaConfig(vocab_size=V, max_position_embeddings=T, hidden_size=24,
                                              num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, **c)))


def esm(**more):
    return drawn(EsmForMaskedLM(EsmConfig(vocab_size=V, max_position_embeddings=T, hidden_size=24, num_hidden_layers=2,
                                          num_attention_heads=3, intermediate_size=40, mask_token_id=5, pad_token_id=1,
                                          position_embedding_type="rotary", layer_norm_eps=1e-5, **more)))


def saved(net, **more):
    net.save_pretrained("hf", **more)
    return "hf"


def rewritten(net, change, bin=False):
    """The same weights under other names."""
    saved(net)
    state = change({k: v.clone() for k, v in net.state_dict().items()})
    os.unlink("hf/model.safetensors")
    torch.save(state, "hf/pytorch_model.bin") if bin else save_file(state, "hf/model.safetensors")
    return "hf"


def bare(state):
    return {k.removeprefix("transformer.").removeprefix("model."): v for k, v in state.items()}


def without_head(state):
    return {k: v for k, v in state.items() if k != "lm_head.weight"}


def with_buffers(state):
    for i in range(2):
        state[f"h.{i}.attn.bias"] = torch.tril(torch.ones(T, T, dtype=torch.bool)).view(1, 1, T, T)
        state[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
        state[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = torch.ones(3)
    return state


def of_gpt2(state):
    return {k: v for k, v in with_buffers(state).items() if "rotary" not in k}


def of_llama(state):
    return {k: v for k, v in with_buffers(state).items() if ".attn." not in k}


def set_config(**keys):
    with open("hf/config.json") as f:
        c = json.load(f)
    c.update(keys)
    with open("hf/config.json", "w") as f:
        json.dump({k: v for k, v in c.items() if v != "gone"}, f)


class Norm(nn.Module):
    def __init__(self, n, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.bias = nn.Parameter(torch.zeros(n)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class NanoGPT(nn.Module):
    """The model of nanoGPT's model.py, with its names."""

    def __init__(self, layers, heads, wide, vocab, bias):
        super().__init__()
        self.heads = heads
        linear = lambda i, o: nn.Linear(i, o, bias)
        block = lambda: nn.ModuleDict({
            "ln_1": Norm(wide, bias), "attn": nn.ModuleDict({"c_attn": linear(wide, 3 * wide), "c_proj": linear(wide, wide)}),
            "ln_2": Norm(wide, bias), "mlp": nn.ModuleDict({"c_fc": linear(wide, 4 * wide), "c_proj": linear(4 * wide, wide)})})
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, wide), "wpe": nn.Embedding(T, wide),
            "h": nn.ModuleList(block() for _ in range(layers)), "ln_f": Norm(wide, bias)})
        self.lm_head = nn.Linear(wide, vocab, False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, x):
        t = self.transformer
        x = t.wte(x) + t.wpe.weight[:x.shape[1]]
        for b in t.h:
            q, k, v = (z.unflatten(2, (self.heads, -1)).transpose(1, 2) for z in b.attn.c_attn(b.ln_1(x)).chunk(3, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + b.attn.c_proj(y.transpose(1, 2).flatten(2))
            x = x + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(x))))
        return self.lm_head(t.ln_f(x))


def nanogpt(bias, vocab, prefix):
    net = drawn(NanoGPT(2, 3, 24, vocab, bias))
    torch.save({
        "model": {prefix + k: v for k, v in net.state_dict().items()}, "optimizer": {"state": {0: {"step": torch.ones(1)}}},
        "model_args": {"n_layer": 2, "n_head": 3, "n_embd": 24, "block_size": T, "bias": bias, "vocab_size": vocab,
                       "dropout": 0.0}, "iter_num": 7, "best_val_loss": torch.tensor(3.0), "config": {"a": 1}}, "ckpt.pt")
    check("gpt2", net, "ckpt.pt", vocab=V)


def llmc(version):
    net = gpt2()
    s = net.state_dict()
    if version == 5:
        for v in s.values():
            v.copy_(v.bfloat16().float())
    padded, out = 64, np.float32
    head = np.zeros(256, np.int32)
    head[:8] = 20240326, version, T, V, 2, 3, 24, padded
    each = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
            "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"]
    turned = lambda n, v: v.t() if n.endswith("weight") and "ln_" not in n else v
    values = [F.pad(s["transformer.wte.weight"], (0, 0, 0, padded - V), value=9.0), s["transformer.wpe.weight"]]
    values += [turned(n, s[f"transformer.h.{i}.{n}"]) for n in each for i in range(2)]
    values += [s["transformer.ln_f.weight"], s["transformer.ln_f.bias"]]
    with open("model.bin", "wb") as f:
        f.write(head.tobytes())
        for v in values:
            v = v.contiguous()
            f.write((v.numpy() if version == 3 else v.bfloat16().view(torch.int16).numpy()).tobytes())
    check("gpt2", net, "model.bin")


def refusals():
    saved(gpt2())
    for keys, text in [({"model_type": "mistral"}, "model_type is"), ({"scale_attn_by_inverse_layer_idx": True}, "inverse"),
                       ({"activation_function": "relu6"}, "activation_function is"), ({"n_layer": 0}, "n_layer is 0")]:
        set_config(**keys)
        config("gpt2", "hf")
        said = run("train", "c.yaml", status=2)
        assert text in said and "config.json" in said, said
        shutil.rmtree("hf")
        saved(gpt2())
    saved(llama())
    for keys, text in [({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}}, "yarn"),
                       ({"attention_bias": True}, "attention_bias is true"), ({"hidden_act": "gelu"}, "hidden_act is")]:
        set_config(**keys)
        config("llama", "hf")
        said = run("train", "c.yaml", status=2)
        assert text in said and "config.json" in said, said
        set_config(rope_parameters={"rope_type": "default", "rope_theta": 1e4}, attention_bias=False, hidden_act="silu")
    config("gpt2", "hf")
    assert "family llama" in run("train", "c.yaml", status=2)

    def other_head(state):
        state["lm_head.weight"] = state["lm_head.weight"] + 1
        return state

    rewritten(gpt2(), other_head, True)
    config("gpt2", "hf")
    assert "'lm_head.weight' differs from 'transformer.wte.weight'" in run("train", "c.yaml", status=1)
    saved(gpt2())
    os.mkdir("full")
    open("full/x", "w").close()
    assert "exists already" in run("convert", "hf", "full", status=2)
    assert os.listdir("full") == ["x"]
    run("convert", "hf", "cut.dir/", "--vocab", V + 1, status=2)
    assert not glob.glob("cut.dir*") and not glob.glob(".*.tmp")


def sharded():
    net = llama(num_key_value_heads=2)
    source = saved(net, max_shard_size="10KB")
    assert len(glob.glob("hf/*.safetensors")) > 2
    check("llama", net, source, shard_gb="1e-5")
    assert len(glob.glob("made/*.safetensors")) > 2 and len(json.load(open("made/model.safetensors.index.json"))["weight_map"]) == 21


def old_rope():
    net = llama(rope_parameters={"rope_type": "llama3", "rope_theta": 5e3, "factor": 4.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 8})
    saved(net)
    set_config(rope_parameters="gone", rope_theta=5000.0, num_key_value_heads="gone", head_dim="gone",
               rope_scaling={"type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8})
    check("llama", net, "hf")


def alone():
    """The directory is the model: no configuration, no family."""
    net = gpt2()
    saved(net)
    near(outputs("hf"), logits(net))


def prefers_the_user():
    """A number that the configuration names is not taken from the file."""
    saved(gpt2())
    config("gpt2", "hf", heads=2, dropout=0.1)
    run("train", "c.yaml")
    made = yaml.safe_load(open("run/config.yaml"))["model"]
    assert (made["heads"], made["depth"], made["dim"], made["dropout"]) == (2, 2, 24, 0.1), made


def of(make, source, **keys):
    def case():
        net = make(**keys)
        check({"gpt2": "gpt2", "llama": "llama", "esm": "esm2"}[net.config.model_type], net, source(net))
    return case


SCALED = {"rope_type": "llama3", "rope_theta": 5e3, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8}
CASES = {
    "gpt2 safetensors": of(gpt2, saved),
    "gpt2 without prefix and head": of(gpt2, lambda n: rewritten(n, lambda s: without_head(bare(s)))),
    "gpt2 without prefix, with head, .bin": of(gpt2, lambda n: rewritten(n, lambda s: of_gpt2(bare(s)), True)),
    "gpt2 with prefix and head, .bin": of(gpt2, lambda n: rewritten(n, of_gpt2, True)),
    "gpt2 untied, exact gelu, wide mlp": of(gpt2, saved, tie_word_embeddings=False, activation_function="gelu", n_inner=40),
    "llama, groups": of(llama, saved, num_key_value_heads=2),
    "llama, tied, llama3": of(llama, saved, tie_word_embeddings=True, rope_parameters=SCALED),
    "llama, head_dim, linear, biases": of(llama, saved, head_dim=8, attention_bias=True, mlp_bias=True, rope_parameters={
        "rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}),
    "llama .bin with buffers": of(llama, lambda n: rewritten(n, of_llama, True)),
    "llama without prefix": of(llama, lambda n: rewritten(n, bare)),
    "llama of an older config.json": old_rope,
    "llama in several files": sharded,
    "esm": of(esm, saved),
    "esm, token_dropout": of(esm, saved, token_dropout=True),
    "nanoGPT, compiled": lambda: nanogpt(False, 48, "_orig_mod."),
    "nanoGPT, biases": lambda: nanogpt(True, V, ""),
    "llm.c float32": lambda: llmc(3),
    "llm.c bfloat16": lambda: llmc(5),
    "a directory alone": alone,
    "numbers of the user": prefers_the_user,
    "refusals": refusals,
}


def main():
    bad = n = 0
    for name, case in CASES.items():
        if words and not any(w in name for w in words):
            continue
        n += 1
        directory = os.path.join(work, str(n))
        os.makedirs(directory)
        os.chdir(directory)
        data("data.h5")
        try:
            case()
            print(f"ok {n} - {name}", flush=True)
        except Exception as e:  # noqa: BLE001: any failure is one of the case
            bad += 1
            print(f"not ok {n} - {name}\n# {type(e).__name__}: {e}".replace("\n", "\n# "), flush=True)
        shutil.rmtree(directory)
    print(f"1..{n}")
    return bad > 0


sys.exit(main())
