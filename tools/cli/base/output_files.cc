#include "tools/cli/base/output_files.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> kWritten{"output", "trace", "dot", "checkpoint", "search-log"};
constexpr std::array<const char*, 7> kRead{"model", "topology",    "plan",  "calibration",
                                           "data",  "stage-costs", "resume"};

// Returns whether both paths mean one file, which need not exist yet. Devices and pipes don't count, since
// they lose nothing.
bool are_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path first = fs::weakly_canonical(a, error), second = fs::weakly_canonical(b, error);
  return !error && first == second;
}

// A file may have something behind it, "model.json:b=4", and --data something before it, "x=x.bin:float32".
bool reads(std::string_view text, bool is_data, const fs::path& file) {
  if (is_data) text.remove_prefix(std::min(text.size(), text.find('=') + 1));
  for (std::size_t end = text.size(); end != std::string_view::npos; end = text.rfind(':', end - 1)) {
    if (end > 0 && are_same_file(file, fs::path(text.substr(0, end)))) return true;
    if (end == 0) break;
  }
  return false;
}

}  // namespace

void require_own_output_files(const Arguments& arguments) {
  const auto refuse_if_read = [&](const std::string& output, const std::string& reader, bool is_data,
                                  const std::string& text) {
    const std::string& file = arguments.text(output);
    if (reads(text, is_data, file))
      arguments.refuse(fmt::format("--{} would replace {}, which {} reads", output, file, reader));
  };
  for (std::size_t i = 0; i < kWritten.size(); ++i) {
    const std::string output = kWritten[i];
    if (!arguments.given(output)) continue;
    for (std::size_t k = i + 1; k < kWritten.size(); ++k) {
      if (arguments.given(kWritten[k]) && are_same_file(arguments.text(output), arguments.text(kWritten[k])))
        arguments.refuse(
            fmt::format("--{} and --{} would both write {}", output, kWritten[k], arguments.text(output)));
    }
    for (const std::string input : kRead) {
      // A run that is resumed may replace the file that it resumes: a checkpoint, or the study of whatif.
      if (input == "resume" && (output == "checkpoint" || (output == "output" && arguments.knows("vary"))))
        continue;
      for (const std::string& text : arguments.texts(input))
        refuse_if_read(output, "--" + input, input == "data", text);
    }
    // The first word of import is what to import.
    for (std::size_t k = arguments.command() == "import" ? 1 : 0; k < arguments.operands().size(); ++k)
      refuse_if_read(output, arguments.command(), false, arguments.operands()[k]);
  }
}

}  // namespace pipesim
