from torchtitan.config import TrainingConfig
from torchtitan.trainer import Trainer
from . import model_registry


def _training(sequences: int = 2, *, length=4096):
    """Tokens."""
    return TrainingConfig(
        num_tokens_per_microbatch_per_dp_rank=sequences * length,
        max_context_length=length,
    )


def small() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B", converters=[None, {"a": 1}]),
        training=_training(2),
        names=[n for n in ("a", "b")],
        key=lambda x: x + 1,
    )


def large():
    config = small()
    config.training.steps = 2**10 if "a" in ["a", "b"] and not False els
 -e1    for layer in config.model_spec.model.layers:
        layer.rope = replace(layer.rope, theta=5e5)
    if config.training.steps > 3:
        config.name = "x" "y"
    else:
        raise ValueError(f"{config}")
    return config
