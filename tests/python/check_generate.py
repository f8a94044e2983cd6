#!/usr/bin/env python3
"""`generate` beside transformers: greedy tokens, text, any batches and numbers of ranks, with caches and without.

    check_generate.py CTRAIN DIR      prints TAP
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

ctrain, work = sys.argv[1], Path(sys.argv[2])
count = 0
CONTEXT, VOCAB = 64, 257
GPT2 = (f"{{family: gpt2, layers: 2, heads: 4, dim: 48, vocab: {VOCAB}, context: {CONTEXT}, classes: {VOCAB}, "
        f"input: [{CONTEXT}]}}")
LLAMA = (f"{{family: llama, layers: 2, heads: 4, kv_heads: 2, dim: 32, hidden: [88], vocab: {VOCAB}, "
         f"context: {CONTEXT}, classes: {VOCAB}, input: [{CONTEXT}]}}")


def tap(fine, what, why=""):
    global count
    count += 1
    print(f"{'ok' if fine else 'not ok'} {count} - {what}", flush=True)
    if not fine:
        print("# " + str(why).replace("\n", "\n# "))


def run(*command, ranks=1):
    launch = [shutil.which("mpiexec"), "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launch, ctrain, *map(str, command)], capture_output=True, cwd=work, timeout=300)


def generate(model, *options, ranks=1):
    done = run("generate", *model, *options, ranks=ranks)
    if done.returncode:
        return done.stderr.decode()
    return [[int(i) for i in line.split(",")] for line in done.stdout.decode().splitlines()]


def wanted(model, prompt, tokens):
    out = model.generate(torch.tensor([prompt]), max_new_tokens=tokens, do_sample=False, eos_token_id=None,
                         pad_token_id=0)
    return out[0].tolist()


def ids(prompt):
    return ",".join(map(str, prompt))


def make(name, model, section):
    """Random weights of a size that makes the logits of tokens differ; returns the arguments for the model."""
    torch.manual_seed(1)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.3)
    state = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight" or name == "llama"}
    save_file(state, work / f"{name}.safetensors", metadata={"format": "pt"})
    (work / f"{name}.yaml").write_text(f"model: {section}\ndevice: cpu\n")
    return model.eval(), (f"{name}.yaml", "--checkpoint", f"{name}.safetensors")


def beside(name, model, path):
    prompts = [[7], list(range(5, 30)), [200, 3, 3, 9, 250], [1, 2], list(range(90, 140))]
    want = [wanted(model, p, 12) for p in prompts]
    (work / "ids.txt").write_text("\n".join(map(ids, prompts)) + "\n")
    one = generate(path, "--prompt-tokens", ids(prompts[1]), "--tokens", 12, "--temperature", 0)
    tap(one == [want[1]], f"{name}: greedy tokens are those of transformers", f"{one}\n{want[1]}")
    for device in ("cpu", "ref"):
        all_ = generate(path, "--input-tokens", "ids.txt", "--tokens", 12, "--temperature", 0, "--set",
                        f"device={device}", "--batch", 3)
        tap(all_ == want, f"{name}: of several prompts in a batch, device {device}", f"{all_}\n{want}")
    without = generate(path, "--input-tokens", "ids.txt", "--tokens", 12, "--temperature", 0, "--no-cache")
    tap(without == want, f"{name}: without caches", f"{without}\n{want}")
    full = generate(path, "--prompt-tokens", ids(prompts[4]), "--tokens", 100, "--temperature", 0)
    tap(full == [wanted(model, prompts[4], CONTEXT - len(prompts[4]))], f"{name}: to the end of the context", full)


def drawn(name, path):
    options = ("--input-tokens", "ids.txt", "--tokens", 20, "--top-k", 50, "--top-p", 0.95, "--temperature", 0.9,
               "--seed", 3)
    one = generate(path, *options)
    tap(len(one) == 5 and len(one[0]) == 21, f"{name}: draws", one)
    for ranks in (2, 3):
        tap(generate(path, *options, ranks=ranks) == one, f"{name}: {ranks} ranks draw the same")
    tap(generate(path, *options, "--batch", 1) == one, f"{name}: batches of one draw the same")
    tap(generate(path, *options, "--no-cache") == one, f"{name}: without caches, the same draws")
    tap(generate(path, *options[:-1], 4) != one, f"{name}: another seed draws others")


def text(model, path):
    prompt = "Das Gro\u00dfe \u2014 na\u00efve"
    want = bytes(i for i in wanted(model, list(prompt.encode()), 20) if i < 256)
    options = ("--tokenizer", "bytes", "--tokens", 20, "--temperature", 0, "--eot", -1)
    done = run("generate", *path, "--prompt", prompt, *options)
    tap(done.stdout == want + b"\n", "text in and out", f"{done.stdout}\n{want}\n{done.stderr.decode()}")
    done = run("generate", *path, "--prompt", prompt, *options, "--output", "out.txt")
    tap(done.stdout == b"" and (work / "out.txt").read_bytes() == want + b"\n", "to a file", done.stderr.decode())
    (work / "prompts.txt").write_text(prompt + "\nab\n")
    done = run("generate", *path, "--input", "prompts.txt", *options, ranks=2)
    lines = [json.loads(line) for line in done.stdout.splitlines()] if not done.returncode else []
    tap([(x["prompt"], x["tokens"], x["stop"]) for x in lines] == [(prompt, 20, "length"), ("ab", 20, "length")],
        "a line of JSON for each prompt", f"{lines}{done.stderr.decode()}")


def onnx(name, model, ort):
    """The whole context at once, and one token at a time with the keys and values of those before."""
    for cache in ((), ("--cache",)):
        done = run("convert", f"{name}.safetensors", f"{name}{len(cache)}.onnx", "--config", f"{name}.yaml", *cache)
        tap(done.returncode == 0, f"{name}: to ONNX {' '.join(cache)}", done.stderr.decode())
    x = torch.randint(0, VOCAB, (3, CONTEXT))
    with torch.no_grad():
        want = model(x).logits.numpy()
    net = ort.InferenceSession(str(work / f"{name}0.onnx"))
    got = net.run(None, {"input": x.float().numpy()})[0]
    tap(abs(got - want).max() < 1e-4 * abs(want).max(), f"{name}: onnxruntime's logits", abs(got - want).max())
    net = ort.InferenceSession(str(work / f"{name}1.onnx"))
    widths = {i.name[5:]: i.shape[2] for i in net.get_inputs() if i.name.startswith("past.")}
    outputs, worst = [o.name for o in net.get_outputs()], 0
    past = {k: np.zeros((3, 0, w), np.float32) for k, w in widths.items()}
    for t in range(CONTEXT):
        given = {"input": x[:, t:t + 1].float().numpy(), "position": np.full((3, 1), t, np.float32)}
        out = dict(zip(outputs, net.run(None, given | {"past." + k: v for k, v in past.items()})))
        worst = max(worst, abs(out["output"][:, 0] - want[:, t]).max())
        past = {k: out["present." + k] for k in past}
    tap(worst < 1e-4 * abs(want).max() and len(past) > 0, f"{name}: with caches, token by token", worst)


def refused(path):
    for options, words in (
            (("--prompt-tokens", "1,257"), "token 2 is 257, but the model has the tokens 0 to 256"),
            (("--prompt-tokens", ids(range(65))), "65 tokens, but the model's context is 64"),
            (("--prompt-tokens", "1,x"), "expected ids of tokens"),
            (("--prompt-tokens", ""), "has no token"),
            (("--prompt", "a"), "has no tokenizer"),
            ((), "give one of --prompt"),
            (("--prompt-tokens", "1", "--input-tokens", "ids.txt"), "give one of --prompt"),
            (("--input-tokens", "none.txt"), "none.txt"),
            (("--prompt-tokens", "1", "--top-p", "2"), "expected a number from 0 to 1")):
        done = run("generate", *path, *options, "--output", "never.txt")
        errors = [line for line in done.stderr.decode().splitlines() if "error:" in line]
        tap(done.returncode > 0 and len(errors) == 1 and words in errors[0] and not (work / "never.txt").exists(),
            f"refused: {words}", done.stderr.decode())


def main():
    gpt, gpt_file = make("gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=48,
                                                            n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)), GPT2)
    beside("gpt2", gpt, gpt_file)
    drawn("gpt2", gpt_file)
    text(gpt, gpt_file)
    refused(gpt_file)
    llama, llama_file = make("llama", LlamaForCausalLM(
        LlamaConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
                    rms_norm_eps=1e-5, tie_word_embeddings=False)), LLAMA)
    beside("llama", llama, llama_file)
    try:
        import onnxruntime
    except ImportError:
        print("# no onnxruntime")
    else:
        onnx("gpt2", gpt, onnxruntime)
        onnx("llama", llama, onnxruntime)
    print(f"1..{count}")


main()
