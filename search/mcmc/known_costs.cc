#include "search/mcmc/known_costs.h"

#include <algorithm>

#include "sim/base/mixing.h"

namespace pipesim {
namespace {

std::uint64_t digest_of_config(std::size_t op, std::size_t config) {
  return mixed_bits((static_cast<std::uint64_t>(op) << 40U) + config);
}

}  // namespace

KnownCosts::Digest KnownCosts::digest_of(std::span<const std::size_t> configs) {
  Digest digest = 0;
  for (std::size_t op = 0; op < configs.size(); ++op) digest += digest_of_config(op, configs[op]);
  return digest;
}

KnownCosts::Digest KnownCosts::after(Digest digest, std::span<const std::size_t> configs,
                                     std::span<const ConfigChange> changes) {
  for (const ConfigChange& c : changes)
    digest += digest_of_config(c.op.index(), c.index) - digest_of_config(c.op.index(), configs[c.op.index()]);
  return digest;
}

std::optional<double> KnownCosts::above(Digest state) const {
  const Entry& e = entries_[state % kEntries];
  if (e.above < 0 || e.state != state) return {};
  return e.above;
}

void KnownCosts::keep(Digest state, double above) {
  Entry& e = entries_[state % kEntries];
  if (e.above >= 0 && e.state == state) above = std::max(above, e.above);
  e = {state, above};
}

}  // namespace pipesim
