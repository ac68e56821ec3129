"""Norms."""

import math

from ..values import Weight
from ..functions import Unavailable, writes


def gamma_beta(weight, bias):
    return [weight.name, bias.name]


def write_affine_norm(at, kind, x, weight, bias, attributes, shape=None):
    """A norm with gamma and beta; where only one of them is there, that follows as an operator of its own."""
    if isinstance(weight, Weight) and isinstance(bias, Weight):
        return at.op(kind, [x], x.shape, gamma_beta(weight, bias), attributes=attributes)
    result = at.op(kind, [x], x.shape, attributes={**attributes, "affine": False})
    for other, operand in (("mul", weight), ("add", bias)):
        if operand is not None:
            value = at.value(operand)
            value = at.reshaped(value, shape, "channels") if shape else value
            result = at.op(other, [result, value], x.shape, part="scale" if other == "mul" else "shift")
    return result


@writes("layer_norm")
def write_layer_norm(at, input, normalized_shape, weight=None, bias=None, eps=1e-5, *_):
    x, dims = at.floating(input), len(normalized_shape)
    if dims == 1:
        return write_affine_norm(at, "layer_norm", x, weight, bias, {})
    if (weight is None) != (bias is None):
        return None
    wide = at.reshaped(x, (*x.shape[:-dims], math.prod(normalized_shape)), "rows")
    return at.reshaped(write_affine_norm(at, "layer_norm", wide, weight, bias, {}), x.shape, "dims")


@writes("native_layer_norm")
def write_native_layer_norm(at, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    result = write_layer_norm(at, input, normalized_shape, weight, bias)
    return (result, Unavailable("the mean"), Unavailable("the deviation"))


@writes("rms_norm")
def write_rms_norm(at, input, *operands, weight=None, **_):
    weights = [a for a in (*operands, weight) if isinstance(a, Weight)]
    x = at.floating(input)
    if len(weights) != 1 or weights[0].shape != x.shape[-1:]:
        return None
    return at.op("rms_norm", [x], x.shape, [weights[0].name])


@writes("group_norm")
def write_group_norm(at, input, num_groups, weight=None, bias=None, *_, **__):
    x = at.floating(input)
    channels = (x.shape[1],) + (1,) * (len(x.shape) - 2)
    return write_affine_norm(at, "group_norm", x, weight, bias, {"groups": num_groups}, channels)


@writes("native_group_norm")
def write_native_group_norm(at, input, weight, bias, n, channels, size, groups, eps):
    result = write_group_norm(at, input, groups, weight, bias)
    return (result, Unavailable("the mean"), Unavailable("the deviation"))


@writes("instance_norm")
def write_instance_norm(at, input, running_mean=None, running_var=None, weight=None, bias=None, *_, **__):
    return write_group_norm(at, input, input.shape[1], weight, bias)


@writes("native_batch_norm")
def write_native_batch_norm(at, input, weight=None, bias=None, *_):
    result = write_batch_norm(at, input, weight, bias)
    return (result, *(Unavailable("statistics of a batch norm") for _ in at.shapes[1:]))


@writes("batch_norm")
def write_batch_norm(at, input, *operands, weight=None, bias=None, **_):
    x = at.floating(input)
    weights = [a for a in (*operands, weight, bias) if isinstance(a, Weight)]
    if len(weights) == 2:
        return at.op("batch_norm", [x], x.shape, [w.name for w in weights])
    at.note(f"{at.where}: a batch norm without weights is written with weights that are frozen")
    return at.op("batch_norm", [x], x.shape, frozen=True)
