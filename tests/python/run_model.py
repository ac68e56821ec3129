"""Computes what a model file describes, operator by operator with torch: shows that a captured module still
computes what it did. Slow, and only for the kinds that tests need."""

import torch
import torch.nn.functional as F


def run(document, inputs, weights):
    """All tensors by name. `inputs`: a tensor for each input of the file; `weights`: by their names, as torch
    lists them."""
    tensors = dict(inputs)
    missing = [entry["name"] for entry in document["inputs"] if entry["name"] not in tensors]
    if missing:
        raise KeyError(f"no values for the inputs {missing}")
    for op in document["operators"]:
        arguments = [tensors[name] for name in op["inputs"]]
        own = [weights[name] for name in op.get("weights", [])]
        results = KINDS[op["kind"]](op, own, *arguments)
        if isinstance(results, torch.Tensor):
            tensors[op["name"]] = results
        else:
            tensors.update((f"{op['name']}.{label}", value) for label, value in results)
    return tensors


def linear(op, own, x):
    return F.linear(
        x, own[0].reshape(op["out"][0], -1) if own[0].shape[0] == op["out"][0] else own[0].t(), *own[1:]
    )


def convolution(rank):
    def run(op, own, x):
        function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        more = {"stride": op.get("stride", 1), "padding": op.get("pad", 0)}
        return function(x, *own, dilation=op.get("dilation", 1), groups=op.get("groups", 1), **more)

    return run


def pool2d(op, own, x):
    function = F.max_pool2d if op["mode"] == "max" else F.avg_pool2d
    return function(x, op["kernel"], op.get("stride"), op.get("pad", 0), ceil_mode=op.get("ceil", False))


def resize(op, own, x):
    mode = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[op["mode"]]
    return F.interpolate(x, op["out"], mode=mode)


def layer_norm(op, own, x):
    return F.layer_norm(x, x.shape[-1:], *own, eps=1e-5)


def rms_norm(op, own, x):
    return own[0] * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def slice_of(op, own, x):
    start, step = op.get("start", 0), op.get("step", 1)
    index = torch.arange(start, start + op["length"] * step, step)
    return x.index_select(op["axis"], index)


def pad(op, own, x):
    widths = [n for pair in zip(op["before"][::-1], op["after"][::-1]) for n in pair]
    return F.pad(x, widths)


def split(op, own, x):
    parts = x.split(op["sizes"], op["axis"])
    return [(i, part) for i, part in enumerate(parts)] if len(parts) > 1 else parts[0]


def gather(op, own, x, indices):
    shape = x.shape[: op["axis"]] + indices.shape + x.shape[op["axis"] + 1 :]
    return x.index_select(op["axis"], indices.reshape(-1)).reshape(shape)


def reduce(op, own, x):
    return {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[op["mode"]](x, op["axes"])


def attention(op, own, q, k, v, bias=None):
    b, s, g, r, d = q.shape
    scores = torch.einsum("bsgrd,btgd->bgrst", q, k) / d**0.5
    if bias is not None:
        scores = scores + bias
    if op.get("causal"):
        scores = scores.masked_fill(torch.ones(s, k.shape[1]).triu(1).bool(), float("-inf"))
    return torch.einsum("bgrst,btge->bsgre", scores.softmax(-1), v)


def lstm_cell(op, own, x, h, c):
    gates = x @ own[0].t() + h @ own[1].t() + own[2]
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return [("h", o.sigmoid() * c.tanh()), ("c", c)]


def cross_entropy(op, own, x, labels):
    return F.cross_entropy(x.reshape(-1, x.shape[-1]), labels.reshape(-1))


def embedding_bag(op, own, indices):
    rows = F.embedding(indices, own[0])
    return rows.sum(1) if op["mode"] == "sum" else rows.mean(1)


def elementwise(function):
    return lambda op, own, x: function(x)


def binary(function):
    return lambda op, own, x, y: function(x, y)


KINDS = {
    **{
        kind: elementwise(getattr(torch, kind))
        for kind in "relu tanh sigmoid exp log sqrt abs sin cos erf".split()
    },
    **{kind: elementwise(getattr(F, kind)) for kind in "gelu silu softplus mish hardswish relu6".split()},
    **{kind: binary(getattr(torch, kind)) for kind in "add sub mul div maximum minimum".split()},
    "elu": lambda op, own, x: F.elu(x, op.get("alpha", 1.0)),
    "leaky_relu": lambda op, own, x: F.leaky_relu(x, op.get("slope", 0.01)),
    "reciprocal": elementwise(torch.reciprocal),
    "softmax": lambda op, own, x: x.softmax(-1),
    "clip": lambda op, own, x: x.clamp(op.get("low", -3e38), op.get("high", 3e38)),
    "affine": lambda op, own, x: op.get("factor", 1.0) * x + op.get("offset", 0.0),
    "power": lambda op, own, x: x.pow(op["exponent"]),
    "parameter": lambda op, own: own[0],
    "linear": linear,
    "matmul": lambda op, own, p, q: p @ q,
    "einsum": lambda op, own, *x: torch.einsum(op["equation"], *x),
    "conv1d": convolution(1),
    "conv2d": convolution(2),
    "pool2d": pool2d,
    "adaptive_pool": lambda op, own, x: F.adaptive_avg_pool2d(x, op["out"]),
    "resize": resize,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": lambda op, own, x: F.group_norm(x, op["groups"], *own),
    "batch_norm": lambda op, own, x: F.batch_norm(x, None, None, *own, training=True),
    "reshape": lambda op, own, x: x.reshape(op["shape"]),
    "transpose": lambda op, own, x: x.permute(op["order"]),
    "expand": lambda op, own, x: x.expand(op["shape"]),
    "concat": lambda op, own, *x: torch.cat(x, op["axis"]),
    "roll": lambda op, own, x: x.roll(op["shift"], op["axis"]),
    "slice": slice_of,
    "pad": pad,
    "split": split,
    "gather": gather,
    "reduce": reduce,
    "attention": attention,
    "biased_attention": attention,
    "lstm_cell": lstm_cell,
    "embedding": lambda op, own, indices: F.embedding(indices, own[0]),
    "embedding_bag": embedding_bag,
    "cross_entropy": cross_entropy,
    "squared_error": lambda op, own, x, y: F.mse_loss(x, y),
    "binary_cross_entropy": lambda op, own, x, y: F.binary_cross_entropy_with_logits(x, y),
}
