#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The zoo's text of a model of Hugging Face, such as "meta-llama/Meta-Llama-3-8B"; "": none that is known.
std::string_view zoo_model_of_hub(std::string_view name);

std::vector<std::string> hub_models();

}  // namespace pipesim
