#pragma once

namespace pipesim {

// A model file with its sizes as numbers.
inline constexpr const char* kTwoLayers = R"({
  "pipesim_model": 1,
  "name": "two-layers", "batch": 64, "dtype": "float32",
  "inputs": [{"name": "x", "shape": [64, 784]}, {"name": "labels", "shape": [64], "dtype": "int64"}],
  "operators": [
    {"name": "fc1", "kind": "linear", "inputs": ["x"], "out": 512},
    {"name": "fc2", "kind": "linear", "inputs": ["fc1"], "out": 10},
    {"name": "loss", "kind": "cross_entropy", "inputs": ["fc2", "labels"]}
  ]
})";

}  // namespace pipesim
