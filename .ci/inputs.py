#!/usr/bin/env python3
"""Tells which inputs of a step of .ci/run changed since it last passed with them.

  inputs.py changed STEP NAME…   prints the names, one in a line, whose inputs are others than those in .ci/passed
  inputs.py passed STEP NAME…    writes into .ci/passed that the step passed for these names, with the inputs as they are

STEP and NAME: `lint` and a source of a unity build, below the repository; `fuzz` and a reader, a folder of tests/fuzz/inputs;
`page` and `cuda` with `all`. Inputs are all files that these include, with the sources beside the headers where they are linked.
"""

import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSED = ROOT / ".ci" / "passed"
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

# What declares each reader.
READERS = {
    "calibrations": ["costmodel/calibration_store.h", "costmodel/database.h"],
    "checkpoints": ["search/joint/joint_json.h", "search/mcmc/search_state_json.h"],
    "constants": ["costmodel/constants/cluster_constants.h"],
    "instances": ["search/intra/files/read_instance.h", "search/intra/solve.h"],
    "models": ["models/model_json.h"],
    "nccl": ["topologies/files/nccl_topology.h", "topologies/files/topology_json.h", "topologies/files/topology_matrix.h"],
    "onnx": ["models/onnx/onnx_model.h", "models/model_json.h"],
    "plans": ["taskgraph/plan/plan_json.h"],
    "profiles": ["models/import_profile.h", "models/model_json.h"],
    "python": ["tools/interop/python/python_settings.h"],
    "scripts": ["tools/interop/shell/shell_script.h"],
    "toml": ["tools/interop/settings/toml_settings.h"],
    "topologies": ["topologies/files/topology_json.h"],
    "yaml": ["tools/interop/settings/yaml_settings.h"],
}


@functools.cache
def includes(path):
    """The files of the repository that a file includes. Includes are written from the root, or are whole paths."""
    found = [ROOT / name.decode() for name in INCLUDE.findall(path.read_bytes())]
    return [file for file in found if file.is_file()]


@functools.cache
def beside(header):
    """The sources below a header's folder, any of which may define what it declares."""
    return sorted(header.parent.rglob("*.cc")) if header.suffix == ".h" else []


def closure(files, linked):
    files = [pathlib.Path(file) for file in files]
    met, open_files = set(files), list(files)
    while open_files:
        file = open_files.pop()
        for other in [*includes(file), *(beside(file) if linked else [])]:
            if other not in met:
                met.add(other)
                open_files.append(other)
    return met


def below(*places):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\n")
    return {ROOT / name for name in listed if name and (ROOT / name).is_file()}


@functools.cache
def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


def inputs(step, name):
    """The files, and words that count like files."""
    if step == "lint":
        return closure([ROOT / name], False) | {ROOT / ".clang-tidy"}, version("clang-tidy")
    if step == "fuzz":
        if name not in READERS:
            sys.exit(f"inputs.py: no headers are known of the reader \"{name}\"; give them in READERS")
        own = [ROOT / file for file in READERS[name]]
        missing = [str(file) for file in own if not file.is_file()]
        if missing:
            sys.exit(f"inputs.py: {missing[0]}, which READERS names, is not there")
        harness = below("tests/fuzz/parsers.cc", "tests/fuzz/target.cc", f"tests/fuzz/inputs/{name}", f"tests/fuzz/{name}.dict")
        return closure(own, True) | harness, ""
    if step == "page":
        return below("web/report", "tools/analysis", "tools/render", "tools/report-page"), ""
    if step == "cuda":
        own = below("executor/cuda") | {ROOT / "executor/gpu/machine/library_steps.cc"}
        return closure(own, False) | {ROOT / "CMakeLists.txt", ROOT / "CMakePresets.json"}, ""
    sys.exit(f"inputs.py: found step \"{step}\", allowed: lint, fuzz, page, cuda")


def key(step, name):
    """lint build/ci/CMakeFiles/pipesim_sim.dir/Unity/unity_0_cxx.cxx is "lint pipesim_sim 0"."""
    unit = re.fullmatch(r".*/CMakeFiles/([\w-]+)\.dir/Unity/unity_(\d+)_cxx\.cxx", name)
    return f"{step} {unit[1]} {unit[2]}" if unit else f"{step} {name}"


def digest(step, name):
    files, words = inputs(step, name)
    total = hashlib.sha256(words.encode())
    for file in sorted(files):
        # A unity source has the names of its sources as whole paths.
        where = os.path.relpath(file, ROOT)
        content = b"" if where.startswith("build/") else file.read_bytes()
        total.update(f"{'' if where.startswith('build/') else where}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def passed():
    if not PASSED.exists():
        return {}
    lines = [line for line in PASSED.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("changed", "passed"):
        sys.exit(__doc__)
    command, step, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    known = passed()
    if command == "changed":
        for name in names:
            if known.get(key(step, name)) != digest(step, name):
                print(name)
        return
    known.update({key(step, name): digest(step, name) for name in names})
    lines = ["# Written by .ci/run: the inputs with which a step passed, as .ci/inputs.py sums them up.",
             *(f"{one} {known[one]}" for one in sorted(known))]
    written = PASSED.with_suffix(".new")
    written.write_text("\n".join(lines) + "\n")
    written.replace(PASSED)


if __name__ == "__main__":
    main()
