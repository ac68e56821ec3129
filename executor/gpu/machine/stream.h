#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "executor/gpu/bodies/all.h"
#include "executor/gpu/machine/library_calls.h"
#include "sim/base/units.h"

namespace pipesim::gpu {

/// A point in the work of a stream, reached when all work before it is done. Recording it again moves it.
class Event {
 public:
  virtual ~Event() = default;
};

/// Work that was noted once and can be repeated any number of times, with the same addresses and numbers.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// Holds later work of a stream (Stream::close_gate). Opens at the latest when it is destroyed.
class Gate {
 public:
  virtual ~Gate() = default;
  /// Lets the work begin. Returns false when the time limit has opened it before.
  virtual bool open() = 0;
};

/// Work of one device, in order. Calls return when the work is noted, before it is done, unless they say
/// otherwise. Arguments are copied. Used by one thread at a time. DeviceError when the device fails.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Runs the body of that number (body_number()), `bytes` long, for every index below `count` > 0.
  virtual void launch(std::size_t body_number, const void* body, std::size_t bytes, std::int64_t count) = 0;
  virtual void multiply(const MatrixProduct& product) = 0;
  virtual void convolve(const Convolution& convolution) = 0;

  virtual void zero(void* memory, std::size_t bytes) = 0;
  /// Copies between addresses of devices.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies from the host. `from` may be used again when the call returns.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies to the host; the copy is complete when the call returns.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;

  virtual void record(Event& event) = 0;
  /// Makes later work of this stream wait until the event is over. It may have been recorded in any stream of
  /// any device.
  virtual void wait(const Event& event) = 0;
  virtual void repeat(const Recording& recording) = 0;
  /// Later work of this stream begins when the gate is opened, or `limit` nanoseconds after the stream has
  /// come to it. The limit is needed because a device queues only so much work, and then the host waits for
  /// the device. Not while recording.
  [[nodiscard]] virtual std::unique_ptr<Gate> close_gate(Nanoseconds limit) = 0;

  /// Memory that is this caller's until the next free_scratch(), aligned to 256. DeviceError when there is no
  /// more.
  virtual std::byte* scratch(std::size_t bytes) = 0;
  virtual void free_scratch() = 0;

  /// Returns when all is done.
  virtual void finish() = 0;
};

/// Runs a body for every index below `count`; nothing for 0.
template <class Body>
void run(Stream& stream, std::int64_t count, const Body& body) {
  static_assert(body_number<Body>() < AllBodies::size, "list the body in executor/gpu/bodies/all.h");
  if (count > 0) stream.launch(body_number<Body>(), &body, sizeof body, count);
}

/// Runs a body that takes a FloatGroup for each index and is told how many elements there are.
template <class Body>
void run_in_groups(Stream& stream, std::int64_t elements, Body body) {
  body.elements = elements;
  run(stream, groups_of(elements), body);
}

}  // namespace pipesim::gpu
