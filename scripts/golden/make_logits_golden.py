#!/usr/bin/env python3
"""Next-token logits of ten prompts by an independent implementation, for tests/model.

Reads the GGUF file itself, dequantises exactly and runs the Llama forward pass in numpy, with whole
attention matrices and no code in common with the product. Needs numpy.

    scripts/golden/make_logits_golden.py .cache/models/SmolLM2-135M-Instruct.Q4_1.gguf \
        tests/model/logits_golden.json

Each prompt is run twice: with keys and values as they come, and with both rounded to bf16 (keys before
RoPE), as the product stores them. The prompts are made here, so that they need no source.
"""

import argparse
import json
import mmap
import random
import re
import struct
import sys

import numpy as np

TOP = 20
STRIDE = 1543  # every so many-th logit is kept too: a prime, so that the sample has no pattern


# --- GGUF -------------------------------------------------------------------------------------------

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def value(self, kind):
        if kind == STRING:
            length = self.take("Q")
            self.at += length
            return bytes(self.data[self.at - length:self.at]).decode()
        if kind == ARRAY:
            element = self.take("I")
            return [self.value(element) for _ in range(self.take("Q"))]
        return self.take(SCALARS[kind])


def half(raw):
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def dequantise(kind, raw, count):
    if kind == 0:
        return raw[:4 * count].view(np.float32).copy()
    if kind == 1:
        return half(raw[:2 * count])
    if kind == 3:  # Q4_1: fp16 d, fp16 m, 16 bytes; x = d q + m
        blocks = raw[:count // 32 * 20].reshape(-1, 20)
        nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
        return (half(blocks[:, :2]) * nibbles + half(blocks[:, 2:4])).reshape(-1)
    if kind == 8:  # Q8_0: fp16 d, 32 x int8; x = d q
        blocks = raw[:count // 32 * 34].reshape(-1, 34)
        return (half(blocks[:, :2]) * blocks[:, 2:].view(np.int8)).reshape(-1)
    sys.exit(f"tensor type {kind} is not known here")


def read_gguf(path):
    """(metadata, tensors as float32 with rows first)."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = Reader(data)
    assert data[:4] == b"GGUF" and struct.unpack_from("<I", data, 4)[0] == 3
    reader.at = 8
    num_tensors, num_entries = reader.take("Q"), reader.take("Q")
    metadata = {}
    for _ in range(num_entries):
        key = reader.value(STRING)
        metadata[key] = reader.value(reader.take("I"))
    infos = []
    for _ in range(num_tensors):
        name = reader.value(STRING)
        dims = [reader.take("Q") for _ in range(reader.take("I"))]
        infos.append((name, dims, reader.take("I"), reader.take("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment
    everything = np.frombuffer(data, np.uint8)
    tensors = {}
    for name, dims, kind, offset in infos:
        count = int(np.prod(dims))
        tensors[name] = dequantise(kind, everything[start + offset:], count).reshape(dims[::-1])
    return metadata, tensors


# --- Forward pass -----------------------------------------------------------------------------------


def round_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


class Llama:
    def __init__(self, metadata, tensors):
        get = lambda key: metadata["llama." + key]
        self.tensors = tensors
        self.layers = get("block_count")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv")
        self.dim = metadata.get("llama.attention.key_length", get("embedding_length") // self.heads)
        self.eps = get("attention.layer_norm_rms_epsilon")
        pairs = np.arange(0, self.dim, 2, dtype=np.float64)
        self.frequencies = get("rope.freq_base") ** (-pairs / self.dim)

    def norm(self, x, name):
        wide = x.astype(np.float64)
        scale = 1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + self.eps)
        return (wide * scale * self.tensors[name]).astype(np.float32)

    def rope(self, x):
        """Rotates neighbouring pairs, as the file's own row order has them. x [tokens, heads, dim]."""
        angles = np.arange(len(x))[:, None] * self.frequencies
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out

    def attend(self, q, k, v):
        tokens = len(q)
        out = np.empty_like(q)
        hidden = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
        for head in range(self.heads):
            of_kv = head // (self.heads // self.kv_heads)
            scores = q[:, head] @ k[:, of_kv].T / np.float32(np.sqrt(self.dim)) + hidden
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = scores @ v[:, of_kv] / scores.sum(-1, keepdims=True)
        return out

    def logits(self, ids, keep):
        """Of the token after `ids`; `keep` is applied to what a cache would hold."""
        x = self.tensors["token_embd.weight"][ids].copy()
        tokens = len(ids)
        for layer in range(self.layers):
            w = lambda name: self.tensors[f"blk.{layer}.{name}.weight"]
            h = self.norm(x, f"blk.{layer}.attn_norm.weight")
            q = (h @ w("attn_q").T).reshape(tokens, self.heads, self.dim)
            k = keep(h @ w("attn_k").T).reshape(tokens, self.kv_heads, self.dim)
            v = keep(h @ w("attn_v").T).reshape(tokens, self.kv_heads, self.dim)
            y = self.attend(self.rope(q), self.rope(k), v)
            x += y.reshape(tokens, -1) @ w("attn_output").T
            h = self.norm(x, f"blk.{layer}.ffn_norm.weight")
            gate = h @ w("ffn_gate").T
            x += (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        last = self.norm(x[-1:], "output_norm.weight")[0]
        output = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return output.astype(np.float64) @ last


# --- Prompts ----------------------------------------------------------------------------------------

PLACES = "harbour mill orchard station quarry library bridge lighthouse market chapel".split()
PEOPLE = "Ada Bruno Clara Dmitri Edda Farid Greta Hugo Ines Jonas".split()
VERBS = "repaired painted measured visited described sold closed drew remembered guarded".split()
ENDINGS = ["before the rain came", "with great care", "for the second time", "and told nobody",
           "because the letter asked for it", "although it was late", "in the spring of that year"]


def prose(rng, sentences):
    return " ".join(
        f"{rng.choice(PEOPLE)} {rng.choice(VERBS)} the {rng.choice(PLACES)} {rng.choice(ENDINGS)}."
        for _ in range(sentences))


def code(rng, functions):
    lines = []
    for i in range(functions):
        a, b = rng.randrange(100), rng.randrange(2, 9)
        name = f"{rng.choice(VERBS)}_{rng.choice(PLACES)}_{i}"
        lines += [f"def {name}(values):", f'    """Sums every {b}th of `values`, from {a} on."""',
                  "    total = 0", f"    for index in range({a}, len(values), {b}):",
                  "        total += values[index]", "    return total", ""]
    return "\n".join(lines)


def table(rng, rows):
    lines = ["place,year,visitors,price"]
    lines += [f"{rng.choice(PLACES)},{rng.randrange(1900, 2000)},{rng.randrange(10**5)},"
              f"{rng.randrange(1000) / 100:.2f}" for _ in range(rows)]
    return "\n".join(lines)


def chat(question):
    return ("<|im_start|>system\nYou are a careful assistant.<|im_end|>\n<|im_start|>user\n"
            f"{question}<|im_end|>\n<|im_start|>assistant\n")


def make_prompts():
    """(name, text, most tokens). Lengths stand on both sides of the product's own boundaries."""
    rng = random.Random(20)
    needle = "The number of the locker is 48213. "
    return [
        ("one token", "The", 1),
        ("capital", "The capital of France is", 100),
        ("chat", chat("Which of these is a fruit: hammer, pear, window?"), 100),
        ("63 tokens", prose(rng, 20), 63),
        ("64 tokens", table(rng, 20), 64),
        ("other languages", "Am Hafen steht ein alter Kran. Il pleut sur la ville, et le train est en "
         "retard. El mercado abre a las ocho de la manana. \u0414\u043e\u0431\u0440\u044b\u0439 \u0432\u0435\u0447\u0435\u0440.", 200),
        ("code", code(rng, 6) + "def sum_all(values):\n    ", 400),
        ("table", table(rng, 200), 1025),
        ("prose", prose(rng, 400), 2100),
        ("4,000 tokens", chat(prose(rng, 120) + " " + needle + prose(rng, 400)
                              + " What is the number of the locker?"), 4000),
    ]


class Bpe:
    """Byte-level BPE, close enough to the model's own to make the prompts real text to it."""

    WORDS = re.compile(r"<\|\w+\|>|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, metadata):
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        spare = iter(range(0x100, 0x200))
        self.characters = [chr(b) if b in printable else chr(next(spare)) for b in range(256)]
        self.ids = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
        self.ranks = {merge: i for i, merge in enumerate(metadata["tokenizer.ggml.merges"])}

    def encode(self, text):
        return [i for word in self.WORDS.findall(text) for i in self.encode_word(word)]

    def encode_word(self, word):
        if word in self.ids and word.startswith("<|"):
            return [self.ids[word]]
        parts = [self.characters[b] for b in word.encode()]
        while len(parts) > 1:
            rank, at = min((self.ranks.get(f"{parts[i]} {parts[i + 1]}", 1 << 30), i)
                           for i in range(len(parts) - 1))
            if rank == 1 << 30:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]


def cut(ids, most):
    """At most `most` tokens: the end of a prompt asks the question, so the cut is in its middle."""
    if len(ids) <= most:
        return ids
    head = most // 2
    return ids[:head] + ids[len(ids) - (most - head):]


# --- Output -----------------------------------------------------------------------------------------


def summary(logits):
    top = np.argsort(-logits, kind="stable")[:TOP]
    peak = logits.max()
    return {
        "top_ids": top.tolist(),
        "top": [round(float(logits[i]), 5) for i in top],
        "sample": [round(float(x), 5) for x in logits[::STRIDE]],
        "logsumexp": round(float(peak + np.log(np.exp(logits - peak).sum())), 5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("output")
    args = parser.parse_args()
    metadata, tensors = read_gguf(args.model)
    bpe, model = Bpe(metadata), Llama(metadata, tensors)
    cases = []
    for name, text, most in make_prompts():
        ids = cut(bpe.encode(text), most)
        print(f"{name}: {len(ids)} tokens", file=sys.stderr, flush=True)
        cases.append({"name": name, "ids": ids, "exact": summary(model.logits(ids, lambda x: x)),
                      "bf16_kv": summary(model.logits(ids, round_bf16))})
    golden = {"made_by": "scripts/golden/make_logits_golden.py", "model": metadata["general.name"],
              "vocab_size": len(metadata["tokenizer.ggml.tokens"]), "stride": STRIDE}
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(json.dumps(golden)[:-1] + ', "cases": [\n')
        file.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
