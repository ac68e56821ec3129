"""Runs that NVIDIA publishes with NeMo (docs/source/performance), and with Megatron-Bridge (docs/performance-summary*.md),
both Apache-2.0.

NeMo's tables are of products in float8 on DGX H100, unless a section names another GPU. Those of Megatron-Bridge say system
and precision of each row; a figure in brackets is of a second setting, which is a run of its own. What columns leave open is
taken from the recipe that the row's release has for the same model, system, precision, degrees and microbatch
(bridge_recipes.csv); rows that no recipe is for run as the columns say and as most recipes do. Rows are not judged that train
adapters only, or whose columns leave a recipe open.
"""

import csv
import pathlib
import re

from nvidia import KEYS, Degrees, devices_of, gpu_of, key_of, model_text, refusal_of_system, runtime_of
from runs_table import Run, main, seconds

RECIPES = pathlib.Path(__file__).resolve().with_name("bridge_recipes.csv")
RATE = "Tokens / sec / GPU"
BOTH = ("#-GPUs", "GBS", "MBS", "Sequence Length", "TP", "PP", "CP", "VP", RATE)
NEMO = BOTH + ("section", "Model")
BRIDGE = BOTH + ("task", "model", "System", "Precision", "EP", "FSDP")
# Performance recipes of Megatron-Bridge scale float8 by the tensor at hand and keep no layer in 16 bits, NeMo's by tensors of
# earlier iterations.
PRECISIONS = {"BF16": "own", "FP8": "float8", "FP8-CS": "float8", "FP8-MX": "mxfp8", "MXFP8": "mxfp8", "NVFP4": "nvfp4"}
NEMO_PRECISION = "fp8-delayed"
# docs/performance-summary*.md: "Muon optimizer was used for pre-training Kimi-K2".
OPTIMIZERS = {"Kimi-K2": "muon"}
# DeepSeek-V3 chooses a token's experts from 4 of 8 groups (topk_group of its config.json, which Megatron-Bridge takes over).
# Groups lie one behind the other, so that they are on as many nodes at most; what sends a token once to each node gains.
GROUPS_OF_A_TOKEN = {"DeepSeekV3": 4}
TWO = re.compile(r"\s*(\S+)\s*\((\S+)\)\s*")


def settings(row):
    """The settings of a row: two where cells are such as "1 (2)"."""
    columns = [c for c in BOTH + ("Precision", "EP", "FSDP") if TWO.fullmatch(row.cells.get(c, ""))]
    if not columns:
        return [row]
    return [row.with_cells(**{c: TWO.fullmatch(row.text(c)).group(which) for c in columns}) for which in (1, 2)]


def all_recipes():
    with open(RECIPES, encoding="utf-8", newline="") as table:
        return [{**row, "model": key_of(row["model"])} for row in csv.DictReader(table)]


class Published:
    def __init__(self, row, several, recipes):
        self.row, self.several, self.bridge = row, several, "Precision" in row.cells
        self.title = row.text("model" if self.bridge else "Model")
        self.model = KEYS.get(key_of(self.title.split(" (")[0]), "")
        # The System of a row, or the GPU that a section of NeMo's names; its other tables are of DGX H100.
        self.system = row.text("System") if self.bridge else row.text("section")
        self.gpu = gpu_of(self.system) or ("" if self.bridge else "H100")
        self.task = row.text("task" if self.bridge else "section")
        self.recipes = recipes
        self.told = None

    def precision(self):
        return PRECISIONS.get(self.row.text("Precision"), "") if self.bridge else NEMO_PRECISION

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
        if "tokendrop" in self.title:
            return "tokens that are dropped"
        if not self.model:
            return "a model that pipesim does not know: " + self.title.split(" (")[0]
        if self.system and not self.gpu:
            return "a system that pipesim does not know: " + self.system
        reason = refusal_of_system(self.gpu, row.count("#-GPUs"))
        if reason:
            return reason
        return "no rate measured" if row.number(RATE) == 0 else self.degrees().refusal()

    def find_recipe(self, d):
        """What the row's release sets for these degrees; with the row's batch, where several do."""
        release = self.row.cells.get("container", "").split(" ")[0]
        same = {"model": key_of(self.model), "system": self.gpu, "gpus": d.gpus, "precision": self.precision(), "tp": d.tp,
                "pp": d.pp, "cp": d.cp, "vp": d.vpp, "ep": d.ep, "mbs": d.mbs}
        found = [r for r in self.recipes if release in r["containers"].split(";")
                 and all(r[name] == str(value) for name, value in same.items())]
        return next((r for r in found if r["gbs"] == str(d.batch)), found[0] if found else None)

    def stages(self, d):
        """The layers of each stage by the recipe, or by any recipe that has the same model in as many stages."""
        of = self.told or next((r for r in self.recipes if r["model"] == key_of(self.model) and r["stages"]
                                and (r["pp"], r["vp"]) == (str(d.pp), str(d.vpp))), None)
        return of["stages"] if of else ""

    def recipe(self, d):
        fully_sharded = self.told["fsdp"] == "yes" if self.told else self.bridge and self.row.count_or_none("FSDP") > 1
        text = d.recipe("zero3" if fully_sharded else "zero1")
        stages = self.stages(d) if d.pp > 1 else ""
        text += ",layers=" + stages if stages else ""
        if self.told and self.told["recompute"]:
            text += ",recompute=" + self.told["recompute"].replace("block:", "full:")
        if self.told and self.told["expert_overlap"]:
            text += f",schedule=interleaved-beside:{d.pp}"
        return text

    def further_tokens(self):
        """Titles say where a run is with, or without, the prediction of further tokens."""
        if "w/o MTP" in self.title:
            return 0
        return 1 if "w/ MTP" in self.title else int(self.told["further_tokens"] or 0) if self.told else 0

    def model_options(self):
        further = self.further_tokens()
        own = [f"{name}={self.told[name]}" for name in ("own_at_start", "own_at_end") if self.told and self.told[name]]
        limited = self.told and self.told["dispatcher"] in ("deepep", "hybridep")
        nodes = [f"token_nodes={GROUPS_OF_A_TOKEN[self.model]}"] if limited and self.model in GROUPS_OF_A_TOKEN else []
        return own + nodes + ([f"further_tokens={further}"] if further else [])

    def runtime(self):
        if not self.told:
            return runtime_of(True)
        graphs = "iteration" if self.told["graphs"] == "full_iteration" else (
            self.told["graph_scope"] or ("layer" if self.told["graphs"] else ""))
        return runtime_of(self.told["tensor_overlap"] == "yes", graphs, self.told["dispatcher"])

    def run(self):
        row, system = self.row, " " + self.gpu if self.several else ""
        name = self.model or self.title.split(" (")[0]
        run = Run(f"{name} on {row.text('#-GPUs')}{system}: tp{row.text('TP')} pp{row.text('PP')} cp{row.text('CP')}",
                  reason=self.refusal())
        if run.reason:
            return run
        d, sequence, precision = self.degrees(), row.count("Sequence Length"), self.precision()
        self.told = self.find_recipe(d) if self.bridge else None
        run.recipe = self.recipe(d)
        run.status, run.batch, run.devices = "ok", d.batch, devices_of(self.gpu, d.gpus)
        run.time = seconds(d.batch * sequence / (row.number(RATE) * d.gpus))
        run.group = [self.model, f"tp {d.tp}", f"pp {d.pp}", "bfloat16" if precision == "own" else precision]
        run.group += [self.gpu] if self.several else []
        run.group += [("settings by a recipe" if self.told else "settings by columns alone")] if self.bridge else []
        run.group += ["activations go to the host, which is left out"] if self.told and self.told["offload"] else []
        run.workload = f"{self.model} on {d.gpus}{system} GPUs, batch {d.batch}"
        run.traits = {c: row.count(c) for c in ("#-GPUs", "GBS", "MBS", "TP", "PP")}
        run.model = model_text(self.model, sequence, precision, self.model_options())
        run.gradient_type, run.runtime = "bfloat16", self.runtime()
        run.optimizer = OPTIMIZERS.get(self.model, "")
        if self.told and self.told["moments"] == "bfloat16" and not run.optimizer:
            run.optimizer = "adam,moments=bfloat16"
        run.source = "settings: Megatron-Bridge " + self.told["source"] if self.told else ""
        return run


def runs_of(rows):
    published = [setting for row in rows for setting in settings(row)]
    several, recipes = len({row.cells.get("System") for row in rows}) > 1, all_recipes()
    return [Published(row, several, recipes).run() for row in published]


if __name__ == "__main__":
    main(__doc__, lambda columns: BRIDGE if "Precision" in columns else NEMO, runs_of)
