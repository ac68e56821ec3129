#include "costmodel/calibrated_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/suggest.h"
#include "topologies/gpu_share.h"

namespace pipesim {

namespace {

using Subject = CalibrationKey::Subject;

std::set<std::string> measured_places(const Calibration& calibration) {
  std::set<std::string> places;
  for (const auto& [key, measured] : calibration.keys) {
    if (key.subject != Subject::Transfer) places.insert(key.place);
  }
  return places;
}

Seconds analytic_of(const CalibrationKey& key, const KernelWork& work, const DeviceKind& kind) {
  if (key.subject == Subject::Operator) return analytic_time(work, key.type, kind);
  return analytic_update_time({parse_optimizer(key.name), key.type, key.sizes.front()}, kind);
}

}  // namespace

CalibratedTimes::CalibratedTimes(const Calibration& calibration, const Topology& topology)
    : topology_(topology), kinds_(topology.parts().kinds.size()), corrections_(calibration.corrections) {
  choose_places(calibration);
  for (std::size_t k = 0; k < kinds_.size(); ++k) add_kind(calibration, topology.parts().kinds[k], kinds_[k]);
  for (const auto& [key, measured] : calibration.keys) {
    if (key.subject != Subject::Transfer) continue;
    transfers_[{key.name, key.sizes[0], key.place}].emplace_back(key.sizes[1],
                                                                 measured.durations().median().value);
  }
}

// By name; a calibration of a single place serves a topology of a single kind whatever they are called, but
// no parts of a GPU, which are as fast as they are large.
void CalibratedTimes::choose_places(const Calibration& calibration) {
  const std::set<std::string> places = measured_places(calibration);
  if (places.empty()) return;
  const std::vector<std::string> names(places.begin(), places.end());
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const std::string& kind = topology_.parts().kinds[k].name;
    if (places.contains(kind)) {
      kinds_[k].place = kind;
    } else if (places.size() == 1 && kinds_.size() == 1 && !names_share(kind) &&
               !names_share(names.front())) {
      kinds_[k].place = names.front();
      warnings_.push_back(
          fmt::format("device: measured on \"{}\", the topology has \"{}\"", names.front(), kind));
    } else {
      warnings_.push_back(fmt::format("device: nothing was measured on \"{}\", only on {}", kind,
                                      list_names(names, names.size())));
    }
  }
}

void CalibratedTimes::add_kind(const Calibration& calibration, const DeviceKind& kind,
                               KindTimes& times) const {
  std::map<std::pair<Family, std::int32_t>, std::vector<RatioCurve::Point>> points;
  for (const auto& [key, measured] : calibration.keys) {
    if (key.subject == Subject::Transfer || times.place.empty() || key.place != times.place) continue;
    const Family family{key.subject, key.name, key.attributes, key.pass, key.type};
    const double seconds = measured.durations().median().value;
    const double analytic = analytic_of(key, measured.work, kind).value;
    times.families[family][key.busy_neighbours].seconds[key.sizes] = seconds;
    const double size = key.subject == Subject::Operator ? analytic : static_cast<double>(key.sizes.front());
    if (analytic > 0 && size > 0) points[{family, key.busy_neighbours}].push_back({size, seconds / analytic});
  }
  for (auto& [place, of_family] : points)
    times.families[place.first][place.second].ratios = RatioCurve(std::move(of_family));
}

const CalibratedTimes::KindTimes& CalibratedTimes::of(DeviceId device) const {
  return kinds_[static_cast<std::size_t>(topology_.device(device).kind)];
}

const std::string& CalibratedTimes::place(DeviceId device) const { return of(device).place; }

// Under the number of busy neighbours that is nearest to the key's, the smaller of two.
const CalibratedTimes::Measured* CalibratedTimes::find(const CalibrationKey& key, DeviceId device) const {
  const auto& families = of(device).families;
  const auto family = families.find({key.subject, key.name, key.attributes, key.pass, key.type});
  if (family == families.end()) return nullptr;
  const auto distance = [&](const auto& entry) { return std::abs(entry.first - key.busy_neighbours); };
  return &std::min_element(family->second.begin(), family->second.end(), [&](const auto& a, const auto& b) {
            return distance(a) < distance(b);
          })->second;
}

Estimate CalibratedTimes::estimate(const CalibrationKey& key, DeviceId device, double size,
                                   Seconds analytic) const {
  const Measured* measured = find(key, device);
  if (!measured) return {analytic, DurationSource::Analytic};
  const auto exact = measured->seconds.find(key.sizes);
  if (exact != measured->seconds.end()) return {Seconds(exact->second), DurationSource::Measured};
  RatioCurve::Value value = measured->ratios.at(size);
  // Another shape of the same analytic time is no measurement of this one.
  if (value.source == DurationSource::Measured) value.source = DurationSource::Interpolated;
  return {analytic * value.ratio, value.source};
}

Estimate CalibratedTimes::operator_time(const CalibrationKey& key, DeviceId device, Seconds analytic) const {
  return estimate(key, device, analytic.value, analytic);
}

Estimate CalibratedTimes::update_time(const CalibrationKey& key, DeviceId device, Seconds analytic) const {
  return estimate(key, device, static_cast<double>(key.sizes.front()), analytic);
}

RatioCurve CalibratedTimes::transfer_ratios(Collective kind, std::span<const DeviceId> group,
                                            const CollectivePlan& plan) const {
  const auto found = transfers_.find(
      {std::string(name_of(kind)), static_cast<std::int64_t>(group.size()), link_class(topology_, group)});
  if (found == transfers_.end()) return {};
  std::vector<RatioCurve::Point> points;
  for (const auto& [bytes, seconds] : found->second) {
    const double analytic = plan.duration_at(Bytes(bytes)).value;
    if (bytes > 0 && analytic > 0) points.push_back({static_cast<double>(bytes), seconds / analytic});
  }
  return RatioCurve(std::move(points));
}

Correction CalibratedTimes::correction(const std::string& correction_class) const {
  const auto found = corrections_.find(correction_class);
  return found == corrections_.end() ? Correction{} : found->second;
}

}  // namespace pipesim
