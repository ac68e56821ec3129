"""Functions of single elements, of one operand and of two."""

import math

import torch

from ..values import Data, Value, Weight, is_number, number_of
from ..functions import function_name, unless, writes


for _name, _kind in {
    "relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "relu6": "relu6",
    "hardswish": "hardswish", "hardsigmoid": "hardsigmoid", "mish": "mish", "softplus": "softplus", "exp": "exp",
    "log": "log", "sqrt": "sqrt", "reciprocal": "reciprocal", "abs": "abs", "sin": "sin", "cos": "cos",
    "erf": "erf", "gelu": "gelu",
}.items():  # fmt: skip

    def _elementwise(at, input, *_, _kind=_kind, **__):
        x = at.floating(input)
        return at.op(_kind, [x], x.shape)

    writes(_name)(_elementwise)


@writes("rrelu")
def write_rrelu(at, input, lower=1 / 8, upper=1 / 3, training=False):
    return at.op("leaky_relu", [input], at.shape, slope=(lower + upper) / 2)


@writes("leaky_relu")
def write_leaky_relu(at, input, negative_slope=0.01):
    return at.op("leaky_relu", [input], at.shape, **unless(0.01, slope=float(negative_slope)))


@writes("elu")
def write_elu(at, input, alpha=1.0):
    return at.op("elu", [input], at.shape, **unless(1.0, alpha=float(alpha)))


@writes("selu")
def write_selu(at, input):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return at.affine(at.op("elu", [input], at.shape, part="elu", alpha=alpha), scale)


@writes("celu")
def write_celu(at, input, alpha=1.0):
    x = at.floating(input) if alpha == 1 else at.affine(at.floating(input), 1 / alpha, part="scale")
    return at.affine(at.op("elu", [x], x.shape), alpha, part="unscale")


@writes("tanhshrink")
def write_tanhshrink(at, input):
    return at.op("sub", [input, at.op("tanh", [input], at.shape, part="tanh")], at.shape)


@writes("log_sigmoid", "logsigmoid")
def write_log_sigmoid(at, input):
    return at.op("log", [at.op("sigmoid", [input], at.shape, part="sigmoid")], at.shape)


@writes("softsign")
def write_softsign(at, input):
    size = at.affine(at.op("abs", [input], at.shape, part="abs"), 1, 1, part="size")
    return at.op("div", [input, size], at.shape)


@writes("glu")
def write_glu(at, input, dim=-1):
    x = at.value(input)
    axis = dim % len(x.shape)
    half, gate = at.op(
        "split", [x], [at.shape, at.shape], part="split", axis=axis, sizes=[at.shape[axis]] * 2
    )
    return at.op("mul", [half, at.op("sigmoid", [gate], at.shape, part="sigmoid")], at.shape)


@writes("clamp", "hardtanh", "clamp_min", "clamp_max")
def write_clamp(at, input, min=None, max=None, min_val=-1.0, max_val=1.0):
    if function_name(at.label) == "hardtanh":
        min, max = (min_val if min is None else min), (max_val if max is None else max)
    if function_name(at.label) == "clamp_max":
        min, max = None, max if min is None else min
    result = at.floating(input)
    for kind, bound in (("maximum", min), ("minimum", max)):
        if isinstance(bound, (Value, Data, Weight)) and not is_number(bound):
            result, min, max = write_binary(at, kind, result, bound), None, None
    limits = {k: number_of(v) for k, v in (("low", min), ("high", max)) if v is not None}
    if limits == {"low": 0, "high": 6}:
        return at.op("relu6", [result], at.shape)
    return at.op("clip", [result], at.shape, attributes=limits) if limits else result


@writes("neg")
def write_neg(at, input):
    return at.affine(at.floating(input), -1.0)


@writes("rsqrt")
def write_rsqrt(at, input):
    return at.power(at.floating(input), -0.5)


@writes("square")
def write_square(at, input):
    return at.power(at.floating(input), 2)


@writes("log2", "log10", "log1p")
def write_log(at, input):
    x = at.floating(input)
    x = at.affine(x, 1, 1, part="add") if at.label.startswith("log1p") else x
    base = {"log2": math.log(2), "log10": math.log(10)}.get(function_name(at.label), 1)
    return at.affine(at.op("log", [x], x.shape), 1 / base, part="scale")


@writes("exp2")
def write_exp2(at, input):
    return at.op("exp", [at.affine(at.floating(input), math.log(2), part="scale")], at.shape)


@writes("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
        "stochastic_depth")  # fmt: skip
def write_dropout(at, input, p=0.5, *rest, training=True, **_):
    numbers = [r for r in rest if isinstance(r, bool)]
    training = numbers[0] if numbers else training
    x = at.value(input)
    return at.op("dropout", [x], x.shape, rate=float(p)) if training and p > 0 else x


@writes("contiguous", "to", "type", "type_as", "float", "half", "bfloat16", "double", "detach", "cuda", "cpu",
        "requires_grad", "identity", "alias", "lift_fresh_copy", "clone")  # fmt: skip
def write_same(at, input, *_, **__):
    return input if isinstance(input, Weight) else at.value(input)


# Two operands


def write_binary(at, kind, x, y):
    """An operator of two tensors, either of which may be broadcast."""
    x, y = at.floating(x), at.floating(y)
    if x.shape == () and y.shape != ():
        x = at.reshaped(x, (1,), "scalar")
    if y.shape == () and x.shape != ():
        y = at.reshaped(y, (1,), "scalar")
    shape = torch.broadcast_shapes(x.shape, y.shape)
    if x.shape != shape and y.shape == shape and kind in ("add", "mul", "maximum", "minimum"):
        x, y = y, x
    return at.op(kind, [at.expanded(x, shape), y], tuple(shape))


@writes("add")
def write_add(at, input, other, alpha=1):
    if is_number(other):
        return at.affine(at.floating(input), 1.0, alpha * number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), alpha, number_of(input))
    for zero, kept in ((input, other), (other, input)):
        if isinstance(zero, Data) and zero.zero and kept.shape == at.shape and alpha == 1:
            return at.floating(kept)
    y = other if alpha == 1 else at.affine(at.floating(other), alpha, part="scale")
    return write_binary(at, "add", input, y)


@writes("sub")
def write_sub(at, input, other, alpha=1):
    if is_number(other):
        return at.affine(at.floating(input), 1.0, -alpha * number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), -alpha, number_of(input))
    y = other if alpha == 1 else at.affine(at.floating(other), alpha, part="scale")
    return write_binary(at, "sub", input, y)


@writes("rsub")
def write_rsub(at, input, other, alpha=1):
    return write_sub(at, other, input, alpha)


@writes("mul", "rmul")
def write_mul(at, input, other):
    if is_number(other):
        return at.affine(at.floating(input), number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), number_of(input))
    return write_binary(at, "mul", input, other)


@writes("div")
def write_div(at, input, other, rounding_mode=None):
    if rounding_mode is not None:
        return None
    if is_number(other):
        return at.affine(at.floating(input), 1 / number_of(other)) if number_of(other) != 0 else None
    if is_number(input):
        x = at.floating(other)
        return at.affine(at.op("reciprocal", [x], x.shape), number_of(input), part="scale")
    return write_binary(at, "div", input, other)


@writes("rtruediv")
def write_rtruediv(at, input, other):
    return write_div(at, other, input)


@writes("pow")
def write_pow(at, input, exponent):
    if is_number(exponent):
        return at.power(at.floating(input), number_of(exponent))
    if is_number(input) and number_of(input) > 0:
        x = at.affine(at.floating(exponent), math.log(number_of(input)), part="scale")
        return at.op("exp", [x], x.shape)
    return None


@writes("rpow")
def write_rpow(at, input, other):
    return write_pow(at, other, input)


@writes("maximum")
def write_maximum(at, input, other):
    return write_binary(at, "maximum", input, other)


@writes("minimum")
def write_minimum(at, input, other):
    return write_binary(at, "minimum", input, other)


@writes("addcmul")
def write_addcmul(at, input, tensor1, tensor2, value=1):
    product = write_binary(at, "mul", tensor1, tensor2)
    return write_binary(at, "add", input, at.affine(product, value, part="scale"))


@writes("lerp")
def write_lerp(at, input, end, weight):
    step = write_binary(at, "sub", end, input)
    step = (
        at.affine(step, number_of(weight), part="scale")
        if is_number(weight)
        else write_binary(at, "mul", step, weight)
    )
    return write_binary(at, "add", input, step)


@writes("masked_fill")
def write_masked_fill(at, input, mask, value):
    x = at.floating(input)
    if not isinstance(mask, Data) or not is_number(value):
        return None
    return write_binary(at, "add", x, at.mask(mask))


@writes("where")
def write_where(at, condition, input, other):
    if not isinstance(condition, Data):
        return None
    tensor, fill = (input, other) if not is_number(input) else (other, input)
    if is_number(tensor) or not (is_number(fill) or isinstance(fill, Data)):
        return None
    return write_binary(at, "add", tensor, at.mask(condition))


@writes("tril", "triu")
def write_triangle(at, input, diagonal=0):
    x = at.floating(input)
    return at.op("mul", [x, at.data(at.base + "_mask", x.shape[-2:])], x.shape)
