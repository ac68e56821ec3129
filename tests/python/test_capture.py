"""python -m pipesim.capture: networks of several sorts, and what it refuses.

Every captured file is read by model_file.py, which knows what kinds of operators make of shapes, and by
`pipesim models` where there is a program: PIPESIM names it, build/ci/pipesim if that is not set.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NETWORKS = HERE / "networks"
sys.path[:0] = [str(HERE), str(NETWORKS)]
sys.path.append(str(ROOT / "python"))  # behind the package that the build made

import model_file  # noqa: E402
import run_model  # noqa: E402
from pipesim import capture  # noqa: E402

PIPESIM = pathlib.Path(os.environ.get("PIPESIM") or ROOT / "build" / "ci" / "pipesim")


class Captured:
    """A captured module: the file's content, and what model_file.py reads from it."""

    def __init__(self, document, module, notes=()):
        self.document, self.module, self.notes = document, module, list(notes)
        self.shapes, self.weights = model_file.read(document)
        self.operators = {op["name"]: op for op in document["operators"]}

    @property
    def parameters(self):
        return sum(math.prod(shape) for shape in self.weights.values())

    def kinds(self, pattern=""):
        return [op["kind"] for name, op in self.operators.items() if re.search(pattern, name)]

    def opaque(self):
        return {op["what"] for op in self.operators.values() if op["kind"] == "opaque"}


def parameters_of(module):
    """Each parameter once."""
    return sum(p.numel() for p in module.parameters())


def captured(make, *inputs, made=False, **options):
    """A module that is made and captured without memory; inputs are written as for --input. `made`: it was
    there before."""
    weightless, notes = capture.Weightless(), []
    with weightless:
        module = make()
    own = None
    if isinstance(module, tuple):
        module, own = module
    assert made or all(tensor.is_meta for tensor in module.parameters())
    tensors = own if own is not None else capture.command_inputs(inputs)
    document = capture.capture(module, tensors, weightless=weightless, notes=notes, **options)
    return Captured(document, module, notes)


def network(name, *inputs, maker="make_model", **options):
    """The same of a file in networks/; its batch is a name in the file, and any batch fits."""
    module = __import__(name)
    result = captured(getattr(module, maker), *inputs, **options)
    assert result.document["batch"] == "b"
    _, weights = model_file.read(result.document, b=3 * result.document["sizes"]["b"])
    assert weights == result.weights
    return result


def said_by_pipesim(result, tmp_path):
    """What `pipesim models FILE` says: its numbers by name."""
    if not PIPESIM.exists():
        print(f"not asked: no {PIPESIM}, PIPESIM names another")
        return None
    path = tmp_path / "captured.json"
    capture.write(result.document, path)
    return numbers_of(str(path))


def numbers_of(model):
    ran = subprocess.run([PIPESIM, "models", model], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = re.findall(
        r"^  (batch|operators|parameters|forward) +([\d.]+) ?([a-zA-Z]*)", ran.stdout, re.MULTILINE
    )
    factors = {"": 1, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "P": 1e15}
    return {what: float(number) * factors[unit.replace("FLOP", "")] for what, number, unit in found}


def check(result, tmp_path, zoo=None):
    """Counts that hold for every network. `zoo`: the same network of the zoo."""
    assert result.parameters == parameters_of(result.module)
    said = said_by_pipesim(result, tmp_path)
    if said is None:
        return
    assert said["parameters"] == pytest.approx(result.parameters, rel=0.005)  # three digits
    if zoo is not None:
        expected = numbers_of(zoo)
        assert said["parameters"] == expected["parameters"]
        assert said["forward"] == pytest.approx(expected["forward"], rel=0.01)


# What a captured module computes


def computes_the_same(module, *inputs, constants=None):
    """Runs the module and its captured file on the same numbers. `constants`: values of further inputs."""
    torch.manual_seed(1)
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    for name, parameter in module.named_parameters():
        nn.init.normal_(
            parameter, std=0.0 if "bias_hh" in name else 0.2
        )  # pipesim has one bias in an LSTM cell
    document = capture.capture(module, inputs, notes=[])
    document = model_file.with_numbers(document)
    values = dict(zip(capture.input_labels(module, inputs, {}), inputs), **(constants or {}))
    weights = {f"{path}.{name}".lstrip("."): parameter for path, part in module.named_modules()
               for name, parameter in part.named_parameters(recurse=False)}  # fmt: skip
    for name, weight in list(weights.items()):
        if "in_proj" in name:
            q, k, v = weight.chunk(3)
            weights.update({name + ".q": q, name + ".k": k, name + ".v": v, name + ".kv": torch.cat([k, v])})
    with torch.no_grad():
        expected = [t for t in capture.flat(module(*inputs)) if isinstance(t, torch.Tensor)]
        tensors = run_model.run(document, values, weights)
    names = [op["name"] for op in document["operators"]]
    for value in expected:
        assert any(
            tensors[name].shape == value.shape and torch.allclose(tensors[name], value, rtol=1e-3, atol=1e-4)
            for name in names
            if name in tensors
        ), f"no operator computes {value}"


def integers(high, *shape):
    return torch.randint(0, high, shape)


def test_captured_files_compute_what_the_modules_do():
    import dlrm
    import llama
    import lora
    import lstm
    import mlp
    import unet
    import vit

    torch.manual_seed(0)
    computes_the_same(mlp.Mlp(12, 8, 5), torch.randn(4, 12), integers(5, 4))
    computes_the_same(lora.make_model()[0], torch.randn(8, 64), integers(5, 8))
    computes_the_same(vit.Vit(32, 16, 24, 2, 3, 5), torch.randn(2, 3, 32, 32))
    bags = [integers(9, 5, n) for n in (3, 1, 2)]
    rows, columns = torch.tril_indices(4, 4, -1)
    computes_the_same(
        dlrm.Dlrm((9, 9, 9), 4, 6),
        torch.randn(5, 6),
        torch.rand(5),
        *bags,
        constants={"tril_indices": rows * 4 + columns},
    )
    steps = integers(1000, 2)
    computes_the_same(
        unet.Unet(8, 12, 16),
        torch.randn(2, 4, 8, 8),
        steps,
        torch.randn(2, 3, 12),
        torch.randn(2, 4, 8, 8),
        constants={"steps": unet.time_waves(steps, 8)},
    )
    network = llama.Llama(llama.TINY)
    tokens, labels = integers(256, 2, 6), integers(256, 2, 6)
    angles = torch.outer(torch.arange(6).float(), network.rates).repeat(1, 2)
    mask = torch.full((6, 6), float("-inf")).triu(1)
    constants = {"cos": angles.cos(), "sin": angles.sin(), "causal_mask": mask, "labels": labels[:, 1:]}
    computes_the_same(network, tokens, labels, constants=constants)
    network = lstm.LanguageModel(9, 6, 5)
    network.lstm.dropout = 0.0
    states = {f"lstm.layer{i}.{n}0": torch.zeros(3, 5) for i in range(2) for n in "hc"}
    computes_the_same(network, integers(9, 3, 4), integers(9, 3, 4), constants=states)


def test_parts_compute_what_they_did():
    layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)
    computes_the_same(layer, torch.randn(2, 5, 8), torch.randn(2, 3, 8))
    computes_the_same(nn.Transformer(8, 2, 1, 1, 16, 0.0), torch.randn(5, 2, 8), torch.randn(4, 2, 8))
    images = nn.Sequential(
        nn.Conv2d(4, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.LeakyReLU(0.2), nn.MaxPool2d(3, 2, 1), nn.Conv2d(6, 6, 1, groups=3),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d((3, 2)), nn.Flatten(), nn.GELU(),
    )  # fmt: skip
    computes_the_same(images, torch.randn(3, 4, 16, 16))
    lstm = nn.LSTM(4, 5, 2, bidirectional=True)
    labels = [f"layer{i}{way}" for i in range(2) for way in ("", "_reverse")]
    states = {f"lstm.{label}.{n}0": torch.zeros(2, 5) for label in labels for n in "hc"}
    computes_the_same(lstm, torch.randn(3, 2, 4), constants=states)
    states = {f"{base}.{label}.h0": torch.zeros(2, 5) for base in ("gru", "rnn_tanh") for label in labels}
    computes_the_same(
        nn.GRU(4, 5, 2, bidirectional=True, batch_first=True), torch.randn(2, 3, 4), constants=states
    )
    computes_the_same(nn.RNN(4, 5, 2, bias=False), torch.randn(3, 2, 4), constants=states)


class Cells(nn.Module):
    """Cells that are called step by step, from zeros."""

    def __init__(self):
        super().__init__()
        self.low, self.high = nn.LSTMCell(4, 5), nn.GRUCell(5, 6)

    def forward(self, x):
        h, c, top = torch.zeros(x.shape[0], 5), torch.zeros(x.shape[0], 5), torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            h, c = self.low(x[:, t], (h, c))
            top = self.high(h, top)
        return top


def test_cells_that_are_called_step_by_step():
    states = {"low.h0": torch.zeros(2, 5), "low.c0": torch.zeros(2, 5), "high.h0": torch.zeros(2, 6)}
    computes_the_same(Cells(), torch.randn(2, 3, 4), constants=states)
    result = part(Cells(), "float32[2,3,4]")
    assert result.parameters == parameters_of(result.module) - 4 * 5
    assert result.kinds("^low").count("lstm_cell") == 3 and result.opaque() == set()


def test_gru(tmp_path):
    result = part(nn.GRU(4, 5, batch_first=True), "float32[7,3,4]")
    check(result, tmp_path)
    assert result.operators["gru.layer0.step2.reset"]["repeat"] == "gru.layer0.step#.reset"


def test_shapes_compute_what_they_did():
    import shapes

    module = shapes.make_model()
    pairs = integers(6, 1, 7)
    constants = {"distance": module.distance.reshape(-1), "pairs": pairs[0]}
    computes_the_same(module, torch.randn(8, 5, 12), pairs, constants=constants)


# Networks


def test_mlp(tmp_path):
    result = network("mlp", "float32[64,28,28]", "int64[64]")
    check(result, tmp_path)
    assert result.kinds() == [
        "reshape",
        "linear",
        "relu",
        "linear",
        "relu",
        "dropout",
        "linear",
        "cross_entropy",
    ]
    assert result.document["inputs"] == [
        {"name": "images", "shape": ["b", 28, 28]},
        {"name": "labels", "shape": ["b"], "dtype": "int64"},
    ]
    assert result.operators["layers.0"] == {
        "name": "layers.0",
        "kind": "linear",
        "inputs": ["flatten"],
        "weights": ["layers.0.weight", "layers.0.bias"],
        "out": [1024],
    }
    assert result.operators["layers.1"]["repeat"] == result.operators["layers.3"]["repeat"] == "layers#"
    assert "repeat" not in result.operators["head"]


def test_resnet50(tmp_path):
    pytest.importorskip("torchvision")
    result = network("resnet", "float32[12,3,224,224]", "int64[12]")
    check(result, tmp_path, "resnet50:batch=12")
    assert result.parameters == 25557032
    assert result.operators["network.conv1"]["kernel"] == [7, 7]
    assert result.shapes["network.layer4.2.conv2"] == (12, 512, 7, 7)
    assert result.operators["network.layer1.1.conv2"]["repeat"] == "network.layer1#.conv2"
    assert "repeat" not in result.operators["network.layer1.0.downsample.0"]
    assert result.operators["network.avgpool"]["kind"] == "adaptive_pool"


def test_bert_base(tmp_path):
    result = network("bert", "int64[8,512]", "int64[8,512]", "int64[8,512]")
    check(result, tmp_path, "bert-base:batch=8")
    assert result.parameters == 109514298
    decoder = result.operators["decoder"]
    assert decoder["weights"] == ["embeddings.words.weight", "decoder.bias"] and decoder["transpose_weight"]
    assert result.operators["cross_entropy"]["inputs"] == ["decoder", "labels"]
    assert result.shapes["decoder"] == (8, 512, 30522)
    assert result.shapes["embeddings.position_ids"] == (1, 512)
    assert result.kinds(r"^layers.3.attention") == (
        ["linear", "reshape", "transpose"] + ["linear", "reshape"] * 2 + ["transpose", "transpose"]
        + ["matmul", "affine", "softmax", "dropout", "matmul", "transpose", "reshape", "linear"]
        + ["layer_norm"]
    )  # fmt: skip
    assert result.operators["layers.3.attention.query"]["repeat"] == "layers#.attention.query"
    assert result.document["fuse"] is True


def test_bert_with_a_mask_of_each_sample():
    result = network("bert", *["int64[4,16]"] * 4)
    mask = result.operators["layers.0.attention.add"]["inputs"][1]
    assert mask == "attention_mask" and result.shapes[mask] == (4, 1, 1, 16)


def test_gpt2(tmp_path):
    result = network("gpt2", "int64[3,1024]", "int64[3,1024]")
    check(result, tmp_path, "gpt2:batch=3")
    assert result.parameters == 124439808
    assert result.operators["head"]["weights"] == ["words.weight"]
    assert result.operators["head"]["transpose_weight"] is True
    assert result.operators["positions"]["inputs"] == ["arange"] and result.shapes["arange"] == (1024,)
    masks = {op["inputs"][1] for name, op in result.operators.items() if name.endswith("masked_fill")}
    assert masks == {"blocks.0.attention.causal_mask"}
    assert result.operators["blocks.7.attention.mul"]["factor"] == 0.125


def test_gpt2_without_labels():
    result = network("gpt2", "tokens=int64[3,16]")
    assert "cross_entropy" not in result.kinds()
    assert result.shapes["head"] == (3, 16, 50257)


def test_tiny_llama(tmp_path):
    result = network("llama", "int64[4,16]", "int64[4,16]")
    check(result, tmp_path)
    assert result.operators["layers.1.attention_norm"]["kind"] == "rms_norm"
    assert result.operators["layers.1.attention_norm"]["weights"] == ["layers.1.attention_norm.weight"]
    names = [entry["name"] for entry in result.document["inputs"]]
    assert names == ["tokens", "cos", "sin", "causal_mask", "labels"]
    assert result.shapes["labels"] == (4, 15) and result.shapes["cos"] == (16, 16)
    assert result.shapes["layers.0.attention.expand"] == (4, 2, 2, 16, 16)
    assert result.operators["layers.1.mlp.up"]["repeat"] == "layers#.mlp.up"


def test_llama3_70b_takes_no_memory(tmp_path):
    """In a process of its own, whose memory counts."""
    code = f"""
import resource, sys, time
sys.path[:0] = [{str(ROOT / "python")!r}]
from pipesim import capture
begin = time.time()
status = capture.main([{str(NETWORKS / "llama.py:make_70b")!r}, "--input", "int64[8,8192]", "--input",
                       "int64[8,8192]", "-o", {str(tmp_path / "70b.json")!r}])
print(status, time.time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    status, seconds, memory = (float(word) for word in ran.stdout.split())
    print(f"Llama-3 70B: {seconds:.1f} s, {memory / 1e6:.0f} MB")
    assert status == 0 and memory < 2e9
    document = json.loads((tmp_path / "70b.json").read_text())
    shapes, weights = model_file.read(document)
    assert sum(math.prod(shape) for shape in weights.values()) == 70553706496
    assert document["dtype"] == "bfloat16" and document["sizes"] == {"b": 8}
    assert shapes["layers.79.mlp.gate"] == (8, 8192, 28672)
    if PIPESIM.exists():
        assert numbers_of(str(tmp_path / "70b.json"))["parameters"] == 70.6e9


def test_vit(tmp_path):
    result = network("vit", "float32[8,3,224,224]")
    check(result, tmp_path)
    assert result.parameters == 86567656
    assert result.operators["class_token.value"]["weights"] == ["class_token"]
    assert result.shapes["cat"] == (8, 197, 768)
    layer = result.kinds(r"^layers.5.self_attn")
    assert layer == ["linear", "split", "reshape", "reshape", "reshape", "attention", "reshape", "linear"]
    assert result.shapes["layers.5.self_attn.attention"] == (8, 197, 12, 1, 64)
    assert result.operators["layers.5.self_attn.in_proj"]["out"] == [2304]


def test_unet(tmp_path):
    result = network("unet", "float32[8,4,16,16]", "int64[8]", "float32[8,7,64]", "float32[8,4,16,16]")
    check(result, tmp_path)
    keys = result.operators["attention.attention.in_proj_kv"]
    assert keys["weights"] == ["attention.attention.in_proj_weight.kv", "attention.attention.in_proj_bias.kv"]
    assert keys["inputs"] == ["text"] and keys["out"] == [128]
    assert result.shapes["steps"] == (8, 32)  # the waves of the time come in as they are
    assert result.operators["interpolate"]["kind"] == "resize"
    assert result.operators["interpolate"]["out"] == [16, 16]
    assert result.operators["down1.norm1"]["groups"] == 8
    assert result.shapes["attention.attention.attention"] == (8, 64, 4, 1, 16)
    assert result.operators["mse_loss"]["kind"] == "squared_error"
    assert result.shapes["down2.getitem"] == (8, 64, 1, 1)


def test_dlrm(tmp_path):
    inputs = ["float32[16,13]", "float32[16]", "int64[16,3]", "int64[16,1]", "int64[16,4]"]
    result = network("dlrm", *inputs)
    check(result, tmp_path)
    assert [e["name"] for e in result.document["inputs"]][:5] == [
        "dense",
        "clicks",
        "bags.0",
        "bags.1",
        "bags.2",
    ]
    assert result.operators["tables.1"]["kind"] == "embedding_bag"
    assert result.operators["tables.1"]["rows"] == 2000
    assert result.operators["getitem"]["kind"] == "gather" and result.shapes["getitem"] == (16, 6)
    assert result.shapes["tril_indices"] == (6,)
    assert result.operators["binary_cross_entropy_with_logits"]["inputs"] == ["squeeze", "clicks"]


def test_lstm(tmp_path):
    result = network("lstm", "int64[8,5]", "int64[8,5]")
    second_biases = 2 * 4 * 64
    assert result.parameters == parameters_of(result.module) - second_biases
    said = said_by_pipesim(result, tmp_path)
    assert said is None or said["parameters"] == pytest.approx(result.parameters, rel=0.005)
    assert result.kinds("step").count("lstm_cell") == 10
    cell = result.operators["lstm.layer1.step3"]
    assert cell["weights"] == ["lstm.weight_ih_l1", "lstm.weight_hh_l1", "lstm.bias_ih_l1"]
    assert cell["repeat"] == "lstm.layer1.step#"
    assert result.notes == [
        "lstm (lstm.py:15): an LSTM cell has one bias in pipesim, torch's two add up to it"
    ]
    assert result.shapes["head"] == (8, 5, 1000)
    assert result.operators["cross_entropy"]["inputs"][0] == "head"


def test_mamba(tmp_path):
    result = network("mamba", "int64[8,16]")
    check(result, tmp_path)
    assert result.opaque() == {"SelectiveScan"}
    scan = result.operators["blocks.2.SelectiveScan"]
    assert scan["shape"] == ["b", 16, 64] and "samples" not in scan
    assert result.operators["blocks.2.conv"]["groups"] == 64
    assert result.shapes["blocks.2.conv"] == (8, 64, 19)
    assert result.operators["linear"]["weights"] == ["words.weight"]
    assert result.notes == [
        "opaque, known by their shapes only: SelectiveScan (3, first at blocks.0 (mamba.py:46))"
    ]


def test_lora(tmp_path):
    result = network("lora")
    check(result, tmp_path)
    frozen = {name for name, op in result.operators.items() if op.get("frozen")}
    assert frozen == {"hidden.base", "head.base"}
    assert result.operators["hidden.matmul"]["weights"] == ["hidden.down"]
    assert result.operators["hidden.mul"]["factor"] == 2.0


def test_shapes(tmp_path):
    result = network("shapes", "float32[8,5,12]", "int64[1,7]")
    check(result, tmp_path)
    assert result.operators["einsum_2"]["equation"] == "ABie,ABje->ABij"
    assert result.operators["getitem"]["kind"] == "embedding"  # rows of a parameter
    assert result.operators["roll_2"]["shift"] == 19
    assert result.opaque() == set()


# Parts


def part(module, *inputs):
    return captured(lambda: module, *inputs, made=True)


ACTIVATIONS = {
    nn.ReLU(): "relu", nn.ReLU6(): "relu6", nn.ELU(): "elu", nn.GELU(): "gelu", nn.SiLU(): "silu", nn.Mish(): "mish",
    nn.Hardswish(): "hardswish", nn.Hardsigmoid(): "hardsigmoid", nn.Hardtanh(): "clip", nn.Softplus(): "softplus",
    nn.LeakyReLU(0.2): "leaky_relu", nn.Tanh(): "tanh", nn.Sigmoid(): "sigmoid", nn.Softmax(-1): "softmax",
    nn.Dropout(0.2): "dropout", nn.PReLU(): "opaque", nn.Softshrink(): "opaque",
}  # fmt: skip


@pytest.mark.parametrize("module,kind", ACTIVATIONS.items(), ids=lambda v: v if isinstance(v, str) else "")
def test_activations(module, kind):
    result = part(nn.Sequential(module), "float32[4,6]")
    assert result.kinds() == [kind] and list(result.operators) == ["0"]
    assert result.parameters == parameters_of(module)
    if kind == "opaque" and isinstance(module, (nn.PReLU, nn.Softshrink)):
        assert result.operators["0"]["samples"] == 1


SPATIAL = [
    (nn.Conv1d(4, 6, 3, padding="same"), "float32[2,4,9]", ["conv1d"]),
    (nn.Conv2d(4, 6, 4, padding="same", dilation=1), "float32[2,4,9,9]", ["conv2d"]),
    (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect", bias=False), "float32[2,4,9,9]", ["pad", "conv2d"]),
    (nn.Conv3d(4, 8, 3, stride=2, groups=4), "float32[2,4,9,9,9]", ["conv3d"]),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), "float32[2,4,9,9]", ["conv_transpose2d"]),
    (nn.MaxPool2d(3, 2, ceil_mode=True), "float32[2,4,8,8]", ["pool2d"]),
    (nn.MaxPool3d(2), "float32[2,4,8,8,8]", ["pool3d"]),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "float32[2,4,8,8]", ["pool2d"]),
    (nn.AdaptiveAvgPool2d((3, None)), "float32[2,4,8,8]", ["adaptive_pool"]),
    (nn.AdaptiveMaxPool1d(3), "float32[2,4,8]", ["adaptive_pool"]),
    (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), "float32[2,4,8,8]", ["resize"]),
    (nn.GroupNorm(2, 4), "float32[2,4,8]", ["group_norm"]),
    (nn.InstanceNorm2d(4), "float32[2,4,8,8]", ["group_norm"]),
    (nn.BatchNorm1d(4), "float32[2,4]", ["batch_norm"]),
    (nn.BatchNorm3d(4), "float32[2,4,3,3,3]", ["batch_norm"]),
    (nn.LayerNorm((3, 4)), "float32[2,3,4]", ["reshape", "layer_norm", "reshape"]),
    (nn.LayerNorm(4, elementwise_affine=False), "float32[2,3,4]", ["layer_norm"]),
    (nn.PixelShuffle(2), "float32[2,4,3,3]", ["reshape", "transpose", "reshape"]),
    (nn.ZeroPad2d((1, 2, 0, 0)), "float32[2,4,3,3]", ["pad"]),
    (nn.Flatten(), "float32[2,4,3,3]", ["reshape"]),
    (nn.LocalResponseNorm(2), "float32[2,4,3,3]", ["opaque"]),
    (nn.Bilinear(3, 4, 5), "float32[2,3] float32[2,4]", ["opaque"]),
    (nn.LSTM(3, 4, proj_size=2), "float32[5,2,3]", ["opaque"]),
]  # fmt: skip


@pytest.mark.parametrize(
    "module,inputs,kinds", SPATIAL, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else ""
)
def test_parts(module, inputs, kinds):
    result = part(module, *inputs.split())
    assert result.kinds() == kinds
    assert result.parameters == parameters_of(module)


class Calls(nn.Module):
    """A function of its inputs as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def called(function, *inputs):
    return part(Calls(function), *inputs)


def attend(q, k, v, mask=None, causal=False):
    """torch 1.13 has the function under another name."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal)
    return F._scaled_dot_product_attention(q, k, v, mask, 0.0, False, causal)[0]


def test_scaled_dot_product_attention():
    result = called(lambda q, k, v: attend(q, k, v, causal=True), *["float32[2,4,6,8]"] * 3)
    attention = [op for op in result.operators.values() if op["kind"] == "attention"]
    assert len(attention) == 1 and attention[0]["causal"] is True
    assert result.shapes[attention[0]["name"]] == (2, 6, 4, 1, 8)
    bias = called(lambda q, m: attend(q, q, q, m), "float32[2,4,6,8]", "float32[1,4,6,6]")
    assert "biased_attention" in bias.kinds()
    q, k, v = (torch.randn(2, 4, n, 8) for n in (6, 5, 5))
    computes_the_same(Calls(attend), q, k, v)
    computes_the_same(Calls(attend), q, k, v, torch.randn(1, 4, 6, 5))
    computes_the_same(Calls(lambda q: attend(q, q, q, causal=True)), q)
    computes_the_same(Calls(lambda q: attend(q[:, 0], q[:, 1], q[:, 2])), q)


def test_scalars_fold():
    result = called(lambda x: 3 * (1.0 - x) / 2 + 4, "float32[2,5]")
    (op,) = result.operators.values()
    assert (op["kind"], op["factor"], op["offset"]) == ("affine", -1.5, 5.5)
    assert called(lambda x: x**2.5, "float32[2,5]").operators["pow"]["exponent"] == 2.5
    assert called(lambda x: 1 / x, "float32[2,5]").kinds() == ["reciprocal"]


FUNCTIONS = {
    "variance": lambda x, y: x.var(dim=(1, 2)),
    "deviation": lambda x, y: torch.std(x, 1, keepdim=True),
    "norm": lambda x, y: x.norm(dim=-1) + torch.linalg.norm(y, dim=-1),
    "normalize": lambda x, y: F.normalize(x, dim=1),
    "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1),
    "logsumexp": lambda x, y: x.logsumexp(1),
    "glu": lambda x, y: F.glu(x, 2),
    "softmin": lambda x, y: F.softmin(x, 1),
    "log_softmax": lambda x, y: x.log_softmax(1),
    "smallest": lambda x, y: x.min(dim=1).values + y.amin(1),
    "largest": lambda x, y: torch.max(x, y).max(-1)[0],
    "clamps": lambda x, y: x.clamp(-0.5, 0.5) + x.clamp(max=0.1) + x.clamp_min(0.2) + F.hardtanh(y, 0.0, 6.0),
    "selu": lambda x, y: F.selu(x) + F.celu(y, 0.5),
    "soft": lambda x, y: F.softsign(x) + F.logsigmoid(y) + F.tanhshrink(x),
    "powers": lambda x, y: 2.0**x
    + (x.abs() + 1) ** -0.5
    + (y * y + 1).rsqrt()
    + torch.exp2(y)
    + x.square(),
    "logs": lambda x, y: (x.abs() + 1).log2() + y.abs().log1p() + torch.log10(y.abs() + 2),
    "reversed": lambda x, y: 3 - x + 2 / (y.abs() + 1) + torch.rsub(x, y, alpha=2),
    "in place": lambda x, y: (x * 1).add_(y).mul_(2).relu_().sub_(1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3) + torch.addcmul(x, x, y, value=0.5),
    "sums": lambda x, y: x.sum() + y.mean(0).sum(-1),
    "chunks": lambda x, y: torch.cat(x.chunk(2, dim=2)[::-1], dim=2)
    + torch.cat(y.split([1, 3, 2], 2)[::-1], 2),
    "unbind": lambda x, y: sum(row * i for i, row in enumerate(x.unbind(1))) + y[:, -1],
    "slices": lambda x, y: x[:, None, 1:, ..., ::2] * y[:, 1:4, 3:].unsqueeze(1),
    "narrow": lambda x, y: x.narrow(1, 1, 2) + y.select(2, 3)[:, 2:, None],
    "repeat": lambda x, y: x.repeat(1, 2, 1) + torch.tile(y, (2, 1)) + y.repeat_interleave(2, 1),
    "stack": lambda x, y: torch.stack((x, y), -1).flatten(1, 2),
    "moves": lambda x, y: x.movedim(2, 0).permute(1, 0, 2).mT + y.transpose(1, 2).reshape(2, -1, 6)[:, :4],
    "rolls": lambda x, y: x.roll((1, -2), (1, 2)) + F.pad(y[:, 1:], (0, 0, 1, 0)),
    "pads": lambda x, y: F.pad(x, (1, -2, 2, 0)),
    "triangle": lambda x, y: torch.matmul(x, y.transpose(1, 2)),
    "vectors": lambda x, y: x @ y[0, 0] + torch.mv(y[0], x[0, 0]),
    "broadcast matmul": lambda x, y: x[:, None] @ y.transpose(1, 2)[None] + x[0] @ y[0].t(),
    "batched": lambda x, y: torch.baddbmm(x @ y.mT, x, y.mT, beta=0.5, alpha=2),
    "einsum": lambda x, y: torch.einsum("bij, bkj, bkl -> bil", x, y, y)
    + torch.einsum("b...,b...->b...", x, y),
    "implicit einsum": lambda x, y: torch.einsum("bij,bkj", x, y)
    + torch.einsum("bij,ij->b", x, y[0])[:, None, None],
    "outer": lambda x, y: torch.outer(x[0, 0], y[0, 0]),
    "shuffle": lambda x, y: F.pixel_unshuffle(F.pixel_shuffle(x.reshape(2, 4, 2, 3), 2), 2)
    + y.view(2, 4, 2, 3),
    "losses": lambda x, y: (
        F.mse_loss(x, y),
        F.l1_loss(x, y),
        F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)),
    ),
    "smooth losses": lambda x, y: (F.smooth_l1_loss(x, y, beta=0.7), F.huber_loss(x, y, delta=0.4)),
    "divergence": lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    "soft labels": lambda x, y: F.cross_entropy(x[:, 0], y[:, 0].softmax(-1)),
    "group": lambda x, y: F.group_norm(x, 2) + F.layer_norm(y, (4, 6)) + F.instance_norm(x),
    "dims": lambda x, y: x.view(x.size(0), -1)[:, : y.shape[1] * x.dim()].unflatten(1, (3, 4))
    + y.new_ones(1) * 0,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_compute_the_same(function, tmp_path):
    said_by_pipesim(called(function, "float32[2,4,6]", "float32[2,4,6]"), tmp_path)
    torch.manual_seed(2)
    constants = {"new_ones": torch.ones(1)}
    computes_the_same(Calls(function), torch.randn(2, 4, 6), torch.randn(2, 4, 6), constants=constants)


def test_broadcast_operands():
    result = called(lambda x, y: x - y, "float32[2,1,5]", "float32[2,3,1]")
    assert result.kinds() == ["expand", "sub"] and result.shapes["sub"] == (2, 3, 5)
    assert called(lambda x, y: x * y, "float32[2,1]", "float32[2,5]").kinds() == ["mul"]
    result = called(lambda x, y: x / y, "float32[2,1]", "float32[2,5]")
    assert result.kinds() == ["expand", "div"] and result.shapes["div"] == (2, 5)


def test_assignment_to_a_slice():
    def assigns(x, y):
        x[:, 1:3, 0] = y
        return x

    result = called(assigns, "float32[2,5,4]", "float32[2,2]")
    assert result.kinds().count("concat") == 2
    real = torch.randn(2, 5, 4), torch.randn(2, 2)
    computes_the_same(Calls(lambda x, y: assigns(x * 1.5, y)), *real)


def test_assignment_to_a_tensor_that_forward_makes():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, x):
            results = torch.zeros(x.shape[0], 3, 4)
            h = x[:, 0]
            for t in range(3):
                h = torch.tanh(self.cell(h) + x[:, t])
                results[:, t] = h
            results.mul_(2.0)
            return results.flatten(1)

    result = part(Loop(), "float32[5,3,4]")
    assert result.kinds().count("linear") == 3 and result.opaque() == set()
    computes_the_same(Loop(), torch.randn(5, 3, 4), constants={"zeros": torch.zeros(5, 3, 4)})


def test_keys_that_are_copied_for_groups_of_queries():
    def grouped(q, k):
        k = k[:, :, None].expand(2, 2, 3, 6, 8).reshape(2, 6, 6, 8)
        return attend(q, k, k)

    result = called(grouped, "float32[2,6,6,8]", "float32[2,2,6,8]")
    computes_the_same(Calls(grouped), torch.randn(2, 6, 6, 8), torch.randn(2, 2, 6, 8))
    (attention,) = (op for op in result.operators.values() if op["kind"] == "attention")
    assert [result.shapes[name] for name in attention["inputs"]] == [
        (2, 6, 2, 3, 8),
        (2, 6, 2, 8),
        (2, 6, 2, 8),
    ]


MASKS = {
    "tril": lambda n: torch.tril(torch.ones(n, n)).view(1, 1, n, n) == 0,
    "triu": lambda n: torch.triu(torch.full((n, n), float("-inf")), diagonal=1),
    "compared": lambda n: torch.arange(n)[None, :] > torch.arange(n)[:, None],
    "filled": lambda n: torch.full((n, n), -1e9).masked_fill_(
        torch.arange(n) < (torch.arange(n) + 1).view(n, 1), 0
    ),
    "square": nn.Transformer.generate_square_subsequent_mask,
}


@pytest.mark.parametrize("length", [8, 1024])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_causal_masks(mask, length):
    def masked(x):
        made = mask(x.shape[-1])
        return x.masked_fill(made, -1e9) if made.dtype == torch.bool else x + made

    result = called(masked, f"float32[2,4,{length},{length}]")
    assert result.kinds() == ["add"] and result.document["inputs"][1]["name"] == "causal_mask"


def test_places_of_largest_elements():
    values = called(lambda x: x.max(1).values, "float32[2,5]")
    assert values.kinds() == ["reduce"]
    places = called(lambda x: torch.gather(x, 1, x.max(1, keepdim=True).indices), "float32[2,5]")
    assert places.opaque() == {"torch.max", "torch.gather"}


def test_losses_that_are_added():
    result = called(lambda x, y: F.mse_loss(x, y) + 0.1 * F.l1_loss(x, y), "float32[2,5]", "float32[2,5]")
    assert result.kinds() == ["squared_error", "sub", "abs", "reduce"]


def test_opaque_calls():
    result = called(lambda x: x.cumsum(1), "float32[2,5]")
    assert result.operators["cumsum"] == {
        "name": "cumsum", "kind": "opaque", "inputs": ["inputs.0"], "what": "torch.cumsum", "shape": ["b", 5], "samples": 1,
    }  # fmt: skip
    assert "samples" not in called(lambda x: x.cumsum(0), "float32[2,5]").operators["cumsum"]
    loss = called(lambda x, y: F.poisson_nll_loss(x, y), "float32[2,5]", "float32[2,5]")
    assert loss.kinds() == ["opaque", "reduce"] and loss.shapes["poisson_nll_loss_scalar"] == ()
    many = called(lambda x: x.sort(1), "float32[2,5]")
    assert (many.operators["sort"]["shape"], many.operators["sort"]["shape2"]) == (["b", 5], ["b", 5])


def test_zeros_that_are_added_to():
    result = called(
        lambda x, y: torch.zeros(2, 5) + x + torch.zeros_like(y)[None, 0] + y, *["float32[2,5]"] * 2
    )
    assert result.kinds() == ["add"]


def test_rows_that_are_flattened_for_a_product():
    class Flattened(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(4, 6)

        def forward(self, x):
            return torch.relu(self.mix(x.reshape(-1, 4)).view(2, 3, 6))

    result = part(Flattened(), "float32[2,3,4]")
    assert result.kinds() == ["linear", "relu"] and result.shapes["mix"] == (2, 3, 6)


def test_losses_with_learned_weights():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.log_variance = nn.Parameter(torch.zeros(()))

        def forward(self, x, y):
            return F.mse_loss(x * 2, y) * torch.exp(-self.log_variance) + self.log_variance

    result = part(Weighted(), "float32[2,5]", "float32[2,5]")
    assert result.kinds() == ["affine", "squared_error"]
    assert result.notes == ["parameters that no result needs are left out (1): log_variance"]


def test_a_module_that_is_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(4, 4)

        def forward(self, x):
            return self.mix(torch.relu(self.mix(x)))

    result = part(Twice(), "float32[2,4]")
    assert list(result.operators) == ["mix", "relu", "mix_2"]
    assert result.operators["mix_2"]["weights"] == ["mix.weight", "mix.bias"]
    assert result.parameters == 20


def test_checkpointed_parts_are_followed():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(self.mix, x)

    assert part(Checkpointed(), "float32[2,4]").kinds() == ["linear"]


def test_parts_that_no_result_needs_are_left_out():
    class Spare(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            self.spare(x)
            return self.used(x)

    result = part(Spare(), "float32[2,4]")
    assert list(result.operators) == ["used"]
    assert result.notes == ["parameters that no result needs are left out (2): spare.bias, spare.weight"]


def test_a_batch_that_is_no_first_dim():
    result = captured(lambda: nn.TransformerEncoderLayer(8, 2, 16), "float32[7,3,8]", batch=3)
    assert result.document["sizes"] == {"b": 3}
    assert result.document["inputs"] == [{"name": "src", "shape": ["b", 7, 8]}]
    assert result.operators["src.transpose"]["order"] == [1, 0, 2]
    assert result.shapes["norm2"] == (7, 3, 8)


def test_a_constant_as_long_as_the_batch():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, x):
            return x + self.table(torch.arange(x.shape[1]))

    assert part(Positions(), "float32[4,3,4]").notes == []
    assert part(Positions(), "float32[3,3,4]").notes == [
        "the first dim of arange is as long as the batch, 3, and is taken for samples; another batch tells them apart"
    ]


def test_a_batch_that_is_a_number():
    class Fixed(nn.Module):
        def forward(self, x):
            return x.reshape(-1, 8) @ torch.ones(8, 8) if x.shape[0] == 4 else x

    assert captured(Fixed, "float32[4,8]").document["batch"] == 4


def test_writers_can_be_added():
    def my_gate(x):
        return x * 2

    gate = torch.fx.Proxy  # the function is kept whole as torch.fx.wrap would

    def call(x):
        return (
            x.tracer.create_proxy("call_function", my_gate, (x,), {}) if isinstance(x, gate) else my_gate(x)
        )

    assert called(call, "float32[2,4]").opaque() == {"my_gate"}

    @capture.writes("my_gate")
    def write_my_gate(at, x):
        return at.op("sigmoid", [x], at.shape)

    try:
        assert called(call, "float32[2,4]").kinds() == ["sigmoid"]
    finally:
        del capture.WRITERS["my_gate"]


def aten_graph(module, *inputs):
    """What torch.export would give of a module, by the means of torch 1.13."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.utils import stateless

    parameters = dict(module.named_parameters())

    def call(parameters, inputs):
        return stateless.functional_call(module, parameters, inputs)

    graph = make_fx(call, tracing_mode="fake")(parameters, inputs).graph
    names = [*parameters, *capture.input_labels(module, inputs, {})]
    for node, name in zip(graph.nodes, names):
        node.meta["label"] = name
        if name in parameters:
            node.meta["parameter"] = parameters[name]
    for node in graph.nodes:
        value = node.meta.get("val")
        if value is None and node.op == "call_function":
            items = {user.args[1]: user.meta["val"] for user in node.users}
            value = [items.get(i, torch.empty(1)) for i in range(max(items) + 1)]
        packet = getattr(node.target, "overloadpacket", node.target)
        node.meta = {"label": packet.__name__, **node.meta} if node.op == "call_function" else node.meta
        node.meta.update(value=value, path="", leaf=False)
    return graph


def test_the_table_knows_names_of_aten():
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2),
        nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(4), nn.Flatten(2), nn.LayerNorm(16), nn.Linear(16, 12),
        nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True), nn.LogSoftmax(-1),
    )  # fmt: skip
    writer = capture.ModelWriter(5, "float32")
    results = writer.write(aten_graph(module, torch.randn(5, 3, 16, 16)))
    document = capture.finished(writer, results, module, "aten", "float32")
    result = Captured(document, module)
    assert result.parameters == parameters_of(module) and result.opaque() == set()
    assert {"conv2d", "batch_norm", "pool2d", "group_norm", "adaptive_pool", "layer_norm"} <= set(
        result.kinds()
    )
    assert result.kinds().count("linear") == 5 and result.shapes[results[0]] == (5, 8, 12)


def test_importing_pipesim_needs_no_torch():
    code = "import sys, pipesim; assert 'torch' not in sys.modules; print(pipesim.__version__)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )
    assert ran.stdout == "0.1.0\n", ran.stderr


# The command


def command(*arguments, cwd=None):
    """Runs the command in a process: its status, stdout and stderr."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    ran = subprocess.run(
        [sys.executable, "-m", "pipesim.capture", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_the_command_writes_a_file(tmp_path):
    path = tmp_path / "mlp.json"
    arguments = ["mlp:make_model", "--input", "images=float32[8,28,28]", "--input", "labels=int64[8]"]
    assert command(*arguments, "-o", str(path), "--name", "my mlp", cwd=NETWORKS) == (0, "", "")
    document = json.loads(path.read_text())
    assert document["name"] == "my mlp"
    assert [p.name for p in tmp_path.iterdir()] == ["mlp.json"]
    status, text, _ = command(*arguments, "--name", "my mlp", "--dtype", "bfloat16", cwd=NETWORKS)
    assert status == 0 and json.loads(text) == {**document, "dtype": "bfloat16"}


def one_file(folder):
    """All of the package in a file, as people copy it beside their models."""
    script = folder / "capture.py"
    made = subprocess.run([sys.executable, ROOT / "tools" / "scripts" / "capture-file"], capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    script.write_text(made.stdout)
    return script


def test_the_file_runs_alone(tmp_path):
    path = tmp_path / "lora.json"
    script = one_file(tmp_path)
    ran = subprocess.run([sys.executable, script, str(NETWORKS / "lora.py") + ":make_model", "-o", path])
    assert ran.returncode == 0 and json.loads(path.read_text())["sizes"] == {"b": 8}


def test_the_file_writes_what_the_package_writes(tmp_path):
    script = one_file(tmp_path)
    arguments = ["mlp:make_model", "--input", "images=float32[8,28,28]", "--input", "labels=int64[8]"]
    ran = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, cwd=NETWORKS)
    assert (ran.returncode, ran.stdout, ran.stderr) == command(*arguments, cwd=NETWORKS)


def test_a_model_adds_to_the_table_of_the_file(tmp_path):
    (tmp_path / "mine.py").write_text(ADDS_TO_THE_TABLE)
    script = one_file(tmp_path)
    arguments = ["mine:make_model", "--input", "float32[4,8]"]
    for start in ([script], ["-m", "pipesim.capture"]):
        ran = subprocess.run([sys.executable, *start, *arguments], capture_output=True, text=True, cwd=tmp_path,
                             env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")
        assert [operator["kind"] for operator in json.loads(ran.stdout)["operators"]] == ["square", "reduce"]


ADDS_TO_THE_TABLE = """
import torch
from pipesim.capture import writes


@writes("sinc")
def write_sinc(at, input):
    return at.op("square", [input], at.shape)


class Sinc(torch.nn.Module):
    def forward(self, x):
        return torch.sinc(x).mean()


def make_model():
    return Sinc()
"""


def test_a_python_without_torch(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    for start in (["-I", "-S", one_file(tmp_path)], ["-S", "-m", "pipesim.capture"]):
        ran = subprocess.run([sys.executable, *start, "x:y"], capture_output=True, text=True, env=environment)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert ran.stderr == "capture: torch 1.13 or later is needed: No module named 'torch'\n"


# Bad input: one line, status 1, no file

BAD_MODEL = """
import torch
import torch.nn as nn


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), Branch()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Reads(nn.Module):
    def forward(self, x):
        return x * x.max().item()


class Chooses(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(5, 5)

    def forward(self, x):
        return self.mix(x)


class Lazy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LazyLinear(5))


class Constant(nn.Module):
    def forward(self, x):
        return torch.zeros(3)


def fails():
    raise RuntimeError("no such checkpoint")


def number():
    return 3
"""

BAD = [
    (["model.py"], "found 'model.py', allowed: MODULE:NAME or FILE.py:NAME, such as my_module:make_model"),
    (["other.py:Branch"], "no such file: 'other.py'"),
    (["other_module:make"], "cannot import 'other_module': ModuleNotFoundError: No module named 'other_module'"),
    (["broken.py:make"], "cannot import 'broken.py' (broken.py:2): ZeroDivisionError: division by zero"),
    (["model.py:Branchs"], "'model.py' has no 'Branchs', allowed: Branch, Branches, Chooses, Constant, Lazy, Narrow, Reads, "
                           "fails, number"),
    (["model.py:fails"], "model.py:fails() (model.py:53): RuntimeError: no such checkpoint"),
    (["model.py:number"], "model.py:number: found int, allowed: a torch.nn.Module, (module, inputs), or a function "
                          "without arguments that returns one of them"),
    (["model.py:Narrow"], "model.py:Narrow says no inputs, so --input is needed, such as --input 'int64[8,1024]'"),
    (["model.py:Narrow", "--input", "8,5"], "--input: found '8,5', allowed: dtype[dims] such as int64[8,1024], or "
                                            "NAME=dtype[dims]"),
    (["model.py:Narrow", "--input", "float31[8,5]"], "--input: unknown type 'float31' in 'float31[8,5]', allowed: float32, "
     "float16, bfloat16, float64, int64, int32, int16, int8, uint8, bool"),
    (["model.py:Narrow", "--input", "float32[8,0]"], "--input: found dim 0 in 'float32[8,0]', allowed: 1 or more"),
    (["model.py:Narrow", "--input", "y=float32[8,5]"], "inputs do not fit Narrow.forward(x): missing a required argument: "
                                                       "'x'"),
    (["model.py:Narrow", "--input", "float32[8,5]", "--batch", "7"], "batch 7 is no dim of the inputs [8, 5]"),
    (["model.py:Narrow", "--input", "float32[8,4]"], "mix (model.py:39): RuntimeError: mat1 and mat2 shapes cannot be "
                                                     "multiplied (8x4 and 5x5)"),
    (["model.py:Branches", "--input", "float32[8,4]"], "layers.1 (model.py:7): a branch on values of a tensor, allowed: "
     "branches and loops that depend on shapes and constants only"),
    (["model.py:Reads", "--input", "float32[8,4]"], "the module (model.py:25): a number read from a tensor, allowed: "
     "branches and loops that depend on shapes and constants only"),
    (["model.py:Chooses", "--input", "float32[8,4]"], "the module (model.py:30): a shape that depends on values of a "
     "tensor, allowed: branches and loops that depend on shapes and constants only"),
    (["model.py:Constant", "--input", "float32[8,4]"], "the module returns no tensor that it computes from floating-point "
                                                       "numbers"),
    (["model.py:Lazy", "--input", "float32[8,4]"], "0.weight is lazy, so its shape is not known; allowed: modules with "
                                                   "all their sizes"),
    (["model.py:Narrow", "--input", "float32[8,5]", "--by", "magic"], "argument --by: invalid choice: 'magic' (choose from "
     "'export', 'fx'); see --help"),
]  # fmt: skip


@pytest.fixture(scope="module")
def bad_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    (folder / "model.py").write_text(BAD_MODEL.lstrip("\n"))
    (folder / "broken.py").write_text("ONE = 1\nTWO = ONE / 0\n")
    return folder


@pytest.mark.parametrize("arguments,message", BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input(bad_models, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(bad_models)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    path, errors = tmp_path / "model.json", io.StringIO()
    with contextlib.redirect_stderr(errors):
        assert capture.main([*arguments, "-o", str(path)]) == 1
    assert errors.getvalue() == f"capture: {message}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(bad_models):
    arguments = ["model.py:Narrow", "--input", "float32[8,5]", "-o", "nowhere/model.json"]
    status, out, errors = command(*arguments, cwd=bad_models)
    assert (status, out) == (1, "")
    assert errors == "capture: nowhere/model.json: cannot be written: No such file or directory\n"
