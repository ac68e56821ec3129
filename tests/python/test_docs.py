"""The examples of docs/python.md run, one after the other."""

import pathlib
import re

import compiled  # noqa: F401
import pipesim

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_examples_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 5
    names = {}
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), names)
    printed = capsys.readouterr().out
    assert 'unknown model "llama3-9b" (did you mean "llama3-8b"?)' in printed
    assert names["best"].simulation.iteration_time_s < names["s"].iteration_time_s
    begin = names["problem"].evaluate(names["problem"].baseline("data-parallel")).iteration_time_s
    assert names["time_s"] < begin
    assert pipesim.simulate(plan="alexnet.plan.json").iteration_time_s == names["time_s"]
    assert len(names["study"].points) == 4 and names["quick"].interrupted
    assert (tmp_path / "llama.plan.json").exists() and (tmp_path / "llama.model.json").exists()
