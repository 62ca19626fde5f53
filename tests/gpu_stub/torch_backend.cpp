// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * Device "cuda" for a PyTorch without CUDA, so that real training runs on CUDA tensors where there is no GPU. The
 * allocator is the real one (libc10_cuda.so over the stub runtime, whose memory is the host's and may be touched:
 * MT_STUB_TOUCH); the kernels are the CPU's.
 *
 * A kernel gets its CUDA tensors as CPU tensors over the same memory. What it allocates, results and temporaries,
 * comes from the CUDA allocator, as a CUDA kernel's would, by no operator of its own; results leave as CUDA tensors. So
 * operators, autograd, its device threads and blocks are those of a job on a GPU; only the arithmetic is elsewhere.
 *
 * backend_log() starts telling every block to a file, the truth that memtrace is held against:
 *
 *   {"t":…,"ev":"give","ptr":…,"size":…,"op":"aten::addmm","stream":0,"stream_id":0}
 *   {"t":…,"ev":"take","ptr":…}
 *
 * op: the innermost operator by PyTorch's own observer; size: as asked for; stream: CUDA's handle and PyTorch's number. Without a log observers (a profiler) see no
 * operators inside of kernels: a CUDA kernel would call none for the CPU.
 */
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/PeerToPeerAccess.h>
#include <torch/library.h>

#include <cstdio>
#include <ctime>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cuda_alloc = c10::cuda::CUDACachingAllocator;

namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*fn)(c10::DeviceIndex)); // exported, in no header
}

namespace {

thread_local int kernels; // of ours, open in this thread
thread_local std::vector<const char *> operators; // open in this thread, innermost last
std::mutex log_lock;
FILE *log_file;

long long now_ns()
{
	timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

// --- blocks -----------------------------------------------------------------------------------------------

void tell_given(const void *ptr, size_t size)
{
	std::lock_guard<std::mutex> guard(log_lock);

	if (!log_file || !ptr)
		return;
	auto stream = c10::cuda::getCurrentCUDAStream();
	fprintf(log_file, "{\"t\":%lld,\"ev\":\"give\",\"ptr\":%llu,\"size\":%zu,\"op\":\"%s\",\"stream\":%llu,\"stream_id\":%lld}\n", now_ns(),
		(unsigned long long)ptr, size, operators.empty() ? "" : operators.back(), (unsigned long long)stream.stream(),
		(long long)stream.id());
}

struct Block {
	c10::DataPtr inner; // of the CUDA allocator
};

void block_end(void *ctx)
{
	auto *b = static_cast<Block *>(ctx);

	if (b->inner.get()) {
		std::lock_guard<std::mutex> guard(log_lock);
		if (log_file)
			fprintf(log_file, "{\"t\":%lld,\"ev\":\"take\",\"ptr\":%llu}\n", now_ns(), (unsigned long long)b->inner.get());
	}
	delete b;
}

c10::DataPtr block_new(size_t size, c10::Device dev)
{
	auto *b = new Block{ cuda_alloc::get()->allocate(size) };

	tell_given(b->inner.get(), size);
	return { b->inner.get(), b, &block_end, dev };
}

// For tensors of the device.
struct DeviceAllocator final : c10::Allocator {
	c10::DataPtr allocate(size_t n) override { return block_new(n, { c10::DeviceType::CUDA, c10::cuda::current_device() }); }
	void copy_data(void *to, const void *from, size_t n) const override { default_copy_data(to, from, n); }
} on_device;

// For CPU tensors: inside of a kernel of ours they are the device's.
struct HostAllocator final : c10::Allocator {
	c10::Allocator *host = nullptr;

	c10::DataPtr allocate(size_t n) override
	{
		return kernels ? block_new(n, c10::DeviceType::CPU) : host->allocate(n);
	}
	void copy_data(void *to, const void *from, size_t n) const override { default_copy_data(to, from, n); }
} on_host;

// --- tensors in and out -------------------------------------------------------------------------------------

struct Aliases {
	std::vector<std::pair<at::Tensor, at::Tensor>> all; // ours, the CPU's
	std::unordered_map<c10::StorageImpl *, c10::Storage> storages; // of results: the CPU's, ours

	at::Tensor in(const at::Tensor &t)
	{
		if (!t.defined() || !t.is_cuda())
			return t;
		for (auto &[mine, cpu] : all)
			if (mine.is_same(t))
				return cpu;
		const auto &s = t.storage();
		c10::Storage over(c10::Storage::use_byte_size_t(), s.nbytes(),
				  c10::DataPtr(s.mutable_data(), c10::DeviceType::CPU), &on_host, true);
		auto cpu = at::detail::make_tensor<c10::TensorImpl>(std::move(over), c10::DispatchKeySet(c10::DispatchKey::CPU),
								     t.dtype());
		cpu.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
		all.emplace_back(t, cpu);
		return cpu;
	}

	// What a kernel has allocated for the CPU's storage is the device's.
	static c10::DataPtr take(const c10::Storage &s)
	{
		auto ptr = s.set_data_ptr(c10::DataPtr(nullptr, c10::DeviceType::CPU));

		ptr.unsafe_set_device({ c10::DeviceType::CUDA, c10::cuda::current_device() });
		return ptr;
	}

	// An argument that the kernel has resized.
	void settle()
	{
		for (auto &[mine, cpu] : all) {
			const auto &to = mine.storage(), &from = cpu.storage();
			if (from.data_ptr().get_deleter() == &block_end) {
				to.set_nbytes(from.nbytes());
				to.set_data_ptr_noswap(take(from));
			}
			if (mine.sizes() != cpu.sizes() || mine.strides() != cpu.strides())
				mine.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
		}
	}

	// The storage that stands for one of the CPU's; none: it is the CPU's own.
	c10::Storage storage(const c10::Storage &s)
	{
		for (auto &[mine, cpu] : all)
			if (cpu.storage().is_alias_of(s))
				return mine.storage();
		auto found = storages.find(s.unsafeGetStorageImpl());
		if (found != storages.end())
			return found->second;
		if (s.data_ptr().get_deleter() != &block_end && s.data())
			return {};
		c10::Storage mine(c10::Storage::use_byte_size_t(), s.nbytes(), take(s), &on_device, true);
		storages.emplace(s.unsafeGetStorageImpl(), mine);
		return mine;
	}

	at::Tensor out(const at::Tensor &t)
	{
		if (!t.defined() || !t.is_cpu())
			return t;
		for (auto &[mine, cpu] : all)
			if (cpu.is_same(t))
				return mine;
		c10::Storage s = storage(t.storage());
		if (!s)
			return t;
		// sizes first: the storage's bytes have been given away
		auto mine = at::detail::make_tensor<c10::TensorImpl>(std::move(s), c10::DispatchKeySet(c10::DispatchKey::CUDA),
								      t.dtype());
		mine.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
		return mine;
	}

	template <typename F> void each(c10::IValue &v, F &&f)
	{
		if (v.isTensor()) {
			v = f(v.toTensor());
		} else if (v.isTensorList()) {
			c10::List<at::Tensor> list;
			for (const auto &t : v.toTensorVector())
				list.push_back(f(t));
			v = std::move(list);
		} else if (v.isOptionalTensorList()) {
			c10::List<std::optional<at::Tensor>> list;
			for (const auto &t : v.toOptionalTensorVector())
				list.push_back(t ? std::optional<at::Tensor>(f(*t)) : std::nullopt);
			v = std::move(list);
		}
	}
};

struct Inside {
	Inside() { kernels++; }
	~Inside() { kernels--; }
};

void run_on_cpu(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack)
{
	const size_t args = op.schema().arguments().size(), rets = op.schema().returns().size();
	at::AutoDispatchBelowADInplaceOrView below;
	std::optional<at::DisableRecordFunctionGuard> unseen;
	Aliases a;

	if (!log_file)
		unseen.emplace();
	for (size_t i = stack->size() - args; i < stack->size(); i++) {
		auto &v = (*stack)[i];
		a.each(v, [&](const at::Tensor &t) { return a.in(t); });
		if (v.isDevice() && v.toDevice().is_cuda())
			v = c10::Device(c10::DeviceType::CPU);
	}
	{
		Inside kernel;
		op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
	}
	a.settle();
	for (size_t i = stack->size() - rets; i < stack->size(); i++)
		a.each((*stack)[i], [&](const at::Tensor &t) { return a.out(t); });
}

// --- what no CPU kernel can do -------------------------------------------------------------------------------

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
		 std::optional<bool>, std::optional<at::MemoryFormat> format)
{
	return at::detail::empty_generic(size, &on_device, c10::DispatchKeySet(c10::DispatchKey::CUDA),
					 dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
			 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
	return at::detail::empty_strided_generic(size, stride, &on_device, c10::DispatchKeySet(c10::DispatchKey::CUDA),
						 dtype.value_or(at::kFloat));
}

// What makes CUDA the accelerator, for autograd's threads and streams.
struct CUDAHooks final : at::CUDAHooksInterface {
	explicit CUDAHooks(at::CUDAHooksArgs) {}
	void init() const override {}
	bool hasCUDA() const override { return true; }
	bool isBuilt() const override { return true; }
	bool isAvailable() const override { return true; }
	bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
	c10::DeviceIndex deviceCount() const override { return c10::cuda::device_count(); }
	c10::DeviceIndex getCurrentDevice() const override { return c10::cuda::current_device(); }
	void setCurrentDevice(c10::DeviceIndex i) const override { c10::cuda::set_device(i); }
};

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction &fn)
{
	operators.push_back(fn.name());
	return nullptr;
}

void operator_ends(const at::RecordFunction &, at::ObserverContext *) { operators.pop_back(); }

torch::Library *library;

void add_kernels()
{
	const auto cpu = c10::DispatchKey::CPU, cuda = c10::DispatchKey::CUDA;

	library = new torch::Library(torch::Library::IMPL, "aten", cuda, __FILE__, __LINE__);
	library->impl("empty.memory_format", TORCH_FN(empty));
	library->impl("empty_strided", TORCH_FN(empty_strided));
	for (const auto &name : c10::Dispatcher::singleton().getAllOpNames()) {
		auto op = c10::Dispatcher::singleton().findOp(name);
		std::string full = name.name + (name.overload_name.empty() ? "" : "." + name.overload_name);

		if (!op || name.name.rfind("aten::", 0) || op->hasKernelForDispatchKey(cuda))
			continue;
		if (op->hasKernelForDispatchKey(cpu) || full == "aten::copy_")
			library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
	}
}

} // namespace

namespace at {
REGISTER_CUDA_HOOKS(CUDAHooks)
}

extern "C" __attribute__((visibility("default"))) void backend_init()
{
	c10::cuda::_internal::setHasPrimaryContext(+[](c10::DeviceIndex) { return true; });
	cuda_alloc::init(c10::cuda::device_count());
	c10::cuda::detail::init_p2p_access_cache(c10::cuda::device_count());
	on_host.host = c10::GetAllocator(c10::DeviceType::CPU);
	c10::SetAllocator(c10::DeviceType::CPU, &on_host, 255);
	c10::SetAllocator(c10::DeviceType::CUDA, &on_device, 255);
	add_kernels();
}

extern "C" __attribute__((visibility("default"))) int backend_log(const char *path)
{
	std::lock_guard<std::mutex> guard(log_lock);

	log_file = fopen(path, "we");
	at::addGlobalCallback(at::RecordFunctionCallback(&operator_begins, &operator_ends).scopes({ at::RecordScope::FUNCTION }));
	return log_file ? setvbuf(log_file, nullptr, _IOLBF, 1 << 16) : -1;
}

extern "C" __attribute__((visibility("default"))) void backend_stream(int side)
{
	static const auto other = c10::cuda::getStreamFromPool(false, 0);

	c10::cuda::setCurrentCUDAStream(side ? other : c10::cuda::getDefaultCUDAStream(0));
}

// {allocated, reserved, requested} of device 0
extern "C" __attribute__((visibility("default"))) void backend_stats(int64_t *ret)
{
	const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
	auto s = cuda_alloc::getDeviceStats(0);

	ret[0] = s.allocated_bytes[all].current;
	ret[1] = s.reserved_bytes[all].current;
	ret[2] = s.requested_bytes[all].current;
}

extern "C" __attribute__((visibility("default"))) void backend_empty_cache() { cuda_alloc::emptyCache(); }
