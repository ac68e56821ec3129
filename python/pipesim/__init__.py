"""pipesim in Python: `python -m pipesim.capture` writes PyTorch modules as model files."""

__version__ = "0.1.0"
