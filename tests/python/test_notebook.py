"""docs/planning.ipynb runs, and prints what it holds. PIPESIM_RECORD=1 writes its outputs again."""

import os
import pathlib
import re

import pytest

import compiled  # noqa: F401

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "planning.ipynb"


def outputs(notebook):
    """What each cell shows, but for how long a search took."""
    shown = []
    for cell in notebook.cells:
        texts = []
        for out in cell.get("outputs", ()):
            texts += [out["text"]] if "text" in out else [text for _, text in sorted(out["data"].items())]
        shown.append(re.sub(r"wall_time_s=[0-9.e-]+", "wall_time_s", "".join(texts)))
    return shown


def test_the_notebook_shows_what_it_holds():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    held = outputs(notebook)
    assert sum(bool(text) for text in held) >= 9
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    if os.environ.get("PIPESIM_RECORD"):
        for cell in notebook.cells:
            cell.metadata = {}
        notebook.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        }
        nbformat.write(notebook, NOTEBOOK)
    else:
        assert outputs(notebook) == held
