"""What a writer gets and returns: tensors of the model, data and weights."""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the model: the result of an operator, or a floating-point input."""

    name: str
    shape: tuple
    others: tuple = ()  # losses that were added to this one


@dataclasses.dataclass(frozen=True)
class Data:
    """A tensor made of integers that come in, or of constants: it becomes an input where an operator uses it."""

    name: str
    shape: tuple
    dtype: torch.dtype
    key: str
    causal: bool = False
    number: float = None  # of a constant with one element
    zero: bool = False


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter, or the transpose of one with two dims."""

    name: str
    shape: tuple
    transposed: bool = False


def is_number(a):
    return isinstance(a, (int, float)) or (isinstance(a, Data) and a.number is not None)


def number_of(a):
    value = a.number if isinstance(a, Data) else float(a)
    return max(-3e38, min(3e38, value))
