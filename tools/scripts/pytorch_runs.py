"""Training steps of GPTs and Llamas in PyTorch on one GPU, as rows for `pipesim accuracy` and `pipesim calibrate --runs`.

Usage: pytorch_runs.py DEVICES ROWS.csv [SECONDS [MODE…]], for example pytorch_runs.py dgx-h100:gpus=1 runs.csv
DEVICES is what --topology takes. MODE: only the cases of these modes, such as torch-eager. Weights are bfloat16 with float32 copies; gradients of microbatches are added in float32; Adam,
after clipping. Within SECONDS (100) as many of the cases as possible are measured, once each.
"""

import csv
import gc
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

if len(sys.argv) < 3:
    sys.exit(__doc__)
DEVICES, ROWS = sys.argv[1:3]
END = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else 100)
VOCAB = 50304
E, G, C, F8 = "torch-eager", "cuda-graph", "torch-compile", "torch-compile with float8"
R = "torch-eager with recompute"
nn = torch.nn


def in_float8(x, kind):
    """Scaled by its largest magnitude, as torchao's dynamic scaling by tensor; and what to multiply it by."""
    most = torch.finfo(kind).max
    scale = most / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-most, most).to(kind), 1 / scale


def columns_first(x):
    """The layout that float8 products need of their second operand."""
    return x.t().contiguous().t()


class Float8Product(torch.autograd.Function):
    """Of x in E4M3 and a weight in E4M3; gradients in E5M2. All three products are in float8."""

    @staticmethod
    def forward(ctx, x, w):
        x8, x_scale = in_float8(x.reshape(-1, x.shape[-1]), torch.float8_e4m3fn)
        w8, w_scale = in_float8(w, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        ctx.shape = x.shape
        y = torch._scaled_mm(x8, w8.t(), scale_a=x_scale, scale_b=w_scale, out_dtype=torch.bfloat16, use_fast_accum=True)
        return y.view(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, g):
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        g8, g_scale = in_float8(g.reshape(-1, g.shape[-1]), torch.float8_e5m2)
        dx = torch._scaled_mm(g8, columns_first(w8), scale_a=g_scale, scale_b=w_scale, out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(g8.t().contiguous(), columns_first(x8), scale_a=g_scale, scale_b=x_scale, out_dtype=torch.bfloat16)
        return dx.view(ctx.shape), dw


class Float8Linear(nn.Linear):
    def forward(self, x):
        y = Float8Product.apply(x, self.weight)
        return y if self.bias is None else y + self.bias


class Block(nn.Module):
    def __init__(self, hidden, heads, llama, float8):
        super().__init__()
        linear = Float8Linear if float8 else nn.Linear
        self.heads, self.llama = heads, llama
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        ffn = (8 * hidden // 3 + 255) // 256 * 256 if llama else 4 * hidden
        self.qkv, self.projection = linear(hidden, 3 * hidden, bias=not llama), linear(hidden, hidden, bias=not llama)
        self.up, self.down = linear(hidden, (2 if llama else 1) * ffn, bias=not llama), linear(ffn, hidden, bias=not llama)

    def forward(self, x, rope):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        if self.llama:
            q, k = rotate(q, rope), rotate(k, rope)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.projection(a.transpose(1, 2).reshape(b, s, h))
        y = self.up(self.norm2(x))
        if self.llama:
            gate, up = y.chunk(2, -1)
            y = F.silu(gate) * up
        else:
            y = F.gelu(y, approximate="tanh")
        return x + self.down(y)


def rotate(x, rope):
    cos, sin = rope
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, sequence, llama, mode):
        super().__init__()
        self.llama, self.recompute = llama, mode == R
        self.words = nn.Embedding(VOCAB, hidden)
        if not llama:
            self.positions = nn.Embedding(sequence, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, llama, mode == F8) for _ in range(layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(hidden)
        self.head = nn.Linear(hidden, VOCAB, bias=False)
        if not llama:
            self.head.weight = self.words.weight
        angles = torch.outer(torch.arange(sequence).float(), 1e4 ** (-torch.arange(0, hidden // heads, 2).float() / (hidden // heads)))
        angles = torch.cat((angles, angles), -1)[None, :, None, :]
        self.register_buffer("cos", angles.cos()), self.register_buffer("sin", angles.sin())
        self.register_buffer("place", torch.arange(sequence), persistent=False)

    def forward(self, tokens, labels):
        x = self.words(tokens)
        if not self.llama:
            x = x + self.positions(self.place)
        rope = (self.cos, self.sin)
        for block in self.blocks:
            x = checkpoint(block, x, rope, use_reentrant=False) if self.recompute else block(x, rope)
        return F.cross_entropy(self.head(self.norm(x)).float().view(-1, VOCAB), labels.view(-1))


class Training:
    def __init__(self, kind, layers, hidden, sequence, size, microbatches, mode):
        torch.manual_seed(1)
        with torch.device("cuda"):
            self.model = Model(layers, hidden, hidden // (128 if hidden >= 2048 else 64), sequence, kind == "llama", mode)
        self.model.to(torch.bfloat16)
        self.model.place = torch.arange(sequence, device="cuda")
        self.weights = list(self.model.parameters())
        for w in self.weights:
            nn.init.normal_(w, std=0.02)
            w.main_grad = torch.zeros_like(w, dtype=torch.float32)
            w.register_post_accumulate_grad_hook(self.add)
        self.masters = [w.detach().float().requires_grad_() for w in self.weights]
        for m, w in zip(self.masters, self.weights):
            m.grad = w.main_grad
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, fused=True, capturable=mode == G)
        self.tokens = torch.randint(VOCAB, (microbatches, size, sequence), device="cuda")
        self.labels = torch.randint(VOCAB, (microbatches, size, sequence), device="cuda")
        self.run = self.step
        if mode in (C, F8):
            for block in self.model.blocks:
                block.compile(dynamic=False)
        if mode == G:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.step()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
            self.run = self.graph.replay

    @staticmethod
    def add(w):
        w.main_grad.add_(w.grad)
        w.grad = None

    def step(self):
        torch._foreach_zero_([w.main_grad for w in self.weights])
        for tokens, labels in zip(self.tokens, self.labels):
            self.model(tokens, labels).backward()
        norms = torch._foreach_norm([w.main_grad for w in self.weights])
        scale = (1.0 / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([w.main_grad for w in self.weights], scale)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_([w.detach() for w in self.weights], self.masters)


def measure(training, warmup, steps):
    for _ in range(warmup):
        training.run()
    torch.cuda.synchronize()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        training.run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def spec(kind, layers, hidden, sequence, size):
    heads = hidden // (128 if hidden >= 2048 else 64)
    if kind == "gpt":
        return f"gpt:batch={size},layers={layers},hidden={hidden},heads={heads},vocab={VOCAB},sequence={sequence},positions={sequence},dropout=0,dtype=bfloat16,kept=torch"
    ffn = (8 * hidden // 3 + 255) // 256 * 256
    return (f"llama:batch={size},layers={layers},hidden={hidden},heads={heads},kv_heads={heads},ffn={ffn},vocab={VOCAB},"
            f"sequence={sequence},dtype=bfloat16,kept=torch")


CASES = [
    ("gpt", 8, 1024, 1024, 1, 1, E), ("gpt", 8, 2048, 2048, 1, 1, E), ("gpt", 8, 2048, 2048, 4, 1, E),
    ("gpt", 8, 1024, 1024, 16, 1, E), ("gpt", 16, 512, 512, 1, 1, E), ("gpt", 16, 512, 512, 32, 1, E),
    ("gpt", 4, 4096, 2048, 1, 1, E), ("gpt", 4, 4096, 2048, 4, 1, E), ("gpt", 8, 1024, 1024, 1, 8, E),
    ("gpt", 8, 1024, 1024, 4, 2, E), ("gpt", 2, 8192, 4096, 1, 1, E), ("gpt", 8, 2048, 8192, 1, 1, E),
    ("llama", 8, 1024, 1024, 1, 1, E), ("llama", 8, 2048, 2048, 1, 1, E), ("llama", 8, 2048, 2048, 4, 1, E),
    ("llama", 4, 4096, 4096, 1, 1, E), ("llama", 4, 4096, 4096, 1, 4, E),
    ("gpt", 24, 1024, 1024, 1, 1, E), ("gpt", 8, 2048, 2048, 1, 4, E),
    ("gpt", 16, 512, 512, 1, 1, G), ("gpt", 8, 1024, 1024, 1, 1, G), ("gpt", 8, 1024, 1024, 16, 1, G),
    ("gpt", 8, 2048, 2048, 1, 1, G), ("gpt", 8, 2048, 2048, 4, 1, G), ("llama", 8, 2048, 2048, 1, 1, G),
    ("gpt", 4, 4096, 2048, 4, 1, G), ("llama", 4, 4096, 4096, 1, 1, G), ("gpt", 8, 1024, 1024, 1, 8, G),
    ("gpt", 8, 1024, 1024, 1, 1, C), ("gpt", 8, 2048, 2048, 4, 1, C), ("gpt", 16, 512, 512, 1, 1, C),
    ("llama", 8, 2048, 2048, 4, 1, C), ("llama", 4, 4096, 4096, 1, 1, C),
    ("llama", 2, 8192, 4096, 1, 1, C), ("gpt", 4, 4096, 2048, 4, 1, C),
    ("llama", 2, 8192, 4096, 1, 1, F8), ("gpt", 4, 4096, 2048, 4, 1, F8), ("llama", 4, 4096, 4096, 1, 1, F8),
    ("gpt", 8, 2048, 2048, 4, 1, F8), ("gpt", 2, 8192, 4096, 1, 1, F8), ("llama", 4, 4096, 4096, 2, 1, F8),
    ("llama", 4, 4096, 4096, 4, 1, R), ("gpt", 2, 8192, 4096, 2, 1, R), ("gpt", 8, 2048, 8192, 2, 1, R),
    ("gpt", 24, 1024, 1024, 8, 1, R), ("gpt", 8, 2048, 2048, 1, 4, R),
]


def main():
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    with open(ROWS + ".part", "w", encoding="utf-8", newline="") as rows, sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        table = csv.writer(rows, lineterminator="\n")
        table.writerow("name,model,devices,recipe,batch,time,memory,runtime,status,group".split(","))
        for case in CASES:
            kind, layers, hidden, sequence, size, microbatches, mode = case
            if len(sys.argv) > 4 and mode not in sys.argv[4:]:
                continue
            if time.monotonic() > END - (12 if mode in (C, F8) else 4):
                print("no time for", *case, flush=True)
                continue
            began, training, runtime = time.monotonic(), None, mode.split()[0]
            if runtime == E:
                runtime += ":optimizer-kernel=fused"  # as Training makes it
            line = [f"{kind} {hidden} x {layers}", spec(kind, layers, hidden, sequence, size * microbatches),
                    DEVICES, f"mbs{size}" + {F8: ",fp8", R: ",recompute=full"}.get(mode, ""), str(size * microbatches)]
            try:
                torch._dynamo.reset()  # compiled code of other shapes counts towards a limit
                torch.cuda.reset_peak_memory_stats()
                training = Training(*case)
                seconds = measure(training, 3, 12)
                peak = torch.cuda.max_memory_allocated()
                line += [f"{1e3 * seconds:.4f} ms", f"{peak / 1e9:.3f} GB", runtime, "ok"]
            except torch.OutOfMemoryError:
                seconds = float("nan")
                line += ["", "", runtime, "oom"]
            except Exception as error:  # the other cases must run
                seconds = float("nan")
                print("FAILED", case, repr(error)[:300], flush=True)
                line += ["", "", runtime, "failed"]
            table.writerow([*line, f"{mode};{kind};hidden {hidden}"])
            rows.flush()
            print(f"{1e3 * seconds:10.3f} ms  {case}  ({time.monotonic() - began:.1f} s)", flush=True)
            training = None
            gc.collect()
            torch.cuda.empty_cache()
    os.replace(ROWS + ".part", ROWS)


main()
