#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <iosfwd>
#include <string>

namespace pipesim {

/// The model in a stream, without the values of weights: floating-point tensors keep at most
/// `kKeptWeightBytes` of values, unless they begin as masks of scores or tables of positions do: with 0, 1 or
/// −∞.
/// Memory is that of the graph, not of the file. InputError `SOURCE: …` where the text is no ONNX model.
onnx::ModelProto read_onnx(std::istream& in, std::int64_t size, const std::string& source);
/// InputError also where the file can't be opened.
onnx::ModelProto load_onnx_file(const std::string& path);

inline constexpr std::int64_t kKeptWeightBytes = 4096LL * 8;

}  // namespace pipesim
