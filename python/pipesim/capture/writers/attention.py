"""Attention."""

import math

from ..values import Data
from ..functions import Unavailable, joined, writes


@writes("scaled_dot_product_attention")
def write_attention_function(
    at, query, key, value, attn_mask=None, dropout_p=0.0, *flags, is_causal=False, scale=None, **_
):
    if flags:  # torch 1.13 calls it _scaled_dot_product_attention and has another flag before this one
        is_causal = flags[-1] if at.label.startswith("_") else flags[0]
    q, k, v = (at.floating(a) for a in (query, key, value))
    if len(q.shape) not in (3, 4):
        return None
    if len(q.shape) == 3:
        q, k, v = (at.reshaped(a, (a.shape[0], 1, *a.shape[1:]), "head") for a in (q, k, v))
    k, v = without_copies(at, k, v)
    q, k, v = (at.transposed(a, (0, 2, 1, 3), part) for a, part in ((q, "query"), (k, "key"), (v, "value")))
    result = attention(at, q, k, v, attn_mask, is_causal, scale)
    if result is None:
        return None
    result = at.reshaped(at.transposed(result, (0, 2, 1, 3), "heads"), at.shapes[0])
    return result if at.shape is not None else (result, Unavailable("the softmax of the scores"))


def without_copies(at, k, v):
    """Keys and values [b, g, t, d] as they were before they were copied for the queries of each group."""
    results = []
    for x in (k, v):
        merged = at.maker(x, "reshape")
        copied = at.maker(at.tensor(merged["inputs"][0]), "expand") if merged else None
        source = at.tensor(copied["inputs"][0]) if copied else x
        grouped = len(source.shape) == 5 and source.shape[2] == 1
        results.append(at.reshaped(source, source.shape[:2] + source.shape[3:], "groups") if grouped else x)
    return results if results[0].shape[1] == results[1].shape[1] else (k, v)


def attention(at, q, k, v, mask, causal, scale=None):
    """The result [b, s, heads, e] of q[b, s, heads, d], k[b, t, g, d], v[b, t, g, e]; None: no kind does it."""
    batch, length, heads, width = q.shape
    groups = k.shape[2]
    if mask is not None and isinstance(mask, Data) and mask.causal:
        mask, causal = None, True
    if scale is not None and abs(scale * math.sqrt(width) - 1) > 1e-6:
        q = at.affine(q, scale * math.sqrt(width), part="scale")
    q = at.reshaped(q, (batch, length, groups, heads // groups, width), "groups")
    inputs, kind = [q, k, v], "attention"
    if mask is not None:
        bias = at.mask(mask)
        shape = (1,) * (4 - len(bias.shape)) + bias.shape
        if shape[0] != 1:
            at.note(f"{at.where}: a mask of each sample's own is left out")
        elif shape[1] == 1:
            inputs.append(at.reshaped(bias, (1, *shape[1:]), "bias"))
        else:
            inputs.append(at.reshaped(bias, (groups, heads // groups, *shape[2:]), "bias"))
        kind = "biased_attention" if len(inputs) == 4 else "attention"
    more = {"causal": True} if causal and kind == "attention" else {}
    shape = (batch, length, groups, heads // groups, v.shape[-1])
    return at.reshaped(at.op(kind, inputs, shape, **more), (batch, length, heads, v.shape[-1]), "merge")


@writes("multi_head_attention_forward")
def write_multi_head_attention(at, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                               bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias,
                               training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                               use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                               v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                               is_causal=False):  # fmt: skip
    if bias_k is not None or add_zero_attn or static_k is not None or static_v is not None:
        return None
    at.base = joined(at.path, "attention")
    plain = len(query.shape) == 2
    rows = [at.floating(a) for a in (query, key, value)]
    rows = [at.reshaped(a, (a.shape[0], 1, a.shape[1]), "sample") if plain else a for a in rows]
    rows = [at.transposed(a, (1, 0, 2), "samples_first") for a in rows]
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        projected = separate_projections(at, rows, weights, in_proj_bias)
    else:
        projected = projections(at, rows, in_proj_weight, in_proj_bias)
    q, k, v = (at.reshaped(a, (*a.shape[:2], num_heads, a.shape[2] // num_heads), "heads") for a in projected)
    if key_padding_mask is not None:
        at.note(f"{at.where}: key_padding_mask is left out")
    if attn_mask is not None and len(attn_mask.shape) == 3:  # a plane for each sample and head
        at.note(f"{at.where}: a mask of each sample's own is left out")
        attn_mask = None
    mixed = attention(at, q, k, v, attn_mask, is_causal)
    mixed = at.reshaped(mixed, (*mixed.shape[:2], math.prod(mixed.shape[2:])), "merge")
    weights = [w.name for w in (out_proj_weight, out_proj_bias) if w is not None]
    result = projection(at, mixed, "out_proj", out_proj_weight.shape[0], weights)
    result = at.reshaped(at.transposed(result, (1, 0, 2), "samples_second"), at.shapes[0], "sample")
    return (result, Unavailable("the weights of attention, which are not written"))


def projection(at, x, name, out, weights):
    more = {} if len(weights) == 2 else {"bias": False}
    name = joined(at.path, name)
    result = at.op("linear", [x], (*x.shape[:-1], out), weights, name=name, out=[out], **more)
    at.listings.setdefault(weights[0], []).append((result.name, True))
    return result


def projections(at, rows, weight, bias):
    """Queries, keys and values by slices of one weight. It stays one operator where all read the same."""
    width, results, groups = weight.shape[0] // 3, [], ["q", "k", "v"]
    if rows[1] == rows[2]:
        groups = ["qkv"] if rows[0] == rows[1] else ["q", "kv"]
    for letters in groups:
        part, count = "" if letters == "qkv" else letters, len(letters)
        x = rows["qkv".index(letters[0])]
        weights = [slice_name(at, w, part) for w in (weight, bias) if w is not None]
        name = f"in_proj_{part}" if part else "in_proj"
        result = projection(at, x, name, width * count, weights)
        if count == 1:
            results.append(result)
        else:
            shapes = [(*x.shape[:-1], width)] * count
            results += at.op("split", [result], shapes, part="split", axis=2, sizes=[width] * count)
    return results


def separate_projections(at, rows, weights, bias):
    results = []
    for letter, x, weight in zip("qkv", rows, weights):
        names = [weight.name] + ([slice_name(at, bias, letter)] if bias is not None else [])
        results.append(projection(at, x, f"{letter}_proj", weight.shape[0], names))
    return results


def slice_name(at, weight, part):
    """The name of a slice of a parameter; of all of it where `part` is empty."""
    name = f"{weight.name}.{part}" if part else weight.name
    at.parameters[name] = at.parameters[weight.name]
    return name
