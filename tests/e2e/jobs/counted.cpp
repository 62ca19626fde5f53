// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
// An accounting of a job's CPU bytes that memtrace has no part in: an allocator around torch's own that counts what is
// asked of it and given back, by every thread. What another thread than the first asks for, or the first inside of a collective,
// is gloo's. jobs/fsdp_memory.py calls it by ctypes (torch 2.13: c10/core/CPUAllocator.h).
#include <algorithm>
#include <c10/core/CPUAllocator.h>
#include <mutex>
#include <unordered_map>

namespace {

struct block {
	int64_t bytes;
	bool is_gloos;
};

std::mutex lock;
auto *blocks = new std::unordered_map<void *, block>; // outlives whatever is freed at the exit
c10::Allocator *under;
int64_t all, gloos;
int64_t peak, peak_without; // the second: of what is not gloo's
thread_local bool is_first;
bool is_inside;

void gone(void *ptr)
{
	{
		std::lock_guard<std::mutex> held(lock);
		auto it = blocks->find(ptr);
		if (it != blocks->end()) {
			all -= it->second.bytes;
			gloos -= it->second.is_gloos ? it->second.bytes : 0;
			blocks->erase(it);
		}
	}
	under->raw_deleter()(ptr);
}

void made(void *ptr, size_t size)
{
	std::lock_guard<std::mutex> held(lock);
	block b = {static_cast<int64_t>(size), !is_first || is_inside};

	(*blocks)[ptr] = b;
	all += b.bytes;
	gloos += b.is_gloos ? b.bytes : 0;
	peak = std::max(peak, all);
	peak_without = std::max(peak_without, all - gloos);
}

struct Counting final : c10::Allocator {
	c10::DataPtr allocate(size_t size) override
	{
		c10::DataPtr inner = under->allocate(size);
		void *ptr = inner.release_context();
		if (ptr)
			made(ptr, size);
		return {ptr, ptr, &gone, c10::Device(c10::DeviceType::CPU)};
	}
	c10::DeleterFnPtr raw_deleter() const override
	{
		return &gone;
	}
	void copy_data(void *dest, const void *src, size_t count) const override
	{
		default_copy_data(dest, src, count);
	}
};

} // namespace

extern "C" void counted_begin()
{
	static Counting counting;
	is_first = true;
	under = c10::GetCPUAllocator();
	c10::SetCPUAllocator(&counting, 1);
}

// The first thread goes into a collective, or comes out of it.
extern "C" void counted_inside(int on)
{
	std::lock_guard<std::mutex> held(lock);
	is_inside = on;
}

// {now, the most since the last call with `anew`, the most of what is not gloo's}. Now is without gloo's: its thread lets go of
// that at any time, also between this call and the mark that it goes with.
extern "C" void counted_take(int64_t ret[3], int anew)
{
	std::lock_guard<std::mutex> held(lock);
	ret[0] = all - gloos;
	ret[1] = peak;
	ret[2] = peak_without;
	if (anew) {
		peak = all;
		peak_without = all - gloos;
	}
}
