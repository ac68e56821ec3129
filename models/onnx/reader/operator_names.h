#pragma once

#include <string>
#include <vector>

#include "models/graph_builder.h"

namespace pipesim {

/// Returns the path of a module from the name that an exporter gave to a node: "layer1.0.conv1" from
/// "/layer1/layer1.0/conv1/Conv". Without one, "".
std::string module_path(const std::string& node_name);

/// "layer_normalization" of "LayerNormalization".
std::string snake_case(const std::string& name);

/// "layers.3.up" of "layers.3.up.weight"; "" of names that an exporter made up.
std::string owner_of_weight(const std::string& weight);

/// Labels operators whose names differ in a number alone and that are otherwise alike: "layers.3.mlp.up"
/// becomes part of repeat "layers#.mlp.up". Operators stay as they are where there is nothing like them.
void label_repeats(std::vector<OperatorRequest>& operators);

}  // namespace pipesim
