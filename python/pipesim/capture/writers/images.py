"""Convolutions, pools and images."""

from ..values import Weight
from ..functions import Unavailable, each, unless, writes


def write_convolution(kind, rank):
    def write(at, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x = at.value(input)
        if not isinstance(weight, Weight) or len(x.shape) != rank + 2:
            return None
        kernel, dilation = list(weight.shape[2:]), each(dilation, rank)
        pad, more = pads(padding, kernel, dilation)
        more = {**unless(1, stride=each(stride, rank)), **unless(0, pad=pad), **more}
        return convolution(at, kind, x, weight, bias, weight.shape[0], kernel, dilation, groups, more)

    return write


def convolution(at, kind, x, weight, bias, out, kernel, dilation, groups, more):
    weights = [weight.name] + ([bias.name] if isinstance(bias, Weight) else [])
    more = {**more, **unless(1, dilation=dilation, groups=groups)}
    if bias is None:
        more["bias"] = False
    return at.op(kind, [x], at.shape, weights, out=out, kernel=kernel, attributes=more)


def pads(padding, kernel, dilation):
    """Zeros before each dim, and pad_end where those after it differ."""
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
        return before, ({} if before == after else {"pad_end": after})
    return each(0 if padding == "valid" else padding, len(kernel)), {}


def write_transposed_convolution(kind, rank):
    def write(at, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        x = at.value(input)
        if not isinstance(weight, Weight) or len(x.shape) != rank + 2:
            return None
        more = {
            **unless(1, stride=each(stride, rank)),
            **unless(0, pad=each(padding, rank), output_pad=each(output_padding, rank)),
        }
        out, kernel = weight.shape[1] * groups, list(weight.shape[2:])
        return convolution(at, kind, x, weight, bias, out, kernel, each(dilation, rank), groups, more)

    return write


def write_pool(mode, rank):
    def write(at, input, kernel_size, stride=None, padding=0, *rest, ceil_mode=False, **named):
        x = at.value(input)
        names = (
            ("dilation", "ceil_mode")
            if mode == "max"
            else ("ceil_mode", "count_include_pad", "divisor_override")
        )
        named.update(zip(names, rest), ceil_mode=ceil_mode or dict(zip(names, rest)).get("ceil_mode", False))
        if (
            len(x.shape) != rank + 2
            or named.get("divisor_override")
            or each(named.get("dilation", 1), rank) != [1] * rank
        ):
            return None
        if named.get("return_indices"):
            return None
        more = {"stride": each(stride, rank)} if stride not in (None, [], ()) else {}
        more.update(unless(0, pad=each(padding, rank)))
        if named["ceil_mode"]:
            more["ceil"] = True
        if named.get("count_include_pad") is False:
            more["exclude_pad"] = True
        return at.op(
            f"pool{rank}d", [x], at.shape, mode=mode, kernel=each(kernel_size, rank), attributes=more
        )

    return write


def write_pool_with_indices(rank):
    def write(at, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        at.shape = at.shapes[0]
        result = write_pool("max", rank)(at, input, kernel_size, stride, padding, dilation, ceil_mode)
        return result and (result, Unavailable("the places of the largest elements"))

    return write


def write_adaptive_pool(mode, rank):
    def write(at, input, output_size, return_indices=False):
        x = at.value(input)
        if return_indices or len(x.shape) != rank + 2:
            return None
        return at.op("adaptive_pool", [x], at.shape, out=list(at.shape[2:]), mode=mode)

    return write


for _rank in (1, 2, 3):
    writes(f"conv{_rank}d")(write_convolution(f"conv{_rank}d", _rank))
    writes(f"conv_transpose{_rank}d")(write_transposed_convolution(f"conv_transpose{_rank}d", _rank))
    writes(f"max_pool{_rank}d_with_indices")(write_pool_with_indices(_rank))
    for _mode in ("max", "avg"):
        writes(f"{_mode}_pool{_rank}d")(write_pool(_mode, _rank))
        writes(f"adaptive_{_mode}_pool{_rank}d")(write_adaptive_pool(_mode, _rank))


@writes("convolution")
def write_aten_convolution(
    at, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    rank = len(weight.shape) - 2
    if transposed:
        write = write_transposed_convolution(f"conv_transpose{rank}d", rank)
        return write(at, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return write_convolution(f"conv{rank}d", rank)(at, input, weight, bias, stride, padding, dilation, groups)


@writes("interpolate", "upsample")
def write_interpolate(at, input, size=None, scale_factor=None, mode="nearest", align_corners=None, *_, **__):
    x = at.value(input)
    if mode == "area":
        return at.op("adaptive_pool", [x], at.shape, out=list(at.shape[2:]), mode="avg")
    modes = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}
    more = {"align_corners": True} if align_corners else {}
    return at.op("resize", [x], at.shape, out=list(at.shape[2:]), mode=modes.get(mode, "linear"), **more)


for _name, _mode in {"nearest1d": "nearest", "nearest2d": "nearest", "nearest3d": "nearest",
                     "linear1d": "linear", "bilinear2d": "linear", "trilinear3d": "linear",
                     "bicubic2d": "cubic"}.items():  # fmt: skip

    def _upsample(at, input, size, *rest, _mode=_mode):
        more = {"align_corners": True} if _mode != "nearest" and rest and rest[0] is True else {}
        return at.op("resize", [input], at.shape, out=list(at.shape[2:]), mode=_mode, **more)

    writes(f"upsample_{_name}")(_upsample)
