// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * Drives the real libc10_cuda.so over the stub runtime: blocks of many sizes, reuse, raw allocations, streams,
 * an emptied cache, out of memory, two devices, threads. After each part a line with what the allocator itself says:
 *
 *   {"mark":"blocks","t":…,"allocated":[…],"reserved":[…],"requested":[…],"ooms":[…],"retries":[…]}
 *
 * Which allocator it is (caching, expandable segments, cudaMallocAsync, none) is in the environment. With the argument "churn"
 * it has blocks already, and threads give out and take back without end, when it says that it is ready: who attaches comes in the
 * middle of that. "pieces", "wide" and "idle" plant what a verdict is to find: free memory in pieces, and whole segments that nobody uses.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/PeerToPeerAccess.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace alloc = c10::cuda::CUDACachingAllocator;

namespace c10::cuda::_internal {
C10_CUDA_API void setHasPrimaryContext(bool (*fn)(c10::DeviceIndex)); // exported, in no header
}
extern "C" void stub_event_busy(int n);

static void wait_line()
{
	char c = 0;

	while (c != '\n')
		if (read(0, &c, 1) != 1)
			_exit(4);
}

static void put(const char *key, int64_t a, int64_t b) { printf(",\"%s\":[%lld,%lld]", key, (long long)a, (long long)b); }

static bool is_caching() { return alloc::name() == "native" && !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING"); }

/* {"cuda:0 0:7":[reserved, in blocks, uses]} */
static void put_pools()
{
	std::map<std::tuple<int, uint64_t, uint64_t>, std::pair<size_t, size_t>> pools;
	const char *between = "";

	if (is_caching())
		for (const auto &s : alloc::snapshot().segments)
			if (s.owner_private_pool_id != c10::MempoolId_t{ 0, 0 }) {
				auto &sums = pools[{ s.device, s.owner_private_pool_id.first, s.owner_private_pool_id.second }];

				sums.first += s.total_size;
				sums.second += s.allocated_size;
			}
	printf(",\"pools\":{");
	for (const auto &[which, sums] : pools) {
		const auto &[device, first, second] = which;

		printf("%s\"cuda:%d %llu:%llu\":[%zu,%zu,%d]", between, device, (unsigned long long)first, (unsigned long long)second,
		       sums.first, sums.second, alloc::getPoolUseCount(c10::DeviceIndex(device), { first, second }));
		between = ",";
	}
	printf("}");
}

static void mark(const char *name)
{
	using c10::CachingAllocator::StatType;
	auto a = alloc::getDeviceStats(0), b = alloc::getDeviceStats(1);
	const auto all = static_cast<size_t>(StatType::AGGREGATE);
	timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	printf("{\"mark\":\"%s\",\"t\":%lld", name, (long long)ts.tv_sec * 1000000000 + ts.tv_nsec);
	put("allocated", a.allocated_bytes[all].current, b.allocated_bytes[all].current);
	put("reserved", a.reserved_bytes[all].current, b.reserved_bytes[all].current);
	put("allocated_peak", a.allocated_bytes[all].peak, b.allocated_bytes[all].peak);
	put("reserved_peak", a.reserved_bytes[all].peak, b.reserved_bytes[all].peak);
	put("requested", a.requested_bytes[all].current, b.requested_bytes[all].current);
	put("active", a.active_bytes[all].current, b.active_bytes[all].current);
	put("inactive", a.inactive_split_bytes[all].current, b.inactive_split_bytes[all].current);
	put("ooms", a.num_ooms, b.num_ooms);
	put("retries", a.num_alloc_retries, b.num_alloc_retries);
	put_pools();
	printf("}\n");
	fflush(stdout);
}

static const size_t sizes[] = { 1,	 513,	  100000,  1 << 20,  (1 << 20) + 1, 3 << 20,
				9 << 20, 10485761, 33 << 20, 20 << 20, 512,	     0 };

static void blocks()
{
	std::vector<c10::DataPtr> held;

	for (size_t s : sizes)
		held.push_back(alloc::get()->allocate(s));
	mark("blocks");
	held.clear();
	mark("freed");
	for (size_t s : sizes)
		held.push_back(alloc::get()->allocate(s));
	held.resize(5);
	mark("reused");
}

static void raw()
{
	void *a = alloc::raw_alloc(70000), *b = alloc::raw_alloc(5 << 20);

	mark("raw");
	alloc::raw_delete(a);
	alloc::raw_delete(b);
	mark("raw_freed");
}

/* At addresses inside what is cached (torch 2.15: with a USDT probe of its own); other allocators and versions have none of it. */
template <class A> static void at_addresses(A *a)
{
	if constexpr (requires { a->allocateWithAddress(size_t(1), nullptr); }) {
		c10::DataPtr p = a->allocate(9 << 20), q, r;
		char *where = static_cast<char *>(p.get());

		p.clear();
		try {
			q = a->allocateWithAddress((2 << 20) + 100, where + (4 << 20));
			r = a->allocateWithAddress(3 << 20, where); /* from a MiB on blocks are from the same pool */
		} catch (const c10::Error &) {
			return;
		}
		mark("at_addresses");
		q.clear();
		mark("at_addresses_freed");
	}
}

static void streams()
{
	auto s = c10::cuda::getStreamFromPool(false, 0);
	c10::DataPtr p = alloc::get()->allocate(2 << 20);

	alloc::recordStream(p, s);
	stub_event_busy(2);
	p.clear();
	mark("stream");
	c10::DataPtr q = alloc::get()->allocate(4 << 20), r = alloc::get()->allocate(4 << 20);
	stub_event_busy(0);
	mark("stream_over");
}

/* Blocks that one and two other streams use, which become free one after the other. */
static void late_blocks()
{
	auto s = c10::cuda::getStreamFromPool(false, 0), t = c10::cuda::getStreamFromPool(false, 0);
	c10::DataPtr one = alloc::get()->allocate(3 << 20), two = alloc::get()->allocate(5 << 20), more;

	alloc::recordStream(one, s);
	alloc::recordStream(two, s);
	alloc::recordStream(two, t);
	one.clear();
	two.clear();
	mark("late");
	stub_event_busy(2);
	more = alloc::get()->allocate(1 << 20);
	mark("late_still");
	stub_event_busy(1); /* of one stream all, of the other none */
	more = alloc::get()->allocate(1 << 20);
	mark("late_one");
	more = alloc::get()->allocate(1 << 20);
	mark("late_none");
	one = alloc::get()->allocate(3 << 20);
	alloc::recordStream(one, s);
	one.clear();
	mark("late_again");
	alloc::emptyCache();
	mark("late_emptied");
}

static void refused()
{
	try {
		c10::DataPtr p = alloc::get()->allocate(size_t(1) << 40);
		printf("{\"failed\":\"a TiB was given\"}\n");
	} catch (const c10::Error &) {
	}
}

static void out_of_memory()
{
	c10::DataPtr keep = alloc::get()->allocate(30 << 20);

	refused();
	mark("oom");
}

static void second_device()
{
	c10::cuda::CUDAGuard guard(1);
	c10::DataPtr p = alloc::get()->allocate(7 << 20), q = alloc::get()->allocate(1000);

	mark("second");
}

static void thread_work(int n)
{
	std::vector<c10::DataPtr> held(16);
	unsigned seed = unsigned(n);

	c10::cuda::set_device(c10::DeviceIndex(n % 2));
	for (int i = 0; i < 300; i++)
		held[rand_r(&seed) % 16] = alloc::get()->allocate(1 + rand_r(&seed) % 600000);
}

static void threads()
{
	std::vector<std::thread> all;

	for (int n = 0; n < 4; n++)
		all.emplace_back(thread_work, n);
	for (auto &t : all)
		t.join();
	mark("threads");
}

static std::atomic<bool> enough;

static void churn_work(int n)
{
	std::vector<c10::DataPtr> held(32);
	unsigned seed = unsigned(n);

	c10::cuda::set_device(c10::DeviceIndex(n % 2));
	while (!enough) {
		held[rand_r(&seed) % 32] = alloc::get()->allocate(1 + rand_r(&seed) % (rand_r(&seed) % 8 ? 60000 : 6000000));
		usleep(100);
	}
}

/* 20 blocks of before; what the threads hold when memtrace comes is there before, too, but goes. */
static void churn(std::vector<c10::DataPtr> &before, std::vector<std::thread> &all)
{
	for (int i = 0; i < 20; i++) {
		c10::cuda::CUDAGuard guard(c10::DeviceIndex(i % 2));

		before.push_back(alloc::get()->allocate(size_t(1000) << (i / 2)));
	}
	for (int n = 0; n < 4; n++)
		all.emplace_back(churn_work, n);
	usleep(50000);
}

/* Of blocks from before the attach: they stay, one is late, half of them go, all go. Beside them new ones. */
static void after_churn(std::vector<c10::DataPtr> &before, std::vector<std::thread> &all)
{
	std::vector<c10::DataPtr> made;

	usleep(300000);
	enough = true;
	for (auto &t : all)
		t.join();
	for (int i = 0; i < 6; i++) {
		c10::cuda::CUDAGuard guard(c10::DeviceIndex(i % 2));

		made.push_back(alloc::get()->allocate(size_t(3000) << i));
	}
	mark("joined");
	alloc::recordStream(before[18], c10::cuda::getStreamFromPool(false, 0));
	stub_event_busy(9);
	before[18].clear();
	mark("one_late");
	stub_event_busy(0);
	made.push_back(alloc::get()->allocate(5000));
	mark("none_late");
	before.resize(10);
	mark("half");
	before.clear();
	mark("only_new");
	made.clear();
	mark("nothing");
	refused(); /* segments from before the attach are given back, and no block says so */
	mark("refused");
}

static void keep_one(std::vector<c10::DataPtr> *held, int device, size_t size)
{
	c10::cuda::set_device(c10::DeviceIndex(device));
	held->push_back(alloc::get()->allocate(size));
}

/* As torch.cuda.graph does, with a backward in a thread of its own: all of it is the pool's while the capture goes on. */
static void captured_pool(std::vector<c10::DataPtr> &held, const c10::MempoolId_t &id)
{
	auto stream = c10::cuda::getStreamFromPool(false, 0);
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	alloc::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (size_t s : { 1000, 3 << 20, 30 << 20 })
		held.push_back(alloc::get()->allocate(s));
	std::thread(keep_one, &held, 0, 25 << 20).join();
	mark("capturing");
	C10_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
	alloc::endAllocateToPool(0, id);
	C10_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		C10_CUDA_CHECK(cudaGraphLaunch(exec, stream));
}

static void private_pools()
{
	const c10::MempoolId_t graphs{ 0, 7 }, users{ 3, 0 };
	const auto me = std::this_thread::get_id();
	std::vector<c10::DataPtr> held, mine;

	if (!is_caching())
		return;
	held.push_back(alloc::get()->allocate(40 << 20));
	captured_pool(held, graphs);
	held.push_back(alloc::get()->allocate(60 << 20));
	held[3].clear(); /* the one of 30 MiB: a replay writes there all the same */
	mark("captured");
	captured_pool(held, graphs);
	mark("captured_again");
	/* As torch.cuda.use_mem_pool: what another thread asks for is not of it. */
	alloc::createOrIncrefPool(1, users, nullptr);
	alloc::beginAllocateToPool(1, users, [me](cudaStream_t) { return std::this_thread::get_id() == me; });
	std::thread(keep_one, &held, 1, 50 << 20).join();
	keep_one(&mine, 1, 24 << 20);
	alloc::endAllocateToPool(1, users);
	alloc::releasePool(1, users);
	c10::cuda::set_device(0);
	mine.clear();
	mark("users_pool");
	alloc::releasePool(1, users);
	alloc::releasePool(0, graphs);
	mark("used_once");
	alloc::releasePool(0, graphs);
	mark("left");
	held.clear();
	alloc::emptyCache();
	mark("pools_emptied");
}

static void parts()
{
	blocks();
	raw();
	at_addresses(alloc::get());
	streams();
	late_blocks();
	alloc::emptyCache();
	mark("emptied");
	out_of_memory();
	second_device();
	private_pools();
	threads();
	alloc::emptyCache();
	mark("end");
}

/* Rests with other sums each time, a peak from before the attach, and one that is reset. */
static void rest()
{
	mark("rest");
	usleep(250000);
}

static void before_peaks() { alloc::get()->allocate(300 << 20); }

static void peaks()
{
	std::vector<c10::DataPtr> held;

	for (int i = 1; i <= 8; i++) {
		held.push_back(alloc::get()->allocate(i << 20));
		alloc::get()->allocate(i << 22);
		rest();
	}
	mark("high");
	wait_line();
	alloc::get()->resetPeakStats(0);
	for (int i = 1; i <= 4; i++) {
		held.push_back(alloc::get()->allocate(i << 19));
		rest();
	}
	mark("reset");
}

using held_to_the_end = std::vector<c10::DataPtr>;

/* One block lives in each segment of 20 MiB, and what comes then fits into no hole. */
static void pieces()
{
	auto &held = *new held_to_the_end, &wide = *new held_to_the_end;

	for (int i = 0; i < 60; i++)
		held.push_back(alloc::get()->allocate(4 << 20));
	for (int i = 0; i < 60; i++)
		if (i % 5)
			held[i].clear();
	for (int i = 0; i < 9; i++)
		wide.push_back(alloc::get()->allocate(20 << 20));
	mark("pieces");
}

/* One block lives in each segment of 120 MiB, and 240 MiB more do not fit on a device of 400: not if segments are as they are. */
static void wide()
{
	auto &held = *new held_to_the_end;
	std::vector<c10::DataPtr> rest;

	for (int i = 0; i < 3; i++) {
		alloc::get()->allocate(120 << 20);
		held.push_back(alloc::get()->allocate(12 << 20));
		rest.push_back(alloc::get()->allocate(108 << 20));
	}
	rest.clear();
	try {
		held.push_back(alloc::get()->allocate(240 << 20));
	} catch (const c10::OutOfMemoryError &) {
	}
	mark("wide");
}

/* Segments that nothing uses any more, and none of them is large enough for what comes then. */
static void idle()
{
	auto &held = *new held_to_the_end;

	for (int i = 0; i < 20; i++)
		held.push_back(alloc::get()->allocate(12 << 20));
	held.clear();
	held.push_back(alloc::get()->allocate(200 << 20));
	mark("idle");
}

int main(int argc, char **argv)
{
	std::vector<c10::DataPtr> before;
	std::vector<std::thread> threads_before;
	const char *mode = argc > 1 ? argv[1] : "";
	bool churns = !strcmp(mode, "churn");

	c10::cuda::_internal::setHasPrimaryContext(+[](c10::DeviceIndex) { return true; });
	alloc::init(c10::cuda::device_count());
	c10::cuda::detail::init_p2p_access_cache(c10::cuda::device_count());
	if (churns)
		churn(before, threads_before);
	if (!strcmp(mode, "peaks"))
		before_peaks();
	printf("ready %d\n", int(getpid()));
	fflush(stdout);
	wait_line();
	c10::cuda::SetDevice(0, true);
	if (churns)
		after_churn(before, threads_before);
	else if (!strcmp(mode, "pieces"))
		pieces();
	else if (!strcmp(mode, "wide"))
		wide();
	else if (!strcmp(mode, "idle"))
		idle();
	else if (!strcmp(mode, "peaks"))
		peaks();
	else
		parts();
	printf("done\n");
	fflush(stdout);
	wait_line();
}
