"""InternLM-7B under InternEvo on A100 (InternLM/InternEvo, doc/en/train_performance.md, Apache-2.0).

State that all copies divide is compared with state that those of a node divide.
"""

import dataclasses
import re

from runs_table import Run, main, part_of, seconds

# A column of rates for each number of GPUs.
RATES = {f"{gpus} GPUs": gpus for gpus in (8, 16, 32, 64, 128, 256, 512, 1024)}


@dataclasses.dataclass
class Setting:
    gpus: int
    tp: int
    shard: int  # 0: all copies divide the optimizer's state
    microbatch: int
    microbatches: int
    rate: float  # tokens a second and GPU
    sequence: int = 2048
    recomputes: bool = False

    def copies(self):
        return self.gpus // self.tp

    def named(self, divided):
        return (f"7B on {self.gpus}: tp{self.tp} mbs{self.microbatch} x {self.microbatches}"
                f"{' recompute' if self.recomputes else ''}, state over {divided or 'all'}")

    def run(self):
        """InternLM-7B (InternEvo, configs/7B_sft.py): 32 layers of width 4096, ffn 8/3 of it in steps of 256, 103,168
        words, biases in attention. Gradients and weights travel beside compute (overlap_sync_grad, overlap_sync_param).
        Gradients are summed in the type of weights."""
        run = Run(self.named(self.shard))
        devices = part_of("roce-a100", 8, self.gpus)
        if not devices or self.gpus % self.tp != 0 or (self.shard > 0 and self.copies() % self.shard != 0):
            run.reason = "degrees that do not divide the number of GPUs"
            return run
        if self.rate == 0:
            run.reason = "no rate measured"
            return run
        run.status, run.devices = "ok", devices
        run.batch = self.copies() * self.microbatch * self.microbatches
        run.time = seconds(run.batch * self.sequence / (self.rate * self.gpus))
        run.group = [f"{self.gpus} GPUs", f"tp {self.tp}", "state over a node" if self.shard > 0 else "state over all",
                     "recompute" if self.recomputes else "no recompute"]
        run.workload = f"7B on {self.gpus} GPUs, batch {run.batch}"
        # Both divide alike where a node is all there is.
        if self.shard == 0:
            run.compared_with = self.named(8 // self.tp)
        run.traits = {"gpus": self.gpus}
        run.model = (f"llama:dtype=bfloat16,sequence={self.sequence},layers=32,hidden=4096,heads=32,kv_heads=32,ffn=11008,"
                     "vocab=103168,attention_bias=all")
        run.recipe = (f"tp{self.tp},dp{self.copies()},mbs{self.microbatch},zero1" +
                      (f",shard={self.shard}" if self.shard > 0 else "") +
                      (",overlap=gather" if self.copies() > 1 else "") + (",recompute=full" if self.recomputes else ""))
        run.gradient_type, run.runtime = "bfloat16", "internevo"
        return run


def scaling(row):
    """Four microbatches, of two samples with tp1 and of four with tp2 (doc/en/train_performance.md)."""
    parts = {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", row.text("Parallel Configuration"))}
    tp, shard = parts.get("tp", 0), parts.get("zero1", 0)
    if tp < 1:
        return [Run(f"7B: {row.text('Parallel Configuration')}", reason="degrees that are not told")]
    return [Setting(gpus, tp, max(shard, 0), 2 * tp, 4, row.number(column)).run() for column, gpus in RATES.items()
            if row.number(column) > 0]


def settings(row):
    if row.text("Parallel Configuration"):
        return scaling(row)
    if row.text("TGS"):
        return [Setting(row.count("GPU Num"), row.count("TP"), row.count("Zero1"), row.count("Micro Bsz"),
                        row.count("Micro Num"), row.number("TGS"), row.count("Seq Len"), row.flag("Activation Ckpt")).run()]
    reason = ("memory of a kind that is not told" if row.text("GPU Memory (GB)") else
              "the best of other rows" if row.text("GPU Number") else "a row that tells of the setting, not of a run")
    return [Run(f"{row.text('section')} {row.text('model')} {row.text('Number of GPU')}", reason=reason)]


def runs_of(rows):
    known, runs = set(), []
    for run in (run for row in rows for run in settings(row)):
        if not run.reason:
            if run.name in known:
                run = Run(run.name, time=run.time, status="ok", group=run.group, workload=run.workload, traits=run.traits,
                          compared_with=run.compared_with, reason="a run that a row before tells, too")
            known.add(run.name)
        runs.append(run)
    return runs


if __name__ == "__main__":
    main(__doc__, ("section", "GPU Number", "Parallel Configuration", "TP", "Zero1", "Activation Ckpt", "GPU Num", "Seq Len",
                   "Micro Bsz", "Micro Num", "TGS", "model", "Number of GPU", "GPU Memory (GB)", *RATES), runs_of)
