#include "python/module/bindings.h"
#include "python/module/interpreter_lock.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "models/model_json.h"
#include "models/onnx/onnx_writer.h"
#include "python/module/background_call.h"
#include "search/planners/planner.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/out_of_memory.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/model_work.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// A class of pipesim/errors.py, for errors of this kind.
void raise(const char* name, const std::exception& error) {
  PyErr_SetObject(py::module_::import("pipesim.errors").attr(name).ptr(), utf8(error.what()).ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Interrupted& error) {
    raise("Interrupted", error);
  } catch (const OutOfTime& error) {
    raise("Interrupted", error);
  } catch (const InputError& error) {
    raise("InputError", error);
  } catch (const UsageError& error) {
    raise("UsageError", error);
  } catch (const DeviceError& error) {
    raise("DeviceError", error);
  } catch (const OutOfMemory& error) {
    raise("OutOfMemory", error);
  } catch (const InternalError& error) {
    raise("InternalError", error);
  }
}

py::list operators_of(const OperatorGraph& graph) {
  py::list list;
  const std::vector<OperatorWork> work = work_of_operators(graph);
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Operator& op = graph.operators()[i];
    py::dict factors;
    for (const Factor& factor : op.factors) factors[py::str(factor.name)] = factor.size;
    list.append(py::make_tuple(op.name, op.kind, work[i].parameters, work[i].forward.value, factors));
  }
  return list;
}

py::list devices_of(const Topology& topology) {
  py::list list;
  for (std::size_t i = 0; i < topology.num_devices(); ++i) {
    const DeviceId id(i);
    const DeviceKind& kind = topology.kind(id);
    py::dict peaks;
    for (const auto& [type, rate] : kind.peak) peaks[py::str(name_of(type))] = rate.value;
    list.append(py::make_tuple(topology.device(id).name, kind.name, kind.memory.value,
                               kind.memory_bandwidth.value, peaks));
  }
  return list;
}

}  // namespace

void bind_errors() { py::register_exception_translator(translate); }

void bind_inputs(py::module_& m) {
  using py::arg;
  using WithoutLock = py::call_guard<Unlocked>;
  m.def(
      "write_file", [](const std::string& file, const std::string& text) { write_file(file, text); },
      arg("file"), arg("text"));
  py::class_<OperatorGraph>(m, "OperatorGraph")
      .def(py::init(&open_model), arg("text"), WithoutLock())
      .def_property_readonly("name", &OperatorGraph::name)
      .def_property_readonly("batch", &OperatorGraph::batch)
      .def_property_readonly("parameters", &OperatorGraph::parameter_count)
      .def_property_readonly("frozen_parameters", &OperatorGraph::frozen_parameter_count)
      .def_property_readonly("forward_flops", [](const OperatorGraph& g) { return g.forward_flops().value; })
      .def_property_readonly("fingerprint", &OperatorGraph::fingerprint)
      .def("operators", &operators_of)
      .def(
          "to_json", [](const OperatorGraph& g) { return to_json(g); }, WithoutLock())
      .def(
          "write_onnx", [](const OperatorGraph& g, const std::string& file) { write_file(file, to_onnx(g)); },
          arg("file"), WithoutLock());
  m.def(
      "model_text",
      [](const std::string& text, const std::vector<std::string>& settings) {
        return model_of_config(with_settings(text, settings));
      },
      arg("text"), arg("settings"));

  py::class_<Topology>(m, "Topology")
      .def(py::init(&open_topology), arg("text"), WithoutLock())
      .def_property_readonly("name", &Topology::name)
      .def_property_readonly("nodes", &Topology::num_nodes)
      .def_property_readonly("fingerprint", &Topology::fingerprint)
      .def("devices", &devices_of)
      .def(
          "to_json", [](const Topology& t) { return to_compact_json(t); }, WithoutLock());
}

}  // namespace pipesim
