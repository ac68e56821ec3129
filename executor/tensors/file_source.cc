#include "executor/tensors/file_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <charconv>
#include <cstring>
#include <span>
#include <type_traits>

#include "executor/tensors/fill_elements.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

namespace ipc = boost::interprocess;

template <class Element>
Element at(const std::byte* elements, std::int64_t i) {
  Element e;
  std::memcpy(&e, elements + i * static_cast<std::int64_t>(sizeof(Element)), sizeof(Element));
  return e;
}

// Calls visit with a function that reads element i of numbers of `type`.
template <class Visit>
auto with_reader(DataType type, const std::byte* elements, Visit visit) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return visit([=](std::int64_t i) { return at<float>(elements, i); });
    case DataType::Float16:
      return visit([=](std::int64_t i) { return from_float16(at<std::uint16_t>(elements, i)); });
    case DataType::BFloat16:
      return visit([=](std::int64_t i) { return from_bfloat16(at<std::uint16_t>(elements, i)); });
    case DataType::Float64:
      return visit([=](std::int64_t i) { return at<double>(elements, i); });
    case DataType::Int64:
      return visit([=](std::int64_t i) { return at<std::int64_t>(elements, i); });
    case DataType::Int32:
      return visit([=](std::int64_t i) { return at<std::int32_t>(elements, i); });
    case DataType::UInt8:
      return visit([=](std::int64_t i) { return at<std::uint8_t>(elements, i); });
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      break;
  }
  throw InternalError("a data type that no file holds");
}

bool is_integer(DataType type) {
  return type == DataType::Int64 || type == DataType::Int32 || type == DataType::UInt8;
}

bool has_samples(const OperatorGraph& graph, TensorId tensor) {
  const auto& consumers = graph.consumers(tensor);
  return std::any_of(consumers.begin(), consumers.end(), [&](UseRef ref) {
    const Operator& op = graph.op(ref.op);
    const TensorUse& use = op.uses[static_cast<std::size_t>(ref.use)];
    return !use.dims.empty() &&
           std::any_of(use.dims[0].factors.begin(), use.dims[0].factors.end(), [&](FactorIndex f) {
             return op.factors[static_cast<std::size_t>(f)].kind == FactorKind::Sample;
           });
  });
}

std::string names_of_data(const OperatorGraph& graph) {
  std::string names;
  for (const Tensor& t : graph.tensors()) {
    if (t.kind == TensorKind::Data) names += (names.empty() ? "" : ", ") + t.name;
  }
  return names;
}

TensorId data_tensor(const OperatorGraph& graph, std::string_view name) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensor(TensorId(t));
    if (tensor.kind == TensorKind::Data && tensor.name == name) return TensorId(t);
  }
  throw InputError(
      fmt::format("\"{}\" is no data tensor of the model; it has {}", name, names_of_data(graph)));
}

}  // namespace

TensorFile parse_tensor_file(std::string_view text, const OperatorGraph& graph) {
  const auto malformed = [&] {
    return InputError(
        fmt::format("found \"{}\", allowed: TENSOR=FILE[:TYPE][@OFFSET], as labels=text.bin:uint8@1", text));
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) throw malformed();
  TensorFile file;
  file.tensor = text.substr(0, equals);
  file.type = graph.tensor(data_tensor(graph, file.tensor)).type;
  std::string_view rest = text.substr(equals + 1);
  if (const std::size_t mark = rest.rfind('@'); mark != std::string_view::npos) {
    const std::string_view digits = rest.substr(mark + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), file.offset);
    if (error != std::errc{} || end != digits.data() + digits.size() || file.offset < 0) throw malformed();
    rest = rest.substr(0, mark);
  }
  if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    file.type = parse_data_type(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  if (rest.empty()) throw malformed();
  file.path = rest;
  return file;
}

class FileSource::Records {
 public:
  Records(const TensorFile& file, const OperatorGraph& graph, TensorId tensor, std::int64_t index_bound)
      : type_(file.type), has_samples_(has_samples(graph, tensor)) {
    const Tensor& t = graph.tensor(tensor);
    const std::int64_t rows = has_samples_ ? t.shape[0] : 1;
    length_ = rows == 0 ? 0 : t.elements() / rows;
    map(file.path);
    const auto elements = static_cast<std::int64_t>(region_.get_size()) / bytes_per_element(type_);
    records_ = length_ == 0 ? 0 : std::max<std::int64_t>(0, elements - file.offset) / length_;
    if (records_ < 1)
      throw InputError(
          fmt::format("{}: holds {} elements of {} after the first {}, and a sample of tensor \"{}\" has {}",
                      file.path.string(), std::max<std::int64_t>(0, elements - file.offset), name_of(type_),
                      file.offset, t.name, length_));
    first_ = static_cast<const std::byte*>(region_.get_address()) + file.offset * bytes_per_element(type_);
    if (is_integer(t.type)) require_indices(file, t, index_bound);
  }

  void fill(const HostPiece& piece, const Tensor& tensor, const StepContext& step) const {
    const std::int64_t rows = has_samples_ ? tensor.shape[0] : 1;
    const std::int64_t first = (step.step * step.microbatches + step.microbatch) * rows;
    const auto place_in_file = [&](std::int64_t place) {
      return (first + place / length_) % records_ * length_ + place % length_;
    };
    with_reader(type_, first_, [&](auto element) {
      fill_elements(
          piece, tensor,
          [&](std::int64_t place) { return static_cast<float>(element(place_in_file(place))); },
          [&](std::int64_t place) { return static_cast<std::int64_t>(element(place_in_file(place))); });
    });
  }

 private:
  void map(const std::filesystem::path& path) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    if (error) throw InputError(fmt::format("{}: can't be read: {}", path.string(), error.message()));
    if (bytes == 0) return;  // an empty region can't be mapped
    try {
      region_ = ipc::mapped_region(ipc::file_mapping(path.c_str(), ipc::read_only), ipc::read_only);
    } catch (const ipc::interprocess_exception& e) {
      throw InputError(fmt::format("{}: can't be read: {}", path.string(), e.what()));
    }
  }

  void require_indices(const TensorFile& file, const Tensor& tensor, std::int64_t bound) const {
    if (!is_integer(type_))
      throw InputError(
          fmt::format("{}: holds {}, and tensor \"{}\" needs whole numbers; allowed: int64, int32, uint8",
                      file.path.string(), name_of(type_), tensor.name));
    with_reader(type_, first_, [&](auto element) {
      for (std::int64_t i = 0; i < records_ * length_; ++i) {
        const auto value = static_cast<std::int64_t>(element(i));
        if (value < 0 || value >= bound)
          throw InputError(fmt::format("{}: element {} is {}; tensor \"{}\" takes numbers from 0 to {}",
                                       file.path.string(), file.offset + i, value, tensor.name, bound - 1));
      }
    });
  }

  DataType type_;
  bool has_samples_;
  std::int64_t length_ = 0;  // elements of a record
  std::int64_t records_ = 0;
  const std::byte* first_ = nullptr;
  ipc::mapped_region region_;
};

FileSource::FileSource(const OperatorGraph& graph, const std::vector<TensorFile>& files,
                       const TensorSource& rest)
    : graph_(graph), rest_(rest) {
  if (files.empty()) return;
  const std::vector<std::int64_t> bounds = index_bounds(graph);
  for (const TensorFile& file : files) {
    const TensorId tensor = data_tensor(graph, file.tensor);
    if (!records_.emplace(tensor, std::make_unique<Records>(file, graph, tensor, bounds[tensor.index()]))
             .second)
      throw InputError(
          fmt::format("{}: tensor \"{}\" has another file already", file.path.string(), file.tensor));
  }
}

FileSource::~FileSource() = default;

void FileSource::fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
                      const StepContext& step) const {
  const auto found = content == Loaded::Content::Data ? records_.find(tensor) : records_.end();
  if (found == records_.end()) return rest_.fill(content, tensor, piece, step);
  found->second->fill(piece, graph_.tensor(tensor), step);
}

}  // namespace pipesim
