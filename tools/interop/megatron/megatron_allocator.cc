#include "tools/interop/megatron/megatron_allocator.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipesim {

bool asks_for_expandable_segments(const MegatronFile& file, std::vector<std::string>& left_out) {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const auto settings = file.variable(name);
    if (!settings) continue;
    bool expandable = false;
    std::string others;  // "expandable_segments:True,max_split_size_mb:512"
    for (std::size_t begin = 0; begin <= settings->size();) {
      const std::size_t end = std::min(settings->find(',', begin), settings->size());
      std::string setting = settings->substr(begin, end - begin);
      std::erase(setting, ' ');
      begin = end + 1;
      if (setting == "expandable_segments:True" || setting == "expandable_segments:true") {
        expandable = true;
      } else if (!setting.empty() && !setting.starts_with("expandable_segments:")) {
        others += (others.empty() ? "" : ",") + setting;
      }
    }
    if (!others.empty())
      left_out.push_back(fmt::format("{}: {}: the allocator is taken to work without it", name, others));
    return expandable;
  }
  return false;
}

}  // namespace pipesim
