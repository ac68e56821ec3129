"""Captured modules, and ONNX files of them, beside the zoo's models of the same networks: parameters, work, and
simulated time.

Needs the program `pipesim`, which PIPESIM names; build/ci/pipesim if that is not set.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "python"
sys.path[:0] = [str(TESTS / "networks")]
sys.path.append(str(ROOT / "python"))  # behind the package that the build made

from pipesim import capture  # noqa: E402

PIPESIM = pathlib.Path(os.environ.get("PIPESIM") or ROOT / "build" / "ci" / "pipesim")

# The network's file (and what makes it), what goes in, and the zoo's model.
NETWORKS = [
    ("resnet", ["float32[64,3,224,224]", "int64[64]"], "resnet50:batch=64"),
    ("bert", ["int64[16,512]"] * 3, "bert-base:batch=16"),
    ("gpt2", ["int64[16,1024]"] * 2, "gpt2:batch=16"),
    ("vision", ["float32[64,3,224,224]", "int64[64]"], "vit-b16:batch=64"),
    (
        "stable_diffusion",
        ["float32[16,4,64,64]", "float32[16,320]", "float32[16,77,768]", "float32[16,4,64,64]"],
        "unet-sd15:batch=16,dtype=float32",
    ),
    (
        "dlrm:make_mlperf",
        ["float32[2048,13]", "float32[2048]"] + ["int64[2048,1]"] * 26,
        "dlrm:batch=2048,rows=100000",
    ),
]


def run(*arguments):
    """What the program prints; it ends with 1 where a plan does not fit."""
    ran = subprocess.run([PIPESIM, *arguments], capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    return ran.stdout


def listed(model):
    """Parameters and forward FLOPs as printed, with three digits, and the whole text."""
    text = run("models", model)
    parameters = re.search(r"^  parameters +(.+)$", text, re.MULTILINE).group(1)
    number, unit = re.search(r"^  forward +([\d.]+) ([kMGTP]?)FLOP", text, re.MULTILINE).groups()
    return parameters, float(number) * 1000 ** " kMGTP".index(unit or " "), text


def iteration(model):
    options = ["--topology", "dgx-h100", "--baseline", "data-parallel", "--json"]
    return json.loads(run("simulate", "--model", model, *options))["iteration_time_s"]


@pytest.mark.skipif(not PIPESIM.exists(), reason=f"there is no {PIPESIM}; PIPESIM names another")
@pytest.mark.parametrize("name, inputs, zoo", NETWORKS, ids=[n[0] for n in NETWORKS])
def test_equals_the_zoo(name, inputs, zoo, tmp_path):
    pytest.importorskip("torchvision")
    file, _, maker = name.partition(":")
    weightless = capture.Weightless()
    with weightless:
        module = getattr(__import__(file), maker or "make_model")()
    document = capture.capture(module, capture.command_inputs(inputs), weightless=weightless)
    path = str(tmp_path / f"{file}.json")
    capture.write(document, path)

    expect_equal(path, zoo)


def expect_equal(ours, zoo):
    mine, theirs = listed(ours), listed(zoo)
    texts = mine[2] + theirs[2]
    assert mine[0] == theirs[0], texts
    assert mine[1] == pytest.approx(theirs[1], rel=0.01), texts
    assert iteration(ours) == pytest.approx(iteration(zoo), rel=0.01), texts


# Small images and short sequences, whose lengths have names: torch runs what it exports.
ONNX_FILES = [
    ("resnet", ["float32[2,3,224,224]", "int64[2]"], "batch=64", "resnet50:batch=64"),
    ("bert", ["int64[2,sequence=16]"] * 3, "batch=16,sequence=512", "bert-base:batch=16"),
    ("gpt2", ["int64[2,sequence=16]"] * 2, "batch=16,sequence=1024", "gpt2:batch=16"),
    ("vision", ["float32[2,3,224,224]", "int64[2]"], "batch=64", "vit-b16:batch=64"),
    (
        "stable_diffusion",
        ["float32[2,4,height=8,width=8]", "float32[2,320]", "float32[2,77,768]", "float32[2,4,height=8,width=8]"],
        "batch=16,height=64,width=64",
        "unet-sd15:batch=16,dtype=float32",
    ),
    (
        "dlrm:make_exported",
        ["float32[8,13]", "float32[8]"] + ["int64[8,1]"] * 26,
        "batch=2048",
        "dlrm:batch=2048,rows=100000",
    ),
]


def tensor_of(text):
    """A tensor of zeros, and the names of its dims: "int64[2,sequence=16]"."""
    dtype, dims = text.rstrip("]").split("[")
    parts = [part.rpartition("=") for part in dims.split(",")]
    names = {i: name for i, (name, _, _) in enumerate(parts) if name}
    return torch.zeros([int(n) for _, _, n in parts], dtype=getattr(torch, dtype)), names


@pytest.mark.skipif(not PIPESIM.exists(), reason=f"there is no {PIPESIM}; PIPESIM names another")
@pytest.mark.parametrize("name, inputs, sizes, zoo", ONNX_FILES, ids=[n[0] for n in ONNX_FILES])
def test_onnx_file_equals_the_zoo(name, inputs, sizes, zoo, tmp_path):
    pytest.importorskip("torchvision")
    pytest.importorskip("onnx", reason="there is no package onnx (Debian: python3-onnx)")
    import onnx_files

    file, _, maker = name.partition(":")
    module = getattr(__import__(file), maker or "make_model")()
    made = [tensor_of(text) for text in inputs]
    names = [f"input{i}" for i in range(len(made))]
    path = str(tmp_path / f"{file}.onnx")
    axes = {n: dims for n, (_, dims) in zip(names, made)}
    onnx_files.export(module, [tensor for tensor, _ in made], path, names, axes)
    expect_equal(f"{path}:{sizes}", zoo)
