"""Runs that NVIDIA publishes with NeMo (docs/source/performance), and with Megatron-Bridge (docs/performance-summary*.md),
both Apache-2.0.

NeMo's tables are of products in float8 on DGX H100, unless a section names another GPU. Those of Megatron-Bridge say system
and precision of each row; a figure in brackets is of a second setting, which is a run of its own. Rows are not judged that
train adapters only, or whose columns leave a recipe open.
"""

import re

from nvidia import MODELS, Degrees, devices_of, gpu_of, model_text, refusal_of_system, runtime_of
from runs_table import Run, main, seconds

RATE = "Tokens / sec / GPU"
BOTH = ("#-GPUs", "GBS", "MBS", "Sequence Length", "TP", "PP", "CP", "VP", RATE)
NEMO = BOTH + ("section", "Model")
BRIDGE = BOTH + ("task", "model", "System", "Precision", "EP", "FSDP")
# What products=... says. Megatron-Bridge's FP8 has current scales (perf_recipes/_common.py), NeMo's has those of earlier
# iterations.
PRECISIONS = {"BF16": "own", "FP8": "float8", "FP8-CS": "float8", "FP8-MX": "mxfp8", "MXFP8": "mxfp8", "NVFP4": "nvfp4"}
TWO = re.compile(r"\s*(\S+)\s*\((\S+)\)\s*")


def settings(row):
    """The settings of a row: two where cells are such as "1 (2)"."""
    columns = [c for c in BOTH + ("Precision", "EP", "FSDP") if TWO.fullmatch(row.cells.get(c, ""))]
    if not columns:
        return [row]
    return [row.with_cells(**{c: TWO.fullmatch(row.text(c)).group(which) for c in columns}) for which in (1, 2)]


class Published:
    def __init__(self, row, several):
        self.row, self.several, self.bridge = row, several, "Precision" in row.cells
        title = row.text("model" if self.bridge else "Model")
        self.dropped = "tokendrop" in title
        self.model = title.split(" (")[0].replace("_", "-")
        # The System of a row, or the GPU that a section of NeMo's names; its other tables are of DGX H100.
        self.gpu = gpu_of(row.text("System")) if self.bridge else gpu_of(row.text("section")) or "H100"
        self.task = row.text("task" if self.bridge else "section")

    def precision(self):
        return PRECISIONS.get(self.row.text("Precision"), "") if self.bridge else "fp8-delayed"

    def degree(self, column):
        return 1 if self.row.text(column) in ("", "n/a") else self.row.count(column)

    def degrees(self):
        row = self.row
        return Degrees(gpus=row.count("#-GPUs"), tp=row.count("TP"), pp=row.count("PP"), cp=self.degree("CP"),
                       ep=self.degree("EP") if self.bridge else 1, vpp=self.degree("VP"), mbs=row.count("MBS"),
                       batch=row.count("GBS"))

    def refusal(self):
        row = self.row
        if "retraining" not in self.task and "Pre-Training" not in self.task:
            return ("no rate measured" if "B200" in self.task else "a model that is not told" if "Long" in self.task else
                    "finetuning, some of it of adapters only")
        if self.bridge and not row.text("Precision"):
            return "a precision that is not told"
        if not self.precision():
            return "a precision that pipesim does not know: " + row.text("Precision")
        if not self.bridge and not row.text("VP") and row.text("PP") != "1":
            return "a number of stages that is not told"
        if self.dropped:
            return "tokens that are dropped"
        if self.model not in MODELS:
            return "a model that pipesim does not know: " + self.model
        reason = refusal_of_system(self.gpu, row.count("#-GPUs"))
        if reason:
            return reason
        return "no rate measured" if row.number(RATE) == 0 else self.degrees().refusal()

    def recipe(self, degrees):
        if self.bridge and self.row.count_or_none("FSDP") > 1:
            return f"dp{degrees.copies()},mbs{degrees.mbs},zero3"
        # Embedding and head count as layers.
        return degrees.recipe() + (",first=15,last=15" if self.model == "LLAMA3.1-405B" else "")

    def run(self):
        row, system = self.row, " " + self.gpu if self.several else ""
        run = Run(f"{self.model} on {row.text('#-GPUs')}{system}: tp{row.text('TP')} pp{row.text('PP')} cp{row.text('CP')}",
                  reason=self.refusal())
        if run.reason:
            return run
        d, sequence = self.degrees(), row.count("Sequence Length")
        run.status, run.batch, run.devices = "ok", d.batch, devices_of(self.gpu, d.gpus)
        run.time = seconds(d.batch * sequence / (row.number(RATE) * d.gpus))
        run.group = [self.model, f"tp {d.tp}", f"pp {d.pp}", "bfloat16" if self.precision() == "own" else self.precision()] + ([self.gpu] if self.several else [])
        run.workload = f"{self.model} on {d.gpus}{system} GPUs, batch {d.batch}"
        run.traits = {c: row.count(c) for c in ("#-GPUs", "GBS", "MBS", "TP", "PP")}
        run.model = model_text(self.model, sequence, self.precision())
        run.recipe, run.gradient_type, run.runtime = self.recipe(d), "bfloat16", runtime_of(True)
        return run


def runs_of(rows):
    published = [setting for row in rows for setting in settings(row)]
    several = len({row.cells.get("System") for row in rows}) > 1
    return [Published(row, several).run() for row in published]


if __name__ == "__main__":
    main(__doc__, lambda columns: BRIDGE if "Precision" in columns else NEMO, runs_of)
