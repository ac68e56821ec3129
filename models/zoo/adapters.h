#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/options.h"

namespace pipesim {

/// A product of a layer.
enum class LayerProduct : std::uint8_t { Query, Value, OtherAttention, FeedForward };

/// LoRA: pairs of narrow products that are trained beside frozen ones (Hu et al., 2022, section 4.1;
/// arXiv:2106.09685), and how the frozen weights lie in memory (QLoRA: Dettmers et al., 2023, section 3;
/// arXiv:2305.14314).
struct Adapters {
  std::int64_t rank = 0;        ///< 0: all weights are trained
  std::string targets = "all";  ///< of adapter_options()
  std::string storage = "own";  ///< of the products of layers: own, 8bit or 4bit
  bool keeps_inputs = false;    ///< these products keep their inputs for backward
  double dropout = 0;           ///< rate at which elements of what adapters read are dropped

  [[nodiscard]] bool any() const { return rank > 0; }
  [[nodiscard]] bool has(LayerProduct product) const;
};

/// From the options of adapter_options(), where the model has them.
Adapters adapters(const ZooValues& values);

/// Options lora, lora_targets, lora_dropout, base and base_inputs of all transformers of language.
ZooOptions adapter_options();

}  // namespace pipesim
