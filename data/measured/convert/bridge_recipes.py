"""What the performance recipes of NVIDIA-NeMo/Megatron-Bridge (Apache-2.0) set, release by release.

A recipe is a Python function. It is called with stand-ins for all that it imports but other recipes, and what it has set is
written: a row for each recipe of pre-training. Up to release 0.5 these are scripts/performance/configs/*/*_pretrain.py, later
src/megatron/bridge/perf_recipes. What a recipe leaves to Megatron-LM's defaults stays empty. Needs a clone with tags and git.
"""

import argparse
import csv
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import logging
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import types
import typing

# The tag that was newest when the documents of a container were published.
RELEASES = {"25.11": "v0.2.0", "26.02": "v0.3.0", "26.02.01": "v0.3.1", "26.04": "v0.4.0", "26.04.01": "v0.4.2",
            "26.06": "v0.5.0", "26.06.01": "v0.5.1", "26.08": "v0.6.0"}
FOLDERS = ("src/megatron/bridge", "scripts/performance")
# What is imported as it is, in front of ".": recipes, the precisions that they name, and how settings are put into them.
OWN = ("megatron.bridge.perf_recipes", "megatron.bridge.recipes", "megatron.bridge.training.mixed_precision", "configs", "utils")
LEFT_OUT = ("qwen_vl", "wan", "glm_moe_dsa")  # models of images, and such as are only finetuned
SYSTEMS = ("b200", "b300", "gb200", "gb300", "h100")
PRECISIONS = {"bf16": "own", "fp8cs": "float8", "fp8ds": "fp8-delayed", "fp8sc": "fp8-block", "fp8mx": "mxfp8", "nvfp4": "nvfp4"}
DEGREES = ("tp", "pp", "cp", "vp", "ep")
COLUMNS = ("containers", "model", "system", "gpus", "precision") + DEGREES + (
    "mbs", "gbs", "sequence", "stages", "further_tokens", "embedding_counts", "graphs", "graph_scope", "recompute", "dispatcher",
    "expert_overlap", "tensor_overlap", "fsdp", "moments", "own_at_start", "own_at_end", "offload", "source")


class Setting:
    """Stands in for whatever a recipe imports, calls or changes; keeps what is set."""

    def __init__(self, **values):
        object.__setattr__(self, "values", values)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self.values.setdefault(name, Setting())

    def __setattr__(self, name, value):
        self.values[name] = value

    def __call__(self, *_, **values):
        return Setting(**values)

    def __mro_entries__(self, _):
        return ()

    def __getitem__(self, _):
        return Setting()

    def __setitem__(self, _, value):
        pass

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __int__(self):
        return 0

    def __or__(self, _):
        return self

    __ror__ = __or__

    def __mul__(self, _):
        return 0

    __rmul__ = __add__ = __sub__ = __floordiv__ = __mul__

    def __gt__(self, _):
        return False

    __lt__ = __le__ = __ge__ = __gt__


class CommOverlapConfig(Setting):
    """A type of its own, for recipes that ask what something is."""


def get(settings, path):
    """What is set under names with points between; None where nothing is."""
    for name in path.split("."):
        settings = settings.values.get(name) if isinstance(settings, Setting) else getattr(settings, name, None)
    return None if isinstance(settings, Setting) else settings


def use_dispatcher(model, backend=None):
    """As apply_flex_dispatcher_backend of Megatron-Bridge does on a GPU that the backend suits."""
    if backend in ("deepep", "hybridep"):
        model.moe_token_dispatcher_type, model.moe_flex_dispatcher_backend = "flex", backend
        model.moe_shared_expert_overlap = False


KNOWN = {"CommOverlapConfig": CommOverlapConfig, "apply_flex_dispatcher_backend": use_dispatcher,
         "is_full_iteration_cuda_graph": lambda model: get(model, "cuda_graph_impl") == "full_iteration"}


class StandIn(types.ModuleType):
    __path__, __all__ = [], ["CommOverlapConfig"]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "typing_extensions":
            return getattr(typing, name)
        return KNOWN.get(name) or Setting()


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, tree):
        self.folders = (tree / "src", tree / "scripts" / "performance")

    def find_spec(self, name, _path, _target=None):
        if name.split(".")[0] in sys.stdlib_module_names:
            return None
        if any(name == own or name.startswith(own + ".") for own in OWN):
            for folder in self.folders:
                place = folder.joinpath(*name.split("."))
                if (place / "__init__.py").exists():
                    return importlib.util.spec_from_file_location(name, place / "__init__.py",
                                                                  submodule_search_locations=[str(place)])
                if place.with_suffix(".py").exists():
                    return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
                if place.is_dir():
                    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
                    spec.submodule_search_locations = [str(place)]
                    return spec
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def stages_of(layout):
    """Layers of each stage: of lists of words, or of a text such as "Et*4|(t*4|)*14tmL"."""
    if not layout:
        return None
    if not isinstance(layout, str):
        return [stage.count("decoder") for stage in layout]
    text = layout.replace(",", "")
    while True:
        once = re.sub(r"\(([^()]*)\)\*(\d+)|([A-Za-z])\*(\d+)",
                      lambda m: m.group(1) * int(m.group(2)) if m.group(2) else m.group(3) * int(m.group(4)), text)
        if once == text:
            return [stage.count("t") for stage in text.split("|")]
        text = once


def name_of_type(setting):
    """The type that a stand-in of torch was asked for; stand-ins of torch are named for it."""
    return setting if isinstance(setting, str) else ""


def dispatcher_of(config, system):
    if not (get(config, "model.expert_model_parallel_size") or 1) > 1:
        return ""
    backend = get(config, "model.moe_flex_dispatcher_backend")
    if get(config, "model.moe_token_dispatcher_type") != "flex" or not backend:
        return "alltoall"
    # flex_dispatcher_backend.py: DeepEP serves nodes of eight, and falls back elsewhere.
    return "alltoall" if backend == "deepep" and system.startswith("gb") else backend


def recomputed(config):
    granularity, modules = get(config, "model.recompute_granularity"), get(config, "model.recompute_modules")
    if granularity == "full":
        return f"{get(config, 'model.recompute_method')}:{get(config, 'model.recompute_num_layers')}"
    # Megatron-LM's default of no list is core_attn; an empty one is of nothing.
    return "+".join(["core_attn"] if modules is None else modules) if granularity == "selective" else ""


def graphs_of(config):
    """Which graphs, and of what; full_iteration is told as a kind of graphs, as a scope, or as a module."""
    kind = get(config, "model.cuda_graph_impl")
    scope = get(config, "model.cuda_graph_scope") or get(config, "model.cuda_graph_modules") or ""
    scope = scope if isinstance(scope, str) else "+".join(scope)
    if kind in (None, "none"):
        return "", ""
    if "full_iteration" in (kind, scope):
        return "full_iteration", ""
    return kind, scope


def yes(value):
    return "yes" if value is True else ""


def row_of(config, model, system, precision, gpus):
    number = lambda path: get(config, path) or ""
    precise = config.mixed_precision
    bf16_layers = get(precise, "first_last_layers_bf16") is True
    stages = stages_of(get(config, "model.pipeline_model_parallel_layout"))
    graphs, scope = graphs_of(config)
    return {
        "model": model, "system": system.upper(), "gpus": gpus, "precision": PRECISIONS[precision],
        "tp": number("model.tensor_model_parallel_size") or 1, "pp": number("model.pipeline_model_parallel_size") or 1,
        "cp": number("model.context_parallel_size") or 1, "vp": number("model.virtual_pipeline_model_parallel_size") or 1,
        "ep": number("model.expert_model_parallel_size") or 1, "mbs": number("train.micro_batch_size"),
        "gbs": number("train.global_batch_size"), "sequence": number("model.seq_length"),
        "stages": "-".join(map(str, stages)) if stages else "", "further_tokens": number("model.mtp_num_layers"),
        "embedding_counts": yes(get(config, "model.account_for_embedding_in_pipeline_split")),
        "graphs": graphs, "graph_scope": scope, "recompute": recomputed(config), "dispatcher": dispatcher_of(config, system),
        "expert_overlap": yes(get(config, "comm_overlap.overlap_moe_expert_parallel_comm")),
        "tensor_overlap": yes(get(config, "comm_overlap.tp_comm_overlap")), "fsdp": yes(get(config, "ddp.use_megatron_fsdp")),
        "moments": name_of_type(get(config, "optimizer.exp_avg_dtype")),
        "own_at_start": (get(precise, "num_layers_at_start_in_bf16") or "") if bf16_layers else "",
        "own_at_end": (get(precise, "num_layers_at_end_in_bf16") or "") if bf16_layers else "",
        "offload": yes(get(config, "model.cpu_offloading") or get(config, "model.fine_grained_activation_offloading"))}


def module_of(file, base):
    return ".".join(file.relative_to(base).with_suffix("").parts)


def flat_recipes(tree):
    """Of src/megatron/bridge/perf_recipes: functions such as llama3_8b_pretrain_8gpu_b200_bf16_config()."""
    base = tree / "src"
    form = re.compile(rf"(.+)_pretrain_(\d+)gpu_({'|'.join(SYSTEMS)})_({'|'.join(PRECISIONS)})_config")
    for file in sorted((base / "megatron/bridge/perf_recipes").rglob("*.py")):
        if file.parent.name not in SYSTEMS or file.name == "__init__.py" or file.parent.parent.name in LEFT_OUT:
            continue
        for name, function in sorted(vars(importlib.import_module(module_of(file, base))).items()):
            found = form.fullmatch(name)
            if found and inspect.isfunction(function):
                model, gpus, system, precision = found.groups()
                yield name, function(), model, system, precision, int(gpus)


def keep_number_of_gpus():
    """The number stands in the settings of a workload, not in what they are put into."""
    for name in ("utils.overrides", "utils.helpers"):
        module = importlib.import_module(name)
        if not hasattr(module, "__file__") or not hasattr(module, "set_workload_base_configs"):
            continue
        put = module.set_workload_base_configs

        def kept(config, settings, put=put):
            put(config, settings)
            config.gpus = settings.num_gpus

        module.set_workload_base_configs = kept


def configured_recipes(tree):
    """Of scripts/performance/configs: functions such as llama3_8b_pretrain_config_b200(precision, config_variant)."""
    base = tree / "scripts/performance"
    keep_number_of_gpus()
    form = re.compile(rf"(.+?)(?:_pretrain)?_config_({'|'.join(SYSTEMS)})|(.+)_({'|'.join(SYSTEMS)})_config")
    for file in sorted((base / "configs").rglob("*_pretrain.py")):
        if file.parent.name in LEFT_OUT:
            continue
        for name, function in sorted(vars(importlib.import_module(module_of(file, base))).items()):
            found = form.fullmatch(name)
            if not found or not inspect.isfunction(function):
                continue
            model, system = found.group(1) or found.group(3), found.group(2) or found.group(4)
            variants = ({"config_variant": v} for v in ("v2", "v1")) if "config_variant" in inspect.signature(
                function).parameters else ({},)
            for variant in variants:
                for precision in PRECISIONS:
                    written = precision if precision in ("bf16", "nvfp4") else f"fp8_{precision[3:]}"
                    try:
                        config = function(precision=written, **variant)
                    except (ValueError, AttributeError, NotImplementedError):  # there is none of this precision
                        continue
                    if get(config, "gpus"):
                        yield name, config, model, system, precision, get(config, "gpus")


def recipes_of(tree):
    """The rows of one release, whose files are in the folder `tree`."""
    logging.disable()  # of variants that recipes fall back to
    sys.meta_path.insert(0, StandIns(tree))
    torch = StandIn("torch")
    torch.bfloat16, torch.float32, torch.float16, torch.uint8 = "bfloat16", "float32", "float16", "uint8"
    sys.modules["torch"] = torch
    fields = dataclasses.fields
    dataclasses.fields = lambda of: () if isinstance(of, Setting) else fields(of)
    flat = (tree / "src/megatron/bridge/perf_recipes").is_dir()
    rows = []
    for name, config, model, system, precision, gpus in (flat_recipes if flat else configured_recipes)(tree):
        row = row_of(config, model, system, precision, gpus)
        row["source"] = name
        if row not in rows:
            rows.append(row)
    return rows


def files_of(checkout, tag, folder):
    packed = subprocess.run(["git", "-C", str(checkout), "archive", tag, *FOLDERS], capture_output=True, check=False)
    if packed.returncode != 0:
        sys.exit(f"{checkout}: has no tag {tag} with {' and '.join(FOLDERS)}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        for member in files:
            if member.isfile() and member.name.endswith(".py"):
                place = pathlib.Path(folder) / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(files.extractfile(member).read())


def all_rows(checkout):
    """Recipes that are the same in several releases are one row."""
    merged = {}
    for container, tag in RELEASES.items():
        with tempfile.TemporaryDirectory() as folder:
            files_of(checkout, tag, folder)
            done = subprocess.run([sys.executable, "-B", __file__, "--tree", folder], stdout=subprocess.PIPE, text=True,
                                  check=False)
            if done.returncode != 0:
                sys.exit(f"{checkout}: the recipes of {tag} can't be called")
        for row in json.loads(done.stdout):
            source = f"{tag}:{row.pop('source')}"
            key = json.dumps(row)
            merged.setdefault(key, (row, [], source))[1].append(container)
    return [{**row, "containers": ";".join(containers), "source": source} for row, containers, source in merged.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", help="a clone of NVIDIA-NeMo/Megatron-Bridge with its tags")
    parser.add_argument("--tree", type=pathlib.Path, help="a folder with the files of one release; prints its rows as JSON")
    parser.add_argument("-o", "--output", help="where the table goes; left out, stdout")
    arguments = parser.parse_args()
    if arguments.tree:
        json.dump(recipes_of(arguments.tree), sys.stdout)
        return
    if not arguments.checkout:
        parser.error("needs a checkout, or --tree")
    rows = all_rows(arguments.checkout)
    out = open(arguments.output, "w", encoding="utf-8", newline="") if arguments.output else sys.stdout
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: (row["model"], row["system"], row["precision"], row["containers"])))


if __name__ == "__main__":
    main()
