"""Llama 3 under torchtitan (pytorch/torchtitan, docs/performance.md and benchmarks/, BSD-3)."""

import dataclasses
import re

from runs_table import Run, main, part_of, seconds, size

LONGEST = 131072  # the models' longest sequence
# torchtitan's H100s have 96 GB at 500 W (benchmarks/llama3_h100_202412_torchtitan.md).
NODE = "grand-teton"
# "Llama3 8b on 64 H100s with FSDP=8, TP=8, torch.compile, per op SAC, local batch size 12"
SECTION = re.compile(r"Llama3 (\d+)b on (\d+) H100s with FSDP=(\d+), TP=(\d+).*local batch size (\d+)")


@dataclasses.dataclass
class Setting:
    technique: str  # what to call the way it ran
    rate: float  # tokens a second and GPU
    model: str = ""  # "8B"
    node: str = NODE
    gpus: int = 0
    samples: int = 0  # of an iteration
    sequence: int = 8192
    tp: int = 1
    cp: int = 1
    pp: int = 1
    chunks: int = 1
    microbatch: int = 0
    compiled: bool = True
    float8: bool = False
    overlapped: bool = False  # asynchronous tensor parallelism
    again: str = "op"  # what runs again before backward, as recipes say it
    kept: str = "torch-compile"  # what is kept for backward; the loss was not compiled before 2025
    memory: float | None = None  # GiB that PyTorch's allocator reserved on the fullest GPU
    reference: str = ""  # the technique that it is compared with

    def copies(self):
        return self.gpus // (self.tp * self.cp * self.pp)

    def named(self, by):
        return f"{self.model} of {self.sequence} tokens on {self.gpus} GPUs: {by}"

    def way(self):
        if self.pp > 1:
            return "pp"
        if self.cp > 1:
            return "cp"
        return ("tp beside products" if self.overlapped else "tp") if self.tp > 1 else "fsdp"

    def recipe(self):
        text = f"tp{self.tp},cp{self.cp},pp{self.pp},dp{self.copies()},mbs{self.microbatch}"
        text += ",sp" if self.tp > 1 else ""
        text += f",vpp{self.chunks}" if self.chunks > 1 else ""
        # With pipelines, weights stay gathered from forward to backward.
        if self.copies() * self.cp > 1:
            text += ",fsdp,reshard=never" if self.pp > 1 else ",fsdp"
        return text + ",recompute=" + self.again

    def run(self):
        run = Run(self.named(self.technique), status="ok")
        run.time = seconds(self.samples * self.sequence / (self.rate * self.gpus))
        run.group = [self.model, self.node, "compiled" if self.compiled else "eager", "float8" if self.float8 else "bfloat16",
                     self.way()]
        run.workload = f"{self.model} of {self.sequence} tokens on {self.gpus} GPUs, batch {self.samples}"
        if self.reference:
            run.compared_with = self.named(self.reference)
        run.traits = {"gpus": self.gpus, "tp": self.tp, "cp": self.cp, "sequence": self.sequence}
        run.model = (f"llama3-{self.model.lower()}:dtype=bfloat16,sequence={self.sequence}" +
                     (",products=float8" if self.float8 else "") + ",kept=" + self.kept)
        run.devices, run.recipe, run.batch = part_of(self.node, 8, self.gpus), self.recipe(), self.samples
        run.runtime = ("torch-eager:" if not self.compiled else
                       "torch-compile:tensor-overlap=always," if self.overlapped else "torch-compile:")
        run.runtime += "segments=expandable"  # PYTORCH_CUDA_ALLOC_CONF in run_llama_train.sh and run_train.sh
        if self.memory:
            run.memory, run.memory_figure = size(self.memory * 2**30), "reserved"
        return run


class Refused(Exception):
    pass


def rate(row, column):
    if row.number(column) == 0:
        row.refuse(f'column "{column}": found "{row.text(column)}", allowed: a number above 0')
    return row.number(column)


def memory(row):
    return row.number("Memory(GiB)") if row.text("Memory(GiB)") else None


def asynchronous(row, overlapped, column):
    """asyncTP_llama3_h100_2025-06_torchtitan.md: models and devices are in the titles of its sections."""
    told = SECTION.search(row.text("section"))
    if not told:
        raise Refused("devices that are not told")
    if "rowwise" in row.text("Quantization"):
        raise Refused("float8 with a scale for each row")
    model, gpus, shards, tp, microbatch = map(int, told.groups())
    if shards * tp != gpus:
        raise Refused("degrees that do not give the number of GPUs")
    s = Setting("", rate(row, column), f"{model}B", gpus=gpus, tp=tp, microbatch=microbatch, samples=microbatch * shards,
                float8="float8" in row.text("Quantization"), overlapped=overlapped)
    s.again = "full" if "full AC" in row.text("section") else "op"
    kind = "float8" if s.float8 else "bfloat16"
    s.technique = ("async TP, " if overlapped else "TP, ") + kind
    s.reference = "TP, " + kind if overlapped else ""
    return s


def on_h200(row):
    """Llama 3.1 8B, compiled, in float8: llama3-8b_h200_202506_trainy-whitefiber.md."""
    if "h200" not in row.text("path"):
        raise Refused("devices that are not told")
    gpus = 8 * row.count("NUM_NODES")
    return Setting("FSDP + torch.compile + Float8", rate(row, "TPS/GPU"), "8B", node="hgx-h200", gpus=gpus, microbatch=2,
                   samples=2 * gpus, float8=True, memory=memory(row))


def on_a100(row):
    """Llama 3 on 64 A100, a sample on each, not compiled: performance.md of 2024."""
    if row.text("Model size") not in ("8B", "70B"):
        raise Refused("devices that are not told")
    kept = row.text("Activation checkpointing")
    return Setting("FSDP, " + kept, rate(row, "WPS"), row.text("Model size"), node="dgx-a100", gpus=64, samples=64,
                   microbatch=1, compiled=False, kept="torch-eager",
                   again={"full": "full", "selective layer": "every:2"}.get(kept, "op"))


def on_h100(row, seen):
    """Tables 1 to 6 of llama3_h100_202412_torchtitan.md, in their order: nothing but how often a cell has come in a document
    tells its tables apart."""

    def comes_again(column):
        key = (row.text("commit"), row.text("path"), column, row.text(column), row.text("Sequence Length"))
        seen[key] = seen.get(key, 0) + 1
        return seen[key] > 1

    s = Setting("", rate(row, "TPS/GPU"), float8=True, kept="torch", memory=memory(row))
    if row.text("Techniques"):
        s.technique = row.text("Techniques")
        again = comes_again("Techniques")
        if s.technique.startswith("FSDP"):
            s.model, s.gpus, s.microbatch = "8B", 128 if again else 8, 2
            s.compiled, s.float8 = "torch.compile" in s.technique, "Float8" in s.technique
            s.kept = "torch" if s.compiled else "torch-eager"
            s.reference = "FSDP" if s.technique != "FSDP" else ""
        elif s.technique.startswith("2D"):
            s.model, s.gpus, s.tp, s.microbatch, s.again = "70B", 256, 8, 16, "full"
            s.overlapped = "AsyncTP" in s.technique
            s.reference = "2D" if s.overlapped else ""
        else:
            raise Refused("a technique that pipesim does not know")
        s.samples = s.microbatch * s.copies()
        return s
    s.again = "full"
    if row.text("Schedule"):
        s.technique, s.model, s.gpus, s.tp, s.pp, s.samples, s.overlapped = row.text("Schedule"), "405B", 512, 8, 8, 256, True
        s.chunks = 2 if "Interleaved" in s.technique else 1
        s.reference = "1F1B" if s.chunks > 1 else ""
    else:
        s.technique = row.text("Parallelism")
        again = comes_again("Parallelism")
        s.sequence = row.count("Sequence Length")
        told = dict(re.findall(r"(\w+) (\d+)", s.technique))
        s.cp, shards = int(told.get("CP", 0)), int(told.get("FSDP", 0))
        if s.cp < 1 or shards < 1:
            raise Refused("degrees that are not told")
        if s.sequence > LONGEST:
            raise Refused("sequences longer than those of pipesim's models")
        s.model, s.gpus = ("405B", 512) if again else ("8B", 8)
        if again:
            s.tp, s.pp, s.overlapped = 8, 8, True
        if s.copies() != shards:
            raise Refused("degrees that do not give the number of GPUs")
        s.samples = shards * (8 if again else 1)
    # There are as many microbatches as stages, which was torchtitan's default at that time.
    s.microbatch = s.samples // s.copies() // s.pp
    return s


def readings(row, seen):
    """The settings of a row, as functions."""
    if row.text("TP type"):
        return [lambda: asynchronous(row, "Async" in row.text("TP type"), "Average TPS")]
    if row.text("Vanilla TP tokens/sec") or row.text("Async TP tokens/sec"):
        return [lambda: asynchronous(row, False, "Vanilla TP tokens/sec"),
                lambda: asynchronous(row, True, "Async TP tokens/sec")]
    if row.text("NUM_NODES"):
        return [lambda: on_h200(row)]
    if row.text("WPS"):
        return [lambda: on_a100(row)]
    if row.text("Techniques") or row.text("Parallelism") or row.text("Schedule"):
        return [lambda: on_h100(row, seen)]
    return [lambda: None]


def runs_of(rows):
    seen, known, runs = {}, set(), []
    for row in rows:
        for reading in readings(row, seen):
            try:
                setting = reading()
                if setting is None:
                    raise Refused("a form of row that pipesim does not know")
                run = setting.run()
                if (run.name, run.time) in known:
                    run = Run(run.name, time=run.time, status="ok", group=run.group, workload=run.workload, traits=run.traits,
                              compared_with=run.compared_with, reason="a repetition of a row before")
                known.add((run.name, run.time))
            except Refused as refused:
                run = Run(" ".join(row.text(c) for c in ("Model size", "Techniques", "Parallelism", "Schedule", "TPS/GPU")),
                          reason=str(refused))
            run.source = row.text("path")
            runs.append(run)
    return runs


if __name__ == "__main__":
    main(__doc__, ("commit", "path", "section", "Quantization", "Vanilla TP tokens/sec", "Async TP tokens/sec", "TP type",
                   "Average TPS", "NUM_NODES", "TPS/GPU", "Memory(GiB)", "Techniques", "Parallelism", "Sequence Length", "Schedule",
                   "Model size", "Activation checkpointing", "WPS"), runs_of)
