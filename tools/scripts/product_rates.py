"""Times of products in bfloat16 and float8 on one GPU, and of what brings operands into float8, measured with PyTorch.

Usage: product_rates.py RATES.csv [SECONDS]
Products are d = a · b with a of m rows and k columns, d of n columns; operands do not stay in the caches between products.
float8: both operands in E4M3 with one scale each. Columns: what,m,n,k,seconds. "bfloat16" and "float8" are products,
"float8-rows" products with a scale for each row; "cast" is a compiled kernel pair that finds the largest magnitude of an m by k
bfloat16 matrix and writes it in float8, "cast-both" writes its transpose as well.
"""

import csv
import os
import sys
import time

import torch

if not 2 <= len(sys.argv) <= 3:
    sys.exit(__doc__)
ROWS = sys.argv[1]
END = time.monotonic() + (float(sys.argv[2]) if len(sys.argv) == 3 else 60)
E4M3 = torch.float8_e4m3fn
CACHE_BYTES = 256 << 20  # operands rotate through as much
SHAPES = [(m, n, k)
          for m in (8192, 2048, 4096, 16384, 1024)
          for n, k in ((4096, 4096), (1024, 1024), (2048, 2048), (8192, 8192), (6144, 4096), (28672, 4096), (4096, 14336),
                       (1280, 8192), (8192, 1024), (8192, 3584), (7168, 8192), (18432, 12288), (12288, 12288))]


def median_seconds(run, at_once):
    times = []
    for i in range(6):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for j in range(at_once):
            run(j)
        end.record()
        end.synchronize()
        if i > 1:
            times.append(begin.elapsed_time(end) / 1e3 / at_once)
    return sorted(times)[len(times) // 2]


def graph_of(run, at_once):
    """Without the host: products of a CUDA graph."""
    run(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for j in range(at_once):
            run(j)
    return graph


def seconds_of(run, bytes_once, flops):
    at_once = int(min(50, max(8, 1e-3 * 6e14 / max(flops, 1))))
    graph = graph_of(run, at_once)
    return median_seconds(lambda _: graph.replay(), 1) / at_once


def copies(make, size):
    return [make() for _ in range(max(1, min(24, CACHE_BYTES // size)))]


def matrix(rows, columns):
    return (torch.rand(rows, columns, device="cuda") - 0.5).to(torch.bfloat16)


def products(m, n, k):
    flops = 2 * m * n * k
    a, b = copies(lambda: matrix(m, k), 2 * m * k), copies(lambda: matrix(n, k), 2 * n * k)
    d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    yield "bfloat16", seconds_of(lambda j: torch.mm(a[j % len(a)], b[j % len(b)].t(), out=d), 2 * (m * k + n * k), flops)
    a, b = [x.to(E4M3) for x in a], [x.to(E4M3) for x in b]
    one = torch.ones((), device="cuda")
    by_row, by_column = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")

    def product(j, scale_a=one, scale_b=one):
        torch._scaled_mm(a[j % len(a)], b[j % len(b)].t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16,
                         use_fast_accum=True)

    yield "float8", seconds_of(product, m * k + n * k, flops)
    yield "float8-rows", seconds_of(lambda j: product(j, by_row, by_column), m * k + n * k, flops)


def scaled(x):
    scale = 448.0 / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-448, 448).to(E4M3), 1 / scale


@torch.compile(dynamic=False)
def cast(x):
    return scaled(x)


@torch.compile(dynamic=False)
def cast_both(x):
    y, scale = scaled(x)
    return y, y.t().contiguous(), scale


def main():
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    with open(ROWS + ".part", "w", encoding="utf-8", newline="") as rows:
        table = csv.writer(rows, lineterminator="\n")
        table.writerow("what,m,n,k,seconds".split(","))
        for m, k in ((4096, 1024), (8192, 4096), (8192, 14336), (16384, 8192)):
            x = copies(lambda: matrix(m, k), 2 * m * k)
            for name, run in (("cast", cast), ("cast-both", cast_both)):
                run(x[0])
                table.writerow([name, m, 0, k, f"{seconds_of(lambda j: run(x[j % len(x)]), 0, 0):.4e}"])
        for shape in SHAPES:
            if time.monotonic() > END:
                print("no time for", *shape, flush=True)
                continue
            for name, seconds in products(*shape):
                table.writerow([name, *shape, f"{seconds:.4e}"])
                print(f"{name:12} {shape}  {2 * shape[0] * shape[1] * shape[2] / seconds / 1e12:.0f} TFLOP/s", flush=True)
            rows.flush()
    os.replace(ROWS + ".part", ROWS)


main()
