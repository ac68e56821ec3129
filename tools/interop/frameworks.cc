#include "tools/interop/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/interop/deepspeed/deepspeed.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace pipesim {

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all{megatron_framework(), torchtitan_framework(),
                                          deepspeed_framework()};
  return all;
}

const Framework& framework_named(std::string_view name) {
  const auto found = std::ranges::find(frameworks(), name, &Framework::name);
  if (found != frameworks().end()) return *found;
  std::vector<std::string> names;
  for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
  throw InputError(fmt::format("unknown framework \"{}\"{}, allowed: {}", name, did_you_mean(name, names),
                               list_names(names)));
}

std::string plan_model_kept_by(const Framework& framework, std::string model) {
  const std::string key = "kept=";
  const std::size_t at = model.find(key);
  if (at == std::string::npos) return model;
  const std::size_t from = at + key.size(), end = std::min(model.find(',', from), model.size());
  if (model.substr(from, end - from) != "once") model.replace(from, end - from, framework.kept);
  return model;
}

}  // namespace pipesim
