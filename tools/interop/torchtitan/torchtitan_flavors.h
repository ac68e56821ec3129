#pragma once

#include <span>
#include <string_view>

namespace pipesim {

/// A model by torchtitan's names.
struct TorchtitanFlavor {
  std::string_view module, flavor;  ///< "llama3" and "8B"
  std::string_view zoo;             ///< text of open_model(), but for what settings say; "": the zoo has none
  std::string_view what = "";       ///< what is taken otherwise, or why there is none
  /// The configuration of the main branch that exports begin with, which needs no GPU of a kind; "": there is
  /// none with its vocabulary.
  std::string_view function = "";
  /// The folder of its tokenizer, where that configuration has another model.
  std::string_view assets = "";
  bool main_only = false;  ///< 0.2 does not have it
};

/// All that are known, by their modules.
std::span<const TorchtitanFlavor> torchtitan_flavors();

}  // namespace pipesim
