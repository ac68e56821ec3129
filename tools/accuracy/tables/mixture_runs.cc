#include "tools/accuracy/tables/mixture_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace pipesim {
namespace {

constexpr std::size_t kMixtureKinds = 4;
constexpr std::array<const char*, kMixtureKinds> kMixtureParts{"product", "collective", "copy to device",
                                                               "copy to host"};

struct Mixture {
  std::int64_t members = 0;                       // of a collective
  std::array<double, kMixtureKinds> amount = {};  // multiply-adds, megabytes
  double milliseconds = 0;
  [[nodiscard]] std::size_t parts() const {
    return kMixtureKinds - static_cast<std::size_t>(std::ranges::count(amount, 0.0));
  }
};

// Milliseconds of a part alone: overhead + amount * each.
struct PartAlone {
  double overhead = 0, each = 0;
};

// Sums over rows with a part alone.
class AloneFit {
 public:
  void add(double amount, double time) {
    ones_ += 1 / (time * time), mixed_ += amount / (time * time), squares_ += amount * amount / (time * time);
    times_ += 1 / time, products_ += amount / time;
    ++rows_;
  }
  [[nodiscard]] bool empty() const { return rows_ == 0; }
  // Through 0 where the rows say no more.
  [[nodiscard]] PartAlone fitted() const {
    constexpr double kTiny = 1e-12;
    const PartAlone plain{0, products_ / squares_};
    const double determinant = ones_ * squares_ - mixed_ * mixed_;
    if (determinant <= kTiny * ones_ * squares_) return plain;
    const PartAlone line{(times_ * squares_ - products_ * mixed_) / determinant,
                         (ones_ * products_ - mixed_ * times_) / determinant};
    return line.overhead < 0 || line.each <= 0 ? plain : line;
  }

 private:
  double ones_ = 0, mixed_ = 0, squares_ = 0, times_ = 0, products_ = 0;
  std::size_t rows_ = 0;
};

// Parts by the number of members of the collectives beside which the same host was shared.
using PartKey = std::pair<std::size_t, std::int64_t>;

PartKey key_of(std::size_t part, const Mixture& mixture) {
  return {part, part == 0 ? 0 : mixture.members};  // products know no members
}

Mixture mixture_of(const MeasuredTable& table, std::size_t row) {
  const auto number = [&](std::string_view column) { return table.number(row, column).value_or(0); };
  Mixture mixture;
  mixture.members = table.positive(row, "intra_group");
  mixture.amount = {number("gemm_n") * number("gemm_m") * number("gemm_k"), number("g2g_MB"),
                    number("c2g_MB"), number("g2c_MB")};
  mixture.milliseconds = number("latency_ms");
  if (mixture.milliseconds == 0)
    table.refuse(row, "column \"latency_ms\": found nothing, allowed: a number above 0");
  return mixture;
}

std::map<PartKey, AloneFit> fits_of(const std::vector<Mixture>& mixtures) {
  std::map<PartKey, AloneFit> fits;
  for (std::size_t row = 0; row < mixtures.size(); row += 2) {
    const Mixture& m = mixtures[row];
    if (m.parts() != 1) continue;
    for (std::size_t part = 0; part < kMixtureKinds; ++part) {
      if (m.amount[part] > 0) fits[key_of(part, m)].add(m.amount[part], m.milliseconds);
    }
  }
  return fits;
}

std::string words_of(const Mixture& mixture) {
  std::string words;
  for (std::size_t part = 0; part < kMixtureKinds; ++part) {
    if (mixture.amount[part] > 0) words += (words.empty() ? "" : ", ") + std::string(kMixtureParts[part]);
  }
  return words;
}

MeasuredRun mixture_run_of(const Mixture& mixture, std::size_t row, const std::map<PartKey, AloneFit>& fits) {
  MeasuredRun run;
  run.name = fmt::format("{}: {}, groups of {}", row + 1, words_of(mixture), mixture.members);
  if (mixture.parts() == 0) run.reason = "nothing ran";
  if (row % 2 == 0) run.reason = "a row to which rates and slowdowns were fitted";
  if (!run.reason.empty()) return run;
  std::array<Seconds, kMixtureKinds> alone;
  for (std::size_t part = 0; part < kMixtureKinds; ++part) {
    if (mixture.amount[part] == 0) continue;
    const auto fit = fits.find(key_of(part, mixture));
    if (fit == fits.end()) {
      run.reason = fmt::format("no row has a {} alone", kMixtureParts[part]);
      return run;
    }
    const PartAlone line = fit->second.fitted();
    alone[part] = Seconds((line.overhead + line.each * mixture.amount[part]) * 1e-3);
  }
  run.measured_time = Seconds(mixture.milliseconds * 1e-3);
  run.groups = {words_of(mixture), fmt::format("groups of {}", mixture.members)};
  run.mixture = ExpressedMixture{alone[0], alone[1], alone[2], alone[3]};
  return run;
}

}  // namespace

std::vector<MeasuredRun> mixture_runs(const MeasuredTable& table) {
  table.require(
      {"gpu", "intra_group", "gemm_n", "gemm_m", "gemm_k", "g2g_MB", "c2g_MB", "g2c_MB", "latency_ms"});
  std::vector<Mixture> mixtures;
  for (std::size_t row = 0; row < table.rows(); ++row) mixtures.push_back(mixture_of(table, row));
  const std::map<PartKey, AloneFit> fits = fits_of(mixtures);
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < mixtures.size(); ++row)
    runs.push_back(mixture_run_of(mixtures[row], row, fits));
  return runs;
}

}  // namespace pipesim
