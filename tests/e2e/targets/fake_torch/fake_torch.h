/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * fake_torch: just enough of PyTorch's C++ surface that a tracer takes it for the real one: the same
 * mangled names in libraries of the same names, the same argument registers, call frames that stay
 * open while an operator works. In one second it tests what takes torch ten, and it knows the truth:
 * the innermost operator, backward node and region of every block.
 *
 * What is not real is in namespace fake: the truth, and the switch between kinds of escape.
 */
#ifndef MT_FAKE_TORCH_H
#define MT_FAKE_TORCH_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#define FAKE_API __attribute__((visibility("default")))

namespace fake {
/* Frames are operators and backward nodes; the second kind of stack holds regions and nodes. */
FAKE_API void frame_enter(const char *name);
FAKE_API void node_enter(const char *name);
FAKE_API void region_enter(const char *name);
FAKE_API int frames();
FAKE_API void frames_back_to(int depth); /* after a longjmp */
FAKE_API int regions();
FAKE_API void regions_back_to(int depth);
FAKE_API void truth_start();
FAKE_API void truth_tell();

struct frame {
	int depth;
	explicit frame(const char *name) : depth(frames()) { frame_enter(name); }
	~frame() { frames_back_to(depth); }
};

struct node_frame {
	int depth, region_depth;
	explicit node_frame(const char *name) : depth(frames()), region_depth(regions()) { node_enter(name); }
	~node_frame()
	{
		frames_back_to(depth);
		regions_back_to(region_depth);
	}
};

/* What an operator does besides its own block: the driver's business. */
extern FAKE_API void (*body)(int op);
} // namespace fake

namespace c10 {
struct Scalar {
	double v = 1;
};
struct SymInt {
	int64_t v;
	SymInt(int64_t x) : v(x) {}
	~SymInt() {}
};
template <class T> struct ArrayRef {
	const T *data;
	size_t length;
};
enum class ScalarType : int8_t {};
enum class Layout : int8_t {};
enum class MemoryFormat : int8_t {};
struct Device {
	int8_t type, index;
};
struct FAKE_API ProfiledCPUMemoryReporter {
	uint64_t allocated = 0;
	void New(void *ptr, size_t nbytes);
	void OutOfMemory(size_t nbytes);
	void Delete(void *ptr);
};
struct FAKE_API CPUAllocator {
	static void *allocate(size_t nbytes); /* NULL: out of memory, and reported as such */
	static void release(void *ptr);
};
} // namespace c10

namespace at {
/* Owns its bytes; not trivial, so it is returned through a hidden pointer, as the real one. */
struct FAKE_API Tensor {
	void *data = nullptr;
	Tensor() = default;
	explicit Tensor(size_t nbytes) : data(c10::CPUAllocator::allocate(nbytes)) {}
	Tensor(Tensor &&o) noexcept : data(o.data) { o.data = nullptr; }
	Tensor &operator=(Tensor &&o) noexcept
	{
		std::swap(data, o.data);
		return *this;
	}
	~Tensor()
	{
		if (data)
			c10::CPUAllocator::release(data);
	}
};
using Scalar = c10::Scalar;

struct FAKE_API RecordFunction {
	bool active = true;
	void end();
	~RecordFunction() { end(); }
};

namespace _ops {
struct FAKE_API add_Tensor {
	static Tensor call(const Tensor &self, const Tensor &other, const Scalar &alpha);
};
struct FAKE_API add__Tensor {
	static Tensor &call(Tensor &self, const Tensor &other, const Scalar &alpha);
};
struct FAKE_API mm {
	static Tensor call(const Tensor &self, const Tensor &mat2);
};
struct FAKE_API addmm {
	static Tensor call(const Tensor &self, const Tensor &mat1, const Tensor &mat2, const Scalar &beta,
			   const Scalar &alpha);
};
struct FAKE_API relu {
	static Tensor call(const Tensor &self);
};
struct FAKE_API empty_memory_format {
	static Tensor call(c10::ArrayRef<c10::SymInt> size, std::optional<c10::ScalarType> dtype,
			   std::optional<c10::Layout> layout, std::optional<c10::Device> device,
			   std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format);
};
struct FAKE_API size_int { /* neither allocates, writes nor views: no probe is needed */
	static int64_t call(const Tensor &self, int64_t dim);
};
} // namespace _ops
} // namespace at

namespace torch {
namespace autograd {
struct GraphTask {
};
struct InputBuffer {
};
struct ReadyQueue {
};
struct FAKE_API Node {
	virtual ~Node();
	virtual const char *name() const = 0;
	virtual void apply() = 0;
};
struct FAKE_API AccumulateGrad : Node {
	const char *name() const override;
	void apply() override;
};
namespace generated {
struct FAKE_API AddBackward0 : Node {
	const char *name() const override;
	void apply() override;
};
struct FAKE_API AddmmBackward0 : Node {
	const char *name() const override;
	void apply() override;
};
} // namespace generated
struct FAKE_API Engine {
	void evaluate_function(std::shared_ptr<GraphTask> &graph_task, Node *func, InputBuffer &inputs,
			       const std::shared_ptr<ReadyQueue> &cpu_ready_queue);
};
namespace profiler {
/* On the heap, held by a pointer that the caller gets through a hidden argument. */
struct PythonRecordFunction {
	uint64_t header[2] = { 0, 1 };
	at::RecordFunction record;
};
FAKE_API std::unique_ptr<PythonRecordFunction>
record_function_enter_new(const std::string &name, const std::optional<std::string> &args);
} // namespace profiler
} // namespace autograd
} // namespace torch

#endif
