#include <fmt/format.h>

#include "executor/ranks/mpi_plugin.h"
#include "tools/cli/searching/launched_peers.h"

namespace pipesim {
namespace {

class RanksOfMpi final : public PeerProcesses {
 public:
  RanksOfMpi() : world_(open_mpi_world()) {
    std::vector<std::string> names;
    for (int r = 0; r < world_->ranks(); ++r) names.push_back(fmt::format("process {}", r));
    world_->name_endpoints(names);
  }
  [[nodiscard]] int rank() const override { return world_->rank(); }
  [[nodiscard]] int count() const override { return world_->ranks(); }
  std::vector<std::string> gather(const std::string& text) override { return world_->gather_text(text); }
  void set_activity(const std::string& text) override { world_->set_last_task(text); }

 private:
  std::unique_ptr<World> world_;
};

}  // namespace

std::unique_ptr<PeerProcesses> peers_of_launcher(const Arguments&, Streams&) {
  if (processes_of_launcher() == 1) return nullptr;
  return std::make_unique<RanksOfMpi>();
}

}  // namespace pipesim
