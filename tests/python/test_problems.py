"""pipesim.Problem: plans that Python makes, changes and evaluates, beside what commands say of them."""

import copy
import decimal
import json
import math
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import types

import pytest

import compiled  # noqa: F401
import pipesim

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIPESIM = pathlib.Path(os.environ.get("PIPESIM") or ROOT / "build" / "ci" / "pipesim")


@pytest.fixture(scope="module")
def gpt():
    return pipesim.Problem("gpt:layers=4", "dgx-a100:1")


@pytest.fixture(scope="module")
def alexnet():
    return pipesim.Problem("alexnet", "p100-4x4:1")


def assert_is_simulated(problem, plan, folder, **options):
    """The plan's file takes the same time and memory by the command line."""
    file = folder / "of_problem.plan.json"
    plan.save(file)
    words = [f"--{name}={value}" for name, value in options.items()]
    ran = subprocess.run([PIPESIM, "simulate", f"--plan={file}", *words, "--json"], capture_output=True, text=True)
    told = json.loads(ran.stdout)
    found = problem.evaluate(plan)
    assert found.iteration_time_s == told["iteration_time_s"]
    assert found.peak_memory_bytes == told["peak_memory_bytes"]
    assert found.fits == told["fits"] and found.infeasible == told.get("infeasible")
    assert plan.recipe == told["recipe"]
    return found


# Evaluations are those of the command


@pytest.mark.parametrize("model, topology", [("gpt:layers=4", "dgx-a100:1"), ("alexnet", "p100-4x4:1"), ("lenet", "cpu:2")])
def test_baselines_are_simulated_as_by_the_command(model, topology, tmp_path):
    problem = pipesim.Problem(model, topology)
    baselines = problem.baselines()
    assert [b.name for b in baselines] == ["single-device", "data-parallel", "model-parallel", "expert"]
    for name, plan, evaluation in baselines:
        assert evaluation == assert_is_simulated(problem, plan, tmp_path)
        words = [f"--model={model}", f"--topology={topology}", f"--baseline={name}", f"--output={tmp_path / 'command.json'}"]
        subprocess.run([PIPESIM, "simulate", *words], check=True, capture_output=True)
        assert plan.to_json() == (tmp_path / "command.json").read_text()


@pytest.mark.parametrize(
    "recipe", ["dp2,tp4,mbs1", "dp4,tp2,sp,zero1", "pp2,dp4,mbs2", "tp4,dp2,recompute=full", "tp2,dp4,mbs4,zero3"]
)
@pytest.mark.parametrize("runtime", ["pipesim", "megatron"])
def test_recipes_are_simulated_as_by_the_command(recipe, runtime, tmp_path):
    problem = pipesim.Problem("gpt:layers=4", "dgx-a100:1", optimizer="adam", runtime=runtime)
    plan = problem.recipe(recipe)
    assert_is_simulated(problem, plan, tmp_path)
    words = ["--model=gpt:layers=4", "--topology=dgx-a100:1", f"--recipe={recipe}", f"--runtime={runtime}"]
    file = tmp_path / "command.json"
    subprocess.run([PIPESIM, "simulate", *words, f"--output={file}"], check=True, capture_output=True)
    assert plan.to_json() == file.read_text()


@pytest.mark.parametrize("algorithm", ["mcmc", "gpipe", "recipes", "expert"])
def test_plans_of_algorithms_are_simulated_as_by_the_command(gpt, algorithm, tmp_path):
    budget = {"proposals": 300, "seed": 2} if algorithm == "mcmc" else {"seconds": 60}
    answer = gpt.plan(algorithm, **budget)
    found = assert_is_simulated(gpt, answer.plan, tmp_path)
    assert answer.evaluation == found and found.fits and not answer.interrupted
    assert answer.lower_bound_s <= found.iteration_time_s
    assert (answer.found_by == algorithm) or algorithm == "mcmc"
    assert answer.proven is (True if algorithm == "recipes" else False if algorithm in ("mcmc", "expert") else None)
    assert answer.seconds > 0 and answer.found_by in answer._repr_html_()


def test_a_search_is_that_of_the_command(alexnet, tmp_path):
    file = tmp_path / "command.json"
    words = ["--model=alexnet", "--topology=p100-4x4:1", "--algorithm=mcmc", "--proposals=500", "--seed=3"]
    subprocess.run([PIPESIM, "search", *words, f"--output={file}"], check=True, capture_output=True)
    answer = alexnet.plan("mcmc", proposals=500, seed=3)
    assert answer.plan.to_json() == file.read_text()
    assert alexnet.evaluate(pipesim.Plan(file)) == answer.evaluation == alexnet.evaluate(alexnet.open(file))


def test_options_of_a_problem(tmp_path):
    options = {
        "microbatches": 2,
        "optimizer": "adam,moments=bfloat16,main=none",
        "gradient_type": "bfloat16",
        "gradient_piece": 5e6,
        "recompute": "full",
        "state_sharding": "zero1",
        "gathered_inputs": "again",
        "runtime": "megatron",
        "memory_margin": "10%",
    }
    problem = pipesim.Problem(pipesim.Model("gpt", layers=4), pipesim.Topology("dgx-a100:1"), **options)
    plan = problem.baseline("data-parallel")
    found = plan.options
    assert (found.gradient_piece, found.schedule, found.stages) == (5000000, None, ())
    same = [name for name in options if name not in ("gradient_piece", "memory_margin")]
    assert {name: getattr(found, name) for name in same} == {name: options[name] for name in same}
    assert_is_simulated(problem, plan, tmp_path, **{"memory-margin": "10%"})
    pipeline = pipesim.Problem("gpt:layers=4", "dgx-a100:1", microbatches=2).recipe("pp2,dp4,mbs2").options
    assert pipeline.schedule == "1f1b" and [len(stage) > 20 for stage in pipeline.stages] == [True, True]


def test_a_calibration_holds_for_all_plans(tmp_path):
    constants = tmp_path / "constants.json"
    pipesim.calibrate(runs=ROOT / "docs" / "examples" / "pytorch_h100.csv", output=constants)
    problem = pipesim.Problem("gpt2:batch=8", "dgx-h100:1", calibration=constants)
    published = pipesim.Problem("gpt2:batch=8", "dgx-h100:1")
    plan = problem.recipe("dp8")
    found = assert_is_simulated(problem, plan, tmp_path, calibration=constants)
    assert found.iteration_time_s != published.evaluate(plan).iteration_time_s
    with pytest.raises(pipesim.InputError, match="constants.json: "):
        pipesim.Problem("lenet", "cpu:2", calibration=constants)


def test_what_does_not_fit_is_a_result(tmp_path):
    problem = pipesim.Problem("gpt:layers=24,hidden=4096,heads=32", "p100-4x4:1")
    found = assert_is_simulated(problem, problem.baseline("single-device"), tmp_path)
    assert not found.fits and "needs" in found.infeasible and "does not fit" in repr(found)


# Plans that Python makes


def test_changed_plans(alexnet, tmp_path):
    plan = alexnet.baseline("data-parallel")
    before = plan.configs["linear1"]
    changed = plan.with_config("linear1", {"o": 4}, before.devices)
    assert plan.configs["linear1"] == before, "plans never change"
    assert changed.configs["linear1"] == pipesim.Config({"o": 4}, before.devices)
    assert {name for name in plan.configs if plan.configs[name] != changed.configs[name]} == {"linear1"}
    assert changed.options == plan.options and changed != plan
    assert_is_simulated(alexnet, changed, tmp_path)
    copied = plan.with_config("linear1", {"o": 2}, before.devices, copies=2)
    assert copied.configs["linear1"].copies == 2
    assert_is_simulated(alexnet, copied, tmp_path)
    opened = pipesim.Plan(tmp_path / "of_problem.plan.json")
    assert opened == copied and opened.configs == copied.configs and opened.options == copied.options
    assert opened.with_config("linear1", *before).configs == plan.configs


def test_candidates_are_legal(alexnet):
    plan = alexnet.baseline("data-parallel")
    for name in plan.configs:
        candidates = alexnet.candidates(name)
        assert plan.configs[name] in candidates
        assert len({json.dumps(c) for c in candidates}) == len(candidates)
        for config in candidates:
            assert plan.with_config(name, *config).configs[name] == config


def test_a_search_in_python(tmp_path):
    problem = pipesim.Problem("alexnet:batch=128", "p100-4x4:1")
    rng = random.Random(1)
    best = problem.baseline("data-parallel")
    time_s = begin = problem.evaluate(best).iteration_time_s
    candidates = {name: problem.candidates(name) for name in best.configs}
    for _ in range(2000):
        name = rng.choice(list(candidates))
        plan = best.with_config(name, *rng.choice(candidates[name]))
        found = problem.evaluate(plan)
        if found.fits and found.iteration_time_s < time_s:
            best, time_s = plan, found.iteration_time_s
    assert time_s < begin
    assert assert_is_simulated(problem, best, tmp_path).iteration_time_s == time_s


def random_plans(problem, count, seed):
    """Each differs from the one before, or from an older one, in few operators or in many."""
    rng = random.Random(seed)
    plans = [problem.baseline("data-parallel"), problem.baseline("expert")]
    candidates = {name: problem.candidates(name) for name in plans[0].configs}
    while len(plans) < count:
        plan = rng.choice(plans[-3:])
        for name in rng.sample(list(candidates), rng.choice([1, 1, 1, 2, 5, len(candidates)])):
            plan = plan.with_config(name, *rng.choice(candidates[name]))
        plans.append(plan)
    return plans


@pytest.mark.parametrize("options", [{}, {"microbatches": 2}, {"runtime": "megatron"}], ids=str)
def test_the_order_does_not_matter(options):
    problem = pipesim.Problem("alexnet", "p100-4x4:1", **options)
    plans = random_plans(problem, 60, seed=7)
    alone = [pipesim.Problem("alexnet", "p100-4x4:1", **options).evaluate(plan) for plan in plans[:20]]
    once = [problem.evaluate(plan) for plan in plans]
    assert once[:20] == alone
    random.Random(8).shuffle(order := list(range(60)))
    for i in order:
        assert problem.evaluate(plans[i]) == once[i], i
        assert problem.evaluate(plans[i]).iteration_time_s == once[i].iteration_time_s, i


@pytest.mark.parametrize("options", [{}, {"microbatches": 2}], ids=str)
def test_plans_that_take_longer_need_not_be_known(options):
    problem = pipesim.Problem("alexnet", "p100-4x4:1", **options)
    plans = random_plans(problem, 80, seed=10)
    known = [pipesim.Problem("alexnet", "p100-4x4:1", **options).evaluate(plan) for plan in plans]
    times = sorted(found.iteration_time_s for found in known)
    for below in (times[40], 0, times[8], math.inf, times[70]):
        for plan, found in zip(plans, known):
            expected = found if found.iteration_time_s < below else None
            assert problem.evaluate_below(plan, below) == expected
    assert [problem.evaluate(plan) for plan in plans] == known


def test_plans_with_other_options_share_a_problem(gpt):
    plans = [gpt.recipe(r) for r in ("dp8", "tp4,dp2", "pp2,dp4", "pp4,dp2,mbs2", "dp8,zero1", "tp2,dp4,recompute=full")]
    once = [gpt.evaluate(plan) for plan in plans]
    assert [gpt.evaluate(plan) for plan in reversed(plans)] == once[::-1]
    assert len({e.iteration_time_s for e in once}) == len(once)


def test_threads_share_a_problem(alexnet):
    plans = random_plans(alexnet, 40, seed=9)
    once = [alexnet.evaluate(plan).iteration_time_s for plan in plans]
    told = {}

    def run(number):
        told[number] = [alexnet.evaluate(plan).iteration_time_s for plan in plans]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    answer = alexnet.plan("mcmc", proposals=200)
    for thread in threads:
        thread.join()
    assert told == dict.fromkeys(range(4), once) and answer.evaluation.fits


# What does not go

LINEAR1 = {"splits": {"o": 4}, "devices": ["node0.gpu0", "node0.gpu1", "node0.gpu2", "node0.gpu3"]}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"operator": "linear9"}, r'unknown operator "linear9" \(did you mean "linear\d"\?\); allowed: .*'),
        ({"splits": {"z": 4}}, 'operator "linear1": unknown factor "z", allowed: .*'),
        ({"splits": {"o": 0}}, 'operator "linear1": found 0 parts of factor "o", allowed: from 1 on'),
        ({"splits": {"o": 3}, "devices": LINEAR1["devices"][:3]}, 'operator "linear1": .*'),
        ({"copies": -1}, 'operator "linear1": found -1 copies, allowed: from 1 on'),
        ({"devices": ["node0.gpu0"]}, 'operator "linear1": .*'),
        ({"devices": ["node0.gpu0"] * 4}, 'operator "linear1": .*'),
        ({"devices": [*LINEAR1["devices"][:3], "gpu9"]}, 'unknown device "gpu9" .*'),
        ({"ring": True}, 'operator "linear1": .*'),
    ],
)
def test_configs_that_are_not_legal(alexnet, change, message):
    with pytest.raises(pipesim.InputError, match=f"^{message}$"):
        alexnet.baseline("data-parallel").with_config(**{"operator": "linear1", **LINEAR1, **change})


class Unreadable:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"operator": None}, TypeError, "operator: found None, allowed: text"),
        ({"operator": "\ud800"}, pipesim.UsageError, r"operator: found '\\ud800', allowed: text without surrogates"),
        ({"splits": None}, TypeError, "splits: found None, allowed: a dict of numbers of parts by factor"),
        ({"splits": ["n"]}, TypeError, r"splits: found \['n'\] of type list, allowed: a dict of numbers of parts by factor"),
        ({"splits": {"o": 4.0}}, TypeError, "splits: found 4.0 of type float, allowed: a whole number"),
        ({"splits": {"o": True}}, TypeError, "splits: found True of type bool, allowed: a whole number"),
        ({"splits": {"o": "4"}}, TypeError, "splits: found '4' of type str, allowed: a whole number"),
        ({"splits": {"o": Unreadable()}}, TypeError, "splits: found … of type Unreadable, allowed: a whole number"),
        ({"splits": {"o": 2**70}}, pipesim.UsageError, f"splits: found {2**70}, allowed: whole numbers of 64 bits"),
        ({"splits": {None: 4}}, TypeError, "splits: found None, allowed: text"),
        ({"devices": None}, TypeError, "devices: found None, allowed: a list of names"),
        ({"devices": "node0.gpu0"}, TypeError, "devices: found 'node0.gpu0' of type str, allowed: a list of names"),
        ({"devices": [0, 1]}, TypeError, "devices: found 0 of type int, allowed: text"),
        ({"devices": ["node0.gpu0", None]}, TypeError, "devices: found None, allowed: text"),
        ({"copies": 1.5}, TypeError, "copies: found 1.5 of type float, allowed: a whole number"),
        ({"copies": True}, TypeError, "copies: found True of type bool, allowed: a whole number"),
        ({"copies": 2**80}, pipesim.UsageError, f"copies: found {2**80}, allowed: whole numbers of 64 bits"),
        ({"copies": 10**5000}, pipesim.UsageError, "copies: found […1].*, allowed: whole numbers of 64 bits"),
        ({"ring": "yes"}, TypeError, "ring: found 'yes' of type str, allowed: True or False"),
        ({"ring": None}, TypeError, "ring: found None, allowed: True or False"),
    ],
)
def test_configs_of_wrong_types(alexnet, change, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        alexnet.baseline("data-parallel").with_config(**{"operator": "linear1", **LINEAR1, **change})


def test_configs_of_other_types(alexnet):
    plan = alexnet.baseline("data-parallel")
    expected = plan.with_config("linear1", **LINEAR1)
    splits = types.MappingProxyType({"o": 4})
    assert plan.with_config("linear1", splits, (name for name in LINEAR1["devices"])) == expected
    numpy = pytest.importorskip("numpy")
    found = plan.with_config("linear1", {"o": numpy.int64(4)}, numpy.array(LINEAR1["devices"]), numpy.int8(1))
    assert found == expected
    with pytest.raises(TypeError, match="^copies: found .*True.* of type bool_?, allowed: a whole number$"):
        plan.with_config("linear1", **LINEAR1, copies=numpy.bool_(True))


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"optimizer": "adamw"}, pipesim.InputError, "optimizer: .*adamw.*adam.*"),
        ({"optimizer": "sgd,main=all"}, pipesim.InputError, 'optimizer: .* main weights "all", allowed: float32, .*'),
        ({"gradient_type": "int64"}, pipesim.InputError, 'gradient_type: found "int64", allowed: float32, .*'),
        ({"gradient_piece": "big"}, pipesim.InputError, "gradient_piece: .*"),
        ({"recompute": "half"}, pipesim.InputError, "recompute: .*selective.*"),
        ({"state_sharding": "zero9"}, pipesim.InputError, "state_sharding: .*zero with a number from 1 to 3"),
        ({"gathered_inputs": "no"}, pipesim.InputError, "gathered_inputs: .*again.*"),
        ({"gradient_reduction": "no"}, pipesim.InputError, "gradient_reduction: .*overlapped.*"),
        ({"imbalance": "0.5"}, pipesim.InputError, "imbalance.*"),
        ({"memory_margin": "200%"}, pipesim.InputError, "memory_margin: .*"),
        ({"runtime": "jaxx"}, pipesim.InputError, "runtime: .*megatron.*"),
        ({"microbatches": 0}, pipesim.InputError, "microbatches: found 0, allowed: from 1 to .*"),
        ({"microbatches": 2**70}, pipesim.UsageError, f"microbatches: found {2**70}, allowed: whole numbers of 64 bits"),
        ({"microbatches": 1.5}, TypeError, "microbatches: found 1.5 of type float, allowed: a whole number"),
        ({"microbatches": True}, TypeError, "microbatches: found True of type bool, allowed: a whole number"),
        ({"microbatches": None}, TypeError, "microbatches: found None, allowed: a whole number"),
        ({"optimiser": "adam"}, TypeError, ".*optimiser.*"),
        ({"optimizer": ["sgd"]}, TypeError, r"optimizer: found \['sgd'\] of type list, allowed: text"),
        ({"optimizer": None}, TypeError, "optimizer: found None, allowed: text"),
        ({"gradient_type": None}, TypeError, "gradient_type: found None, allowed: text"),
        ({"gradient_piece": None}, TypeError, "gradient_piece: found None, allowed: text with a number, or a number"),
        ({"gradient_piece": math.nan}, pipesim.UsageError, "gradient_piece: found nan, allowed: numbers"),
        ({"recompute": None}, TypeError, "recompute: found None, allowed: text"),
        ({"state_sharding": 1}, TypeError, "state_sharding: found 1 of type int, allowed: text"),
        ({"gathered_inputs": True}, TypeError, "gathered_inputs: found True of type bool, allowed: text"),
        ({"gradient_reduction": None}, TypeError, "gradient_reduction: found None, allowed: text"),
        ({"imbalance": None}, TypeError, "imbalance: found None, allowed: text with a number, or a number"),
        ({"imbalance": [1, 2]}, TypeError, r"imbalance: found \[1, 2\] of type list, allowed: text with a number, or a number"),
        ({"memory_margin": True}, TypeError, "memory_margin: found True of type bool, allowed: text with a number, or .*"),
        ({"memory_margin": ""}, TypeError, "memory_margin: found '' of type str, allowed: text with a number, or a number"),
        ({"runtime": None}, TypeError, "runtime: found None, allowed: text"),
        ({"runtime": "\udcff"}, pipesim.UsageError, r"runtime: found '\\udcff', allowed: text without surrogates"),
        ({"calibration": "no-such.db"}, pipesim.InputError, ".*no-such.db.*"),
        ({"calibration": b"/nope\xff"}, pipesim.InputError, "/nope\ufffd: can't be read: .*"),
        ({"calibration": 7}, TypeError, "calibration: found 7 of type int, allowed: a path"),
        ({"calibration": ""}, pipesim.UsageError, "calibration: found '', allowed: a path"),
        ({"model": None}, TypeError, "model: found None, allowed: a name, a file, or a dict of a model file"),
        ({"topology": 7}, TypeError, "topology: found 7 of type int, allowed: a name or a file"),
    ],
)
def test_problems_that_can_not_be(options, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        pipesim.Problem(**{"model": "lenet", "topology": "cpu:2", **options})


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda p: p.baseline(None), TypeError, "name: found None, allowed: text"),
        (lambda p: p.recipe(None), TypeError, "text: found None, allowed: text"),
        (lambda p: p.recipe(b"dp4"), TypeError, "text: found b'dp4' of type bytes, allowed: text"),
        (lambda p: p.candidates(None), TypeError, "operator: found None, allowed: text"),
        (lambda p: p.open(None), TypeError, "plan: found None, allowed: a path or a Plan"),
        (lambda p: p.open(p.baselines()[0]), TypeError, "plan: .* of type NamedPlan, allowed: .*, which is its member .plan"),
        (lambda p: p.open(b"/nope\xff"), pipesim.InputError, "/nope\ufffd: can't be read: .*"),
        (lambda p: pipesim.Plan(7), TypeError, "path: found 7 of type int, allowed: a path"),
        (lambda p: pipesim.Plan("a\0b"), pipesim.UsageError, r"path: found 'a\\x00b', allowed: a path"),
        (lambda p: pipesim.Plan.from_json(b"{}"), TypeError, "text: found b'{}' of type bytes, allowed: text"),
        (lambda p: p.evaluate(None), TypeError, "plan: found None, allowed: a Plan"),
        (
            lambda p: p.evaluate("x.json"),
            TypeError,
            r"plan: found 'x.json' of type str, allowed: a Plan, which problem.open\(path\) makes of a file",
        ),
        (
            lambda p: p.evaluate(p.baselines()[0]),
            TypeError,
            "plan: found NamedPlan.* of type NamedPlan, allowed: a Plan, which is its member .plan",
        ),
        (
            lambda p: p.evaluate(p.plan("expert")),
            TypeError,
            "plan: found PlannerAnswer.* of type PlannerAnswer, allowed: a Plan, which is its member .plan",
        ),
        (
            lambda p: p.evaluate_below(p.baseline("expert"), "1"),
            TypeError,
            "time_s: found '1' of type str, allowed: a number",
        ),
        (lambda p: p.evaluate_below(p.baseline("expert"), None), TypeError, "time_s: found None, allowed: a number"),
        (
            lambda p: p.evaluate_below(p.baseline("expert"), math.nan),
            pipesim.UsageError,
            "time_s: found nan, allowed: numbers",
        ),
        (lambda p: p.evaluate_below(None, 1), TypeError, "plan: found None, allowed: a Plan"),
    ],
)
def test_arguments_of_a_problem(alexnet, call, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        call(alexnet)


@pytest.mark.parametrize(
    "question, kind, message",
    [
        ({"algorithm": None}, TypeError, "algorithm: found None, allowed: text"),
        ({"seconds": "1"}, TypeError, "seconds: found '1' of type str, allowed: a number"),
        ({"seconds": True}, TypeError, "seconds: found True of type bool, allowed: a number"),
        ({"seconds": -1}, pipesim.UsageError, "seconds: found -1, allowed: numbers from 0 on"),
        ({"seconds": math.nan}, pipesim.UsageError, "seconds: found nan, allowed: numbers from 0 on"),
        ({"seconds": decimal.Decimal("sNaN")}, pipesim.UsageError, "seconds: found Decimal.*, allowed: numbers from 0 on"),
        ({"proposals": 1.5}, TypeError, "proposals: found 1.5 of type float, allowed: a whole number"),
        ({"proposals": 0}, pipesim.UsageError, f"proposals: found 0, allowed: from 1 to {2**62 - 1}"),
        ({"proposals": 2**62}, pipesim.UsageError, f"proposals: found {2**62}, allowed: from 1 to {2**62 - 1}"),
        ({"seed": "7"}, TypeError, "seed: found '7' of type str, allowed: a whole number"),
        ({"seed": -1}, pipesim.UsageError, f"seed: found -1, allowed: from 0 to {2**63 - 1}"),
        ({"seed": 2**63}, pipesim.UsageError, f"seed: found {2**63}, allowed: from 0 to {2**63 - 1}"),
        ({"threads": 0}, pipesim.UsageError, "threads: found 0, allowed: from 1 to 1024"),
        ({"threads": 2**40}, pipesim.UsageError, f"threads: found {2**40}, allowed: from 1 to 1024"),
        ({"threads": 2.0}, TypeError, "threads: found 2.0 of type float, allowed: a whole number"),
        ({"progress": "bar"}, TypeError, "progress: found 'bar' of type str, allowed: a function of a Progress"),
    ],
)
def test_questions_of_wrong_types(alexnet, question, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        alexnet.plan(**{"algorithm": "mcmc", **question})


def test_the_largest_seed_is_read_back(alexnet, tmp_path):
    answer = alexnet.plan("mcmc", proposals=20, seed=2**63 - 1)
    assert_is_simulated(alexnet, answer.plan, tmp_path)
    assert alexnet.open(tmp_path / "of_problem.plan.json") == answer.plan


def test_opened_plans_keep_their_options(tmp_path):
    plain = pipesim.Problem("gpt:layers=4", "dgx-a100:1")
    other = pipesim.Problem("gpt:layers=4", "dgx-a100:1", optimizer="adam", gradient_type="bfloat16", runtime="megatron")
    plan = plain.baseline("data-parallel")
    assert other.open(plan).options == plan.options != other.baseline("data-parallel").options
    found = assert_is_simulated(plain, plan, tmp_path)
    assert other.evaluate(plan) == other.evaluate(other.open(plan)) == found
    assert other.evaluate(other.baseline("data-parallel")) != found
    less = pipesim.Problem("gpt:layers=4", "dgx-a100:1", memory_margin="99%")
    assert found.fits and not less.evaluate(less.open(plan)).fits


def test_names_that_are_not_there(alexnet, gpt):
    with pytest.raises(pipesim.InputError, match='"date-parallel".*data-parallel'):
        alexnet.baseline("date-parallel")
    with pytest.raises(pipesim.InputError, match='unknown operator "conv9"'):
        alexnet.candidates("conv9")
    with pytest.raises(pipesim.InputError, match="tq8"):
        gpt.recipe("tq8")
    with pytest.raises(pipesim.InputError, match="dp2"):
        gpt.recipe("dp2,tp2")
    with pytest.raises(pipesim.UsageError, match=r'^algorithm: found "mcmcc" \(did you mean "mcmc"\?\), allowed: mcmc, .*auto'):
        gpt.plan("mcmcc")
    with pytest.raises(pipesim.UsageError, match="^proposals: does not go with the algorithm gpipe$"):
        gpt.plan("gpipe", proposals=5)
    with pytest.raises(pipesim.InputError, match="^no-such.plan.json: can't be read"):
        gpt.open("no-such.plan.json")


def test_plans_of_others(alexnet, gpt, tmp_path):
    with pytest.raises(pipesim.InputError, match='^the plan is for model "gpt:layers=4", the model of the problem is "alexnet"$'):
        alexnet.evaluate(gpt.baseline("expert"))
    with pytest.raises(pipesim.InputError, match='^the plan is for model "gpt:layers=4", the model of the problem is "alexnet"$'):
        alexnet.open(gpt.baseline("expert"))
    wider = pipesim.Problem("gpt:layers=4,hidden=1536", "dgx-a100:1")
    with pytest.raises(pipesim.InputError, match='^the plan is for model "gpt:layers=4,hidden=1536", the model of the problem is'):
        gpt.evaluate(wider.baseline("expert"))
    longer = pipesim.Problem("gpt:layers=4,sequence=512", "dgx-a100:1")
    with pytest.raises(pipesim.InputError, match='^the plan is for model "gpt:layers=4,sequence=512,batch=8", the model of the problem is'):
        gpt.open(longer.recipe("dp4,tp2,mbs2"))
    other = pipesim.Problem("alexnet:batch=64", "p100-4x4:1")
    with pytest.raises(pipesim.InputError, match="^an iteration of the plan has 64 samples, one of the problem has [0-9]+ samples$"):
        alexnet.evaluate(other.baseline("expert"))
    slow = pipesim.Problem("alexnet", "p100-4x4:1+intra_node.bandwidth=1GB/s")
    with pytest.raises(pipesim.InputError, match='^the plan is for topology "p100-4x4:1", the topology of the problem is "p100-4x4:1.intra'):
        slow.evaluate(alexnet.baseline("expert"))
    opened = slow.open(alexnet.baseline("data-parallel"))
    found = assert_is_simulated(slow, opened, tmp_path)
    assert found == slow.evaluate(slow.baseline("data-parallel"))
    assert found.iteration_time_s > alexnet.evaluate(alexnet.baseline("data-parallel")).iteration_time_s


# While it runs


def test_progress_may_end_a_search(alexnet):
    told = []

    def enough(now):
        told.append(now)
        if now.best_time_s is not None and len(told) >= 3:
            raise StopIteration

    answer = alexnet.plan("mcmc", seconds=600, progress=enough)
    assert answer.interrupted and answer.evaluation.fits
    assert answer.evaluation.iteration_time_s <= told[-1].best_time_s
    assert "proposals" in str(told[-1]) and 0 < told[-1].share < 1


@pytest.mark.parametrize("seconds", [0, math.inf, decimal.Decimal(600)], ids=str)
def test_limits_of_time(alexnet, seconds):
    told = []

    def enough(now):
        told.append(now)
        if len(told) >= 2:
            raise StopIteration

    answer = alexnet.plan("mcmc", seconds=seconds, progress=enough)
    assert answer.interrupted and len(told) >= 2


@pytest.mark.parametrize("algorithm", ["recipes", "alpa"])
def test_progress_may_end_a_search_too_soon(algorithm):
    def stop(now):
        raise StopIteration

    problem = pipesim.Problem("llama3-70b:batch=64", "dgx-h100:64")
    with pytest.raises(pipesim.Interrupted):
        problem.plan(algorithm, progress=stop)


def test_what_progress_raises_ends_a_search(alexnet):
    def broken(now):
        raise ZeroDivisionError(str(now))

    with pytest.raises(ZeroDivisionError):
        alexnet.plan("mcmc", seconds=600, progress=broken)


@pytest.mark.parametrize("call", ["plan('mcmc', seconds=600)", "evaluate(plan)"], ids=["plan", "evaluate"])
def test_control_c_ends_a_call(call):
    program = (
        "import pipesim\n"
        "problem = pipesim.Problem('llama3-405b:batch=2048', 'dgx-h100:512', runtime='megatron')\n"
        "plan = problem.recipe('tp8,pp16,sp')\n"
        "print('begins', flush=True)\n"
        "try:\n"
        f"    problem.{call}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begins\n"
        time.sleep(0.3)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert (out, child.returncode) == ("interrupted\n", 0)


# Values


def test_copies(alexnet):
    plan = alexnet.baseline("data-parallel").with_config("linear1", **LINEAR1)
    found = alexnet.evaluate(plan)
    answer = alexnet.plan("data-parallel")
    for made in (lambda o: pickle.loads(pickle.dumps(o)), copy.copy, copy.deepcopy):
        assert made(plan) == plan and hash(made(plan)) == hash(plan) and made(plan).configs == plan.configs
        assert made(found) == found and made(found).peak_memory_bytes == found.peak_memory_bytes
        assert made(answer) == answer
        assert made(alexnet).evaluate(made(plan)) == found
        assert made(plan.options) == plan.options and made(plan.configs) == plan.configs


def test_in_notebooks(alexnet):
    plan = alexnet.baseline("data-parallel")
    assert "alexnet" in alexnet._repr_html_() and "alexnet" in plan._repr_html_()
    assert repr(alexnet) == "Problem('alexnet', 'p100-4x4:1')"
    assert repr(alexnet.evaluate(plan)).startswith("<Evaluation: ")


def test_plans_of_a_document(tmp_path):
    model = pipesim.Model(json.loads(pipesim.Model("lenet").to_json()))
    problem = pipesim.Problem(model, "cpu:2")
    plan = problem.baseline("expert")
    assert problem.evaluate(plan) == pipesim.Problem("lenet", "cpu:2").evaluate(plan)
    with pytest.raises(pipesim.InputError, match="the plan's model was made of a dict"):
        plan.save(tmp_path / "x.plan.json")


@pytest.mark.parametrize("algorithm", ["recipes", "auto"])
def test_a_ranking_that_is_ended_has_its_plan(algorithm):
    problem = pipesim.Problem("gpt:layers=12,batch=64", "dgx-a100:2", optimizer="adam", runtime="megatron")

    def enough(now):
        if now.best_time_s is not None:
            raise StopIteration

    answer = problem.plan(algorithm, seconds=600, progress=enough)
    assert answer.interrupted
    assert problem.evaluate(answer.plan) == answer.evaluation


def test_recipes_of_experts_are_simulated_as_by_the_command(tmp_path):
    model, recipe = "mixtral-8x7b:layers=2,batch=16", "dp2,cp4,mbs1"
    problem = pipesim.Problem(model, "dgx-h100:1", optimizer="adam", runtime="megatron")
    plan = problem.recipe(recipe)
    file = tmp_path / "command.json"
    words = [f"--model={model}", "--topology=dgx-h100:1", f"--recipe={recipe}", "--runtime=megatron", "--batch=16"]
    subprocess.run([PIPESIM, "simulate", *words, f"--output={file}"], check=True, capture_output=True)
    assert plan.to_json() == file.read_text()
    assert_is_simulated(problem, plan, tmp_path)


def test_plans_of_longer_samples_are_others():
    short = pipesim.Problem("llama:layers=2,sequence=1024,batch=8", "dgx-a100:1", microbatches=2)
    long = pipesim.Problem("llama:layers=2,sequence=2048,batch=16", "dgx-a100:1")
    with pytest.raises(pipesim.errors.InputError, match="the plan is for model"):
        short.evaluate(long.baseline("data-parallel"))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"recompute": "full"}, 'recompute: found "full", allowed: "none", since recipes choose that'),
        ({"state_sharding": "zero1"}, 'state_sharding: found "zero1", allowed: "none", since recipes choose that'),
        ({"gathered_inputs": "again"}, 'gathered_inputs: found "again", allowed: "keep", since recipes choose that'),
    ],
)
def test_recipes_choose_some_options(options, message):
    problem = pipesim.Problem("gpt:layers=2", "dgx-a100:1", **options)
    for ask in [lambda: problem.recipe("tp2,dp4"), lambda: problem.plan("recipes", seconds=1)]:
        with pytest.raises(pipesim.errors.UsageError) as raised:
            ask()
        assert str(raised.value) == message


def test_options_are_conditions_of_auto():
    problem = pipesim.Problem("gpt:layers=2,batch=16", "dgx-a100:1", optimizer="adam", state_sharding="zero1")
    assert problem.plan("auto", seconds=3).plan.options.state_sharding.startswith("zero1")


def test_stages_that_are_not_made_are_not_recomputed():
    problem = pipesim.Problem("gpt:layers=2", "dgx-a100:1", recompute="stage")
    with pytest.raises(pipesim.errors.UsageError, match='^recompute: found "stage", allowed with the algorithm mcmc'):
        problem.plan("mcmc", seconds=600)


def test_handlers_of_signals_do_not_wait_for_themselves():
    program = (
        "import pipesim, signal\n"
        "problem = pipesim.Problem('llama3-8b:batch=8', 'dgx-h100:4', microbatches=8, optimizer='adam')\n"
        "plan = problem.baseline('data-parallel')\n"
        "signal.signal(signal.SIGALRM, lambda *_: problem.evaluate(plan).peak_memory_bytes)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)\n"
        "while True:\n"
        "    problem.evaluate(plan).peak_memory_bytes\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "UsageError: a handler of signals can't use the problem whose plan is being evaluated" in ran.stderr


def test_the_end_of_python_ends_evaluations_of_daemons():
    program = (
        "import pipesim, threading, time\n"
        "problem = pipesim.Problem('llama3-8b:batch=8', 'dgx-h100:4', microbatches=8, optimizer='adam')\n"
        "def work():\n"
        "    while True:\n"
        "        problem.evaluate(problem.baseline('data-parallel')).peak_memory_bytes\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(1)\n"
    )
    for _ in range(3):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")
