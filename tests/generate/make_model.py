#!/usr/bin/env python3
"""Trains the small language model of tests/data/generate and records what PyTorch makes of it.

    make_model.py text TEXT.txt          collects English text: Python's documentation strings, licences
    make_model.py train TEXT.txt OUT     PyTorch 2.6 or newer and a GPU; two minutes on a large one

OUT gets tokenizer.json (byte-level BPE), model.pt2 (float16 weights, float32 arithmetic, cache as inputs and outputs),
cacheless.pt2 (a tiny one that reads everything again at each step), expected.json (greedy tokens; tests keep prompts whose
best token is always ahead of the second by 0.02 or more) and export.sh, which makes model.onnx and cacheless.onnx with
`ferry`.
"""
import ast
import collections
import glob
import json
import math
import os
import re
import sys
import time

VOCABULARY = 1024
END = "<|endoftext|>"
# GPT-2's pattern for ASCII, which is all that the training text has.
WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def collect_text(path):
    pieces = []
    for name in sorted(glob.glob("/usr/share/common-licenses/*")):
        if os.path.isfile(name) and not os.path.islink(name):
            pieces.append(open(name, encoding="utf-8", errors="ignore").read())
    for name in sorted(glob.glob(os.path.dirname(os.__file__) + "/**/*.py", recursive=True)):
        if "/test" in name or "site-packages" in name or "dist-packages" in name or "encodings" in name:
            continue
        try:
            tree = ast.parse(open(name, encoding="utf-8").read())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text and len(text) > 60:
                    pieces.append(text)
    text = "\n\n".join(" ".join(p.split(" ")) for p in dict.fromkeys(pieces))
    text = re.sub(r"[^\x09\x0a\x20-\x7e]", "", text)
    open(path, "w").write(re.sub(r" +\n", "\n", text))


def byte_letters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    letters, others = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + others)
            others += 1
    return letters


def train_bpe(text):
    letters = byte_letters()
    words = [([letters[b] for b in w.encode()], n) for w, n in collections.Counter(WORD.findall(text)).most_common()]
    vocabulary = [END] + sorted(letters.values())
    merges = []
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for index, (word, count) in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += count
            where[pair].add(index)
    while len(vocabulary) < VOCABULARY:
        best = max(pairs.items(), key=lambda item: (item[1], item[0]))[0]
        merges.append(list(best))
        vocabulary.append(best[0] + best[1])
        for index in list(where[best]):
            word, count = words[index]
            for pair in zip(word, word[1:]):
                pairs[pair] -= count
            merged, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and (word[i], word[i + 1]) == best:
                    merged.append(word[i] + word[i + 1])
                    i += 2
                else:
                    merged.append(word[i])
                    i += 1
            words[index] = (merged, count)
            for pair in zip(merged, merged[1:]):
                pairs[pair] += count
                where[pair].add(index)
        del pairs[best]
    return vocabulary, merges


class Bpe:
    def __init__(self, vocabulary, merges):
        self.ids = {token: i for i, token in enumerate(vocabulary)}
        self.rank = {tuple(pair): i for i, pair in enumerate(merges)}
        self.letters = byte_letters()
        self.known = {}

    def word(self, text):
        if text not in self.known:
            word = [self.letters[b] for b in text.encode()]
            while len(word) > 1:
                rank, at = min((self.rank.get(p, 1 << 30), i) for i, p in enumerate(zip(word, word[1:])))
                if rank == 1 << 30:
                    break
                word[at:at + 2] = [word[at] + word[at + 1]]
            self.known[text] = [self.ids[t] for t in word]
        return self.known[text]

    def encode(self, text):
        return [i for w in WORD.findall(text) for i in self.word(w)]


def write_tokenizer(path, vocabulary, merges):
    special = {"id": 0, "content": END, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
               "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    json.dump({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(vocabulary)}, "merges": merges},
    }, open(path, "w"), ensure_ascii=False, separators=(",", ":"))


def write_export_script(out, layers):
    parts = [f"{i}.{part}" for i in range(layers) for part in ("key", "value")]
    inputs, open_axes = "input_ids,attention_mask,position_ids", "--dynamic input_ids:0=batch --dynamic input_ids:1=sequence"
    past, present = (",".join(prefix + part for part in parts) for prefix in ("past_key_values.", "present."))
    with open(out + "/export.sh", "w") as file:
        file.write(f"ferry export model.pt2 -o model.onnx --no-fold --input-names {inputs},{past} --output-names logits,{present} "
                   f"{open_axes} --dynamic past_key_values.0.key:2=past\n"
                   f"ferry export cacheless.pt2 -o cacheless.onnx --no-fold --input-names {inputs} --output-names logits "
                   f"{open_axes}\n")


def main_train(text_path, out):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.c = c
            self.norm1, self.norm2 = nn.Parameter(torch.ones(c.width)), nn.Parameter(torch.ones(c.width))

            def matrix(rows, columns, scale=1.0):
                return nn.Parameter(torch.randn(rows, columns) * scale / math.sqrt(rows))
            deep = 1 / math.sqrt(2 * c.layers)
            self.q, self.k = matrix(c.width, c.heads * c.size), matrix(c.width, c.kv_heads * c.size)
            self.v, self.o = matrix(c.width, c.kv_heads * c.size), matrix(c.heads * c.size, c.width, deep)
            self.gate, self.up = matrix(c.width, c.hidden), matrix(c.width, c.hidden)
            self.down = matrix(c.hidden, c.width, deep)

        def forward(self, x, cos, sin, mask, past):
            c = self.c
            batch, rows = x.shape[0], x.shape[1]
            h = normed(x, self.norm1)

            def heads(y, n):
                return y.reshape(batch, rows, n, c.size).transpose(1, 2)
            q = turned(heads(h @ self.q.float(), c.heads), cos, sin)
            k = turned(heads(h @ self.k.float(), c.kv_heads), cos, sin)
            v = heads(h @ self.v.float(), c.kv_heads)
            if past is not None:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            group = c.heads // c.kv_heads
            keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + y.transpose(1, 2).reshape(batch, rows, c.heads * c.size) @ self.o.float()
            h = normed(x, self.norm2)
            x = x + (F.silu(h @ self.gate.float()) * (h @ self.up.float())) @ self.down.float()
            return x, (k, v)

    def normed(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()

    def turned(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    class Config:
        def __init__(self, **values):
            self.__dict__.update(values)

    class Decoder(nn.Module):
        def __init__(self, c, cached=True):
            super().__init__()
            self.c, self.cached = c, cached
            self.embedding = nn.Parameter(torch.randn(c.vocabulary, c.width) * 0.02)
            self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
            self.norm = nn.Parameter(torch.ones(c.width))

        def forward(self, input_ids, attention_mask, position_ids, past=None):
            c = self.c
            x = F.embedding(input_ids, self.embedding).float()
            frequency = 10000.0 ** (-torch.arange(0, c.size, 2, dtype=torch.float32, device=x.device) / c.size)
            angle = position_ids[:, None, :, None].float() * frequency
            angle = torch.cat([angle, angle], -1)
            cos, sin = angle.cos(), angle.sin()
            keys = torch.cumsum(attention_mask, 1) - 1  # the position that each key of the cache has
            mask = (keys[:, None, None, :] <= position_ids[:, None, :, None]) & (attention_mask[:, None, None, :] > 0)
            made = []
            for i, layer in enumerate(self.layers):
                x, kv = layer(x, cos, sin, mask, (past[2 * i], past[2 * i + 1]) if past else None)
                made += kv
            logits = normed(x, self.norm) @ self.embedding.float().transpose(0, 1)
            return (logits, *made) if self.cached else logits

    def export(model, path, past_rows):
        c = model.c
        batch, rows = 2, 3
        auto = torch.export.Dim.AUTO
        args = [torch.zeros(batch, rows, dtype=torch.long), torch.ones(batch, rows + past_rows, dtype=torch.long),
                torch.arange(past_rows, past_rows + rows).repeat(batch, 1)]
        shapes = [{0: auto, 1: auto} for _ in args]
        if past_rows:
            args.append([torch.zeros(batch, c.kv_heads, past_rows, c.size) for _ in range(2 * c.layers)])
            shapes.append([{0: auto, 2: auto} for _ in range(2 * c.layers)])
        program = torch.export.export(model, tuple(args), dynamic_shapes=tuple(shapes), strict=False)
        torch.export.save(program, path)
        print(program.graph_signature, str(program.range_constraints)[:500])

    def greedy(model, prompt, steps):
        """The tokens, and by how much each was ahead of the second best."""
        c = model.c
        past = [torch.zeros(1, c.kv_heads, 0, c.size) for _ in range(2 * c.layers)]
        ids, made, margin, done = torch.tensor([prompt]), [], float("inf"), 0
        for _ in range(steps):
            total = done + ids.shape[1]
            logits, *past = model(ids, torch.ones(1, total, dtype=torch.long), torch.arange(done, total)[None], past)
            best = logits[0, -1].topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            made.append(int(best.indices[0]))
            ids, done = best.indices[:1][None], total
        return made, margin

    torch.manual_seed(1)
    text = open(text_path).read()
    start = time.time()
    vocabulary, merges = train_bpe(text)
    write_tokenizer(out + "/tokenizer.json", vocabulary, merges)
    bpe = Bpe(vocabulary, merges)
    tokens = torch.tensor(bpe.encode(text), device="cuda")
    print(f"{len(text)} letters, {len(tokens)} tokens, {time.time() - start:.1f} s", flush=True)

    c = Config(vocabulary=VOCABULARY, width=160, layers=4, heads=4, kv_heads=2, size=40, hidden=432)
    model = Decoder(c).cuda()
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    rows, batch, seconds = 256, 64, float(os.environ.get("SECONDS_TO_TRAIN", "90"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05, betas=(0.9, 0.95))
    torch.backends.cuda.matmul.allow_tf32 = True
    attention_mask = torch.ones(batch, rows, dtype=torch.long, device="cuda")
    position_ids = torch.arange(rows, device="cuda").repeat(batch, 1)
    begin, step = time.time(), 0
    while (spent := (time.time() - begin) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 200) * (0.5 * (1 + math.cos(math.pi * spent)) + 0.01)
        at = torch.randint(0, len(tokens) - rows - 1, (batch, 1), device="cuda") + torch.arange(rows + 1, device="cuda")
        sample = tokens[at]
        logits = model(sample[:, :-1], attention_mask, position_ids)[0]
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), sample[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 250 == 0:
            print(step, f"{loss.item():.3f}", f"{time.time() - begin:.0f} s", flush=True)

    torch.backends.cuda.matmul.allow_tf32 = False
    model = model.cpu().eval().requires_grad_(False).half()
    expected = []
    for prompt in ["This program is free software", "Return the", "The file is opened", "A list of", "Raise an error if",
                   "You may copy and distribute", "This class is used to"]:
        ids = bpe.encode(prompt)
        made, margin = greedy(model, ids, 200)
        expected.append({"prompt": prompt, "prompt_ids": ids, "ids": made, "margin": margin})
        words = "".join(vocabulary[i] for i in made).replace("\u0120", " ").replace("\u010a", "\n")
        print("----", f"{margin:.4f}", prompt + words, flush=True)
    json.dump(expected, open(out + "/expected.json", "w"))
    export(model, out + "/model.pt2", 5)
    tiny = Decoder(Config(vocabulary=64, width=16, layers=1, heads=2, kv_heads=1, size=8, hidden=24), cached=False)
    export(tiny.half(), out + "/cacheless.pt2", 0)
    write_export_script(out, c.layers)


if __name__ == "__main__":
    if sys.argv[1] == "text":
        collect_text(sys.argv[2])
    else:
        main_train(sys.argv[2], sys.argv[3])
