"""MPT models under PyTorch's FSDP (mosaicml/llm-foundry, scripts/train/benchmarking, Apache-2.0)."""

from runs_table import Run, main, part_of, seconds

# Layers, width and heads: llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; the table's numbers of parameters agree.
MODELS = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
          "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (80, 8192, 64)}
WORDS = 50368
NODES = {"a100_80gb": "dgx-a100", "h100_80gb": "dgx-h100"}


def devices(row):
    return row.text("GPU") in NODES and part_of(NODES[row.text("GPU")], 8, row.count("# GPUs"))


def refusal(row):
    if "fp8" in row.text("Precision"):
        return "8-bit types"
    if row.text("Model") not in MODELS:
        return "a model whose sizes pipesim does not know"
    if row.text("GPU") == "a100_40gb":
        return "nodes of A100 with 40 GB"
    if not devices(row):
        return "other nodes than whole ones of A100 or H100"
    if row.text("Sharding Strategy") != "FULL_SHARD":
        return "sharding strategy " + row.text("Sharding Strategy")
    if row.count("# GPUs") * row.count("MicroBatchSize") * row.count("GradAccum") != row.count("GlobalBatchSize"):
        return "a batch that microbatches do not divide"
    if row.number("Throughput (T/s)") == 0:
        return "no rate measured"
    return ""


def run_of(row):
    model, gpu, recomputes = row.text("Model"), row.text("GPU"), row.flag("Activation Checkpointing")
    gpus, microbatch = row.count("# GPUs"), row.count("MicroBatchSize")
    run = Run(f"{model} of {row.text('SeqLen (T)')} tokens on {gpus} {gpu}: mbs{microbatch} x {row.count('GradAccum')}" +
              (", recompute" if recomputes else ""), reason=refusal(row))
    if run.reason:
        return run
    layers, hidden, heads = MODELS[model]
    batch, sequence = row.count("GlobalBatchSize"), row.count("SeqLen (T)")
    run.status, run.batch, run.devices = "ok", batch, devices(row)
    # The table has samples a second, too, without their fractions.
    run.time = seconds(batch * sequence / row.number("Throughput (T/s)"))
    run.group = [gpu, model, f"{gpus} GPUs", f"{sequence} tokens", "recompute" if recomputes else "no recompute"]
    run.workload = f"{model} of {sequence} tokens on {gpus} {gpu}, batch {batch}"
    run.traits = {c: row.count(c) for c in ("SeqLen (T)", "# GPUs", "MicroBatchSize", "GradAccum")} | {"hidden": hidden}
    run.model = (f"gpt:dtype=bfloat16,sequence={sequence},positions={sequence},layers={layers},hidden={hidden},heads={heads},"
                 f"vocab={WORDS},dropout=0")
    run.recipe = f"dp{gpus},mbs{microbatch},zero3" + (",recompute=full" if recomputes else "")
    # Composer's DecoupledAdamW (composer/optim/decoupled_weight_decay.py) updates tensor by tensor.
    run.runtime = "torch-eager:flash=1,optimizer-kernel=single"
    return run


if __name__ == "__main__":
    main(__doc__, ("Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum", "GlobalBatchSize",
                   "Throughput (T/s)", "Precision", "Sharding Strategy", "Activation Checkpointing"),
         lambda rows: [run_of(row) for row in rows])
