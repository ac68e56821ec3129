#include "tools/cli/execution/run_setting_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "executor/ranks/rendezvous.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// "gpu3=1.5,gpu4=2" as factors by device.
std::vector<double> slow_factors_of(const Arguments& a, const Topology& topology) {
  std::vector<double> factors(topology.num_devices(), 1.0);
  if (!a.has("slow")) return factors;
  std::string_view rest = a.text("slow");
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    double factor = 0;
    const std::string_view number = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
    if (error != std::errc{} || end != number.data() + number.size() || !(factor > 0) ||
        !std::isfinite(factor))
      throw UsageError(fmt::format(
          "--slow: found \"{}\", allowed: DEVICE=FACTOR with a factor above 0, as gpu3=1.5", item));
    factors[topology.device_named(item.substr(0, equals)).index()] = factor;
  }
  return factors;
}

}  // namespace

RunSetting run_setting_of(const Arguments& a, const Topology& topology) {
  constexpr std::int64_t most_steps = 1'000'000;
  RunSetting s;
  const std::string backend = a.choice("backend", {"cpu", "cuda", "emulated"});
  s.emulated = backend == "emulated";
  if (backend == "cuda")
    s.gpus = GpuSetting{a.given("virtual-devices"), a.given("tf32"), a.given("recorded"),
                        a.given("emulate-links"), a.given("held")};
  if (a.has("rendezvous")) s.rendezvous = a.text("rendezvous");
  for (const char* option : {"virtual-devices", "tf32", "recorded", "held", "rendezvous"}) {
    if (!s.gpus && (a.given(option) || (option == std::string("rendezvous") && a.has(option))))
      throw UsageError(fmt::format("--{} needs --backend cuda", option));
  }
  if (s.gpus && s.gpus->recorded && s.gpus->held)
    throw UsageError("--held and --recorded are two ways to keep the host out of a step: name one of them");
  if (!s.rendezvous.empty() && s.rendezvous != "mpi") (void)parse_rendezvous(s.rendezvous);
  if (a.given("emulate-links") && !(s.gpus && s.gpus->virtual_devices))
    throw UsageError("--emulate-links needs --backend cuda --virtual-devices");
  if (!s.emulated && a.has("slow")) throw UsageError("--slow needs --backend emulated");
  s.slow = slow_factors_of(a, topology);
  s.data = a.texts("data");
  if (s.emulated && !s.data.empty())
    throw UsageError("--data needs --backend cpu or cuda: emulated devices compute nothing");
  s.steps = a.integer("steps", 1, most_steps);
  s.warmup = a.integer("warmup", 0, most_steps);
  s.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  s.cpu.optimizer.learning_rate = static_cast<float>(a.number("learning-rate", 0, 1e6));
  s.cpu.threads_per_device = static_cast<int>(a.integer("threads-per-device", 1, 1024));
  s.cpu.real_time = !a.given("no-realtime");
  s.oversubscribe = a.given("oversubscribe");
  s.arenas = a.given("arena") || s.gpus;  // streams need fixed places
  return s;
}

}  // namespace pipesim
