"""The parts of tools/gpu-check and the goals that they measure. A part returns lines for the report, or raises.

What a part finds out goes into check.figures, also when it fails later; goals_table() sets it beside the goals.
"""

import collections
import functools
import json
import math
import os
import re
import shutil
import statistics
import time


class LeftOut(Exception):
    """The machine lacks what a part needs."""


class PartFailed(Exception):
    def __init__(self, reason, lines=()):
        super().__init__(reason)
        self.lines = list(lines)


Part = collections.namedtuple("Part", "name seconds about run")

# Predicted plans: of a network of many small kernels and one of convolutions.
PREDICTED = ("gpt:batch=16,layers=4,hidden=512,heads=8,vocab=8000,sequence=128,positions=128,dropout=0", "alexnet:batch=64")
BLOCKS = "gpt:batch=8,sequence=1024,positions=1024,layers={},hidden=4096,heads=32,vocab=1000,dropout=0,dtype=bfloat16"
ONE_DEVICE = "levels:1@400GB/s"
# The zoo's networks, unsplit and at batches that data parallelism leaves to a device; layers repeat.
CALIBRATED = [model.format(batch) for batch in (32, 8) for model in (
    "gpt:layers=2,dropout=0,dtype=bfloat16,batch={}", "resnet50:batch={}", "bert-base:layers=2,batch={}", "alexnet:batch={}",
    "llama:layers=1,sequence=512,batch={}", "vgg16:batch={}", "rnnlm:batch={}", "inception-v3:batch={}",
    "nmt:batch={}", "t5-base:layers=2,batch={}", "rnntc:batch={}")]


def read_json(outcome):
    """What a program printed with --json, also when it failed after that."""
    try:
        return json.loads(outcome.out)
    except ValueError:
        raise PartFailed(f"{' '.join(outcome.command[:2])} {outcome.ending()} without its figures",
                         outcome.last_lines()) from None


def require(outcome):
    if not outcome.ok:
        raise PartFailed(f"{' '.join(outcome.command)} {outcome.ending()}", outcome.last_lines())
    return outcome


def read_inventory(check):
    """Why there is no GPU, or "", with what the machine has in check.inventory. Raises when pipesim can't tell."""
    check.inventory = read_json(check.run([check.program, "devices", "--json"]))
    return check.inventory.get("no_gpus") or ("" if check.inventory.get("gpus") else "none is listed")


# --- Topologies of one GPU and of its parts, whose kinds are in the names of calibrations.

def gpu_kind(check):
    """(name, figures) of this machine's first GPU as topology files spell kinds; None when pipesim knows no such GPU."""
    path = os.path.join(check.scratch, "here.json")
    if not os.path.exists(path) and not check.run([check.program, "import", "topology", "-o", path]).ok:
        return None
    # Imported files name built-in kinds; their figures stand in the expanded form.
    expanded = read_json(check.run([check.program, "topologies", path, "--expanded"]))
    return next(iter(expanded["device_kinds"].items()), None)


def gpu_topology(check):
    kind = gpu_kind(check)
    if kind is None:
        return ONE_DEVICE
    topology = {"pipesim_topology": 1, "name": kind[0], "device_kinds": dict([kind]),
                "levels": [{"size": 1, "bandwidth": "400 GB/s"}], "device": kind[0]}
    path = os.path.join(check.scratch, "gpu.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(topology, file)
    return path


def parts_topology(check, parts):
    path = os.path.join(check.scratch, f"parts-{parts}.json")
    outcome = check.run([check.program, "import", "topology", "--virtual-devices", str(parts), "-o", path])
    return path if outcome.ok else f"levels:{parts}@400GB/s"


# --- Tests of kernels, collectives and whole plans.

QUIET = 60  # seconds in which a test ends, and prints that; the longest took 23 s where eight processes shared a GPU
LARGE = "-*resnet50:*vgg16:*alexnet:*inception_v3"


def listed_tests(check):
    names, suite = [], ""
    listing = require(check.run([check.build + "/gpu_test", "--gtest_list_tests", "--gtest_filter=" + LARGE]))
    for line in listing.out.splitlines():
        word = line.split("#")[0].rstrip()
        if word.endswith(".") and not word.startswith(" "):
            suite = word
        elif word.startswith("  ") and suite:
            names.append(suite + word.strip())
    if not names:
        raise PartFailed("gpu_test lists no tests", listing.last_lines())
    return names


class TestRuns:
    """Runs tests of gpu_test on the GPU, in processes that go on after one that crashed or hung."""

    def __init__(self, check):
        self.check = check
        self.passed, self.skipped, self.unfinished, self.failed, self.numbers = [], [], [], {}, {}

    def run(self, names, reserve):
        waiting = list(names)
        while waiting and self.check.left() > reserve + 1:
            outcome = self.check.run([self.check.build + "/gpu_test", "--gtest_color=no"], reserve=reserve, quiet=QUIET,
                                     extra={"PIPESIM_TEST_MACHINE": "cuda", "GTEST_FILTER": ":".join(waiting)})
            seen, running = self.read(outcome)
            out_of_time = outcome.status is None and not outcome.hung
            if running and out_of_time:
                self.unfinished.append(running)
            elif running:
                self.failed[running] = f"prints nothing for {QUIET} s" if outcome.hung else "crashes: " + outcome.ending()
            elif not seen and not out_of_time:  # it does not even start
                self.failed.update({name: " ".join(outcome.last_lines(2)) for name in waiting})
            rest = [name for name in waiting if name not in seen]
            if len(rest) == len(waiting) or (outcome.status in (0, 1) and not running):
                return
            waiting = rest

    def read(self, outcome):
        """Tests that were begun, and the one that was not ended."""
        seen, running, said = set(), None, []
        for line in outcome.out.splitlines():
            if line.startswith("[ RUN      ] "):
                running, said = line[13:].strip(), []
                seen.add(running)
            elif running and (end := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?( |$)", line)) and end[2] == running:
                if end[1] == "FAILED":
                    self.failed[running] = " ".join(" ".join(said).split())[:300]
                else:
                    (self.passed if end[1] == "OK" else self.skipped).append(running)
                running = None
            elif running:
                said.append(line)
                if number := re.match(r"largest error of (\S+): (\S+)(.*)", line):
                    self.numbers[number[1]] = (float(number[2]), number[3].strip())
        return seen, running


def tests(check):
    names = listed_tests(check)
    runs = TestRuns(check)
    at_once = min(check.at_once(8), len(names))
    check.run_all([functools.partial(runs.run, names[i::at_once], 15) for i in range(at_once)], at_once)
    # An error that a kernel leaves behind fails all later tests of its process.
    failed, alone = list(runs.failed), TestRuns(check)
    check.run_all([functools.partial(alone.run, [name], 0) for name in failed], at_once)
    known = {*runs.passed, *runs.skipped, *runs.failed}
    lines = [f"{len(names)} tests in {at_once} processes: {len(runs.passed)} passed, {len(failed)} failed, "
             f"{len(runs.skipped)} skipped, {len(names) - len(known)} not run"]
    for name, (error, where) in sorted(runs.numbers.items()):
        check.figures["error " + name] = error
        lines.append(f"largest error of operators in {name}: {error:.2g} {where}")
    whole = [name for name in names if "/Equal" in name]
    skipped = sum(name in runs.skipped or name in alone.skipped for name in whole)
    check.figures["whole models"] = (sum(name in runs.passed or name in alone.passed for name in whole), len(whole) - skipped,
                                     skipped)
    for name in failed:
        how = "passes alone" if name in alone.passed else "fails alone, too" if name in alone.failed else "not run alone"
        lines.append(f"FAILED {name} ({how}): {alone.failed.get(name, runs.failed[name])}")
    lines += [f"skipped {name}" for name in runs.skipped]
    lines += [f"not ended {name}" for name in runs.unfinished]
    lines += [f"not run {name}" for name in names if name not in known and name not in runs.unfinished]
    if len(runs.passed) + len(runs.skipped) != len(names):
        raise PartFailed(f"{len(failed)} of {len(names)} tests, {len(names) - len(known)} not run", lines)
    return lines


# compute-sanitizer slows kernels down a hundred times: tests without hundreds of splits, one or two of each family, and plans.
SANITIZED = ("ElementwiseKernel.*", "CrossEntropyKernel.SkipsRowsWithoutALabel", "LstmKernel.*", "RowNormKernels.*",
             "PoolKernel.SendsTheGradientToTheFirstOfEquals", "SoftmaxKernel.DoesNotOverflow", "EmbeddingKernel.*",
             "Devices/MachineCollectivesConformance.Holds/EveryTypeAndSize2", "Zoo/EqualRecompute.*/mlp")


def sanitized(tool, check):
    if not shutil.which("compute-sanitizer"):
        raise LeftOut("compute-sanitizer is not installed")

    def run(wanted):
        return check.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", check.build + "/gpu_test",
                          "--gtest_color=no", "--gtest_filter=" + wanted], extra={"PIPESIM_TEST_MACHINE": "cuda"})

    outcomes = check.run_all([functools.partial(run, wanted) for wanted in SANITIZED], check.at_once(8))
    lines, bad, done, errors, unchecked = [], 0, 0, 0, 0
    for wanted, outcome in zip(SANITIZED, outcomes):
        text = outcome.out + outcome.err
        passed = len(re.findall(r"^\[ +OK +\]", text, re.MULTILINE))
        summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
        found = sum(map(int, summary)) if summary else len(re.findall(r"^=+ (?:Invalid|Error|Race|ERROR)", text, re.MULTILINE))
        done, errors = done + passed, errors + found
        unchecked += passed == 0
        ending = "clean" if outcome.ok and passed and not found else outcome.ending()
        lines.append(f"{wanted}: {passed} tests, {found} errors, {ending}")
        # One that was cut off is not wrong, but leaves the goal unreached when it ended no test.
        if found or (outcome.status is not None and not (outcome.ok and passed)):
            bad += 1
            lines += ["  " + line for line in outcome.last_lines()]
    check.figures[tool] = (errors, done, unchecked)
    if bad or done == 0:
        raise PartFailed(f"{errors} errors, {bad} of {len(SANITIZED)} runs went wrong, {done} tests ended", lines)
    return lines


# --- Baselines on 1 to 8 parts of the GPU, each against the unsplit model on the CPU.

def plans(check):
    cases = [(model, f"levels:{devices}@400GB/s", []) for model in (
        "mlp:batch=32,layers=3,hidden=64", "lenet:batch=16",
        "rnnlm:batch=16,steps=3,layers=1,hidden=64,embedded=64,vocab=200",
        "gpt:batch=8,layers=2,hidden=64,heads=4,vocab=200,sequence=16,positions=16") for devices in (1, 2, 4, 8)]
    cases += [("lenet:batch=16", "levels:4@1GB/s", ["--emulate-links"])]

    def run(model, topology, options):
        return check.run([check.program, "execute", "--model", model, "--topology", topology, "--baseline", "data-parallel",
                          "--backend", "cuda", "--virtual-devices", *options, "--check", "--steps", "3", "--warmup", "1",
                          "--json"])

    outcomes = check.run_all([functools.partial(run, *case) for case in cases], check.at_once(4))
    lines, equal = [], 0
    for (model, topology, options), outcome in zip(cases, outcomes):
        title = " ".join([f"{model.split(':')[0]} on {topology}", *options]) + ": "
        try:
            worst = max(read_json(outcome)["check"], key=lambda step: step["error"] / max(step["rounding"], 1e-30))
            title += f"{worst['worst']} differs by {worst['error']:.2g}, rounding alone {worst['rounding']:.2g}: "
        except (PartFailed, KeyError):
            pass
        equal += outcome.ok
        lines.append(title + ("equal" if outcome.ok else "FAILED: " + " ".join([outcome.ending(), *outcome.last_lines(1)])))
    check.figures["plans"] = (equal, len(cases))
    if equal != len(cases):
        raise PartFailed(f"{len(cases) - equal} of {len(cases)} plans", lines)
    return lines


# --- Calibrates with the other parts busy, then predicts plans that are new to it. Their steps are held, as those that
# calibrate measures: predictions have no host that enqueues. Most of the time goes into preparing runs, so that few plans and steps make it fit.

def predictions(check):
    errors, wrong, clear, lines = [], 0, 0, []
    try:
        for devices in (2, 4):
            topology = parts_topology(check, devices)
            for model in PREDICTED:
                where = ["--model", model, "--topology", topology, "--backend", "cuda", "--virtual-devices"]
                store = os.path.join(check.scratch, f"predictions-{devices}.db")
                calibrated = require(check.run([check.program, "calibrate", *where, "--random", "8", "--warmup", "2",
                                                "--steps", "10", "-o", store]))
                compared = read_json(require(check.run([check.program, "compare", "--execute", *where, "--held",
                                                        "--calibration", store, "--random", "8", "--seed", "1000",
                                                        "--steps", "6", "--json"])))
                rows = compared["plans"]
                lines.append(f"{model.split(':')[0]} on {devices} parts: {len(rows)} plans, {compared['wrong_clear_pairs']} of "
                             f"{compared['clear_pairs']} clear pairs in the wrong order, Spearman {compared['spearman']}")
                lines += ["  calibration: " + line.strip() for line in calibrated.out.splitlines() if "host" in line]
                lines += [f"  {row['name']}: predicted {row['predicted_s']:.3e} s, measured {row['measured_s']['median']:.3e} s, "
                          f"{100 * row['error']:+.1f} % {row.get('not_quiet', '')}".rstrip() for row in rows]
                errors += [100 * abs(row["error"]) for row in rows]
                wrong, clear = wrong + compared["wrong_clear_pairs"], clear + compared["clear_pairs"]
                errors.sort()
                check.figures.update({"plans predicted": len(errors), "median error": statistics.median_low(errors),
                                      "95 % error": errors[math.ceil(0.95 * len(errors)) - 1], "wrong order": (wrong, clear)})
    except PartFailed as failure:
        raise PartFailed(f"{failure}; {len(errors)} plans were predicted", lines + failure.lines) from None
    return lines


# --- Speed beside PyTorch's.

def block_seconds(check):
    """Of what a second layer adds to a training step."""
    seconds = []
    for layers in (1, 2):
        out = read_json(require(check.run([
            check.program, "execute", "--topology", ONE_DEVICE, "--baseline", "single-device", "--backend", "cuda", "--recorded",
            "--steps", "20", "--warmup", "5", "--json", "--model", BLOCKS.format(layers)])))
        seconds.append(out["measured_s"]["median"])
    return seconds[1] - seconds[0]


def speed(check):
    lines, troubles, ours = [], [], {}
    bench = check.run([check.build + "/gpu_bench", "--benchmark_format=json", "--benchmark_min_time=0.2",
                       "--benchmark_repetitions=3"])
    try:
        runs = collections.defaultdict(list)
        for row in read_json(require(bench))["benchmarks"]:
            if row.get("error_occurred"):
                raise PartFailed("gpu_bench: " + row["error_message"])
            if row["run_type"] == "iteration":
                runs[row["label"]].append(row["TFLOP/s"])
        ours = {name: statistics.median(rates) for name, rates in runs.items()}
    except PartFailed as failure:
        troubles.append(failure)
    try:
        block = block_seconds(check)
    except PartFailed as failure:
        block = None
        troubles.append(failure)
    reference = check.run_python([check.reference, "--json"])
    try:
        torch = json.loads(reference.out)
    except ValueError:
        torch = {"products": {}, "block_s": None}
        lines.append("no figures of PyTorch: " + " ".join(reference.last_lines(1)))
    ratios = [rate / torch["products"][name] for name, rate in ours.items() if name in torch["products"]]
    for name, rate in ours.items():
        beside = f", PyTorch {torch['products'][name]:.0f}" if name in torch["products"] else ""
        lines.append(f"bfloat16 product {name}: {rate:.0f} TFLOP/s{beside}")
    if ratios:
        check.figures["products"] = 100 * min(ratios)
    if block is not None:
        beside = f", PyTorch {torch['block_s']:.3e} s" if torch["block_s"] else ""
        lines.append(f"training step of a block: {block:.3e} s{beside}")
        if torch["block_s"] and torch["block_s"] > 0 < block:
            check.figures["block"] = block / torch["block_s"]
    if troubles:
        raise PartFailed("; ".join(map(str, troubles)), lines + [line for failure in troubles for line in failure.lines])
    return lines


def collection(check):
    """What CUPTI costs, in a step of large kernels and in one of many small ones."""
    lines, percents = [], []
    for model, where in ((BLOCKS.format(2), ["--topology", ONE_DEVICE]),
                         (PREDICTED[0], ["--topology", "levels:4@400GB/s", "--virtual-devices"])):
        baseline = "data-parallel" if "--virtual-devices" in where else "single-device"
        out = read_json(require(check.run([check.program, "execute", "--model", model, *where, "--baseline", baseline,
                                           "--backend", "cuda", "--steps", "10", "--json"])))
        cost = out.get("collection_cost", "")
        lines.append(f"{model.split(',hidden')[0]}: times by {out.get('times_by', '?')}; {cost or 'no cost told'}")
        if number := re.search(r"costs (-?[0-9.]+) %", cost):
            percents.append(float(number[1]))
    if percents:
        check.figures["collection"] = max(percents)
    return lines


# --- A store that others can use: operators of the zoo on one whole GPU.

def calibration(check):
    """Made under another name; it replaces that of an earlier check when nothing failed."""
    kind = gpu_kind(check)
    if kind is None:
        raise LeftOut("pipesim does not know the figures of this kind of GPU, and calibrations name the kind")
    topology, store = gpu_topology(check), check.beside + ".db"
    unfinished = store + ".part"
    if os.path.exists(unfinished):
        os.remove(unfinished)
    lines, longest, made, failed = [f"{store}: {kind[0]}"], 3.0, 0, []
    for model in CALIBRATED:
        if check.left() < 1.3 * longest:
            lines.append(f"no time for {model} and what follows")
            break
        began = time.monotonic()
        outcome = check.run([check.program, "calibrate", "--model", model, "--topology", topology, "--backend", "cuda",
                             "--no-baselines", "--random", "1", "--steps", "12", "-o", unfinished])
        longest = max(longest, time.monotonic() - began)
        if outcome.ok:
            made += 1
        else:
            failed.append(model)
        lines.append(f"  {model}: " + (outcome.out.splitlines() or [outcome.ending()])[0] if outcome.ok else
                     f"  {model}: FAILED: {outcome.ending()}: {' '.join(outcome.last_lines(1))}")
    if failed and os.path.exists(store):
        lines.append(f"{store} is still that of an earlier check; this one's is {unfinished}")
    elif made:
        os.replace(unfinished, store)
    if failed or not made:
        raise PartFailed(f"{len(failed)} of {len(failed) + made} models" if failed else "no time for a model", lines)
    return lines


PARTS = [
    Part("tests", 105, "kernels, machine, collectives and whole plans by gpu_test, on the GPU", tests),
    Part("memcheck", 30, "compute-sanitizer's memcheck over tests of kernels", functools.partial(sanitized, "memcheck")),
    Part("racecheck", 65, "compute-sanitizer's racecheck over the same", functools.partial(sanitized, "racecheck")),
    Part("plans", 30, "plans on 1 to 8 parts of the GPU against the unsplit model", plans),
    Part("speed", 42, "bfloat16 products and a block's training step beside PyTorch's", speed),
    Part("collection", 14, "what CUPTI costs", collection),
    Part("predictions", 138, "a calibration, and how well it predicts other plans", predictions),
    Part("calibration", 36, "a calibration of the zoo's operators, kept beside the report (.db)", calibration),
]

Goal = collections.namedtuple("Goal", "figure goal key shown reached")


def at_most(figure, key, limit, unit, shown="{:.2g}"):
    return Goal(figure, f"at most {limit:g} {unit}".strip(), key, lambda x: f"{shown.format(x)} {unit}".strip(),
                lambda x: x <= limit)


def all_of(figure, key):
    return Goal(figure, "all", key, lambda x: f"{x[0]} of {x[1]}", lambda x: x[0] == x[1] > 0)


def clean(tool):
    def shown(x):
        return f"{x[0]} errors in {x[1]} tests" + (f", {x[2]} of {len(SANITIZED)} filters ended none" if x[2] else "")

    return Goal(tool, "no errors", tool, shown, lambda x: x[0] == 0 < x[1] and x[2] == 0)


GOALS = [
    at_most("operators against the CPU's, float32", "error float32", 1e-4, ""),
    at_most("operators against the CPU's, bfloat16", "error bfloat16", 2e-2, ""),
    Goal("whole models under random plans equal the unsplit one", "all", "whole models",
         lambda x: f"{x[0]} of {x[1]}" + (f", {x[2]} skipped" if x[2] else ""), lambda x: x[0] == x[1] > 0),
    all_of("baselines on parts of the GPU equal the unsplit model", "plans"),
    clean("memcheck"),
    clean("racecheck"),
    Goal("bfloat16 products of a GPT, share of PyTorch's speed", "at least 90 %", "products", "{:.0f} %".format,
         lambda x: x >= 90),
    at_most("training step of a block, times PyTorch's", "block", 1.15, "", "{:.2f}"),
    Goal("what CUPTI costs", "below 3 %", "collection", "{:.1f} %".format, lambda x: x < 3),
    Goal("plans predicted", "at least 40", "plans predicted", str, lambda x: x >= 40),
    at_most("median error of predictions", "median error", 5, "%", "{:.1f}"),
    at_most("95 % of predictions are off by", "95 % error", 10, "%", "{:.1f}"),
    Goal("clear pairs of plans in the wrong order", "none", "wrong order", lambda x: f"{x[0]} of {x[1]}",
         lambda x: x[0] == 0 < x[1]),
]


def goals_table(figures):
    rows = [("figure", "goal", "measured", "")]
    for goal in GOALS:
        value = figures.get(goal.key)
        rows.append((goal.figure, goal.goal, "not measured", "") if value is None else
                    (goal.figure, goal.goal, goal.shown(value), "reached" if goal.reached(value) else "MISSED"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def missed_goals(figures):
    return [goal.figure for goal in GOALS if goal.key in figures and not goal.reached(figures[goal.key])]
