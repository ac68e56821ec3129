"""Speed of PyTorch on the first GPU, for what gpu_bench measures: bf16 products of a GPT's shapes, a block's training step.

Prints a line for each: name, median seconds of 20 runs, TFLOP/s. The sizes are those of tests/bench/gpu/gpu_bench.cc.
"""

import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("python3 has no PyTorch")

TOKENS, HIDDEN, HEADS, SEQUENCE = 8192, 4096, 32, 1024
PRODUCTS = [("qkv", HIDDEN, 3 * HIDDEN), ("projection", HIDDEN, HIDDEN), ("up", HIDDEN, 4 * HIDDEN),
            ("down", 4 * HIDDEN, HIDDEN)]


def median_seconds(run, warmup=5, runs=20):
    for _ in range(warmup):
        run()
    times = []
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.qkv, self.projection = torch.nn.Linear(HIDDEN, 3 * HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = (t.view(batch, SEQUENCE, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(a.transpose(1, 2).reshape(batch, SEQUENCE, HIDDEN))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}")
    for name, inner, columns in PRODUCTS:
        a = torch.randn(TOKENS, inner, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(inner, columns, device="cuda", dtype=torch.bfloat16)
        seconds = median_seconds(lambda: a @ b)
        print(f"product {name}: {seconds:.3e} s, {2 * TOKENS * inner * columns / seconds / 1e12:.0f} TFLOP/s")
    block = Block().to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(block.parameters(), lr=1e-3)
    x = torch.randn(TOKENS // SEQUENCE, SEQUENCE, HIDDEN, device="cuda", dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad()
        block(x).sum().backward()
        optimizer.step()

    print(f"training step of a block: {median_seconds(step):.3e} s")


main()
