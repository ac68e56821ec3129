"""Modules of PyTorch as ONNX files: the graph and the shapes of weights, without their values."""

import warnings
from unittest import mock

import onnx
import torch
from onnx import TensorProto

TYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.int64: TensorProto.INT64,
    torch.bool: TensorProto.BOOL,
}


def written_out_mse(input, target):
    """torch 1.13 has no form of mse_loss for ONNX."""
    return (input - target).pow(2).mean()


def export(module, inputs, path, names, axes=None, opset=17):
    """Writes the module as it is trained. Dim 0 of every input is "batch"; `axes`: input name → {dim: name}
    for more. Weights are initializers with external data, in a file that does not exist; buffers have
    their values."""
    dynamic = {name: {0: "batch", **(axes or {}).get(name, {})} for name in names}
    with warnings.catch_warnings(), mock.patch("torch.nn.functional.mse_loss", written_out_mse):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(inputs),
            path,
            export_params=False,
            opset_version=opset,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            input_names=list(names),
            dynamic_axes=dynamic,
        )
    model = onnx.load(path, load_external_data=False)
    weights_as_initializers(model.graph, module, names)
    onnx.save(model, path)


def weights_as_initializers(graph, module, names):
    """torch lists weights that it does not write as inputs."""
    parameters = dict(module.named_parameters())
    tensors = {**parameters, **dict(module.named_buffers())}
    for entry in [i for i in graph.input if i.name not in names]:
        tensor = tensors[entry.name]
        initializer = graph.initializer.add()
        initializer.name = entry.name
        initializer.dims.extend(tensor.shape)
        initializer.data_type = TYPES[tensor.dtype]
        if entry.name in parameters or "running_" in entry.name:
            initializer.data_location = TensorProto.EXTERNAL
            place = initializer.external_data.add()
            place.key, place.value = "location", "weights.bin"
        else:
            initializer.raw_data = tensor.detach().numpy().tobytes()
        graph.input.remove(entry)
