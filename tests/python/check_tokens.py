#!/usr/bin/env python3
"""Files that numpy and Python write in the formats of nanoGPT and llm.c, texts, JSON lines and FASTA, packed by
`pack --tokens`, beside what Python makes of them.

    check_tokens.py CTRAIN DIRECTORY [CASE]      needs numpy and h5py; `bpe` also tiktoken

The documents and their ids are computed here from the format alone: bytes, or tiktoken's own encoder.
"""
import base64
import gzip
import json
import os
import pickle
import random
import subprocess
import sys

import h5py
import numpy as np

CTRAIN = os.path.abspath(sys.argv[1])
EOT = 256


def pack(*args, shards=3, output="t-%d.h5"):
    subprocess.run([CTRAIN, "pack", "--tokens", *args, "--output", output, "--shards", str(shards), "--force"],
                   check=True, stdout=subprocess.DEVNULL)
    out = []
    for i in range(shards):
        with h5py.File(output % i) as f:
            tokens, starts = f["tokens"], f["document_starts"]
            assert tokens.chunks is None and starts.dtype == np.int64 and starts[0] == 0
            assert (np.diff(starts) > 0).all() and starts[-1] < len(tokens)
            blob = bytes(f["tokenizer"][:]) if "tokenizer" in f else None
            out.append((tokens[:], starts[:], dict(tokens.attrs), blob))
    return out


def same(shards, ids, documents):
    """All ids in order, and the first token of each document (None: they are not compared)."""
    got = np.concatenate([s[0] for s in shards])
    assert np.array_equal(got, ids), (len(got), len(ids))
    if documents is None:
        return
    at, starts = 0, []
    for tokens, first, _, _ in shards:
        starts += [at + s for s in first]
        at += len(tokens)
    assert starts == documents, (starts[:9], documents[:9])


def with_eot(texts):
    ids, starts = [], []
    for t in texts:
        starts.append(len(ids))
        ids += [*t, EOT]
    return np.array(ids), starts


def llmc(path, ids, magic, version, dtype):
    header = np.zeros(256, np.int32)
    header[:3] = magic, version, len(ids)
    with open(path, "wb") as f:
        f.write(header.tobytes())
        f.write(np.asarray(ids, dtype).tobytes())


def nanogpt():
    """prepare.py of shakespeare_char, and of openwebtext (ids of 16 bits, 50256 behind each document)."""
    text = "To be, or not to be:\n\tthat is the question é\n" * 300
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    ids = np.array([stoi[c] for c in text], np.uint16)
    ids.tofile("train.bin")
    for protocol in (2, pickle.DEFAULT_PROTOCOL, 5):
        with open("meta.pkl", "wb") as f:
            pickle.dump({"vocab_size": len(chars), "itos": dict(enumerate(chars)), "stoi": stoi}, f, protocol=protocol)
        shards = pack("train.bin")
        same(shards, ids, None)
        assert all(s[2]["vocab"] == len(chars) and "eot" not in s[2] for s in shards)
        assert sum(s[2]["bytes"] for s in shards) == len(text.encode())
    os.remove("meta.pkl")
    rng = np.random.default_rng(1)
    docs = [np.append(rng.integers(0, 50256, n), 50256) for n in rng.integers(0, 400, 80)]
    ids = np.concatenate(docs).astype(np.uint16)
    ids.tofile("owt.bin")
    starts = np.cumsum([0] + [len(d) for d in docs[:-1]]).tolist()
    same(pack("owt.bin", "--vocab", "50257", "--eot-id", "50256"), ids, starts)
    ids.astype(np.uint32).tofile("wide.bin")
    same(pack("wide.bin", "--vocab", "100000", "--eot-id", "50256", "--token-bits", "32"), ids, starts)


def llm_c():
    """dev/data/data_common.py: a header, and the end-of-text token before each document."""
    rng = np.random.default_rng(2)
    for magic, version, dtype, eot in ((20240520, 1, np.uint16, 50256), (20240801, 7, np.uint32, 128000)):
        docs = [np.append(eot, rng.integers(0, eot, n)) for n in rng.integers(0, 400, 80)]
        ids = np.concatenate(docs)
        half = len(ids) // 2  # in the middle of a document
        llmc("llmc_0.bin", ids[:half], magic, version, dtype)
        llmc("llmc_1.bin", ids[half:], magic, version, dtype)
        starts = np.cumsum([0] + [len(d) for d in docs[:-1]]).tolist()
        shards = pack("llmc_*.bin")
        same(shards, ids, starts)
        assert all(s[0].dtype == dtype and s[2]["eot"] == eot for s in shards)


def texts():
    """A folder of texts, JSON lines (also compressed) and FASTA; a text that is cut in UTF-8."""
    rng = random.Random(3)
    words = ["a", "bc", "é", "東京", "\n", " ", "\u0000", "🙂", "\\", '"']
    docs = ["".join(rng.choice(words) for _ in range(rng.randrange(1, 300))) for _ in range(90)]
    os.makedirs("d/deep", exist_ok=True)
    names = sorted(f"{'deep/' if i % 3 else ''}{i}.txt" for i in range(90))
    for name, d in zip(names, docs):
        with open("d/" + name, "wb") as f:
            f.write(d.encode())
    same(pack("d"), *with_eot([d.encode() for d in docs]))
    lines = "".join(json.dumps({"text": d, "n": i}, ensure_ascii=i % 2) + "\n" for i, d in enumerate(docs + [""]))
    with open("l.jsonl", "w", encoding="utf-8") as f:
        f.write(lines)
    shards = pack("l.jsonl")
    same(shards, *with_eot([d.encode() for d in docs] + [b""]))
    assert sum(s[2]["bytes"] for s in shards) == sum(len(d.encode()) for d in docs)
    with gzip.open("l.jsonl.gz", "wt", encoding="utf-8") as f:
        f.write(lines)
    same(pack("l.jsonl.gz", shards=1), *with_eot([d.encode() for d in docs] + [b""]))
    sequences = ["".join(rng.choice("ACGTacgtN") for _ in range(rng.randrange(400))) for _ in range(60)]
    with open("s.fa", "w", encoding="ascii") as f:
        for i, s in enumerate(sequences):
            f.write(f">{i} > a name\n" + "".join(s[k:k + 60] + "\n" for k in range(0, len(s), 60)))
    same(pack("s.fa"), *with_eot([s.upper().encode() for s in sequences]))
    whole = "".join(docs).encode()
    with open("one.txt", "wb") as f:
        f.write(whole)
    shards = pack("one.txt", shards=7)
    same(shards, np.array([*whole, EOT]), None)
    for s in shards:
        bytes(s[0][s[0] < EOT].astype(np.uint8)).decode()  # no character is divided


def bpe():
    """A large text through a small byte-pair encoding, of which the pieces go over the chunks that are read."""
    import tiktoken
    ranks = {bytes([i]): i for i in range(256)}
    for word in (b"th", b"the", b" t", b" the", b"in", b"ing", b"er", b"  ", b"    ", b"\n\n"):
        ranks[word] = len(ranks)
    with open("small.tiktoken", "wb") as f:
        for word, rank in ranks.items():
            f.write(base64.b64encode(word) + b" %d\n" % rank)
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    oracle = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    rng = random.Random(4)
    words = ["the", " the", " thing", "ing", "er", "    ", "\n\n", " 12", "é", "!?", "'ll", "x" * 999]
    text = "".join(rng.choice(words) for _ in range(60000))
    with open("b.txt", "wb") as f:
        f.write(text.encode())
    shards = pack("b.txt", "--tokenizer", "gpt2:small.tiktoken", shards=1)
    ids = oracle.encode_ordinary(text)
    same(shards, ids if "eot" not in shards[0][2] else ids + [shards[0][2]["eot"]], [0])
    assert shards[0][2]["bytes"] == len(text.encode()) > 2 << 20


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    cases = {"nanogpt": nanogpt, "llm_c": llm_c, "texts": texts, "bpe": bpe}
    for name in sys.argv[3:] or cases:
        cases[name]()
