#!/usr/bin/env python3
"""Compares token ids with tiktoken's, tokenizers' and transformers' on drawn strings.

    check_tokenizer.py TOKEN_RECORDS DIRECTORY [--strings 10000] [--seed 1] [--golden]

Small vocabularies are trained here; the patterns are those of the packages.  The strings have characters of
every category of Unicode.  Text that is not valid UTF-8 has no ids in these packages: for it, each invalid byte
is replaced by a private-use character (a symbol, as the byte shall be), the module regex cuts the text with the
same expression, and tiktoken merges the bytes of each piece.

--golden writes tests/golden/tokenizer instead, the files that the unit test reads."""
import argparse
import base64
import json
import os
import random
import struct
import subprocess
import sys
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import regex
import tiktoken
import tiktoken_ext.openai_public as public
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def pattern_of(name):
    """The expression of a published encoding, without its file."""
    public.load_tiktoken_bpe = public.data_gym_to_mergeable_bpe_ranks = lambda *a, **k: {}
    return LLAMA3 if name == "llama3" else {"gpt2": public.gpt2, "cl100k": public.cl100k_base,
                                            "o200k": public.o200k_base}[name]()["pat_str"]


# ---- strings ----

def categories():
    of = {}
    for c in range(0x110000):
        of.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
    del of["Cs"]  # surrogates
    of["Cn"] = of["Cn"][::97]
    of["Co"] = [c for c in of["Co"] if ord(c) < 0xF0000]  # the others stand for invalid bytes
    return of


class Draw:
    """Draws strings out of pieces that the expressions care about."""
    words = ("the of and model token's we'll THEY'RE I'm can't it'd 'S 'Ll 'VE 'rE 'x '' don\u2019t 'ſ 'ſthe naïve Straße "
             "zq HelloWorld camelCase XMLHttp ab1c2 1234567 3.14 def return for(i=0;i<n;i++) :// ... -- <|endoftext|> "
             "<|endof text|> é e\u0301 中文字 文a A中b 日本 한국어 Привет ПРИВЕТ мир αβΓ שלום عربى ١٢٣ Ⅷ ½ ² ǅ ʰ ª 🙂 👩‍👩‍👧 ﬁ").split()
    blanks = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n", "\t", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85",
              " \n ", "\n  ", "/\n", "\r"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.of = categories()
        self.names = sorted(self.of)

    def piece(self):
        r, kind = self.random, self.random.randrange(8)
        if kind < 2:
            return r.choice(self.words)
        if kind < 4:
            return r.choice(self.blanks)
        if kind == 4:
            return "".join(r.choice(" '\n/aAbsSdtlrevm1\u0301é中\u017f!") for _ in range(r.randrange(1, 6)))
        if kind == 5:
            return r.choice(self.words[:12]) * r.randrange(1, 4)
        chars = self.of[r.choice(self.names)]
        return "".join(r.choice(chars) for _ in range(r.randrange(1, 4)))

    def text(self):
        return "".join(self.piece() for _ in range(self.random.randrange(0, 13)))

    def invalid(self):
        """Bytes of a text with some destroyed."""
        r, b = self.random, bytearray(self.text().encode())
        for _ in range(r.randrange(1, 5)):
            at = r.randrange(len(b) + 1)
            b[at:at + r.randrange(3)] = bytes(r.choice([r.randrange(128, 256), 0xE2, 0xF0, 0xED, 0xC0, 0x80])
                                              for _ in range(r.randrange(1, 3)))
        return bytes(b)


# ---- vocabularies ----

def pieces_by(pattern):
    """Hugging Face's pre-tokenizer of a pattern; GPT-2's is in ByteLevel."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern == "")
    return level if pattern == "" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), level])


def train(draw, tokens, pattern=""):
    """A byte-level BPE of English of the standard library and of drawn text.  It is trained on lines that are not cut
    into pieces, so that there are tokens across the ends of pieces: a wrong end gives other ids."""
    import pydoc_data.topics
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=tokens, special_tokens=["<|endoftext|>", "<|pad|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    text = [line for topic in list(pydoc_data.topics.topics.values())[:10] for line in topic.split("\n")]
    text += [draw.text().replace("<|endoftext|>", "") for _ in range(20000)]
    t.train_from_iterator(text, trainer)
    t.pre_tokenizer = pieces_by(pattern)
    return t


def byte_of():
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    other = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(other)}


def ranks_of(tokenizer):
    """tiktoken's ranks: bytes, and then the merged tokens in the order of their merges."""
    table = byte_of()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    ranks = {bytes([b]): i for i, b in enumerate(sorted(range(256), key=lambda b: (b * 7) % 256))}
    for m in merges:
        left, right = m if isinstance(m, list) else m.split(" ")
        ranks.setdefault(bytes(table[c] for c in left + right), len(ranks))
    return ranks


def write_tiktoken(path, ranks):
    with open(path, "wb") as f:
        for token, rank in ranks.items():
            f.write(base64.b64encode(token) + b" %d\n" % rank)


# ---- comparison ----

class Check:
    def __init__(self, program):
        self.program, self.done, self.bad = program, 0, 0

    def ours(self, spec, texts, *flags):
        records = b"".join(struct.pack("<I", len(t)) + t for t in texts)
        r = subprocess.run([self.program, spec, *flags], input=records, capture_output=True, check=False)
        if r.returncode:
            sys.exit(f"{spec}: {r.stderr.decode(errors='replace')}")
        out, at = [], 0
        for _ in texts:
            n = struct.unpack_from("<I", r.stdout, at)[0]
            out.append(list(struct.unpack_from(f"<{n}i", r.stdout, at + 4)))
            at += 4 + 4 * n
        return out

    def same(self, what, spec, texts, expected, *flags):
        texts = [t if isinstance(t, bytes) else t.encode() for t in texts]
        wrong = [(t, e, o) for t, e, o in zip(texts, expected, self.ours(spec, texts, *flags)) if list(e) != o]
        self.done += 1
        self.bad += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {self.done} - {what}: {len(texts)} strings", flush=True)
        for t, e, o in wrong[:3]:
            print(f"#   {t!r}: expected {list(e)}, not {o}")


def known_to_both(data):
    """Whether a text has no characters that are new in one of the versions of Unicode of tiktoken and regex."""
    return not any(unicodedata.category(c) == "Cn" for c in data.decode(errors="ignore"))


def not_utf8(data, pattern, encoding):
    """The ids of text with invalid bytes: see above."""
    pattern = pattern.replace("$", r"\Z")  # regex also matches $ before a line end at the end
    text = "".join(chr(0xF0000 + ord(c) - 0xDC00) if 0xDC80 <= ord(c) <= 0xDCFF else c
                   for c in data.decode("utf-8", "surrogateescape"))
    ids = []
    for piece in regex.findall(pattern, text):
        raw = "".join(chr(ord(c) - 0xF0000 + 0xDC00) if 0xF0080 <= ord(c) <= 0xF00FF else c for c in piece)
        ids += encoding._encode_single_piece(raw.encode("utf-8", "surrogateescape"))
    return ids


def check_tiktoken(check, draw, n, folder, trained):
    ranks = ranks_of(trained)
    write_tiktoken(f"{folder}/any.tiktoken", ranks)
    for name in ("gpt2", "cl100k", "llama3", "o200k"):
        pattern, spec = pattern_of(name), f"{name}:{folder}/any.tiktoken"
        special = special_of(name, ranks)
        e = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        texts = [draw.text() for _ in range(n)]
        check.same(f"tiktoken, {name}", spec, texts, e.encode_ordinary_batch(texts, num_threads=1), "exact")
        end = [*special][0]
        texts = [draw.text() + draw.random.choice(["", end]) + draw.text() for _ in range(n // 10)]
        check.same(f"tiktoken, {name}, special tokens", spec, texts,
                   [e.encode(t, allowed_special=set(special)) for t in texts], "exact", "special")
        texts = [t for t in (draw.invalid() for _ in range(n // 4)) if known_to_both(t)]
        check.same(f"not UTF-8, {name}", spec, texts, [not_utf8(t, pattern, e) for t in texts], "exact")


def check_hugging_face(check, draw, n, folder):
    for name in ("gpt2", "llama3", "o200k"):
        pattern = "" if name == "gpt2" else pattern_of(name)
        t = train(draw, 2000, pattern)
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        whole = json.loads(t.to_str())
        if name == "llama3":  # a token that no merge gives is found nevertheless
            whole["model"]["ignore_merges"] = True
            whole["model"]["vocab"]["Ġzq"] = len(whole["model"]["vocab"])
        if name == "gpt2":  # as old files
            del whole["model"]["type"]
        t = Tokenizer.from_str(json.dumps(whole))
        with open(f"{folder}/{name}/tokenizer.json", "w") as f:
            json.dump(whole, f)
        texts = [s for s in (draw.text() for _ in range(n)) if "<|endoftext|>" not in s]
        expected = [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]
        check.same(f"tokenizer.json, {name}", f"{folder}/{name}", texts, expected, "exact")
        texts = [draw.text() + draw.random.choice(["", "<|endoftext|>", "<|pad|>"]) + draw.text() for _ in range(n // 10)]
        expected = [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]
        check.same(f"tokenizer.json, {name}, special tokens", f"{folder}/{name}", texts, expected, "exact", "special")
        if name == "gpt2":
            t.model.save(folder)  # vocab.json, merges.txt
            check_transformers(check, draw, n, folder)


def check_transformers(check, draw, n, folder):
    try:
        from transformers import GPT2Tokenizer
    except ImportError:
        return
    t = GPT2Tokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt")
    texts = [s for s in (draw.text() for _ in range(n // 10)) if "<|endoftext|>" not in s]
    check.same("transformers, vocab.json and merges.txt", f"{folder}/vocab.json", texts,
               [t(s, add_special_tokens=False)["input_ids"] for s in texts], "exact")


def check_lists(check, draw, n, folder):
    try:
        from transformers import EsmTokenizer
    except ImportError:
        return
    r = draw.random
    for spec, letters in (("residues", "LAGVSERTIDPKQNFYMHWCXBUZO.-"), ("kmers:6", "ATCG" * 9 + "N"),
                          ("codons", "ATCG" * 9 + "N")):
        lines = subprocess.run([check.program, spec, "list"], stdin=subprocess.DEVNULL, capture_output=True,
                               check=True).stderr.decode()
        with open(f"{folder}/list.txt", "w") as f:
            f.write(lines)
        t = EsmTokenizer(f"{folder}/list.txt")
        texts = ["".join(r.choice(letters) for _ in range(r.randrange(60))) for _ in range(n // 20)]
        texts += ["".join(r.choice(letters + "jé !\n ") for _ in range(r.randrange(60))) for _ in range(n // 20)]
        check.same(f"transformers, {spec}", spec, texts,
                   [t(s, add_special_tokens=False)["input_ids"] if s.strip() else [] for s in texts])
        check.same(f"transformers, a list in a file", f"list:{folder}/list.txt", texts,
                   [t(s, add_special_tokens=False)["input_ids"] if s.strip() else [] for s in texts])


def special_of(name, ranks):
    return {"<|end_of_text|>": len(ranks) + 1} if name == "llama3" else {"<|endoftext|>": len(ranks)}


def write_golden(draw, folder):
    """Files of small tokenizers, and ids.gold: lines of a tokenizer, a text in hexadecimal digits, and ids."""
    lines = []

    def add(spec, texts, ids):
        lines.extend(f"{spec} {t.hex() or '-'} {' '.join(map(str, i))}".rstrip() for t, i in zip(texts, ids))
    trained = train(draw, 800)
    ranks = ranks_of(trained)
    write_tiktoken(f"{folder}/small.tiktoken", ranks)
    for name in ("gpt2", "cl100k", "llama3", "o200k"):
        e = tiktoken.Encoding(name, pat_str=pattern_of(name), mergeable_ranks=ranks,
                              special_tokens=special_of(name, ranks))
        texts = [draw.text() for _ in range(80)]
        add(f"{name}:small.tiktoken", [t.encode() for t in texts], e.encode_ordinary_batch(texts))
        texts = [t for t in (draw.invalid() for _ in range(30)) if known_to_both(t)]
        add(f"{name}:small.tiktoken", texts, [not_utf8(t, pattern_of(name), e) for t in texts])
    t = train(draw, 700)
    t.model.save(folder)
    texts = [s for s in (draw.text() for _ in range(80)) if "<|endoftext|>" not in s]
    add("vocab.json", [s.encode() for s in texts], [e.ids for e in t.encode_batch(texts)])
    t = train(draw, 700, LLAMA3)
    t.save(f"{folder}/tokenizer.json", pretty=False)
    texts = [s for s in (draw.text() for _ in range(80)) if "<|endoftext|>" not in s]
    add("tokenizer.json", [s.encode() for s in texts], [e.ids for e in t.encode_batch(texts)])
    with open(f"{folder}/ids.gold", "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("folder")
    p.add_argument("--strings", type=int, default=10000)
    p.add_argument("--golden", action="store_true", help="write files for the unit test instead")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    draw, check = Draw(a.seed), Check(a.program)
    if a.golden:
        return write_golden(draw, a.folder)
    check_tiktoken(check, draw, a.strings, a.folder, train(draw, 3000))
    check_hugging_face(check, draw, a.strings, a.folder)
    check_lists(check, draw, a.strings, a.folder)
    print(f"1..{check.done}")
    return check.bad > 0


if __name__ == "__main__":
    sys.exit(main())
