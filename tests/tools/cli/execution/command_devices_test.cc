#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "costmodel/host.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// With GPUs and without, with the library and without.
TEST(Devices, TellsWhatTheMachineHas) {
  const Outcome text = pipesim_run({"devices"}), json = pipesim_run({"devices", "--json"});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.err + json.err, "");
  const HostDescription host = this_host();
  EXPECT_THAT(text.out, StartsWith(host.name + "\n\nCPU\n"));
  EXPECT_THAT(text.out, HasSubstr("cores        " + std::to_string(host.cores)));
  EXPECT_THAT(text.out, HasSubstr("\nlibraries\n  driver "));
  const nlohmann::json read = nlohmann::json::parse(json.out);
  EXPECT_EQ(read["cpu"]["cores"], host.cores);
  EXPECT_EQ(read["gpus"].empty(), read.contains("no_gpus"));
  if (read["gpus"].empty()) {
    EXPECT_THAT(text.out, HasSubstr("\nGPUs\n  none: " + read["no_gpus"].get<std::string>()));
  } else {
    EXPECT_THAT(text.out, HasSubstr(read["gpus"][0]["bus_id"].get<std::string>()));
  }
}

TEST(Devices, TakesNoOperands) { EXPECT_EQ(pipesim_run({"devices", "cpu"}).status, 2); }

}  // namespace
}  // namespace pipesim
