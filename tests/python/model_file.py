"""Reads a model file as pipesim's kinds of operators say, and nothing of pipesim.capture: an oracle for its tests.

`read(document)` returns the shape of every tensor, and the elements of every weight by its name. It raises
ValueError where an operator's inputs or attributes do not fit its kind.
"""

import math
import re


def read(document, **sizes):
    """`sizes` replace those of the file, such as b=64."""
    return Reader(document, sizes).read()


def with_numbers(document, **sizes):
    """The document with numbers in place of sizes' names."""
    return Reader(document, sizes).document


class Reader:
    def __init__(self, document, sizes):
        self.sizes = {**document.get("sizes", {}), **sizes}
        self.document = self._numbers(document)
        self.shapes, self.weights = {}, {}

    def read(self):
        self._expect(self.document["pipesim_model"] == 1, "version 1")
        for entry in self.document["inputs"]:
            self._expect(entry["name"] not in self.shapes, f"one input named {entry['name']}")
            self.shapes[entry["name"]] = tuple(entry["shape"])
        for entry in self.document["operators"]:
            self.entry = dict(entry)
            self._operator()
        return self.shapes, self.weights

    def _numbers(self, value):
        if isinstance(value, dict):
            return {k: self._text_or_number(k, v) for k, v in value.items()}
        return [self._numbers(v) for v in value] if isinstance(value, list) else value

    def _text_or_number(self, key, value):
        words = ("name", "kind", "inputs", "weights", "repeat", "mode", "equation", "what", "dtype", "content")
        if key in words and not (key == "inputs" and value and isinstance(value[0], dict)):
            return value
        if isinstance(value, str):
            return self._size(value)
        if isinstance(value, list) and not any(isinstance(v, dict) for v in value):
            return [self._size(v) if isinstance(v, str) else v for v in value]
        return self._numbers(value)

    def _size(self, text):
        return math.prod(self.sizes[part] if part in self.sizes else int(part) for part in text.split("*"))

    def _expect(self, holds, what):
        if not holds:
            raise ValueError(f"{getattr(self, 'entry', {}).get('name', 'the file')}: expected {what}")

    def _operator(self):
        name, kind = self.entry.pop("name"), self.entry.pop("kind")
        self.entry.pop("repeat", None), self.entry.pop("frozen", None)
        self.what = f"{name} ({kind})"
        names = self.entry.pop("inputs")
        for tensor in names:
            self._expect(tensor in self.shapes, f"a tensor {tensor} made before {name}")
        inputs = [self.shapes[tensor] for tensor in names]
        own = self.entry.pop("weights", None)
        self.made = {}
        try:
            results = self._results(kind, inputs)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"{name} ({kind}) of {inputs} with {self.entry}: {error!r}") from error
        self._expect(not self.entry, f"no attributes {list(self.entry)} of {name} ({kind})")
        for label, shape in results.items():
            tensor = f"{name}.{label}" if label else name
            self._expect(tensor not in self.shapes, f"one tensor {tensor}")
            self.shapes[tensor] = tuple(shape)
        self._expect(own is None or len(own) == len(self.made), f"{len(self.made)} weights of {name}")
        for i, (label, shape) in enumerate(self.made.items()):
            weight = own[i] if own else f"{name}.{label}"
            known = self.weights.setdefault(weight, tuple(shape))
            self._expect(known == tuple(shape), f"weight {weight} of {name}: {known}, not {tuple(shape)}")

    def _take(self, key, default=None):
        if default is None and key not in self.entry:
            raise KeyError(key)
        return self.entry.pop(key, default)

    def _list(self, key, rank, default=None):
        value = self._take(key, default)
        value = value if isinstance(value, list) else [value]
        value = value * rank if len(value) == 1 else value
        self._expect(len(value) == rank, f"{rank} numbers in {key}")
        return value

    def _results(self, kind, inputs):
        if kind in SAME_SHAPE:
            for key in SAME_SHAPE[kind]:
                self.entry.pop(key, None)
            (x,) = inputs
            return {"": x}
        if kind in ("add", "mul", "sub", "div", "maximum", "minimum"):
            x, y = inputs
            self._expect(len(y) <= len(x), f"{y} to have no more dims than {x}")
            self._expect(all(b in (1, a) for a, b in zip(x[::-1], y[::-1])), f"{y} to fit {x}")
            return {"": x}
        match = re.fullmatch(r"(conv|conv_transpose|pool)(\d)d", kind)
        if match:
            return getattr(self, match[1])(int(match[2]), *inputs)
        return getattr(self, kind)(*inputs)

    # Kinds

    def linear(self, x):
        out, contract = self._take("out"), self._take("contract", 1)
        inner = list(x[len(x) - contract :])
        self.made["w"] = out + inner if self._take("transpose_weight", False) else inner + out
        if self._take("bias", True):
            self.made["b"] = out
        self._expect(len(x) > contract, "a dim before those that are contracted")
        return {"": x[: len(x) - contract] + tuple(out)}

    def matmul(self, p, q):
        k, n = q[-2:] if not self._take("transpose_q", False) else q[:-3:-1]
        self._expect(len(p) == len(q) and p[:-2] == q[:-2] and p[-1] == k, f"{q} to fit {p}")
        return {"": p[:-1] + (n,)}

    def einsum(self, *inputs):
        left, out = self._take("equation").split("->")
        sizes = {}
        self._expect(len(left.split(",")) == len(inputs) <= 2, "one term for each input")
        for term, x in zip(left.split(","), inputs):
            self._expect(len(term) == len(x) == len(set(term)) and term.isalpha(), f"{term} for {x}")
            for letter, n in zip(term, x):
                self._expect(sizes.setdefault(letter, n) == n, f"one size of {letter}")
        return {"": tuple(sizes[letter] for letter in out)}

    def conv(self, rank, x):
        kernel, stride = self._list("kernel", rank), self._list("stride", rank, 1)
        before = self._list("pad", rank, 0)
        after = self._list("pad_end", rank, before)
        dilation, groups, out = self._list("dilation", rank, 1), self._take("groups", 1), self._take("out")
        self._expect(len(x) == rank + 2 and x[1] % groups == out % groups == 0, f"{rank} spatial dims")
        self.made["w"] = (out, x[1] // groups, *kernel)
        if self._take("bias", True):
            self.made["b"] = (out,)
        spatial = [
            (n + b + a - d * (k - 1) - 1) // s + 1
            for n, b, a, d, k, s in zip(x[2:], before, after, dilation, kernel, stride)
        ]
        return {"": (x[0], out, *spatial)}

    def conv_transpose(self, rank, x):
        kernel, stride = self._list("kernel", rank), self._list("stride", rank, 1)
        pad, more = self._list("pad", rank, 0), self._list("output_pad", rank, 0)
        dilation, groups, out = self._list("dilation", rank, 1), self._take("groups", 1), self._take("out")
        self.made["w"] = (x[1], out // groups, *kernel)
        if self._take("bias", True):
            self.made["b"] = (out,)
        spatial = [
            (n - 1) * s - 2 * p + d * (k - 1) + m + 1
            for n, s, p, d, k, m in zip(x[2:], stride, pad, dilation, kernel, more)
        ]
        return {"": (x[0], out, *spatial)}

    def pool(self, rank, x):
        self._take("mode")
        kernel = self._list("kernel", rank)
        stride, pad = self._list("stride", rank, kernel), self._list("pad", rank, 0)
        ceil = self._take("ceil", False)
        self._take("exclude_pad", False)
        spatial = []
        for n, k, s, p in zip(x[2:], kernel, stride, pad):
            windows = (n + 2 * p - k + (s - 1 if ceil else 0)) // s + 1
            if ceil and (windows - 1) * s >= n + p:
                windows -= 1
            spatial.append(windows)
        return {"": (*x[:2], *spatial)}

    def adaptive_pool(self, x):
        self._take("mode")
        return {"": (*x[:2], *self._list("out", len(x) - 2))}

    def resize(self, x):
        self._take("align_corners", False)
        return self.adaptive_pool(x)

    def group_norm(self, x):
        self._expect(x[1] % self._take("groups") == 0, "channels in equal groups")
        if self._take("affine", True):
            self.made.update(gamma=(x[1],), beta=(x[1],))
        return {"": x}

    def batch_norm(self, x):
        self.made.update(gamma=(x[1],), beta=(x[1],))
        self._expect(2 <= len(x) <= 5, "2 to 5 dims")
        return {"": x}

    def layer_norm(self, x):
        if self._take("affine", True):
            self.made.update(gamma=x[-1:], beta=x[-1:])
        return {"": x}

    def rms_norm(self, x):
        self.made["gamma"] = x[-1:]
        return {"": x}

    def embedding(self, indices):
        width = self._take("width")
        self.made["w"] = (self._take("rows"), width)
        return {"": (*indices, width)}

    def embedding_bag(self, indices):
        width = self._take("width")
        self.made["w"] = (self._take("rows"), width)
        self._take("mode")
        self._expect(len(indices) == 2, "bags [b, l]")
        return {"": (indices[0], width)}

    def parameter(self):
        self.made["w"] = self._take("shape")
        return {"": self.made["w"]}

    def expand(self, x):
        shape = self._take("shape")
        self._expect(len(x) <= len(shape), "as many dims or more")
        self._expect(all(a in (1, b) for a, b in zip(x[::-1], shape[::-1])), f"a shape that {x} stretches to")
        return {"": shape}

    def reshape(self, x):
        shape = self._take("shape")
        self._expect(math.prod(shape) == math.prod(x), f"as many elements as {x}")
        return {"": shape}

    def transpose(self, x):
        order = self._take("order")
        self._expect(sorted(order) == list(range(len(x))), "each dim once")
        return {"": tuple(x[i] for i in order)}

    def concat(self, *inputs):
        axis = self._take("axis")
        rest = {x[:axis] + x[axis + 1 :] for x in inputs}
        self._expect(len(rest) == 1, "equal dims but along the axis")
        return {"": inputs[0][:axis] + (sum(x[axis] for x in inputs),) + inputs[0][axis + 1 :]}

    def split(self, x):
        axis, sizes = self._take("axis"), self._take("sizes")
        self._expect(sum(sizes) == x[axis] and min(sizes) > 0, f"sizes that add up to {x[axis]}")
        parts = [x[:axis] + (n,) + x[axis + 1 :] for n in sizes]
        return {str(i) if len(parts) > 1 else "": part for i, part in enumerate(parts)}

    def slice(self, x):
        axis, start, length, step = (
            self._take("axis"),
            self._take("start", 0),
            self._take("length"),
            self._take("step", 1),
        )
        self._expect(
            start >= 0 and length >= 1 and start + (length - 1) * step < x[axis], f"a slice of {x[axis]}"
        )
        return {"": x[:axis] + (length,) + x[axis + 1 :]}

    def pad(self, x):
        before, after = self._take("before"), self._take("after")
        self._expect(self._take("mode", "zeros") in ("zeros", "reflect", "edge"), "a mode")
        self._expect(
            len(before) == len(after) == len(x) and min(before + after) >= 0, "a number for each dim"
        )
        return {"": tuple(a + n + b for n, a, b in zip(x, before, after))}

    def roll(self, x):
        self._expect(0 <= self._take("shift") < x[self._take("axis")], "a shift within the axis")
        return {"": x}

    def gather(self, x, indices):
        axis = self._take("axis")
        return {"": x[:axis] + indices + x[axis + 1 :]}

    def reduce(self, x):
        axes = self._take("axes")
        self._expect(self._take("mode") in ("sum", "mean", "max") and axes, "axes and a mode")
        self._expect(len(set(axes)) == len(axes) and max(axes) < len(x), f"axes of {x}")
        return {"": tuple(n for i, n in enumerate(x) if i not in axes)}

    def attention(self, q, k, v, *bias):
        self._take("causal", False)
        b, s, g, r, d = q
        self._expect(
            k[0] == v[0] == b and k[2] == v[2] == g and k[3] == d and k[1] == v[1], f"{k}, {v} to fit {q}"
        )
        for extent, full in zip(*bias, (g, r, s, k[1])) if bias else []:
            self._expect(extent in (1, full), f"a bias {bias[0]} that fits [{g}, {r}, {s}, {k[1]}]")
        return {"": (b, s, g, r, v[3])}

    biased_attention = attention

    def lstm_cell(self, x, h, c):
        hidden = self._take("hidden")
        self._expect(h == c == (x[0], hidden), "states [n, hidden]")
        self.made.update(wx=(x[1], 4, hidden), wh=(hidden, 4, hidden), b=(4, hidden))
        return {"h": h, "c": c}

    def cross_entropy(self, x, labels):
        self._expect(labels == x[:-1] and labels, f"labels {labels} for {x}")
        return {"": ()}

    def squared_error(self, x, target):
        self._expect(x == target, f"a target of shape {x}")
        return {"": ()}

    binary_cross_entropy = squared_error

    def opaque(self, *inputs):
        self._expect(re.fullmatch(r"[\w.]+", self._take("what")), "a word")
        shapes = [self._take(key, []) for key in ("shape", "shape2", "shape3", "shape4")]
        shapes = [s for s in shapes if s]
        self._take("samples", 0)
        if elements := self._take("parameters", 0):
            self.made["parameters"] = (elements,)
        return {str(i) if len(shapes) > 1 else "": shape for i, shape in enumerate(shapes)}


_PLAIN = """relu gelu silu tanh sigmoid relu6 hardswish hardsigmoid mish softplus quick_gelu exp log sqrt reciprocal
abs sin cos erf softmax""".split()
SAME_SHAPE = {
    **{kind: () for kind in _PLAIN},
    "leaky_relu": ("slope",),
    "elu": ("alpha",),
    "clip": ("low", "high"),
    "affine": ("factor", "offset"),
    "power": ("exponent",),
    "dropout": ("rate",),
}
