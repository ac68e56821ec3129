"""Captured modules beside the zoo's models of the same networks: parameters, work, and simulated time.

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
sys.path[:0] = [str(ROOT / "python"), str(TESTS / "networks")]

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

    ours, theirs = listed(path), listed(zoo)
    texts = ours[2] + theirs[2]
    assert ours[0] == theirs[0], texts
    assert ours[1] == pytest.approx(theirs[1], rel=0.01), texts
    assert iteration(path) == pytest.approx(iteration(zoo), rel=0.01), texts
