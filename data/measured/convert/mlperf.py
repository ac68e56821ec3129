"""Runs of GPT-3 175B in MLPerf Training (mlcommons/training_results_v*, Apache-2.0)."""

from nvidia import Degrees, devices_of, gpu_of, model_text, PRESETS, refusal_of_system, runtime_of
from runs_table import Run, main, seconds

MANY_MICROBATCHES = 16  # for each of a pipeline's groups


def system_of(row):
    """The GPU that the platform names, or the system, or the configuration."""
    return gpu_of(row.text("platform")) or gpu_of(row.text("system")) or gpu_of(row.text("config_file"))


def degrees_of(row):
    return Degrees(gpus=row.count("n_gpus"), tp=row.count("tp"), pp=row.count("pp"), cp=max(1, row.count_or_none("cp")),
                   vpp=max(1, row.count_or_none("vpp")), mbs=row.count("mbs"), batch=row.count("gbs"))


def refusal(row):
    if row.text("config_unique") != "1":
        return "a configuration that is not told for sure, or not of GPUs"
    if row.number("throughput_reported") == 0:
        return "no rate measured"
    if not row.text("vpp") and row.count("grad_acc") < MANY_MICROBATCHES * row.count("pp"):
        return "a number of stages that is not told and matters, with few microbatches"
    return refusal_of_system(system_of(row), row.count("n_gpus")) or degrees_of(row).refusal()


def run_of(row):
    run = Run(f"{row.text('round')} {row.text('system')}", reason=refusal(row))
    if run.reason:
        return run
    d, gpu = degrees_of(row), system_of(row)
    run.name += f": tp{d.tp} pp{d.pp} dp{d.copies()}"
    run.status, run.batch, run.devices = "ok", d.batch, devices_of(gpu, d.gpus)
    run.time = seconds(d.batch * row.count("seq") / row.number("throughput_reported"))
    run.group = [row.text("round"), PRESETS[gpu][0]]
    run.traits = {c: row.count(c) for c in ("n_gpus", "grad_acc", "pp")}
    run.model = model_text("GPT3-175B", row.count("seq"), "fp8-delayed")
    run.recipe, run.gradient_type = d.recipe(), "bfloat16"
    run.runtime = runtime_of("TP_COMM_OVERLAP=True" in row.text("other_flags"))
    return run


if __name__ == "__main__":
    main(__doc__, ("round", "system", "platform", "config_file", "n_gpus", "tp", "pp", "vpp", "cp", "mbs", "gbs", "grad_acc",
                   "seq", "throughput_reported", "other_flags", "config_unique"), lambda rows: [run_of(row) for row in rows])
