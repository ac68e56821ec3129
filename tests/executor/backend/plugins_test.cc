#include "executor/backend/plugins.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Plugin plugin{"libpipesim_test_only.so", "entry", "where there is something", "is it installed?"};

TEST(Plugins, ThatAreMissingSayWhereTheyWereLookedFor) {
  EXPECT_THAT(
      refusal<DeviceError>([] { load_plugin(plugin); }),
      AllOf(StartsWith("libpipesim_test_only.so is not in /"),
            HasSubstr("; it is built with pipesim where there is something, and PIPESIM_PLUGIN_PATH")));
}

TEST(Plugins, ThatAreBrokenSayWhatTheyNeed) {
  const TemporaryFolder folder;
  const std::string path = folder.file(plugin.file, "no library");
  const std::string in = path.substr(0, path.rfind('/'));
  setenv("PIPESIM_PLUGIN_PATH", ("/nowhere:" + in).c_str(), 1);
  EXPECT_THAT(refusal<DeviceError>([] { load_plugin(plugin); }),
              StartsWith("can't load " + path + "; is it installed? "));
  unsetenv("PIPESIM_PLUGIN_PATH");
}

}  // namespace
}  // namespace pipesim
