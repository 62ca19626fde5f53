// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* libtorch_cpu.so of the fake: operators with their schemas, backward nodes, regions. */
#include "fake_torch.h"

namespace {
/* In the library as m.def() has them: whole NUL-terminated strings in .rodata. */
struct op {
	const char *schema, *name;
};
const op volatile ops[] = {
	{ "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "aten::add" },
	{ "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", "aten::add_" },
	{ "mm(Tensor self, Tensor mat2) -> Tensor", "aten::mm" },
	{ "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
	  "aten::addmm" },
	{ "relu(Tensor self) -> Tensor", "aten::relu" },
	{ "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
	  "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
	  "aten::empty" },
	{ "size.int(Tensor self, int dim) -> int", "aten::size" },
};

/* The kernel behind an operator: allocates before, inside and after what it calls. */
__attribute__((noinline)) at::Tensor kernel(int i, size_t nbytes)
{
	at::Tensor scratch(nbytes / 2 + 1);

	fake::body(i);
	return at::Tensor(nbytes);
}

__attribute__((noinline)) void node_work(int i)
{
	at::Tensor gradient(300 + (size_t)i);

	fake::body(i);
}
} // namespace

namespace fake {
void (*body)(int op);
}

namespace at {
void RecordFunction::end()
{
	if (!active)
		return;
	active = false;
	fake::regions_back_to(fake::regions() - 1);
}

namespace _ops {
Tensor add_Tensor::call(const Tensor &, const Tensor &, const Scalar &alpha)
{
	fake::frame f(ops[0].name);
	return kernel(0, (size_t)(1000 * alpha.v));
}

Tensor &add__Tensor::call(Tensor &self, const Tensor &, const Scalar &)
{
	fake::frame f(ops[1].name);
	kernel(1, 64);
	return self;
}

Tensor mm::call(const Tensor &, const Tensor &)
{
	fake::frame f(ops[2].name);
	return kernel(2, 2048);
}

Tensor addmm::call(const Tensor &, const Tensor &, const Tensor &, const Scalar &, const Scalar &)
{
	fake::frame f(ops[3].name);
	return kernel(3, 4096);
}

Tensor relu::call(const Tensor &)
{
	fake::frame f(ops[4].name);
	return kernel(4, 777);
}

Tensor empty_memory_format::call(c10::ArrayRef<c10::SymInt> size, std::optional<c10::ScalarType>,
				 std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>,
				 std::optional<c10::MemoryFormat>)
{
	fake::frame f(ops[5].name);
	return Tensor((size_t)size.data[0].v);
}

int64_t size_int::call(const Tensor &self, int64_t dim)
{
	return self.data ? dim : -(int64_t)ops[6].schema[0];
}
} // namespace _ops
} // namespace at

namespace torch {
namespace autograd {
Node::~Node() {}
const char *AccumulateGrad::name() const { return "torch::autograd::AccumulateGrad"; }
void AccumulateGrad::apply() { node_work(10); }
namespace generated {
const char *AddBackward0::name() const { return "AddBackward0"; }
void AddBackward0::apply() { node_work(11); }
const char *AddmmBackward0::name() const { return "AddmmBackward0"; }
void AddmmBackward0::apply() { node_work(12); }
} // namespace generated

void Engine::evaluate_function(std::shared_ptr<GraphTask> &, Node *func, InputBuffer &,
			       const std::shared_ptr<ReadyQueue> &)
{
	fake::node_frame f(func->name());
	func->apply();
}

namespace profiler {
std::unique_ptr<PythonRecordFunction> record_function_enter_new(const std::string &name,
								const std::optional<std::string> &)
{
	fake::region_enter(name.c_str());
	return std::make_unique<PythonRecordFunction>();
}
} // namespace profiler
} // namespace autograd
} // namespace torch
