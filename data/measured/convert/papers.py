"""Iteration times that papers give of GPTs under Megatron-LM on A100: arXiv:2104.04473, 2205.05198, 2402.15627."""

from runs_table import Run, main, part_of, seconds


def refusal(row):
    if not row.text("gpu").startswith("A100-80GB"):
        return "a GPU that pipesim does not know"
    if "GPT" not in row.text("model") and "22B" not in row.text("model"):
        return "a model other than GPT"
    if not part_of("dgx-a100", 8, row.count("n_gpus")):
        return "nodes that are not whole"
    if not row.text("mbs"):
        return "a microbatch that is not told"
    if "not given" in row.text("schedule"):
        return "a number of stages that is not told"
    if row.text("recompute") not in ("full", "selective", ""):
        return "recompute " + row.text("recompute")
    if row.number("iter_time_s") == 0:
        return "no time measured"
    return ""


def run_of(row):
    recompute, gpus, batch = row.text("recompute"), row.count("n_gpus"), row.count("gbs")
    degrees = f"tp{row.count('tp')} pp{row.count('pp')} dp{row.count('dp')}"
    run = Run(f"{row.text('model')} on {gpus}: {degrees}" + (f" {recompute}" if recompute else ""), reason=refusal(row),
              source=row.text("source"))
    if run.reason:
        return run
    run.status, run.batch, run.devices = "ok", batch, part_of("dgx-a100", 8, gpus)
    run.time = seconds(row.number("iter_time_s"))
    run.group = [f"pp {row.count('pp')}"]
    run.workload = f"{row.text('model')} on {gpus} GPUs, batch {batch}"
    run.traits = {c: row.count(c) for c in ("n_gpus", "pp", "dp", "hidden")}
    # Before FlashAttention (arXiv:2205.14135), attention wrote its scores.
    scores = any(before in row.text("source") for before in ("arXiv:2104.", "arXiv:2205."))
    sequence = row.count("seq")
    run.model = (f"gpt:dtype=float16,sequence={sequence},positions={sequence},layers={row.count('layers')},"
                 f"hidden={row.count('hidden')},ffn={row.count('ffn')},heads={row.count('heads')},vocab={row.count('vocab')},"
                 f"attention={'scores' if scores else 'fused'},kept=megatron")
    run.recipe = degrees.replace(" ", ",") + f",mbs{row.count('mbs')}"
    if row.count_or_none("vpp") > 1:
        run.recipe += f",vpp{row.count('vpp')}"
    if row.count_or_none("seq_par") > 0:
        run.recipe += ",sp"
    if recompute:
        run.recipe += ",recompute=" + recompute
    return run


if __name__ == "__main__":
    main(__doc__, ("source", "model", "hidden", "ffn", "heads", "layers", "vocab", "seq", "gpu", "n_gpus", "tp", "pp", "dp",
                   "vpp", "schedule", "recompute", "seq_par", "gbs", "mbs", "iter_time_s"),
         lambda rows: [run_of(row) for row in rows])
