#include "tools/cli/manual/file_schemas.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "tools/cli/manual/model_schema.h"

namespace pipesim {
namespace {

struct NamedSchema {
  std::string kind;
  std::string (*text)();
};

const std::vector<NamedSchema>& named_schemas() {
  static const std::vector<NamedSchema> all{{"model", model_schema},
                                            {"plan", [] { return std::string(plan_schema()); }},
                                            {"search", [] { return std::string(search_schema()); }},
                                            {"study", [] { return std::string(study_schema()); }},
                                            {"topology", [] { return std::string(topology_schema()); }}};
  return all;
}

}  // namespace

const std::vector<std::string>& kinds_of_schemas() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> names;
    for (const NamedSchema& schema : named_schemas()) names.push_back(schema.kind);
    return names;
  }();
  return kinds;
}

std::string file_schema(std::string_view kind) {
  const auto found = std::ranges::find(named_schemas(), kind, &NamedSchema::kind);
  if (found == named_schemas().end()) throw InternalError(fmt::format("there is no schema of \"{}\"", kind));
  return found->text();
}

}  // namespace pipesim
