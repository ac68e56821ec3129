// One program for each parser: libFuzzer calls this with one input after another.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const pipesim::FuzzedParser& parser = pipesim::fuzzed_parser(PIPESIM_FUZZED_PARSER);
  static_cast<void>(parser.reads({reinterpret_cast<const char*>(bytes), size}));
  return 0;
}
