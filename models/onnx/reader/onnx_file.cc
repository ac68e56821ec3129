#include "models/onnx/reader/onnx_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "models/onnx/reader/check_names.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr std::int64_t kMostOtherBytes = 64LL << 20;   // of values that are no weights, of one tensor
constexpr std::int64_t kMostTableBytes = 64LL << 20;   // of all that may be tables of positions
constexpr std::int64_t kMostGraphBytes = 512LL << 20;  // of all that is kept
constexpr int kDeepest = 32;                           // of graphs within graphs

/// The messages on the way to tensors (onnx.proto). Others are copied whole.
enum class Message : std::uint8_t { Model, Graph, Node, Attribute, LocalFunction, Tensor, Other };

Message member_of(Message message, int field) {
  switch (message) {
    case Message::Model:
      return field == 7 ? Message::Graph : field == 25 ? Message::LocalFunction : Message::Other;
    case Message::Graph:
      return field == 1 ? Message::Node : field == 5 ? Message::Tensor : Message::Other;
    case Message::LocalFunction:
      return field == 7 ? Message::Node : Message::Other;
    case Message::Node:
      return field == 5 ? Message::Attribute : Message::Other;
    case Message::Attribute:
      return field == 5 || field == 10   ? Message::Tensor
             : field == 6 || field == 11 ? Message::Graph
                                         : Message::Other;
    case Message::Tensor:
    case Message::Other:
      return Message::Other;
  }
  return Message::Other;
}

/// The value at a place of little-endian floating-point numbers; of 16 bits, whether it is 0, 1 or very
/// negative.
std::optional<float> value_at(std::size_t place, const std::string& bytes, int type) {
  const auto read = [&]<class T>(T value) {
    if (bytes.size() < (place + 1) * sizeof value) return std::optional<T>();
    std::memcpy(&value, bytes.data() + place * sizeof value, sizeof value);
    return std::optional<T>(value);
  };
  if (type == onnx::TensorProto::DOUBLE) {
    const auto value = read(0.0);
    return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
  }
  if (type == onnx::TensorProto::FLOAT) return read(0.0F);
  const auto half = read(std::uint16_t{});
  if (!half) return std::nullopt;
  const bool brain = type == onnx::TensorProto::BFLOAT16;
  const std::uint16_t one = brain ? 0x3f80 : 0x3c00, large = brain ? 0xc61c : 0xf0e2;
  if (*half == one) return 1.0F;
  if ((*half & 0x7fffU) == 0) return 0.0F;
  return *half >= large ? -std::numeric_limits<float>::infinity() : 0.5F;
}

/// Masks of scores begin with 0 and −∞ (or nearly), or with 1 and 0.
bool begins_as_mask(const std::string& bytes, int type) {
  constexpr float masked = -1e4F;
  const auto first = value_at(0, bytes, type), second = value_at(1, bytes, type);
  if (!first || !second) return false;
  return (*first == 0 && *second <= masked) || (*first == 1 && *second == 0);
}

/// The sines and cosines of position 0, and masks that begin with keys that are all seen or all hidden.
/// Weights that are still 0 or 1 begin so, too.
bool begins_as_table(const std::string& bytes, int type) {
  constexpr float masked = -100;
  for (const std::size_t place : {0, 1}) {
    const auto value = value_at(place, bytes, type);
    if (!value || (*value != 0 && *value != 1 && *value > masked)) return false;
  }
  return true;
}

bool is_floating(int type) {
  return type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::DOUBLE ||
         type == onnx::TensorProto::FLOAT16 || type == onnx::TensorProto::BFLOAT16;
}

class WeightFilter {
 public:
  WeightFilter(CodedInputStream& in, std::string source) : in_(in), source_(std::move(source)) {}

  /// The message up to the stream's limit.
  std::string copy(Message message, int depth = 0) {
    if (depth > kDeepest) fail("graphs lie within one another, allowed are " + std::to_string(kDeepest));
    std::string text;
    {
      StringOutputStream stream(&text);
      CodedOutputStream out(&stream);
      int type = onnx::TensorProto::UNDEFINED;
      while (const std::uint32_t tag = next_tag()) {
        const int field = static_cast<int>(tag >> 3U);
        switch (tag & 7U) {
          case 0:
            copy_number(out, tag, message == Message::Tensor && field == 2 ? &type : nullptr);
            break;
          case 1:
            copy_fixed(out, tag, 8);
            break;
          case 2:
            copy_delimited(out, tag, message, type, depth);
            break;
          case 5:
            copy_fixed(out, tag, 4);
            break;
          default:
            fail();
        }
      }
    }
    return text;
  }

  [[noreturn]] void fail(const std::string& what = {}) const {
    throw InputError(fmt::format("{}: is no ONNX model, or not all of it: {} at byte {}", source_,
                                 what.empty() ? "what is no protobuf" : what, in_.CurrentPosition()));
  }

 private:
  std::uint32_t next_tag() {
    const std::uint32_t tag = in_.ReadTag();
    if (tag == 0 && !in_.ConsumedEntireMessage()) fail();
    return tag;
  }

  void copy_number(CodedOutputStream& out, std::uint32_t tag, int* seen) {
    std::uint64_t value = 0;
    if (!in_.ReadVarint64(&value)) fail();
    if (seen != nullptr) *seen = static_cast<int>(value);
    out.WriteTag(tag);
    out.WriteVarint64(value);
  }

  void copy_fixed(CodedOutputStream& out, std::uint32_t tag, int bytes) {
    std::string value;
    if (!in_.ReadString(&value, bytes)) fail();
    out.WriteTag(tag);
    out.WriteString(value);
  }

  void copy_delimited(CodedOutputStream& out, std::uint32_t tag, Message message, int type, int depth) {
    std::uint32_t size = 0;
    if (!in_.ReadVarint32(&size) || size > std::numeric_limits<std::int32_t>::max()) fail();
    const int length = static_cast<int>(size), field = static_cast<int>(tag >> 3U);
    const int left = in_.BytesUntilLimit();
    if (left >= 0 && length > left) fail("a part longer than its whole");
    std::string value;
    const Message member = member_of(message, field);
    if (member != Message::Other) {
      const auto limit = in_.PushLimit(length);
      value = copy(member, depth + (member == Message::Graph ? 1 : 0));
      if (in_.BytesUntilLimit() != 0) fail();
      in_.PopLimit(limit);
    } else if (message == Message::Tensor && (field == 4 || field == 9 || field == 10 || field == 5)) {
      if (!read_values(value, length, field, type)) return;
    } else if (!in_.ReadString(&value, length)) {
      fail("a part that ends too early");
    }
    if (member == Message::Other) kept_ += static_cast<std::int64_t>(value.size());
    if (kept_ > kMostGraphBytes) fail(fmt::format("more than {} bytes beside weights", kMostGraphBytes));
    out.WriteTag(tag);
    out.WriteVarint32(static_cast<std::uint32_t>(value.size()));
    out.WriteString(value);
  }

  /// False where the values are left out.
  bool read_values(std::string& value, int length, int field, int type) {
    const bool weights = field == 4 || field == 10 || is_floating(type);
    constexpr int peeked = 16;
    if (!in_.ReadString(&value, std::min(length, peeked))) fail("values that end too early");
    const int rest = length - static_cast<int>(value.size());
    bool kept = weights ? length <= kKeptWeightBytes : length <= kMostOtherBytes;
    if (!kept && weights && length <= kMostOtherBytes && field != 5) {
      const int stored = field == 4    ? static_cast<int>(onnx::TensorProto::FLOAT)
                         : field == 10 ? static_cast<int>(onnx::TensorProto::DOUBLE)
                                       : type;
      kept = begins_as_mask(value, stored);
      if (!kept && tables_ + length <= kMostTableBytes && begins_as_table(value, stored)) {
        kept = true;
        tables_ += length;
      }
    }
    if (!kept) {
      if (!in_.Skip(rest)) fail("values that end too early");
      return false;
    }
    std::string more;
    if (!in_.ReadString(&more, rest)) fail("values that end too early");
    value += more;
    return true;
  }

  CodedInputStream& in_;
  std::string source_;
  std::int64_t kept_ = 0, tables_ = 0;
};

}  // namespace

onnx::ModelProto read_onnx(std::istream& in, std::int64_t size, const std::string& source) {
  if (size == 0) throw InputError(fmt::format("{}: is no ONNX model: it is empty", source));
  if (size > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(fmt::format(
        "{}: is no ONNX model: it has {} bytes, allowed: less than 2 GiB, and weights in files of "
        "their own",
        source, size));
  }
  google::protobuf::io::IstreamInputStream stream(&in);
  CodedInputStream coded(&stream);
  // Whatever is longer than the file ends too early, before memory is taken for it.
  coded.PushLimit(static_cast<int>(size));
  WeightFilter filter(coded, source);
  const std::string text = filter.copy(Message::Model);
  onnx::ModelProto model;
  google::protobuf::io::ArrayInputStream bytes(text.data(), static_cast<int>(text.size()));
  CodedInputStream input(&bytes);
  if (!model.ParseFromCodedStream(&input)) filter.fail();
  if (!model.has_graph()) {
    throw InputError(fmt::format("{}: is no ONNX model: it has no graph", source));
  }
  check_names(model, source);
  return model;
}

onnx::ModelProto load_onnx_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw InputError(fmt::format("{}: is a directory, a file is needed", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(fmt::format("{}: can't be read: {}", path, std::strerror(errno)));
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError(fmt::format("{}: can't be read: {}", path, error.message()));
  return read_onnx(in, static_cast<std::int64_t>(size), path);
}

}  // namespace pipesim
