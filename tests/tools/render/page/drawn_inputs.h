#pragma once

#include <string>

#include "tools/analysis/whatif/study.h"

namespace pipesim {

inline PointResult drawn_result(double time, std::int64_t devices, const std::string& kind) {
  PointResult p;
  p.recipe = "dp" + std::to_string(devices);
  p.kind = kind;
  p.time_s = time;
  p.samples_per_s = 16 / time;
  p.devices = devices;
  p.memory_bytes = 1'000'000'000;
  return p;
}

/// Returns a study of 8 and 16 devices on two networks. Its last point has no plan.
inline Study drawn_study() {
  Study study;
  study.model = "lenet";
  study.axes = {{"nodes", {"1", "2"}}, {"inter_node.bandwidth", {"25Gb/s", "50Gb/s"}}, {"batch", {"16"}}};
  study.points = {drawn_result(4, 8, "tp2"), drawn_result(2, 8, "tp4"), drawn_result(4, 16, "tp2"),
                  PointResult{}};
  study.points[3]->error = "nothing fits";
  study.crossovers = {{1, {0, 0, 0}, "25Gb/s", "37.512345Gb/s", "tp2", "tp4"}};
  return study;
}

/// What `execute --trace` writes of two devices: a pass that takes longer than predicted, and a transfer that
/// runs on the same thread.
inline std::string trace_of_execution() {
  return R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"cpu0 predicted"}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"compute"}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"transfers"}},
{"ph":"M","name":"process_name","pid":1,"tid":2,"args":{"name":"cpu0 measured"}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"compute"}},
{"ph":"X","name":"conv1 forward of microbatch 2","cat":"forward","pid":1,"tid":2,"ts":0.500,"dur":3.000},
{"ph":"X","name":"conv1 forward of microbatch 2","cat":"forward","pid":0,"tid":0,"ts":0.000,"dur":1.000},
{"ph":"X","name":"end of step 1, of microbatch 2","cat":"barrier","pid":0,"tid":0,"ts":1.000,"dur":0.000},
{"ph":"X","name":"fc update","cat":"update","pid":0,"tid":0,"ts":2.000,"dur":1.000},
{"ph":"X","name":"x from cpu0 to cpu1","cat":"forward-transfer","pid":1,"tid":2,"ts":3.500,"dur":0.250},
{"ph":"X","name":"x from cpu0 to cpu1","cat":"forward-transfer","pid":0,"tid":1,"ts":1.000,"dur":0.500},
{"ph":"X","name":"y from cpu0 to cpu1","cat":"forward-transfer","pid":0,"tid":1,"ts":1.250,"dur":0.500}
]})";
}

}  // namespace pipesim
