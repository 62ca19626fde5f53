// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/* libc10.so of the fake: the CPU allocator, its reporter, and the truth beside them. */
#include "fake_torch.h"

#include <mutex>
#include <unordered_map>

#include "../truth.h"

namespace {
struct block {
	uint64_t size;
	bool before;
};
std::mutex lock;
std::unordered_map<void *, block> blocks;
truth_dev cpu = { "cpu", 0, 0, 0, 0, 0, 0, 0 };
truth_op frames_all[256], regions_all[64], no_op = { "none", 0, 0, 0 };
size_t frames_cnt, regions_cnt;
uint64_t ooms, zero_allocs;
bool started;
thread_local int open_frames[256], open_regions[256], frames_open, regions_open;
c10::ProfiledCPUMemoryReporter reporter;

int intern(truth_op *all, size_t *cnt, size_t max, const char *name)
{
	for (size_t i = 0; i < *cnt; i++)
		if (!strcmp(all[i].name, name))
			return (int)i;
	if (*cnt == max)
		abort();
	all[*cnt].name = strdup(name);
	return (int)(*cnt)++;
}
} // namespace

namespace fake {
void frame_enter(const char *name)
{
	std::lock_guard<std::mutex> hold(lock);
	int i = intern(frames_all, &frames_cnt, 256, name);

	frames_all[i].count += started;
	open_frames[frames_open++] = i;
}

/* A node hides the operators under it, and counts as a region. */
void node_enter(const char *name)
{
	open_frames[frames_open++] = -1;
	region_enter(name);
}

void region_enter(const char *name)
{
	std::lock_guard<std::mutex> hold(lock);
	int i = intern(regions_all, &regions_cnt, 64, name);

	regions_all[i].count += started;
	open_regions[regions_open++] = i;
}

int frames() { return frames_open; }
void frames_back_to(int depth) { frames_open = depth; }
int regions() { return regions_open; }
void regions_back_to(int depth) { regions_open = depth; }
void truth_start()
{
	truth_ready();
	started = true;
}

void truth_tell()
{
	truth_say_devs(&cpu, 1);
	truth_say_ops("ops", frames_all, frames_cnt);
	truth_say_ops("regions", regions_all, regions_cnt);
	truth_say_ops("no_op", &no_op, 1);
	truth_say(",\"ooms\":%llu,\"zero_allocs\":%llu", (unsigned long long)ooms,
		  (unsigned long long)zero_allocs);
	truth_end();
}
} // namespace fake

namespace c10 {
void ProfiledCPUMemoryReporter::New(void *, size_t nbytes) { allocated += nbytes; }
void ProfiledCPUMemoryReporter::OutOfMemory(size_t nbytes) { allocated |= nbytes & 1; }
void ProfiledCPUMemoryReporter::Delete(void *) { allocated++; }

/* Under the lock, reporter and all: the order of the probes is then that of the truth. */
void *CPUAllocator::allocate(size_t nbytes)
{
	std::lock_guard<std::mutex> hold(lock);
	void *p = nbytes && nbytes < (size_t)1 << 40 ? malloc(nbytes) : nullptr;
	int op = frames_open ? open_frames[frames_open - 1] : -1;

	if (!nbytes) { /* no memory at all, and reported nevertheless, as in torch */
		reporter.New(nullptr, 0);
		zero_allocs += started;
		return nullptr;
	}
	if (!p) {
		reporter.OutOfMemory(nbytes);
		ooms += started;
		return nullptr;
	}
	reporter.New(p, nbytes);
	blocks[p] = { nbytes, !started };
	if (started)
		truth_alloc(&cpu, op < 0 ? &no_op : &frames_all[op],
			    regions_open ? &regions_all[open_regions[regions_open - 1]] : nullptr, nbytes);
	return p;
}

void CPUAllocator::release(void *p)
{
	std::lock_guard<std::mutex> hold(lock);
	block b = blocks.at(p);

	reporter.Delete(p);
	if (started && b.before)
		cpu.preexisting_frees++;
	else if (started)
		truth_free(&cpu, b.size);
	blocks.erase(p);
	free(p);
}
} // namespace c10
