"""Functions that change shapes, and that cut and join tensors."""

import math

import torch

from ..errors import CaptureError
from ..values import Data, Value, Weight
from ..functions import dims_of, each, writes
from .tables import write_embedding


@writes("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "atleast_2d")
def write_reshape(at, input, *_, **__):
    return at.reshaped(input, at.shape)


@writes("transpose")
def write_transpose(at, input, dim0=None, dim1=None, axis0=None, axis1=None):
    rank = len(input.shape)
    first, second = ((a if a is not None else b) % rank for a, b in ((dim0, axis0), (dim1, axis1)))
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return write_order(at, input, order)


@writes("t")
def write_t(at, input):
    return write_order(at, input, list(range(len(input.shape)))[::-1])


@writes("permute")
def write_permute(at, input, *dims, **named):
    dims = dims or tuple(named.values())
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    return write_order(at, input, [d % len(input.shape) for d in dims])


@writes("movedim")
def write_movedim(at, input, source, destination):
    rank = len(input.shape)
    source, destination = dims_of(source, rank), dims_of(destination, rank)
    order = [d for d in range(rank) if d not in source]
    for target, origin in sorted(zip(destination, source)):
        order.insert(target, origin)
    return write_order(at, input, order)


def write_order(at, input, order):
    if isinstance(input, Weight) and list(order) == [1, 0]:
        return Weight(input.name, input.shape[::-1], not input.transposed)
    return at.transposed(input, order)


@writes("expand", "expand_as", "broadcast_to")
def write_expand(at, input, *_, **__):
    return at.expanded(input, at.shape, "")


@writes("repeat", "tile")
def write_repeat(at, input, *_, **__):
    x = at.value(input)
    shape = (1,) * (len(at.shape) - len(x.shape)) + x.shape
    return repeated(at, x, shape, inner=False)


@writes("repeat_interleave")
def write_repeat_interleave(at, input, repeats, dim=None, output_size=None):
    x = at.value(input)
    shape = x.shape if dim is not None else (math.prod(x.shape),)
    return repeated(at, x, shape, inner=True)


def repeated(at, x, shape, inner):
    """Copies along new dims, which a reshape then merges."""
    narrow, wide = [], []
    for old, new in zip(shape, at.shape):
        times = new // old
        if times == 1:
            narrow, wide = narrow + [old], wide + [old]
        elif inner:
            narrow, wide = narrow + [old, 1], wide + [old, times]
        else:
            narrow, wide = narrow + [1, old], wide + [times, old]
    x = at.expanded(at.reshaped(x, narrow, "dims"), wide)
    return at.reshaped(x, at.shape)


@writes("cat", "hstack", "vstack")
def write_cat(at, tensors, dim=0, axis=None):
    axis = (dim if axis is None else axis) % len(at.shape)
    values = [at.floating(t) for t in tensors if t.shape != (0,)]
    return at.op("concat", values, at.shape, axis=axis) if len(values) > 1 else values[0]


@writes("stack")
def write_stack(at, tensors, dim=0):
    axis = dim % len(at.shape)
    wide = [1 if i == axis else n for i, n in enumerate(at.shape)]
    values = [at.reshaped(at.floating(t), wide, "dims") for t in tensors]
    return at.op("concat", values, at.shape, axis=axis) if len(values) > 1 else values[0]


@writes("split", "chunk", "tensor_split")
def write_split(at, input, split_size_or_sections=None, dim=0, **named):
    return pieces(at, input, dim % len(input.shape), at.shapes)


@writes("unbind")
def write_unbind(at, input, dim=0):
    x = at.value(input)
    axis = dim % len(x.shape)
    part = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
    parts = pieces(at, x, axis, [part] * x.shape[axis])
    return tuple(at.reshaped(p, shape, "squeeze") for p, shape in zip(parts, at.shapes))


def pieces(at, x, axis, shapes):
    if len(shapes) == 1:
        return (at.value(x),)
    return at.op("split", [x], list(shapes), axis=axis, sizes=[s[axis] for s in shapes])


@writes("getitem")
def write_getitem(at, input, index):
    index = list(index) if isinstance(index, (tuple, list)) else [index]
    if any(isinstance(i, (Value, Data)) for i in index):
        return write_take(at, input, index)
    if any(isinstance(i, (list, torch.Tensor, bool)) for i in index):
        return None
    x, shape = sliced(at, at.value(input), index)
    return at.reshaped(x, shape)


def sliced(at, x, index):
    """x cut by numbers, slices, None and Ellipsis; and the shape that torch gives it."""
    rank, used = len(x.shape), sum(1 for i in index if i is not None and i is not Ellipsis)
    if Ellipsis not in [i for i in index if i is Ellipsis]:
        index = index + [Ellipsis]
    axis, shape = 0, []
    for i in index:
        if i is None:
            shape.append(1)
        elif i is Ellipsis:
            shape += x.shape[axis : axis + rank - used]
            axis += rank - used
        elif isinstance(i, int):
            x = cut(at, x, axis, i % x.shape[axis], 1, 1)
            axis += 1
        else:
            start, stop, step = i.indices(x.shape[axis])
            length = max(0, -(-(stop - start) // step))
            x = cut(at, x, axis, start, length, step)
            shape.append(length)
            axis += 1
    return x, shape


def cut(at, x, axis, start, length, step=1):
    if start == 0 and length == x.shape[axis] and step == 1:
        return x
    if length < 1:
        raise CaptureError(f"{at.where}: an empty slice of {list(x.shape)}")
    shape = x.shape[:axis] + (length,) + x.shape[axis + 1 :]
    more = {**({"start": start} if start else {}), "length": length, **({"step": step} if step != 1 else {})}
    return at.op("slice", [x], shape, part="slice", axis=axis, attributes=more)


@writes("index")
def write_aten_index(at, input, indices):
    index = [slice(None) if i is None else i for i in indices]
    return write_take(at, input, index)


def write_take(at, input, index):
    """Indices that are tensors: rows of a parameter, or a gather along dims that follow each other."""
    if isinstance(input, Weight) and len(index) == 1 and len(input.shape) == 2 and not input.transposed:
        return write_embedding(at, index[0], input)
    places = [i for i, a in enumerate(index) if isinstance(a, (Value, Data))]
    whole = all(isinstance(a, slice) and a == slice(None) for i, a in enumerate(index) if i not in places)
    if not whole or places != list(range(places[0], places[-1] + 1)):
        return None
    x, first, count = at.value(input), places[0], len(places)
    merged = x.shape[:first] + (math.prod(x.shape[first : first + count]),) + x.shape[first + count :]
    x = at.reshaped(x, merged, "dims")
    shape = torch.broadcast_shapes(*(index[i].shape for i in places))
    if not all(isinstance(index[i], Data) for i in places):
        return None
    indices = at.data(index[first].name, shape, "int64", "".join(index[i].key for i in places))
    return at.op("gather", [x, indices], at.shape, axis=first)


@writes("select")
def write_select(at, input, dim, index):
    x = at.value(input)
    axis = dim % len(x.shape)
    return at.reshaped(cut(at, x, axis, index % x.shape[axis], 1), at.shape)


@writes("narrow")
def write_narrow(at, input, dim, start, length):
    return cut(at, at.value(input), dim % len(input.shape), start, length)


@writes("slice")
def write_slice(at, input, dim=0, start=None, end=None, step=1):
    axis = dim % len(input.shape)
    first, last, step = slice(start, end, step).indices(input.shape[axis])
    return cut(at, at.value(input), axis, first, max(0, -(-(last - first) // step)), step)


@writes("index_select")
def write_index_select(at, input, dim, index):
    if isinstance(input, Weight) and dim == 0 and len(input.shape) == 2:
        return write_embedding(at, index, input)
    if not isinstance(index, Data):
        return None
    return at.op("gather", [input, index], at.shape, axis=dim % len(input.shape))


@writes("roll")
def write_roll(at, input, shifts, dims=None):
    x = at.value(input)
    if dims is None or dims == ():
        return None
    for shift, dim in zip(each(shifts, 1), dims_of(dims, len(x.shape))):
        x = at.op("roll", [x], x.shape, axis=dim, shift=shift % x.shape[dim])
    return x


@writes("pad")
def write_pad(at, input, pad, mode="constant", value=None):
    x, rank = at.value(input), len(input.shape)
    modes = {"constant": "zeros", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        return None
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis in range(rank):
        low, high = min(before[axis], 0), min(after[axis], 0)
        x = cut(at, x, axis, -low, x.shape[axis] + low + high)
        before[axis], after[axis] = max(before[axis], 0), max(after[axis], 0)
    if not any(before + after):
        return x
    more = {} if mode == "constant" else {"mode": modes[mode]}
    return at.op("pad", [x], at.shape, before=before, after=after, **more)


@writes("constant_pad_nd")
def write_constant_pad(at, input, pad, value=0):
    return write_pad(at, input, pad)


@writes("pixel_shuffle")
def write_pixel_shuffle(at, input, upscale_factor):
    n, c, h, w = at.shape
    r = upscale_factor
    x = at.reshaped(input, (n, c, r, r, h // r, w // r), "dims")
    return at.reshaped(at.transposed(x, (0, 1, 4, 2, 5, 3), "transpose"), at.shape)


@writes("pixel_unshuffle")
def write_pixel_unshuffle(at, input, downscale_factor):
    n, _, h, w = at.shape
    r = downscale_factor
    x = at.reshaped(input, (n, input.shape[1], h, r, w, r), "dims")
    return at.reshaped(at.transposed(x, (0, 1, 3, 5, 2, 4), "transpose"), at.shape)
