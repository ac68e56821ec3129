"""import pipesim: functions beside the command line, errors, interrupts, HTML, stubs."""

import ast
import copy
import decimal
import html.parser
import inspect
import json
import math
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import typing
import warnings

import pytest

import compiled  # noqa: F401
import pipesim

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIPESIM = pathlib.Path(os.environ.get("PIPESIM") or ROOT / "build" / "ci" / "pipesim")
EXAMPLES = ROOT / "docs" / "examples"
LLAMA = {"model": "llama3-8b", "topology": "dgx-h100:2", "batch": 64}
LENET = {"model": "lenet", "topology": "p100-4x4:1"}


def printed(command, *words):
    """What the command line prints."""
    ran = subprocess.run([PIPESIM, command, *words, "--json"], capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


def timeless(document):
    """Without what differs from run to run: how long the search itself took."""
    if isinstance(document, dict):
        left_out = {"wall_time_s", "proposals_per_second"}
        return {key: timeless(value) for key, value in document.items() if key not in left_out}
    return [timeless(value) for value in document] if isinstance(document, list) else document


# The same as the command line


def test_simulate_is_the_command():
    words = ["--model=llama3-8b", "--topology=dgx-h100:2", "--batch=64", "--recipe=tp4,pp2,dp2,sp", "--tokens=15T"]
    s = pipesim.simulate(**LLAMA, recipe="tp4,pp2,dp2,sp", tokens="15T")
    told = printed("simulate", *words)
    assert s.document == told
    assert s.iteration_time_s == told["iteration_time_s"]
    assert (s.model, s.topology, s.fits) == ("llama3-8b:batch=2", "dgx-h100:2", True)
    assert s.most_memory_bytes == max(told["peak_memory_bytes"].values())
    assert s.critical_path.compute == told["critical_path"]["compute"]
    assert s.communication["pipeline"].hidden_s == told["communication_by_cause"]["mean"]["by_cause"]["pipeline"]["hidden_s"]
    assert [stage.devices for stage in s.stages] == [8, 8]
    assert s.idle == told["pipeline"]["idle"]
    assert s.training_days == told["training_days"] > 0


@pytest.mark.parametrize(
    "options",
    [{**LLAMA, "algorithm": "recipes", "only": "pp=1"}, {"model": "alexnet", "topology": "p100-4x4", "algorithm": "mcmc", "proposals": 500}],
    ids=["recipes", "mcmc"],
)
def test_search_is_the_command(options, tmp_path):
    r = pipesim.search(**options)
    words = [f"--{name}={value}" for name, value in options.items()]
    plan = tmp_path / "plan.json"
    told = timeless(printed("search", *words, "-o", str(plan)))
    assert timeless(r.document) == told
    assert r.simulation.iteration_time_s == told["iteration_time_s"]
    assert r.plan.to_json() == plan.read_text()
    assert not r.interrupted
    assert r.reason
    if options["algorithm"] == "recipes":
        assert r.proven_optimal and r.recipes[0].recipe == r.simulation.recipe
        assert r.recipes[0].least_time_s <= r.recipes[0].iteration_time_s == r.simulation.iteration_time_s
    else:
        assert r.lower_bound_s <= r.simulation.iteration_time_s
        assert r.proposals == 500 and len(r.baselines) == 4 and r.history[-1][1] == r.simulation.iteration_time_s


def test_whatif_is_the_command():
    words = ["--model=gpt3-1.3b", "--topology=dgx-a100:8", "--recipe=tp2", "--batch=512"]
    options = {"model": "gpt3-1.3b", "topology": "dgx-a100:8", "recipe": "tp2", "batch": 512}
    study = pipesim.whatif(**options, vary={"inter_node.bandwidth": ["25Gb/s", "50Gb/s"], "nodes": [4, 8]})
    told = printed("whatif", *words, "--vary=inter_node.bandwidth=25Gb/s,50Gb/s", "--vary=nodes=4,8")
    assert study.document == told
    assert study.complete and len(study.points) == 4
    assert study.points[1].values == {"inter_node.bandwidth": "25Gb/s", "nodes": "8"}
    assert study.points[1].iteration_time_s == told["points"][1]["time_s"]
    figures = pipesim.whatif_figures(**options)
    assert [vars(f) for f in figures.figures] == printed("whatif", *words, "--list")["figures"]
    one = [*words, "--topology=dgx-a100:1", "--samples=50", "--noise=links=10%", "--mtbf=50000 h", "--sensitivity"]
    answers = pipesim.whatif_plan(**{**options, "topology": "dgx-a100:1"}, samples=50, noise="links=10%", mtbf="50000 h")
    assert answers.document == printed("whatif", *(word for word in one if word != "--topology=dgx-a100:8"))
    assert 0.9 < answers.goodput < 1 and answers.sensitivities[0].simulated_s < answers.iteration_time_s
    assert answers.noise_quantiles_s["p5"] < answers.noise_quantiles_s["p99"]


def test_compare_is_the_command():
    c = pipesim.compare(**LLAMA, recipe=["tp8,sp", "tp2,pp4,sp"])
    words = ["--model=llama3-8b", "--topology=dgx-h100:2", "--batch=64", "--recipe=tp8,sp", "--recipe=tp2,pp4,sp"]
    assert c.document == printed("compare", *words)
    assert [r.name for r in c.recipes] == ["tp8,sp", "tp2,pp4,sp"]
    assert all(r.iteration_time_s > c.lower_bound_s and r.infeasible is None for r in c.recipes)
    assert "needs" in c.baselines[0].infeasible


def test_accuracy_is_the_command():
    table = EXAMPLES / "megatron_golden.csv"
    a = pipesim.accuracy(data=table)
    assert a.document == printed("accuracy", f"--data={table}")
    all_peaks = a.tables[0].errors[0]
    assert (all_peaks.of, all_peaks.group, all_peaks.runs) == ("peak", "all", 7)
    assert sum(a.tables[0].not_predicted.values()) == len(a.tables[0].runs) - 7


def test_calibrate_is_the_command(tmp_path):
    runs = EXAMPLES / "pytorch_h100.csv"
    fit = pipesim.calibrate(runs=runs, output=tmp_path / "python.json", suggest=1)
    told = printed("calibrate", f"--runs={runs}", f"--output={tmp_path / 'command.json'}", "--suggest=1")
    assert fit.document == told
    of_python, of_command = (json.loads((tmp_path / f"{by}.json").read_text()) for by in ("python", "command"))
    assert of_python["constants"] == of_command["constants"]
    assert fit.error_after < fit.error_before
    products = fit.constants[0]
    assert products.constant == "products" and products.interval[0] < products.factor < products.interval[1]
    assert len(fit.next) == 1 and fit.next[0].interval_s[0] < fit.next[0].predicted_s
    h100 = pipesim.simulate(model="gpt2:batch=8", topology="dgx-h100:1", recipe="dp8", calibration=tmp_path / "python.json")
    assert h100.interval_s[0] < h100.iteration_time_s < h100.interval_s[1]


def test_calibrate_reads_traces():
    trace = EXAMPLES / "pytorch_h100.trace.json.gz"
    fit = pipesim.calibrate(from_trace=trace)
    assert fit.document == printed("calibrate", f"--from-trace={trace}")
    assert fit.constants == () and fit.operators[0]["operator"].startswith("aten::")


def test_export_writes_files(tmp_path):
    plan = pipesim.simulate(**LLAMA, recipe="tp4,dp4,sp").plan
    exported = pipesim.export(plan=plan, to="megatron", output=tmp_path / "run")
    assert exported.recipe == "tp4,dp4,sp,mbs1"
    assert all(pathlib.Path(file).stat().st_size > 0 for file in exported.files)


# Models, topologies and plans


def test_models_of_the_zoo():
    zoo = pipesim.models()
    assert [vars(model) for model in zoo] == printed("models")["models"]
    assert "batch" in next(model for model in zoo if model.name == "gpt2").options


@pytest.mark.parametrize("name", ["resnet50", "gpt2", "llama3-8b", "unet-sd15", "dlrm", "mixtral-8x7b"])
def test_a_model_says_what_it_has(name, tmp_path):
    model = pipesim.Model(name)
    operators = model.operators
    assert sum(op.parameters for op in operators) == model.parameters == model.trained_parameters
    assert math.isclose(sum(op.forward_flops for op in operators), model.forward_flops, rel_tol=1e-9)
    assert all(op.factors for op in operators)
    model.save(tmp_path / "saved.model.json")
    again = pipesim.Model(tmp_path / "saved.model.json")
    assert (again.fingerprint, again.parameters) == (model.fingerprint, model.parameters)
    assert [file.name for file in tmp_path.iterdir()] == ["saved.model.json"]


def test_a_model_has_options():
    assert pipesim.Model("gpt2", batch=4, layers=3).batch == 4
    assert pipesim.Model("gpt2:batch=4").fingerprint == pipesim.Model("gpt2", batch=4).fingerprint
    assert pipesim.simulate(model="gpt2", topology="dgx-h100:1", baseline="data-parallel", set={"layers": 3}).model == (
        pipesim.simulate(model="gpt2:layers=3", topology="dgx-h100:1", baseline="data-parallel").model
    )


def test_a_model_out_of_a_document_and_into_onnx(tmp_path):
    document = json.loads(pipesim.Model("gpt2").to_json())
    model = pipesim.Model(document)
    assert model.parameters == pipesim.Model("gpt2").parameters
    assert model.is_temporary
    assert pipesim.simulate(model=model, topology="dgx-h100:1", baseline="data-parallel").iteration_time_s > 0
    model.save(tmp_path / "gpt2.onnx")
    assert pipesim.Model(f"{tmp_path / 'gpt2.onnx'}").parameters == model.parameters
    assert pickle.loads(pickle.dumps(model)).fingerprint == model.fingerprint


def test_plans_of_a_document(tmp_path):
    model = pipesim.Model(json.loads(pipesim.Model("lenet").to_json()))
    found = pipesim.search(model=model, topology="cpu:2", algorithm="mcmc", proposals=50)
    del model
    assert pipesim.simulate(plan=found.plan).iteration_time_s == found.simulation.iteration_time_s
    with pytest.raises(pipesim.InputError, match="the plan's model was made of a dict"):
        found.plan.save(tmp_path / "x.plan.json")
    document = pipesim.Model(json.loads(pipesim.Model("lenet").to_json()))
    with pytest.raises(pipesim.UsageError, match="output: the model was made of a dict"):
        pipesim.search(model=document, topology="cpu:2", algorithm="mcmc", proposals=50, output=tmp_path / "x.plan.json")
    assert list(tmp_path.iterdir()) == []


def test_copies():
    model, topology = pipesim.Model("gpt2", batch=4), pipesim.Topology("dgx-h100:2")
    plan = pipesim.simulate(model=model, topology=topology, baseline="data-parallel").plan
    time_s = pipesim.simulate(plan=plan).iteration_time_s
    for made in (lambda o: pickle.loads(pickle.dumps(o)), copy.copy, copy.deepcopy):
        assert made(model).fingerprint == model.fingerprint
        assert made(topology).fingerprint == topology.fingerprint
        other = made(plan)
        assert other == plan and hash(other) == hash(plan)
        assert pipesim.simulate(plan=other).iteration_time_s == time_s


def test_files_are_there_until_the_end():
    program = (
        "import os, pipesim\n"
        "plan = pipesim.simulate(model='lenet', topology='cpu:2', baseline='data-parallel').plan\n"
        "pipesim.simulate(plan=plan)\n"
        "if os.fork() == 0: raise SystemExit(0)\n"
        "os.wait()\n"
        "pipesim.simulate(plan=plan)\n"
        "print(plan._path)\n"
    )
    path = pathlib.Path(in_new_python(program).strip())
    assert path.name.endswith(".plan.json") and not path.exists()


def test_topologies(tmp_path):
    presets = pipesim.topologies()
    assert [vars(preset) for preset in presets] == printed("topologies")["topologies"]
    topology = pipesim.Topology("dgx-h100:2")
    assert (topology.nodes, len(topology.devices), topology.devices[0].kind) == (2, 16, "H100-SXM5")
    assert topology.devices[0].memory_bytes == 80e9
    topology.save(tmp_path / "saved.topology.json")
    assert pipesim.Topology(tmp_path / "saved.topology.json").fingerprint == topology.fingerprint
    of_objects = pipesim.simulate(model=pipesim.Model("lenet"), topology=topology, baseline="data-parallel")
    assert of_objects.document == pipesim.simulate(model="lenet", topology="dgx-h100:2", baseline="data-parallel").document


def test_plans(tmp_path):
    found = pipesim.search(**LENET, algorithm="mcmc", proposals=200)
    file = tmp_path / "lenet.plan.json"
    found.plan.save(file)
    plan = pipesim.Plan(file)
    assert plan == found.plan and plan.model == "lenet" and plan.topology == "p100-4x4:1"
    for given in (plan, found.plan, file, str(file)):
        assert pipesim.simulate(plan=given).iteration_time_s == found.simulation.iteration_time_s
    file.unlink()
    assert pipesim.simulate(plan=plan).iteration_time_s == found.simulation.iteration_time_s


# What does not go


def test_a_plan_that_does_not_fit_is_a_result():
    s = pipesim.simulate(model="llama3-70b", topology="dgx-h100:1", batch=8, baseline="data-parallel")
    assert not s.fits and "needs" in s.infeasible and s.hints
    assert "does not fit" in s._repr_html_() or s.infeasible.split()[0] in s._repr_html_()


BAD = {
    "model": (pipesim.simulate, {"model": "llama3-9b", **{"topology": "dgx-h100", "recipe": "dp8"}}, pipesim.InputError),
    "topology": (pipesim.simulate, {"model": "gpt2", "topology": "dgx-h101", "recipe": "dp8"}, pipesim.InputError),
    "recipe": (pipesim.simulate, {"model": "gpt2", "topology": "dgx-h100", "recipe": "tq8"}, pipesim.UsageError),
    "file": (pipesim.simulate, {"plan": "no-such.plan.json"}, pipesim.InputError),
    "nothing": (pipesim.simulate, {}, pipesim.UsageError),
    "number": (pipesim.search, {"model": "gpt2", "topology": "dgx-h100", "seconds": -1}, pipesim.UsageError),
    "choice": (pipesim.search, {"model": "gpt2", "topology": "dgx-h100", "algorithm": "magic"}, pipesim.UsageError),
    "no room": (pipesim.search, {"model": "llama3-405b", "topology": "dgx-h100:1", "algorithm": "mcmc"}, pipesim.InputError),
    "together": (pipesim.simulate, {**LENET, "baseline": "expert", "recipe": "dp4"}, pipesim.UsageError),
    "axis": (pipesim.whatif, {**LENET, "recipe": "dp4", "vary": {"nodez": [1]}}, pipesim.InputError),
    "no points": (pipesim.whatif, {**LENET, "recipe": "dp4"}, pipesim.UsageError),
    "data": (pipesim.accuracy, {"data": "/no/such/folder"}, pipesim.InputError),
    "no output": (pipesim.calibrate, {"runs": EXAMPLES / "pytorch_h100.csv"}, pipesim.UsageError),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_the_line_of_the_command(case):
    function, options, kind = BAD[case]
    with pytest.raises(kind) as caught:
        function(**options)
    words = []
    for name, value in options.items():
        if isinstance(value, dict):
            value = ",".join(f"{key}={','.join(map(str, values))}" for key, values in value.items())
        words += [f"--{name}={value}"]
    ran = subprocess.run([PIPESIM, function.__name__, *words, "--json"], capture_output=True, text=True)
    assert ran.stderr == f"pipesim: {caught.value}\n"
    assert ran.returncode == (2 if kind is pipesim.UsageError else 1)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, pipesim.Error)


# What runs plans is another program


@pytest.fixture
def execution():
    from pipesim import calling

    try:
        return calling.execution_program()
    except pipesim.DeviceError as error:
        pytest.skip(str(error))


def test_execute_runs_a_plan(execution):
    plan = pipesim.simulate(model="lenet:batch=8", topology="cpu:2", baseline="data-parallel").plan
    run = pipesim.execute(plan=plan, steps=2, warmup=1, check=True, oversubscribe=True, no_realtime=True)
    assert run.equal and run.measured_s > 0 and len(run.loss) == 3 and run.backend == "cpu"
    assert len(run.to_pandas()) > 10 and "LeNet" not in run._repr_html_()


def test_calibrate_measures_this_machine(execution, tmp_path):
    file = tmp_path / "lenet.db"
    options = dict(model="lenet:batch=8", topology="cpu:2", output=file, backend="emulated", random=1)
    measured = pipesim.calibrate(**options)
    assert measured.durations > 50 and measured.samples > measured.durations and file.stat().st_size > 0
    assert measured.measured_s > 0 and measured.predicted_s > 0
    use = pipesim.simulate(model="lenet:batch=8", topology="cpu:2", baseline="expert", calibration=file)
    assert use.document["calibration"]["guesses"] == []


def test_errors_of_the_other_program(execution, monkeypatch):
    with pytest.raises(pipesim.InputError, match='unknown model "lenett"'):
        pipesim.execute(model="lenett", topology="cpu:2", baseline="expert")
    for wrong in ("/", "/no/such/program"):
        monkeypatch.setenv("PIPESIM_EXECUTION", wrong)
        with pytest.raises(pipesim.DeviceError, match="pipesim-execution, which runs plans on devices, is not there"):
            pipesim.execute(model="lenet", topology="cpu:2", baseline="expert")
    monkeypatch.setenv("PIPESIM_EXECUTION", "/bin/echo")
    with pytest.raises(pipesim.DeviceError, match="is not pipesim-execution"):
        pipesim.execute(model="lenet", topology="cpu:2", baseline="expert")
    monkeypatch.delenv("PIPESIM_EXECUTION")
    with pytest.raises(pipesim.UsageError, match="calibrate: --output FILE is missing"):
        pipesim.calibrate(model="lenet", topology="cpu:2")


def test_wrong_values_of_python():
    with pytest.raises(TypeError, match="modle"):
        pipesim.simulate(modle="gpt2")
    with pytest.raises(TypeError, match=r"model: found 3j"):
        pipesim.simulate(model=3j)
    with pytest.raises(TypeError, match="progress"):
        pipesim.search(**LENET, progress="bar")
    with pytest.raises(pipesim.InputError, match="does-not-exist"):
        pipesim.Plan("does-not-exist.json")
    with pytest.raises(pipesim.InputError, match="pipesim_plan"):
        pipesim.Plan.from_json("{}")
    with pytest.raises(pipesim.InputError, match="no JSON"):
        pipesim.Plan.from_json("{")
    with pytest.raises(pipesim.InputError, match="can't be written"):
        pipesim.Topology("dgx-h100").save("/no/such/folder/file.json")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"trace": True}, "trace: found True of type bool"),
        ({"batch": False}, "batch: found False of type bool"),
        ({"plan": {}}, "plan: found a dict"),
        ({"model": {"pipesim_model": 1}}, "model: found a dict, allowed: .* pipesim.Model"),
        ({"batch": [1, 2]}, r"batch: found \[1, 2\] of type list"),
        ({"batch": 1 + 2j}, "batch: found .* of type complex"),
    ],
)
def test_values_that_an_option_does_not_take(options, message):
    with pytest.raises(TypeError, match=message):
        pipesim.simulate(**{**LENET, "baseline": "expert", **options})


def test_flags_take_booleans():
    with pytest.raises(TypeError, match="yes: found 'no' of type str, allowed: True or False"):
        pipesim.whatif(**LENET, baseline="expert", vary="nodes=1,2", yes="no")
    assert len(pipesim.whatif(**LENET, baseline="expert", vary="nodes=1,2", yes=True).points) == 2


def test_values_of_axes_may_have_commas():
    options = {"model": "llama3-8b", "topology": "dgx-h100:2", "batch": 64}
    study = pipesim.whatif(**options, vary={"recipe": ["tp8,dp2,sp", "tp4,dp4"]})
    assert [point.values["recipe"] for point in study.points] == ["tp8,dp2,sp", "tp4,dp4"]
    assert len(pipesim.whatif(**options, vary={"recipe": ["tp8,dp2,sp"]}).points) == 1
    with pytest.raises(TypeError, match="but not both"):
        pipesim.whatif(**options, vary={"recipe": ["tp8,dp2", "tp8;dp2"]})


def test_numbers_of_other_sorts():
    numpy = pytest.importorskip("numpy")
    at_64 = pipesim.simulate(**LLAMA, recipe="tp8,dp2").document
    for batch in (numpy.int64(64), numpy.int32(64), numpy.float32(64), 64.0, "64", decimal.Decimal(64)):
        assert pipesim.simulate(**{**LLAMA, "batch": batch}, recipe="tp8,dp2").document == at_64
    study = pipesim.whatif(**LENET, baseline="expert", vary={"nodes": numpy.array([1, 2])})
    assert [point.values["nodes"] for point in study.points] == ["1", "2"]


def test_plain_numbers_are_seconds_and_bytes():
    options = {**LENET, "baseline": "expert"}
    numbers = pipesim.whatif_plan(**options, mtbf=360000, checkpoint_time=30).document
    assert numbers == pipesim.whatif_plan(**options, mtbf="100 h", checkpoint_time="30 s").document
    assert pipesim.simulate(**options, memory_margin=2e9).document == pipesim.simulate(**options, memory_margin="2 GB").document


def test_saving_keeps_what_is_there(tmp_path):
    plan = pipesim.simulate(**LENET, baseline="expert").plan
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    plan.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real.json").read_text() == plan.to_json()
    (tmp_path / "folder").mkdir()
    with pytest.raises(pipesim.InputError):
        plan.save(tmp_path / "folder")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "link.json", "real.json"]
    pipesim.simulate(**LLAMA, recipe="dp16,zero2").plan.save(tmp_path / "real.json")
    opened = pipesim.Plan(tmp_path / "real.json")
    with pytest.raises(pipesim.InputError, match="real.json: torchtitan can't run this plan"):
        pipesim.export(plan=opened, to="torchtitan", output=tmp_path / "run")


def test_text_of_other_encodings(tmp_path):
    table = tmp_path / "latin.csv"
    table.write_bytes(b"name,model,devices,recipe,batch,time\ncaf\xe9,gpt2,dgx-h100:1,dp8,8,100 ms\n")
    assert "caf" in pipesim.accuracy(data=table).tables[0].runs[0]["name"]
    assert "caf" in printed("accuracy", f"--data={table}")["tables"][0]["runs"][0]["name"]
    with pytest.raises(pipesim.InputError) as caught:
        pipesim.simulate(plan=os.fsdecode(b"no\xff.json"))
    assert "can't be read" in str(caught.value)


def test_a_short_report():
    from pipesim.calling import Answer

    full = pipesim.search(**LENET, algorithm="mcmc", proposals=50)
    unknown = ("num_tasks", "communication_s", "communication_by_cause", "critical_path", "peak_memory_bytes", "compute_s")
    document = {**full.document, "simulated_in_full": False, **{key: None for key in unknown}}
    short = pipesim.SearchResult._of(Answer(0, document, full.plan.to_json(), "", False))
    assert not short.simulation.in_full and short.simulation.critical_path is None
    assert short.simulation.most_memory_bytes is None and short._repr_html_()


def test_notes_are_warnings(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "megatron_golden.csv").write_bytes((EXAMPLES / "megatron_golden.csv").read_bytes())
    with pytest.warns(pipesim.Notice, match="other.csv is left out"):
        pipesim.accuracy(data=tmp_path)


# While it runs

LONG = {"model": "alexnet", "topology": "p100-4x4", "algorithm": "mcmc", "seconds": 600}


def stop(now):
    raise StopIteration


def stop_after_the_first(now):
    if now.share is not None and now.share > 0:
        raise StopIteration


def test_progress_is_told_and_may_end_a_search():
    told = []

    def enough(now):
        told.append(now)
        if now.best_time_s is not None and len(told) >= 3:
            raise StopIteration
        return True  # as tqdm's update() does

    r = pipesim.search(**LONG, progress=enough)
    assert len(told) >= 3 and "proposals" in str(told[-1])
    assert all(0 <= now.share <= 1 for now in told if now.share is not None)
    assert r.interrupted and r.plan is not None and r.simulation.fits
    assert r.simulation.iteration_time_s <= told[-1].best_time_s


def test_progress_may_end_a_study(tmp_path):
    study = tmp_path / "study.json"
    options = dict(model="gpt3-1.3b", topology="dgx-a100:8", recipe="tp2", batch=512, output=study)
    vary = {"inter_node.bandwidth": [f"{x}Gb/s" for x in range(1, 3001)]}
    part = pipesim.whatif(**options, vary=vary, progress=stop_after_the_first)
    assert 0 < len(part.points) < 3000 and not part.complete
    assert json.loads(study.read_text())["pipesim_study"] == 1


def test_what_progress_raises_ends_a_search():
    def broken(now):
        if now.share is not None:
            raise ZeroDivisionError(str(now))

    with pytest.raises(ZeroDivisionError, match="proposals"):
        pipesim.search(**LONG, progress=broken)


def test_calls_that_do_not_tell_how_far_they_are():
    told = []

    def twice(now):
        told.append(str(now))
        if len(told) == 2:
            raise StopIteration

    with pytest.raises(pipesim.Interrupted):
        pipesim.whatif_plan(**LLAMA, recipe="tp8,sp", noise="links=10%", samples=100000, progress=twice)
    assert len(told) == 2 and all(re.fullmatch(r"whatif: [0-9.]+ s", text) for text in told)


def test_ended_without_a_result():
    # The first plan takes many times as long as a machine with much else to do needs to pass the wish on.
    with pytest.raises(pipesim.Interrupted):
        pipesim.search(model="deepseek-v3", topology="dgx-h100:1024", batch=8192, algorithm="recipes", seconds=600, progress=stop)


@pytest.mark.parametrize(
    "call",
    [
        "search(model='alexnet', topology='p100-4x4', algorithm='mcmc', seconds=600)",
        "search(model='llama3-8b', topology='dgx-h100:4', batch=256, seconds=600)",
        "whatif(model='gpt3-1.3b', topology='dgx-a100:8', recipe='tp2', batch=512, "
        "vary={'inter_node.bandwidth': [f'{x}Gb/s' for x in range(1, 9001)]})",
    ],
    ids=["mcmc", "auto", "whatif"],
)
def test_control_c_ends_a_call(call):
    program = f"import pipesim\nprint('begins', flush=True)\ntry:\n    pipesim.{call}\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begins\n"
        time.sleep(1.5)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=120)
    assert (out, child.returncode) == ("interrupted\n", 0)


def test_a_second_signal_does_not_wait():
    """As Ctrl-C twice; what still runs then does not disturb other calls."""

    class Alarm(Exception):
        pass

    raised = 0
    running = True

    def alarm(*_):
        nonlocal raised
        if running:
            raised += 1
            raise Alarm

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        with pytest.raises(Alarm):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.3, 0.05)
                pipesim.simulate(model="llama3-405b", topology="dgx-h100:128", batch=2048, recipe="tp8,pp16,sp")
            finally:
                running = False
        assert raised in (1, 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert pipesim.simulate(**LENET, baseline="expert").fits


def test_the_end_of_python_ends_calls_of_daemons():
    program = (
        "import pipesim, threading, time\n"
        f"threading.Thread(target=lambda: pipesim.search(**{LONG!r}), daemon=True).start()\n"
        "time.sleep(1)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_other_threads_run_meanwhile():
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = counted
        pipesim.search(**{**LONG, "seconds": 1})
        assert counted - before > 50
    finally:
        done.set()
        counter.join()


def test_several_calls_at_a_time():
    alone = pipesim.search(**LENET, algorithm="mcmc", proposals=3000, chains=1, threads=1)
    results = []

    def run():
        results.append(pipesim.search(**LENET, algorithm="mcmc", proposals=3000, chains=1, threads=1))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [timeless(r.document) for r in results] == [timeless(alone.document)] * 3


# The package itself


def in_new_python(program, **environment):
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_without_its_compiled_part():
    program = (
        "import pipesim, pipesim.errors\n"
        "for function in (pipesim.models, lambda: pipesim.Model('gpt2'), pipesim.simulate):\n"
        "    try: function()\n"
        "    except ImportError as error: print(error.name, error)\n"
    )
    lines = in_new_python(program, PYTHONPATH=str(ROOT / "python")).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("_pipesim the compiled part of pipesim is missing: tools/python builds it") for line in lines)


def test_importing_loads_little():
    program = "import sys, pipesim\nprint(*(name for name in ('_pipesim', 'numpy', 'pandas', 'torch') if name in sys.modules))"
    assert in_new_python(program).strip() == ""


def test_every_option_is_described():
    for name in ("simulate", "search", "whatif", "whatif_plan", "whatif_figures", "compare", "accuracy", "calibrate", "execute", "export"):
        function = getattr(pipesim, name)
        text = inspect.getdoc(function)
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert f"\n    {parameter.name}: " in text, (name, parameter.name)


def test_annotations_can_be_read():
    for name in pipesim.__all__:
        value = getattr(pipesim, name)
        assert value.__doc__, name
        if inspect.isfunction(value):
            typing.get_type_hints(value, {**vars(pipesim), **vars(sys.modules[value.__module__])})


def test_the_stub_is_of_the_module():
    import _pipesim

    stub = ast.parse((ROOT / "python" / "_pipesim.pyi").read_text())
    stubbed = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            stubbed[node.name] = None
        if isinstance(node, ast.ClassDef):
            stubbed[node.name] = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    public = {name for name in vars(_pipesim) if not name.startswith("_")}
    assert set(stubbed) == public
    for name, parts in stubbed.items():
        if parts is not None:
            made = {part for part in vars(getattr(_pipesim, name)) if not part.startswith("_")}
            assert parts - {"__init__"} == made, name


def test_types_are_right():
    """Where mypy is installed; calls with wrong types are found."""
    pytest.importorskip("mypy")
    package = pathlib.Path(pipesim.__file__).parent
    files = [str(file) for file in sorted(package.glob("*.py"))]
    user = (
        "import pipesim\n"
        "a: float = pipesim.simulate(model=pipesim.Model('gpt2'), topology='dgx-h100', batch=8).iteration_time_s\n"
        "b: str = pipesim.simulate(model='gpt2').iteration_time_s\n"
        "pipesim.search(modle='gpt2')\n"
        "problem = pipesim.Problem('lenet', 'cpu:2', optimizer='adam')\n"
        "plan = problem.baseline('expert').with_config('conv1', *problem.candidates('conv1')[0])\n"
        "c: float = problem.evaluate(plan).iteration_time_s\n"
        "d: str = plan.options.microbatches\n"
        "problem.evaluate('expert')\n"
    )
    checked = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir=/dev/null"]
    environment = {**os.environ, "MYPYPATH": str(package.parent)}
    strict = subprocess.run([*checked, *files], capture_output=True, text=True, env=environment)
    assert strict.stdout.startswith("Success"), strict.stdout
    wrong = subprocess.run([*checked, "-c", user], capture_output=True, text=True, env=environment)
    assert re.findall(r"<string>:([0-9]+): error", wrong.stdout) == ["3", "4", "8", "9"], wrong.stdout


class Balanced(html.parser.HTMLParser):
    """Raises where an element is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def results():
    recipe = {**LLAMA, "recipe": "tp4,pp2,dp2,sp"}
    yield pipesim.Model("gpt2")
    yield pipesim.Topology("dgx-a100:2")
    yield pipesim.simulate(**recipe)
    yield pipesim.search(**LLAMA, algorithm="recipes")
    yield pipesim.search(**LENET, algorithm="mcmc", proposals=100)
    yield pipesim.whatif(**recipe, vary="nodes=2,4")
    yield pipesim.whatif_plan(**recipe)
    yield pipesim.whatif_figures(**recipe)
    yield pipesim.compare(**LENET)
    yield pipesim.accuracy(data=EXAMPLES / "megatron_golden.csv")
    yield pipesim.calibrate(from_trace=EXAMPLES / "pytorch_h100.trace.json.gz")


def test_results_in_notebooks():
    pandas = pytest.importorskip("pandas")
    for result in results():
        page = result._repr_html_()
        parser = Balanced()
        parser.feed(page)
        parser.close()
        assert parser.open == [] and len(page) > 100, type(result)
        frame = result.to_pandas()
        assert isinstance(frame, pandas.DataFrame) and len(frame) > 0, type(result)


def test_html_escapes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = pipesim.Plan.from_json(json.dumps({"pipesim_plan": 1, "model": "<b>&", "topology": "t"}))
    assert "&lt;b&gt;&amp;" in plan._repr_html_()
