"""Speed of PyTorch on the first GPU, for what gpu-check measures: bf16 products of a GPT's shapes, a block's training step.

Prints a line for each, or with --json one object: products in TFLOP/s by name, block_s. Sizes, numbers and how often things
run are those of tests/bench/gpu/gpu_bench.cc and of gpu_parts.py.
"""

import json
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("python3 has no PyTorch")

TOKENS, HIDDEN, HEADS, SEQUENCE = 8192, 4096, 32, 1024
PRODUCTS = [("qkv", HIDDEN, 3 * HIDDEN), ("projection", HIDDEN, HIDDEN), ("up", HIDDEN, 4 * HIDDEN),
            ("down", 4 * HIDDEN, HIDDEN)]
PRODUCTS_AT_ONCE = 10  # one after the other between two events: launching takes time, which several products hide


def median_seconds(run, warmup=5, runs=20):
    for _ in range(warmup):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def random_matrix(*shape):
    """Between -0.5 and 0.5; zeros draw less power and are faster."""
    return (torch.rand(*shape, device="cuda") - 0.5).to(torch.bfloat16)


def product_rate(inner, columns):
    """TFLOP/s."""
    a, b = random_matrix(TOKENS, inner), random_matrix(inner, columns)
    d = torch.empty(TOKENS, columns, device="cuda", dtype=torch.bfloat16)

    def run():
        for _ in range(PRODUCTS_AT_ONCE):
            torch.mm(a, b, out=d)

    return 2 * PRODUCTS_AT_ONCE * TOKENS * inner * columns / median_seconds(run) / 1e12


class Block(torch.nn.Module):
    """GPT's: norms come first, one product makes queries, keys and values."""

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


def step_seconds(blocks):
    """A training step with momentum. Weights are bfloat16 alone; pipesim keeps a float32 copy beside them."""
    model = torch.nn.Sequential(*(Block() for _ in range(blocks))).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = random_matrix(TOKENS // SEQUENCE, SEQUENCE, HIDDEN)

    def step():
        optimizer.zero_grad()
        model(x).float().mean().backward()
        optimizer.step()

    return median_seconds(step)


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    products = {name: product_rate(inner, columns) for name, inner, columns in PRODUCTS}
    # What a second block adds, as gpu_parts.py does: gradients of its input are needed, those of the data are not.
    block = step_seconds(2) - step_seconds(1)
    if "--json" in sys.argv[1:]:
        print(json.dumps({"version": torch.__version__, "gpu": torch.cuda.get_device_name(), "products": products,
                          "block_s": block}))
        return
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}")
    for name, rate in products.items():
        print(f"product {name}: {rate:.0f} TFLOP/s")
    print(f"training step of a block: {block:.3e} s")


main()
