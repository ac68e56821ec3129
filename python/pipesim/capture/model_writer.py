"""The model file while it is written: a graph of calls becomes inputs and operators."""

import inspect
import operator

import torch
import torch.fx

from .errors import CaptureError, one_line
from .values import Data, Value, Weight
from .functions import MOVES, Unavailable, WRITERS, function_name, joined, opaque_name
from .weightless import digest, flat, mapped


class ModelWriter:
    """Turns a graph of calls into inputs and operators. Writers of the table get it as `at`: at.shape is the
    shape of the call's result, at.op adds an operator."""

    def __init__(self, batch, dtype, anywhere=False):
        self.batch = batch
        self.anywhere = anywhere  # the batch may be another dim than the first
        self.dtype = dtype
        self.inputs = {}  # name -> entry of the file
        self.operators = {}  # name -> entry of the file
        self.parameters = {}  # name -> torch.nn.Parameter
        self.listings = {}  # parameter -> (operator, True where its weight is listed as torch does), …
        self.notes = []
        self.opaque = {}  # what -> first place
        self._read = {}  # parameter -> the Value of the operator that reads it
        self._counted = set()  # parameters that an opaque operator counts
        self._names = set()
        self._numbers = {}  # name -> the last number that was appended to it
        self._data = {}
        self._wanted = {}  # input -> the name that it would have if that were free
        self._uses = {}
        self._producer = {}  # tensor -> operator
        self._values = {}  # tensor -> Value

    # Going through the graph

    def write(self, graph):
        """Writes all calls; returns the names of the results."""
        env = {}
        for node in graph.nodes:
            if node.op == "output":
                return self._results(env, node)
            env[node] = self._written(node, env)
            if isinstance(env[node], Value):
                self._uses[env[node].name] = self._uses.get(env[node].name, 0) + len(node.users)
        return []

    def _results(self, env, node):
        values = [
            env.get(leaf) if isinstance(leaf, torch.fx.Node) else leaf for leaf in flat(list(node.args))
        ]
        names = []
        for value in flat(values):
            if isinstance(value, Value) and value.name in self._producer:
                names += [value.name, *value.others]
        if not names:
            raise CaptureError("the module returns no tensor that it computes from floating-point numbers")
        return names

    def _written(self, node, env):
        meta = node.meta
        if "parameter" in meta:
            name = meta["label"] if node.op == "placeholder" else node.target
            self.parameters[name] = meta["parameter"]
            return Weight(name, tuple(meta["value"].shape))
        if "constant" in meta:
            return self._constant(meta)
        if node.op == "placeholder":
            return self._input(meta)
        if not shapes_of(meta["value"]):
            return meta["value"]
        label = function_name(meta["label"])
        args, kwargs = mapped(
            lambda a: env[a] if isinstance(a, torch.fx.Node) else a, (node.args, node.kwargs)
        )
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        return self._call(node, label, args, kwargs)

    def _call(self, node, label, args, kwargs):
        operands = [a for a in flat((args, kwargs)) if isinstance(a, (Value, Data, Weight))]
        results = node.meta["value"]
        self._begin(node, label)
        if all(isinstance(a, Data) for a in operands):
            return self._data_of(results, label, operands, (args, kwargs))
        if isinstance(results, torch.Tensor) and results.dim() == 0:
            losses = [a for a in operands if isinstance(a, Value) and a.shape == ()]
            if losses and all(a.shape in ((), (1,)) for a in operands):
                return sum_of_losses(losses)
        for a in flat((args, kwargs)):
            if isinstance(a, Unavailable):
                raise CaptureError(f"{self.where}: {label} needs {a.what}")
        kwargs = {k: v for k, v in kwargs.items() if k not in ("out", "inplace", "_stacklevel")}
        written = self._by_table(label, args, kwargs)
        if isinstance(written, Value) and not isinstance(results, torch.Tensor):
            written = (written, *(Unavailable(f"result {i} of it") for i in range(1, len(results))))
        if written is not None and self._fits(written, results):
            return written
        if written is not None:
            self.note(
                f"{self.where}: {label} is opaque, its writer made other shapes; this is a bug in capture"
            )
        return self.write_opaque(operands, (args, kwargs))

    def _by_table(self, label, args, kwargs):
        """What the function's writer makes of the call; None where there is none, or it does not fit."""
        writer = WRITERS.get(label)
        if writer is None or not accepts(writer, self, *args, **kwargs):
            return None
        try:
            return writer(self, *args, **kwargs)
        except CaptureError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            self.note(
                f"{self.where}: {label} is opaque, its writer failed with {why}; this is a bug in capture"
            )
            return None

    def _begin(self, node, label):
        meta = node.meta
        self.label = meta["label"]
        self.where = f"{meta['path'] or 'the module'}" + (f" ({meta['line']})" if meta.get("line") else "")
        self.base = meta["path"] if meta["leaf"] and meta["path"] else joined(meta["path"], label)
        self.path = meta["path"]
        value = meta["value"]
        self.shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
        self.shapes = shapes_of(value)
        items = [
            u for u in node.users if u.target is operator.getitem and u.users and isinstance(u.args[1], int)
        ]
        self.used = {u.args[1] for u in items}  # of several results, those that something uses

    @staticmethod
    def _fits(written, results):
        found = [written] if isinstance(written, (Value, Weight)) else list(flat(written))
        shapes = shapes_of(results)
        scalars = ((), (1,))
        return all(
            v.shape == s or (v.shape in scalars and s in scalars)
            for v, s in zip(found, shapes)
            if isinstance(v, (Value, Weight))
        )

    # Inputs

    def _input(self, meta):
        value, name = meta["value"], meta["label"]
        self._names.add(name)
        shape = tuple(value.shape)
        if not value.is_floating_point():
            return Data(name, shape, value.dtype, key=name)
        return self._entered(name, shape, None)

    def _entered(self, name, shape, dtype):
        """A new input. Samples are its first dim; where torch has them elsewhere, a transpose follows."""
        place = shape.index(self.batch) if self.anywhere and self.batch in shape else 0
        order = [place] + [i for i in range(len(shape)) if i != place] if shape else []
        self.inputs[name] = {"name": name, "shape": [shape[i] for i in order]}
        if dtype is not None:
            self.inputs[name]["dtype"] = dtype
        if place == 0:
            return Value(name, shape)
        back = [order.index(i) for i in range(len(shape))]
        first = Value(name, tuple(self.inputs[name]["shape"]))
        return self.op("transpose", [first], shape, name=f"{name}.transpose", order=back)

    def _constant(self, meta):
        origin, value = meta["constant"], meta["value"]
        name = origin.name or joined(meta.get("path", ""), "constant")
        number = None
        if value.numel() == 1:
            number = 1.0 if value.is_meta else float(value)
        causal = origin.causal or is_causal_mask(value)
        return Data(name, tuple(value.shape), value.dtype, origin.key, causal, number, origin.zero)

    def _data_of(self, results, label, operands, call):
        """What is made of data and constants is data."""
        causal = label in ("tril", "triu") or any(a.causal for a in operands)
        moved = operands and (label in MOVES or not self.path)
        name = operands[0].name if moved else joined(self.path, label)

        def made(value, i=""):
            key = digest(label, i, call)
            if value.numel() == 1 and all(a.number is not None for a in operands):
                return Data(name, tuple(value.shape), value.dtype, key, causal, 1.0)
            return Data(name, tuple(value.shape), value.dtype, key, causal)

        if isinstance(results, torch.Tensor):
            return made(results)
        return tuple(made(value, i) for i, value in enumerate(results))

    def data(self, name, shape, dtype=None, key=None, content=None):
        """A new input; the model's type where dtype is None. Equal keys stand for one input."""
        key = (key or name, tuple(shape), dtype)
        if key not in self._data:
            own = key[0] == name and name not in self.inputs
            unique = name if own else self.unique(name)
            self._names.add(unique)
            self._wanted[unique] = name
            self._data[key] = self._entered(unique, tuple(shape), dtype)
            if content is not None:
                self.inputs[unique]["content"] = content
        return self._data[key]

    def value(self, a):
        """An operand as a tensor of the model: data become an input, a parameter becomes an operator."""
        if isinstance(a, Value):
            return a
        if isinstance(a, Data):
            floating = a.dtype.is_floating_point or a.dtype.is_complex
            name = {torch.bool: "uint8", torch.int16: "int32", torch.int8: "uint8"}.get(
                a.dtype, str(a.dtype).replace("torch.", "")
            )
            if a.causal:
                content = "causal_mask" if floating else None
                return self.data(causal_name(a.name), a.shape, None if floating else name, "causal", content)
            return self.data(a.name, a.shape, None if floating else name, a.key)
        if isinstance(a, Weight):
            read = self._parameter(a.name, a.shape[::-1] if a.transposed else a.shape)
            return self.transposed(read, (1, 0)) if a.transposed else read
        raise CaptureError(f"{self.where}: {a!r} is no tensor; this is a bug in pipesim.capture")

    def _parameter(self, name, shape):
        """The operator that gives a parameter's value; one for all that read it."""
        if name not in self._read:
            shape = shape or (1,)
            more = {"weights": [name], "name": name + ".value", "attributes": {"shape": list(shape)}}
            self._read[name] = self.op("parameter", [], shape, **more)
        return self._read[name]

    def floating(self, a):
        """The same for operands that are computed with: integers and masks come in as floating point."""
        if isinstance(a, Data) and not a.dtype.is_floating_point:
            return self.data(a.name, a.shape, None, a.key + ":float")
        return self.value(a)

    def mask(self, a):
        """What is added to scores in place of a mask of booleans or of numbers."""
        if not isinstance(a, Data):
            return self.value(a)
        if a.causal:
            return self.data(causal_name(a.name), a.shape, None, "causal:mask", "causal_mask")
        return self.data(a.name, a.shape, None, a.key + ":mask")

    # Operators

    def unique(self, name):
        result = name
        while result in self._names:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            result = f"{name}_{self._numbers[name]}"
        self._names.add(result)
        return result

    def op(self, kind, inputs, shape, weights=(), part="", name="", parts=None, attributes=None, **more):
        """Adds an operator and returns its result, or results where `shape` is a list of shapes. Its name is
        that of the call, and _part where one call takes several operators. `parts`: what pipesim calls the
        results, 0, 1, … if left out."""
        name = self.unique(name or (f"{self.base}_{part}" if part else self.base))
        entry = {"name": name, "kind": kind, "inputs": [self.value(a).name for a in inputs]}
        if weights:
            entry["weights"] = list(weights)
        entry.update(more)
        entry.update(attributes or {})
        self.operators[name] = entry
        shapes = shape if isinstance(shape, list) else [shape]
        entry["_shapes"] = [tuple(s) for s in shapes]
        entry["_reads"] = [self.tensor(tensor).shape for tensor in entry["inputs"]]
        parts = parts or range(len(shapes))
        results = tuple(
            Value(name if len(shapes) == 1 else f"{name}.{p}", tuple(s)) for p, s in zip(parts, shapes)
        )
        for result in results:
            self._producer[result.name] = name
            self._values[result.name] = result
            self._names.add(result.name)
        return results if isinstance(shape, list) else results[0]

    def maker(self, value, kind):
        """The operator that made a value, if it is of this kind."""
        entry = self.operators.get(self._producer.get(value.name, ""))
        return entry if entry is not None and entry["kind"] == kind else None

    def tensor(self, name):
        """The value that has this name."""
        return self._values.get(name) or Value(name, tuple(self.inputs[name]["shape"]))

    def reshaped(self, x, shape, part=""):
        """x under another shape; the last of several reshapes counts."""
        x, shape = self.value(x), tuple(shape)
        while self.maker(x, "reshape"):
            x = self.tensor(self.maker(x, "reshape")["inputs"][0])
        if x.shape == shape:
            return x
        return self.op("reshape", [x], shape, part=part, attributes={"shape": list(shape)})

    def transposed(self, x, order, part=""):
        """x with its dims in another order; two that follow each other are one."""
        x, order = self.value(x), list(order)
        made = self.maker(x, "transpose")
        if made:
            x = self.tensor(made["inputs"][0])
            order = [made["order"][i] for i in order]
        if order == list(range(len(order))):
            return x
        return self.op("transpose", [x], tuple(x.shape[i] for i in order), part=part, order=order)

    def expanded(self, x, shape, part="expand"):
        x, shape = self.value(x), tuple(shape)
        if x.shape == shape:
            return x
        return self.op("expand", [x], shape, part=part, attributes={"shape": list(shape)})

    def affine(self, x, factor, offset=0.0, part=""):
        """factor · x + offset; folds into one that came just before."""
        made = self.maker(x, "affine")
        if made and self._uses.get(x.name, 0) <= 1:
            offset += factor * made.get("offset", 0.0)
            factor *= made.get("factor", 1.0)
            x = self.tensor(made["inputs"][0])
        if factor == 1 and offset == 0:
            return x
        attributes = {"factor": float(factor)} if factor != 1 else {}
        if offset != 0:
            attributes["offset"] = float(max(-3e38, min(3e38, offset)))
        return self.op("affine", [x], x.shape, part=part, attributes=attributes)

    def power(self, x, exponent, part=""):
        if exponent == 1:
            return x
        if exponent == 0.5:
            return self.op("sqrt", [x], x.shape, part=part)
        if exponent == -1:
            return self.op("reciprocal", [x], x.shape, part=part)
        return self.op("power", [x], x.shape, part=part, exponent=float(exponent))

    def reduced(self, x, dims, mode, part="", keepdim=False):
        """Sum, mean or largest element over dims; keepdim gives the shape of torch's."""
        kept = tuple(n for i, n in enumerate(x.shape) if i not in dims)
        result = self.op("reduce", [x], kept, part=part, axes=sorted(dims), mode=mode)
        if not keepdim:
            return result
        return self.reshaped(result, [1 if i in dims else n for i, n in enumerate(x.shape)], "keepdim")

    def write_opaque(self, operands, call):
        """A call that no kind stands for: known by its shapes."""
        what, shapes = opaque_name(self.label), self.shapes
        if not shapes or len(shapes) > 4:
            raise CaptureError(f"{self.where}: {what} has {len(shapes)} results, allowed: 1 to 4")
        self.opaque.setdefault(what, self.where)
        values = [self.value(a) for a in operands if not isinstance(a, Weight)]
        names = list(dict.fromkeys(a.name for a in operands if isinstance(a, Weight)))
        weights = [name for name in names if name not in self._counted]  # those of a call before are shared
        self._counted.update(weights)
        attributes = {"what": what}
        for i, shape in enumerate(shapes):
            attributes["shape" if i == 0 else f"shape{i + 1}"] = list(shape) or [1]
        if self._by_sample(values, call):
            attributes["samples"] = 1
        if weights:
            attributes["parameters"] = sum(self.parameters[name].numel() for name in weights)
        result = self.op("opaque", values, [s or (1,) for s in shapes], attributes=attributes)
        self.operators[self._producer[result[0].name]]["_opaque_weights"] = names
        if shapes == [()]:  # a loss has no dim
            return self.reduced(result[0], [0], "sum", part="scalar")
        return result[0] if len(result) == 1 else result

    def _by_sample(self, values, call):
        """Whether a call is known to work on each sample by itself: its first dim stays, and is none of its dims."""
        whole = [v.shape for v in values] + self.shapes
        dims = [a for a in flat(call) if isinstance(a, int) and not isinstance(a, bool)]
        return (
            function_name(self.label) in BY_SAMPLE
            and all(len(s) > 1 and s[0] == self.batch for s in whole)
            and all(d != 0 and d != -len(whole[0]) for d in dims)
        )

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)


# Functions that compute each sample by itself and each element's place in it alone.
BY_SAMPLE = {
    "argmax", "argsort", "bucketize", "celu", "ceil", "cumprod", "cumsum", "eq", "flip", "floor", "floordiv", "ge",
    "gt", "isnan", "le", "log1p", "expm1", "lt", "mod", "ne", "nan_to_num", "prelu", "remainder", "round", "sign",
    "sort", "tan", "atan", "where", "topk", "unfold", "grid_sample", "fmod", "atan2", "one_hot", "softshrink",
    "hardshrink", "threshold", "erfinv", "sinh", "cosh", "asin", "acos", "local_response_norm", "cdist", "prod",
    "gather", "take_along_dim", "scatter", "index_select",
}  # fmt: skip


def accepts(function, *args, **kwargs):
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def causal_name(name):
    return joined(name.rpartition(".")[0], "causal_mask")


def shapes_of(value):
    return [tuple(t.shape) for t in flat(value) if isinstance(t, torch.Tensor)]


def sum_of_losses(losses):
    names = [name for loss in losses for name in (loss.name, *loss.others)]
    names = list(dict.fromkeys(names))
    return Value(names[0], (), tuple(names[1:]))


def is_causal_mask(value):
    """Whether a constant allows each row the columns up to its own, in any of the usual ways."""
    if value.is_meta or value.dim() < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    plane = value.reshape(-1, value.shape[-1], value.shape[-1])[0]
    plane = plane if plane.dtype == torch.bool else plane.float() != 0
    lower = torch.ones_like(plane).tril().bool()
    return bool((plane == lower).all()) or bool((plane == ~lower).all())
