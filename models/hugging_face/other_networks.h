#pragma once

#include <string>
#include <vector>

#include "models/hugging_face.h"
#include "models/hugging_face/config_reader.h"

namespace pipesim {

/// Networks of the zoo that are no decoder of layers by letters: gpt2, bloom, bert, t5, vit.
struct OtherNetwork {
  std::string_view type;  ///< "model_type"
  HuggingFaceModel (*read)(const ConfigReader& config);
};
const std::vector<OtherNetwork>& other_networks();

}  // namespace pipesim
