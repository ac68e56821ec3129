"""Tables of embeddings."""

from ..values import Data, Weight
from ..functions import writes


@writes("embedding")
def write_embedding(at, input, weight, *_, **__):
    if isinstance(input, Weight):
        input, weight = weight, input
    if not isinstance(weight, Weight) or not isinstance(input, Data):
        return None
    rows, width = weight.shape
    result = at.op("embedding", [input], at.shape, [weight.name], rows=rows, width=width)
    at.listings.setdefault(weight.name, []).append((result.name, None))
    return result


@writes("embedding_bag")
def write_embedding_bag(at, input, weight, offsets=None, *rest, mode="mean", **_):
    words = [r for r in rest if isinstance(r, str)]
    mode = words[0] if words else mode
    if not isinstance(weight, Weight) or offsets is not None or len(input.shape) != 2 or mode == "max":
        return None
    rows, width = weight.shape
    result = at.op("embedding_bag", [input], at.shape, [weight.name], rows=rows, width=width, mode=mode)
    at.listings.setdefault(weight.name, []).append((result.name, None))
    return result
