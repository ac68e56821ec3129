#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/json_reader.h"

namespace pipesim {

/// A model of the zoo, read from the config.json of a model of Hugging Face Transformers.
struct HuggingFaceModel {
  std::string text;  ///< NAME:key=value,… as make_zoo_model() takes it
  /// What the config asks for and the zoo model does not have, and what was guessed.
  std::vector<std::string> left_out;
  /// Those of them that an option of the model overrules: the option, and the words.
  std::vector<std::pair<std::string, std::string>> overruled = {};
};

/// Whether a JSON file looks like such a config: it has a "model_type" and no operators.
bool is_hugging_face_config(const JsonValue& json);

/// Reads what a model consists of from its keys (models/hugging_face/), and what its family adds to them; the
/// sequence is what the model takes, at most 8192 tokens. The decoder within a multimodal model has its
/// vision tower. Unknown types are read by their keys alone, which left_out says. InputError when no decoder
/// can be made out, when a size is missing, when sizes contradict each other, and for features that no
/// operator has.
HuggingFaceModel hugging_face_model(const JsonValue& config);

/// The values of "model_type" that can be read.
std::vector<std::string> hugging_face_types();

}  // namespace pipesim
