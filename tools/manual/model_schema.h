#pragma once

#include <string>

namespace pipesim {

/// docs/schemas/model.schema.json: a JSON Schema (draft-07) of model files, with the attributes of all kinds
/// of operators.
std::string model_schema();

}  // namespace pipesim
