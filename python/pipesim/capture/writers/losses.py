"""Losses."""

import math

from ..values import Data
from ..functions import Unavailable, function_name, writes
from .elementwise import write_binary
from .reductions import write_last_dim


@writes("cross_entropy")
def write_cross_entropy(at, input, target, *_, **__):
    x = at.floating(input)
    if at.shape != ():
        return None
    if isinstance(target, Data) and not target.dtype.is_floating_point:
        return classes_loss(at, x, target)
    axis = 1 if len(x.shape) > 1 else 0
    chances = write_last_dim(at, x, axis, "softmax")
    logs = at.op("log", [chances], x.shape, part="log")
    product = at.op("mul", [logs, at.floating(target)], x.shape, part="mul")
    product = at.affine(product, -x.shape[axis] / math.prod(x.shape), part="mean")
    return at.reduced(product, list(range(len(x.shape))), "sum", part="sum")


def classes_loss(at, x, target):
    """cross_entropy over the last dim, with the dims that the logits had before they were flattened."""
    rank = len(x.shape)
    if rank > 2:
        x = at.transposed(x, [0, *range(2, rank), 1], "classes_last")
    elif rank == 1:
        x = at.reshaped(x, (1, *x.shape), "row")
    else:
        made = at.maker(x, "reshape")
        source = at.tensor(made["inputs"][0]) if made else x
        x = source if source.shape[-1:] == x.shape[-1:] and len(source.shape) > 1 else x
    shape = x.shape[:-1]
    key = target.name if at.inputs.get(target.name, {}).get("shape") == list(shape) else target.key
    labels = at.data(target.name, shape, str(target.dtype).replace("torch.", ""), key)
    return at.op("cross_entropy", [x, labels], ())


@writes("nll_loss_forward")
def write_nll_loss_forward(at, input, target, *_):
    result = write_nll_loss(at, input, target)
    return result and (result, Unavailable("the weight of all labels"))


@writes("nll_loss", "nll_loss_nd")
def write_nll_loss(at, input, target, *_, **__):
    x = at.floating(input)
    log = at.maker(x, "log")
    softmax = at.maker(at.tensor(log["inputs"][0]), "softmax") if log else None
    if softmax is None or not isinstance(target, Data) or at.shapes[0] != ():
        return None
    return classes_loss(at, at.tensor(softmax["inputs"][0]), target)


@writes("mse_loss")
def write_mse_loss(at, input, target, *_, **__):
    x, y = at.floating(input), at.floating(target)
    if at.shape != ():
        return at.power(write_binary(at, "sub", x, y), 2, part="square")
    return at.op("squared_error", [x, y], ()) if x.shape == y.shape else None


@writes("binary_cross_entropy_with_logits")
def write_bce_with_logits(at, input, target, *_, **__):
    x, y = at.floating(input), at.floating(target)
    if at.shape != () or x.shape != y.shape:
        return None
    return at.op("binary_cross_entropy", [x, y], ())


@writes("binary_cross_entropy")
def write_bce(at, input, target, *_, **__):
    made = at.maker(at.floating(input), "sigmoid")
    if made is None or at.shape != ():
        return None
    return at.op("binary_cross_entropy", [at.tensor(made["inputs"][0]), at.floating(target)], ())


@writes("smooth_l1_loss", "huber_loss")
def write_smooth_l1_loss(at, input, target, *_, beta=1.0, delta=1.0, **__):
    difference = write_binary(at, "sub", input, target)
    size = at.op("abs", [difference], difference.shape, part="abs")
    width = delta if function_name(at.label) == "huber_loss" else beta
    if width <= 0:
        return None
    near = at.op("clip", [size], size.shape, part="near", high=float(width))
    far = at.op("sub", [size, at.affine(near, 0.5, part="half")], size.shape, part="far")
    loss = at.op("mul", [near, far], size.shape)
    loss = at.affine(
        loss, delta / width if function_name(at.label) == "huber_loss" else 1 / width, part="scale"
    )
    return loss if at.shape != () else at.reduced(loss, list(range(len(loss.shape))), "mean", part="mean")


@writes("kl_div")
def write_kl_div(at, input, target, *_, reduction="mean", log_target=False, **__):
    x, y = at.floating(input), at.floating(target)
    logs = y if log_target else at.op("log", [y], y.shape, part="log")
    chances = at.op("exp", [y], y.shape, part="exp") if log_target else y
    loss = at.op("mul", [at.op("sub", [logs, x], x.shape, part="sub"), chances], x.shape)
    if at.shape != ():
        return loss
    if reduction == "batchmean":
        loss = at.affine(loss, 1 / x.shape[0], part="scale")
    return at.reduced(loss, list(range(len(x.shape))), "mean" if reduction == "mean" else "sum", part="sum")


@writes("l1_loss")
def write_l1_loss(at, input, target, *_, **__):
    difference = write_binary(at, "sub", input, target)
    size = at.op("abs", [difference], difference.shape, part="abs")
    return size if at.shape != () else at.reduced(size, list(range(len(size.shape))), "mean", part="mean")
