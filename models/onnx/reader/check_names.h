#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace pipesim {

/// InputError `SOURCE: …` where a name or a text of the model is no UTF-8, or has a control character: they
/// go into reports, one-line messages and JSON.
void check_names(const onnx::ModelProto& model, const std::string& source);

}  // namespace pipesim
