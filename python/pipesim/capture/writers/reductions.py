"""Sums, means, extremes and softmax."""

import math

from ..values import Data, Value, Weight
from ..functions import Unavailable, dims_of, function_name, writes
from .elementwise import write_binary


def write_reduction(mode):
    def write(at, input, dim=None, keepdim=False, dtype=None, **_):
        x = at.floating(input)
        return at.reduced(x, dims_of(dim, len(x.shape)), mode, keepdim=keepdim)

    return write


for _name, _mode in {"sum": "sum", "mean": "mean", "amax": "max"}.items():
    writes(_name)(write_reduction(_mode))


@writes("max")
def write_max(at, input, dim=None, keepdim=False):
    if isinstance(dim, (Value, Data, Weight)):
        return write_binary(at, "maximum", input, dim)
    if 1 in at.used:
        return None
    x = at.floating(input)
    result = at.reduced(x, dims_of(dim, len(x.shape)), "max", keepdim=keepdim)
    return result if dim is None else (result, Unavailable("the places of the largest elements"))


@writes("min", "amin")
def write_min(at, input, dim=None, keepdim=False):
    if isinstance(dim, (Value, Data, Weight)):
        return write_binary(at, "minimum", input, dim)
    if 1 in at.used:
        return None
    x = at.affine(at.floating(input), -1.0, part="neg")
    result = at.reduced(x, dims_of(dim, len(x.shape)), "max", part="max", keepdim=keepdim)
    result = at.affine(result, -1.0)
    if dim is None or function_name(at.label) == "amin":
        return result
    return (result, Unavailable("the places of the smallest elements"))


def write_variance(at, x, dim, unbiased, keepdim, part=""):
    dims = dims_of(dim, len(x.shape))
    count = math.prod(x.shape[d] for d in dims)
    mean = at.reduced(x, dims, "mean", part="mean", keepdim=True)
    squares = at.power(at.op("sub", [x, mean], x.shape, part="centre"), 2, part="square")
    result = at.reduced(squares, dims, "mean", part=part, keepdim=keepdim)
    return at.affine(result, count / (count - 1), part="unbiased") if unbiased and count > 1 else result


@writes("var")
def write_var(at, input, dim=None, unbiased=True, keepdim=False, correction=None):
    unbiased = unbiased if correction is None else correction != 0
    return write_variance(at, at.floating(input), dim, unbiased, keepdim)


@writes("std")
def write_std(at, input, dim=None, unbiased=True, keepdim=False, correction=None):
    unbiased = unbiased if correction is None else correction != 0
    result = write_variance(at, at.floating(input), dim, unbiased, keepdim, "variance")
    return at.op("sqrt", [result], result.shape)


@writes("norm", "vector_norm", "linalg_vector_norm", "linalg_norm")
def write_norm(at, input, p=2, dim=None, keepdim=False, ord=None, dtype=None):
    p = p if ord is None else ord
    if p not in (2, 2.0, "fro", None):
        return None
    x = at.floating(input)
    squares = at.power(x, 2, part="square")
    total = at.reduced(squares, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=keepdim)
    return at.op("sqrt", [total], total.shape)


@writes("normalize")
def write_normalize(at, input, p=2.0, dim=1, eps=1e-12):
    if p != 2:
        return None
    x = at.floating(input)
    squares = at.power(x, 2, part="square")
    total = at.reduced(squares, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=True)
    length = at.op(
        "clip", [at.op("sqrt", [total], total.shape, part="sqrt")], total.shape, part="clip", low=eps
    )
    return at.op("div", [x, length], x.shape)


@writes("cosine_similarity")
def write_cosine_similarity(at, x1, x2, dim=1, eps=1e-8):
    a, b = write_normalize(at, x1, dim=dim), write_normalize(at, x2, dim=dim)
    product = write_binary(at, "mul", a, b)
    return at.reduced(product, dims_of(dim, len(product.shape)), "sum")


@writes("logsumexp")
def write_logsumexp(at, input, dim, keepdim=False):
    x = at.floating(input)
    powers = at.op("exp", [x], x.shape, part="exp")
    total = at.reduced(powers, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=keepdim)
    return at.op("log", [total], total.shape)


def write_last_dim(at, x, dim, kind):
    """An operator over the last dim, applied over another."""
    rank = len(x.shape)
    axis = (rank - 1 if dim is None else dim) % rank
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = at.transposed(x, order, "in")
    return at.transposed(at.op(kind, [moved], moved.shape), order, "out")


@writes("softmax")
def write_softmax(at, input, dim=None, *_, **__):
    return write_last_dim(at, at.floating(input), dim, "softmax")


@writes("softmin")
def write_softmin(at, input, dim=None, *_, **__):
    return write_last_dim(at, at.affine(at.floating(input), -1.0, part="neg"), dim, "softmax")


@writes("log_softmax")
def write_log_softmax(at, input, dim=None, *_, **__):
    x = write_last_dim(at, at.floating(input), dim, "softmax")
    return at.op("log", [x], x.shape)
