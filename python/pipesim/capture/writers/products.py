"""Products of matrices, and einsum."""

from ..values import Weight
from ..functions import writes
from .elementwise import write_binary


@writes("linear")
def write_linear(at, input, weight, bias=None):
    x = at.value(input)
    if not isinstance(weight, Weight):
        letters = batch_letters(len(x.shape) - 1)
        result = contracted(at, [letters + "y", "zy"], [x, at.value(weight)], letters + "z")
        return result if bias is None else write_binary(at, "add", result, bias)
    return linear_operator(at, x, weight, bias, by_rows=True)


def linear_operator(at, x, weight, bias=None, by_rows=False):
    """`by_rows`: the weight's first dim is the output. Rows that were flattened before get their dims back."""
    torch_listing = by_rows != weight.transposed
    out = weight.shape[0] if by_rows else weight.shape[1]
    rows = (*x.shape[:-1], out)
    if len(x.shape) == 1:
        x = at.reshaped(x, (1, *x.shape), "row")
    elif at.maker(x, "reshape"):
        source = at.tensor(at.maker(x, "reshape")["inputs"][0])
        x = source if source.shape[-1:] == x.shape[-1:] and len(source.shape) > len(x.shape) else x
    own_bias = isinstance(bias, Weight)
    weights = [weight.name] + ([bias.name] if own_bias else [])
    more = {} if own_bias else {"bias": False}
    result = at.op("linear", [x], (*x.shape[:-1], out), weights, out=[out], **more)
    at.listings.setdefault(weight.name, []).append((result.name, torch_listing))
    if bias is not None and not own_bias:
        result = write_binary(at, "add", result, bias)
    return at.reshaped(result, rows, "rows")


def batch_letters(count):
    return "abcdefghijkl"[:count]


@writes("matmul")
def write_matmul(at, input, other, *_):
    if isinstance(other, Weight) and len(other.shape) == 2 and not isinstance(input, Weight):
        return linear_operator(at, at.floating(input), other)
    p, q = at.floating(input), at.floating(other)
    if len(p.shape) > 1 and len(p.shape) == len(q.shape) and p.shape[:-2] == q.shape[:-2]:
        return at.op("matmul", [p, q], at.shape)
    batch = batch_letters(max(len(p.shape), len(q.shape), 2) - 2)
    left = (batch[len(batch) - len(p.shape) + 2 :] if len(p.shape) > 2 else "") + (
        "xy" if len(p.shape) > 1 else "y"
    )
    right = (batch[len(batch) - len(q.shape) + 2 :] if len(q.shape) > 2 else "") + (
        "yz" if len(q.shape) > 1 else "y"
    )
    out = batch + ("x" if len(p.shape) > 1 else "") + ("z" if len(q.shape) > 1 else "")
    return contracted(at, [left, right], [p, q], out)


@writes("mv", "dot", "inner")
def write_mv(at, input, other):
    return write_matmul(at, input, other) if len(other.shape) == 1 else None


@writes("outer", "ger")
def write_outer(at, input, other):
    return contracted(at, ["x", "y"], [at.floating(input), at.floating(other)], "xy")


@writes("addmm", "baddbmm")
def write_addmm(at, input, mat1, mat2, beta=1, alpha=1):
    if (
        isinstance(input, Weight)
        and isinstance(mat2, Weight)
        and beta == alpha == 1
        and len(input.shape) == 1
    ):
        return linear_operator(at, at.floating(mat1), mat2, input)
    product = at.affine(write_matmul(at, mat1, mat2), alpha, part="scale")
    return write_binary(at, "add", product, at.affine(at.floating(input), beta, part="beta"))


@writes("einsum")
def write_einsum(at, equation, *operands):
    operands = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    )
    values = [at.floating(a) for a in operands]
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    counts = [len(v.shape) - len(t.replace("...", "")) for t, v in zip(terms, values)]
    dots = "".join(free[: max(counts)])
    terms = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, counts)]
    if "->" not in equation:
        letters = "".join(terms)
        out = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    out = out.replace("...", dots)
    if any(len(set(t)) != len(t) for t in terms + [out]):
        return None
    while len(terms) > 2:
        rest = set("".join(terms[2:]) + out)
        between = "".join(c for c in dict.fromkeys(terms[0] + terms[1]) if c in rest)
        values = [contracted(at, terms[:2], values[:2], between, part="product")] + values[2:]
        terms = [between] + terms[2:]
    return contracted(at, terms, values, out)


def contracted(at, terms, values, out, part=""):
    """An einsum whose dims of length 1 may be stretched."""
    sizes = {}
    for term, value in zip(terms, values):
        for letter, size in zip(term, value.shape):
            sizes[letter] = max(sizes.get(letter, 1), size)
    for i, (term, value) in enumerate(zip(terms, values)):
        kept = [(c, n) for c, n in zip(term, value.shape) if n == sizes[c]]
        if len(kept) < len(term):
            terms[i] = "".join(c for c, _ in kept)
            values[i] = at.reshaped(value, [n for _, n in kept], "dims")
    equation = ",".join(terms) + "->" + out
    return at.op("einsum", values, tuple(sizes[c] for c in out), part=part, equation=equation)
