"""Recurrent layers, a cell at a time."""

from ..values import Data
from ..functions import joined, writes
from .shapes import cut


MOST_STEPS = 4096  # cells of a layer that are written one by one


class Recurrent:
    """One of torch's recurrent functions, written step by step. `cell(at, label, x, states, weights)` writes a
    step and returns the new states, the hidden one first; `letters` name the states."""

    def __init__(self, at, cell, letters, weights, layers, bidirectional, batch_first, dropout):
        self.at, self.cell, self.letters, self.weights = at, cell, letters, weights
        self.layers, self.directions = layers, 2 if bidirectional else 1
        self.batch_first, self.dropout = batch_first, dropout

    def write(self, input, first):
        """The results of torch's function; None where it cannot be said."""
        at, x = self.at, self.at.floating(input)
        x = at.transposed(x, (1, 0, 2), "steps_first") if self.batch_first else x
        cells = self.layers * self.directions
        if len(self.weights) // cells > 4 or x.shape[0] * cells > MOST_STEPS:
            return None
        steps, last = self._steps_of(x), [[] for _ in self.letters]
        for layer in range(self.layers):
            outputs = [self._pass(steps, first, layer, d, last) for d in range(self.directions)]
            steps = outputs[0] if self.directions == 1 else [self._joined(pair) for pair in zip(*outputs)]
            if self.dropout > 0 and layer + 1 < self.layers:
                steps = [at.op("dropout", [s], s.shape, part="dropout", rate=self.dropout) for s in steps]
        return self._results(steps, last)

    def _steps_of(self, x):
        at, count, shape = self.at, x.shape[0], x.shape[1:]
        parts = [x]
        if count > 1:
            parts = at.op("split", [x], [(1, *shape)] * count, part="steps", axis=0, sizes=[1] * count)
        return [at.reshaped(part, shape, "step") for part in parts]

    def _pass(self, steps, first, layer, direction, last):
        """One layer in one direction: the hidden state after every step. Adds the states at its end to `last`."""
        at, place = self.at, layer * self.directions + direction
        count = len(self.weights) // (self.layers * self.directions)
        weights = self.weights[place * count : (place + 1) * count]
        label = joined(at.base, f"layer{layer}" + ("_reverse" if direction else ""))
        shape = (steps[0].shape[0], weights[1].shape[1])
        states = [first_state(at, f"{label}.{n}0", s, place, shape) for n, s in zip(self.letters, first)]
        hidden = []
        for i, x in enumerate(steps[::-1] if direction else steps):
            before = len(at.operators)
            states = self.cell(at, f"{label}.step{i}", x, states, weights)
            for name in list(at.operators)[before:]:
                at.operators[name]["_repeat"] = name.replace(f"{label}.step{i}", f"{label}.step#")
            hidden.append(states[0])
        for values, state in zip(last, states):
            values.append(state)
        return hidden[::-1] if direction else hidden

    def _joined(self, pair):
        rows, width = pair[0].shape
        return self.at.op("concat", list(pair), (rows, 2 * width), part="directions", axis=1)

    def _results(self, steps, last):
        at = self.at
        output, *shapes = at.shapes
        axis = 1 if self.batch_first else 0
        wide = [n if i != axis else 1 for i, n in enumerate(output)]
        results = [self._whole([at.reshaped(s, wide, "output") for s in steps], output, "outputs", axis)]
        for letter, shape, values in zip(self.letters, shapes, last):
            rows = [at.reshaped(v, (1, *v.shape), "state") for v in values]
            results.append(self._whole(rows, shape, letter, 0))
        return tuple(results)

    def _whole(self, parts, shape, part, axis):
        return self.at.op("concat", parts, shape, part=part, axis=axis) if len(parts) > 1 else parts[0]


def first_state(at, name, state, place, shape):
    """The state before the first step: an input where it is a constant."""
    if isinstance(state, Data):
        return at.data(name, shape)
    whole = at.floating(state)
    return at.reshaped(cut(at, whole, 0, place, 1), shape, "state")


def lstm_step(at, label, x, states, weights):
    why = (
        "has one bias in pipesim, torch's two add up to it"
        if len(weights) == 4
        else "has a bias in pipesim only"
    )
    at.note(f"{at.where}: an LSTM cell {why}")
    names = [w.name for w in weights[:3]]
    names += [names[0] + ".bias"] if len(names) == 2 else []
    shape, hidden = states[0].shape, weights[1].shape[1]
    return at.op("lstm_cell", [x, *states], [shape, shape], names, name=label, parts="hc", hidden=hidden)


def state_products(at, label, x, h, weights):
    """What input and hidden state contribute to the gates."""
    results = []
    for part, operand, i in (("input", x, 0), ("hidden", h, 1)):
        own = [w.name for w in weights[i::2]]
        out = weights[i].shape[0]
        more = {} if len(own) == 2 else {"bias": False}
        name = f"{label}.{part}"
        results.append(at.op("linear", [operand], (x.shape[0], out), own, name=name, out=[out], **more))
        at.listings.setdefault(own[0], []).append((results[-1].name, True))
    return results


def gru_step(at, label, x, states, weights):
    (h,) = states

    def op(kind, part, *inputs):
        return at.op(kind, list(inputs), h.shape, name=f"{label}.{part}")

    gates = []
    for part, product in zip(("input", "hidden"), state_products(at, label, x, h, weights)):
        width = h.shape[1]
        name = f"{label}.{part}_gates"
        gates.append(at.op("split", [product], [h.shape] * 3, name=name, axis=1, sizes=[width] * 3))
    reset = op("sigmoid", "reset", op("add", "reset_sum", gates[0][0], gates[1][0]))
    update = op("sigmoid", "update", op("add", "update_sum", gates[0][1], gates[1][1]))
    kept = op("mul", "kept", reset, gates[1][2])
    new = op("tanh", "new", op("add", "new_sum", gates[0][2], kept))
    return [op("add", "result", new, op("mul", "updated", update, op("sub", "change", h, new)))]


def rnn_step(activation):
    def step(at, label, x, states, weights):
        products = state_products(at, label, x, states[0], weights)
        total = at.op("add", products, states[0].shape, name=f"{label}.sum")
        return [at.op(activation, [total], total.shape, name=f"{label}.result")]

    return step


def write_recurrent(cell, letters):
    def layer(at, input, hx, weights, has_biases, layers, dropout, train, bidirectional, batch_first=False):
        first = hx if isinstance(hx, (tuple, list)) else [hx]
        if not isinstance(weights, (tuple, list)) or len(input.shape) != 3 or len(first) != len(letters):
            return None
        dropout = float(dropout) if train else 0.0
        written = Recurrent(at, cell, letters, weights, layers, bidirectional, batch_first, dropout)
        return written.write(input, first)

    def one_step(at, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        first = hx if isinstance(hx, (tuple, list)) else [hx]
        if len(input.shape) != 2 or len(first) != len(letters):
            return None
        weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
        shape = at.shapes[0]
        states = [
            at.data(f"{at.base}.{n}0", shape) if isinstance(s, Data) else at.floating(s)
            for n, s in zip(letters, first)
        ]
        results = cell(at, at.base, at.floating(input), states, weights)
        return results if len(letters) > 1 else results[0]

    return layer, one_step


for _name, _cell, _letters in (
    ("lstm", lstm_step, "hc"),
    ("gru", gru_step, "h"),
    ("rnn_tanh", rnn_step("tanh"), "h"),
    ("rnn_relu", rnn_step("relu"), "h"),
):
    _layer, _one_step = write_recurrent(_cell, _letters)
    writes(_name)(_layer)
    writes(_name + "_cell")(_one_step)
