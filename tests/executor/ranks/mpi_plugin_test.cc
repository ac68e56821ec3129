#include "executor/ranks/mpi_plugin.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "executor/ranks/mpi_library.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(MpiPlugin, ALibraryThatCannotBeLoadedIsNamed) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "no_mpi_library";
  std::filesystem::create_directories(folder);
  const std::string path = folder / "libpipesim_mpi.so";
  std::ofstream(path) << "no library";
  setenv("PIPESIM_PLUGIN_PATH", ("/nowhere:" + folder.string()).c_str(), 1);
  const std::string said = refusal<DeviceError>([] { (void)load_mpi_library(); });
  unsetenv("PIPESIM_PLUGIN_PATH");
  EXPECT_THAT(said, StartsWith("can't load " + path + "; is MPI installed (Debian package openmpi-bin)? "));
  std::filesystem::remove_all(folder);
}

TEST(MpiPlugin, AMissingLibraryIsNamedWithItsPlacesAndPackages) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  if (std::filesystem::exists(here / "libpipesim_mpi.so")) GTEST_SKIP() << "the library is built here";
  EXPECT_THAT(refusal<DeviceError>([] { (void)load_mpi_library(); }),
              HasSubstr("libpipesim_mpi.so is not in " + here.string() + " or " +
                        (here.parent_path() / "lib/pipesim").string() + "; it is built"));
}

TEST(MpiPlugin, AnotherMpiThanTheLaunchersIsNoticed) {
  const char* const before = std::getenv("PMI_SIZE");
  const std::string kept = before == nullptr ? "" : before;
  setenv("PMI_SIZE", "4", 1);
  EXPECT_EQ(started_by_another_mpi(4), "");
  EXPECT_EQ(started_by_another_mpi(1),
            "PMI_SIZE is 4 and MPI knows of one rank only: libpipesim_mpi.so was built with another MPI than "
            "that of the command that has started this process");
  setenv("PMI_SIZE", "1", 1);
  EXPECT_EQ(started_by_another_mpi(1), "");
  before == nullptr ? unsetenv("PMI_SIZE") : setenv("PMI_SIZE", kept.c_str(), 1);
}

}  // namespace
}  // namespace pipesim
