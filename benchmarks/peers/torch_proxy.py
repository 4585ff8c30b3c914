"""Cuvee's proxy and its training step in PyTorch, as one would write it there: float32, fused attention, AdamW in three groups.

`torch_proxy.py DEPTH VOCAB SEQ BATCH THREADS eager|compile` trains on random rows; for every line on stdin, a number of
seconds, it prints the tokens, the seconds and the seconds of CPU of that long a stretch of steps.
"""

import sys
import time

import torch
import torch.nn.functional as F

HEAD_WIDTH, MLP, EPSILON = 32, 4, 1e-6
DECAY, CLIP = 0.1, 1.0


def norm(x):
    return F.rms_norm(x, (x.shape[-1],), eps=EPSILON)


def rotary(x):
    """x: (rows, heads, seq, HEAD_WIDTH)"""
    seq, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(seq)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = torch.nn.Parameter(torch.randn(width, 3 * width) * width**-0.5)
        self.out = torch.nn.Parameter(torch.zeros(width, width))
        self.up = torch.nn.Parameter(torch.randn(width, MLP * width) * width**-0.5)
        self.down = torch.nn.Parameter(torch.zeros(MLP * width, width))

    def forward(self, x):
        rows, seq, width = x.shape
        q, k, v = (norm(x) @ self.qkv).reshape(rows, seq, 3, width // HEAD_WIDTH, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(rotary(norm(q)), rotary(norm(k)), v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(rows, seq, width) @ self.out
        return x + F.relu(norm(x) @ self.up).square() @ self.down


class Proxy(torch.nn.Module):
    def __init__(self, vocab, depth):
        super().__init__()
        width = HEAD_WIDTH * depth
        self.embed = torch.nn.Parameter(torch.randn(vocab, width))
        self.layers = torch.nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = torch.nn.Parameter(torch.zeros(width, vocab))

    def loss(self, rows):
        """rows: int (rows, seq + 1)"""
        x = norm(F.embedding(rows[:, :-1], self.embed))
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy((norm(x) @ self.head).flatten(0, 1), rows[:, 1:].flatten())


def steps(depth, vocab, seq, batch, compiled):
    """A function that does one training step."""
    model = Proxy(vocab, depth)
    width = HEAD_WIDTH * depth
    parts = (([model.embed], 0.2), ([model.head], 3.2 / width), (list(model.layers.parameters()), 0.64 / width))
    groups = [{"params": params, "lr": rate} for params, rate in parts]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-10, weight_decay=DECAY, fused=True)
    loss = torch.compile(model.loss) if compiled else model.loss
    rows = torch.randint(vocab, (64, batch, seq + 1))

    def step(number):
        optimizer.zero_grad(set_to_none=True)
        loss(rows[number % 64]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()

    return step


def main():
    depth, vocab, seq, batch, threads = map(int, sys.argv[1:6])
    torch.set_num_threads(threads)
    step = steps(depth, vocab, seq, batch, sys.argv[6] == "compile")
    for number in range(3):
        step(number)
    print("ready", flush=True)
    for line in sys.stdin:
        start, cpu, done = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - start < float(line):
            step(done)
            done += 1
        print(done * batch * seq, time.perf_counter() - start, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    main()
