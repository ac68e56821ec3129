#pragma once

#include <span>
#include <string_view>

namespace pipesim {

/// A reader of files that somebody else may have written, as tools/fuzz and fuzz_test call it.
struct FuzzedParser {
  std::string_view name;  ///< "models", a folder of tests/fuzz/inputs
  /// True when the bytes were read, false when an InputError refused them. Anything else that is thrown is a
  /// fault; so is what can't be written and read again as the same, where there is a writer.
  bool (*reads)(std::string_view bytes);
};

std::span<const FuzzedParser> fuzzed_parsers();
/// The parser of this name; std::logic_error when there is none.
const FuzzedParser& fuzzed_parser(std::string_view name);

}  // namespace pipesim
