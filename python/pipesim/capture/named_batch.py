"""A batch that is another dim than the first, or that inputs do not have."""

import torch

from .weightless import mapped


def with_named_batch(document, doubled, batch):
    """The document with "b" for the batch; `doubled` is the same model with twice the samples. The document
    as it is where some size grows in another way."""
    try:
        named = in_terms_of_batch(
            {k: document[k] for k in ("inputs", "operators")},
            {k: doubled[k] for k in ("inputs", "operators")},
            batch,
        )
    except ValueError:
        return document
    result = {}
    for key, value in document.items():
        if key == "batch":
            result["sizes"] = {"b": batch}
        result[key] = "b" if key == "batch" else named.get(key, value)
    return result


def mistaken_for_samples(document, batch):
    """pipesim takes the first dim of an input for samples where it is as long as the batch."""
    names = [entry["name"] for entry in document["inputs"] if entry["shape"][:1] == [batch]]
    if document["batch"] == batch or not names:
        return []
    return [f"the first dim of {first_of(names)} is as long as the batch, {batch}, and is taken for samples; "
            "another batch tells them apart"]  # fmt: skip


def in_terms_of_batch(one, two, batch):
    if type(one) is not type(two):
        raise ValueError
    if isinstance(one, dict):
        if list(one) != list(two):
            raise ValueError
        return {key: in_terms_of_batch(one[key], two[key], batch) for key in one}
    if isinstance(one, list):
        if len(one) != len(two):
            raise ValueError
        return [in_terms_of_batch(a, b, batch) for a, b in zip(one, two)]
    if one == two:
        return one
    if type(one) is not int or two != 2 * one or one % batch != 0:
        raise ValueError
    return "b" if one == batch else f"{one // batch}*b"


def doubled_inputs(inputs, names, batch, anywhere):
    """The inputs with twice the samples: the first dim, or the first dim of that length with `anywhere`."""

    def double(a):
        if not isinstance(a, torch.Tensor):
            return a
        shape = list(a.shape)
        places = [i for i, n in enumerate(shape) if n == batch]
        if places and (anywhere or places[0] == 0):
            shape[places[0]] *= 2
        return torch.empty(shape, dtype=a.dtype, device="meta")

    return mapped(double, (tuple(inputs), dict(names)))


def first_of(names):
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
