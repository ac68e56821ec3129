#pragma once

#include <string>
#include <vector>

#include "sim/base/json_reader.h"

namespace pipesim {

/// A model of the zoo, read from the config.json of a model of Hugging Face Transformers.
struct HuggingFaceModel {
  std::string text;                   ///< NAME:key=value,… as make_zoo_model() takes it
  std::vector<std::string> left_out;  ///< what the config asks for and the zoo model does not have
};

/// Whether a JSON file looks like such a config: it has a "model_type" and no operators.
bool is_hugging_face_config(const JsonValue& json);

/// Reads architecture and sizes, and what else defines the model; the sequence is what the model takes, at
/// most 8192 tokens. Keys that decide nothing here (token ids, versions) are not looked at. InputError when
/// the architecture is none of hugging_face_types(), when a size is missing, or when sizes contradict each
/// other.
HuggingFaceModel hugging_face_model(const JsonValue& config);

/// The values of "model_type" that can be read.
std::vector<std::string> hugging_face_types();

}  // namespace pipesim
