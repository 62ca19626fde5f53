// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_torch MODE: a job on the fake torch (fake_torch/).
 *
 *   plain    operators in operators, recursion, backward nodes, regions, blocks outside of all
 *   threads  the same in four threads that free each other's tensors
 *   throw    operators are left by C++ exceptions, caught at some operator further out
 *   longjmp  the same by longjmp: no destructor runs, no end is ever seen
 *   mixed    operators of the framework inside and around operations of usdt.h
 *
 * What this leaves out on purpose: a tracer without return probes takes an operator for open as long as
 * its return address lies untouched on the stack above the current frame. In the real one the
 * callers of an operator, and whoever catches an exception, go on to call other functions from where
 * it was called; so do used() and handler() here. A program that only returns and then happens to
 * build a frame with a hole at just that word is taken in.
 */
#include <csetjmp>
#include <pthread.h>
#include <vector>

#include "fake_torch/fake_torch.h"
#include "memtrace/usdt.h"
#include "truth.h"

namespace {
enum mode { PLAIN, THROW, LONGJMP, MIXED } mode;
struct escape {
};

struct thread_state {
	uint64_t rng;
	int depth;	   /* operators of this thread that are open, its own count */
	int catchers;	   /* how many of them catch */
	jmp_buf *jump;
};
thread_local thread_state me;
std::vector<at::Tensor> kept;
pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t chance(uint64_t n) { return truth_random(&me.rng) % n; }

/* Hands a tensor over to whoever frees it. */
void keep(at::Tensor t)
{
	at::Tensor dead;

	pthread_mutex_lock(&kept_lock);
	if (kept.size() < 500) {
		kept.push_back(std::move(t));
	} else {
		size_t i = chance(kept.size());

		dead = std::move(kept[i]);
		kept[i] = std::move(t);
	}
	pthread_mutex_unlock(&kept_lock);
}

__attribute__((noinline)) void used(const void *result)
{
	__asm__ volatile("" ::"r"(result) : "memory");
}

/* What a handler of errors does at the least: it makes a message of it. */
__attribute__((noinline)) void handler(int depth)
{
	char message[2048];

	memset(message, 0, sizeof(message));
	snprintf(message, sizeof(message), "left at depth %d", depth);
	used(message);
}

__attribute__((noinline)) void raw_block() { keep(at::Tensor(16 + chance(100))); }

__attribute__((noinline)) void node(int i)
{
	torch::autograd::AccumulateGrad accumulate;
	torch::autograd::generated::AddBackward0 add;
	torch::autograd::generated::AddmmBackward0 addmm;
	torch::autograd::Node *nodes[] = { &accumulate, &add, &addmm };
	std::shared_ptr<torch::autograd::GraphTask> task;
	std::shared_ptr<torch::autograd::ReadyQueue> queue;
	torch::autograd::InputBuffer inputs;
	torch::autograd::Engine engine;

	engine.evaluate_function(task, nodes[i], inputs, queue);
}

__attribute__((noinline)) void region(int i);

__attribute__((noinline)) void dispatch(int i)
{
	static const at::Tensor a, b, c;
	c10::SymInt size((int64_t)chance(3) ? 128 : 0);
	at::Tensor self;
	c10::Scalar one;

	switch (i) { /* each with a call instruction of its own */
	case 0: keep(at::_ops::add_Tensor::call(a, b, one)); break;
	case 1: used(&at::_ops::add__Tensor::call(self, b, one)); break;
	case 2: keep(at::_ops::mm::call(a, b)); break;
	case 3: keep(at::_ops::addmm::call(a, b, c, one, one)); break;
	case 4: keep(at::_ops::relu::call(a)); break;
	case 5: keep(at::_ops::empty_memory_format::call({ &size, 1 }, {}, {}, {}, {}, {})); break;
	case 6: at::_ops::size_int::call(a, 1); raw_block(); break;
	case 7: node((int)chance(3)); break;
	case 8: region((int)chance(4)); break;
	case 9: at::Tensor((size_t)1 << 50); break;
	}
}

__attribute__((noinline)) void usdt_operation(int i)
{
	static const char *const names[] = { "my_op", "my other op" };
	memtrace::op scope(names[i]);
	fake::frame frame(names[i]);

	raw_block();
	dispatch((int)chance(10));
	raw_block();
}

__attribute__((noinline)) void region(int i)
{
	static const char *const names[] = { "Optimizer.step#Adam.step", "short",
					     "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "x" };
	auto record = torch::autograd::profiler::record_function_enter_new(names[i], {});

	raw_block();
	dispatch((int)chance(8));
	record->record.end(); /* and once more by its destructor, as in torch */
	record.reset();
	raw_block();
}

void leave()
{
	if (mode == THROW)
		throw escape();
	longjmp(*me.jump, 1);
}

__attribute__((noinline)) void inner(int i)
{
	if (mode == MIXED && !chance(3))
		usdt_operation((int)chance(2));
	else
		dispatch(i);
}

/* inner(), with somebody who catches what is thrown or jumped out of it. */
__attribute__((noinline)) void guarded(int i)
{
	int frames = fake::frames(), regions = fake::regions(), depth = me.depth;
	jmp_buf here, *outer = me.jump;

	me.catchers++;
	if (mode == THROW) {
		try {
			inner(i);
		} catch (const escape &) {
		}
	} else {
		me.jump = &here;
		if (!setjmp(here))
			inner(i);
		me.jump = outer;
	}
	me.catchers--;
	me.depth = depth;
	fake::frames_back_to(frames);
	fake::regions_back_to(regions);
	handler(depth);
	raw_block();
}

/* Called by every operator and node of the fake while its frame is open. */
void body(int)
{
	bool escapes = mode == THROW || mode == LONGJMP;

	me.depth++;
	if (me.depth < 6 && chance(10) < 6) {
		int i = (int)chance(mode == LONGJMP ? 8 : mode == THROW ? 9 : 10);

		if (escapes && chance(3))
			guarded(i);
		else
			inner(i);
	}
	if (escapes && me.catchers && chance(5) == 0)
		leave();
	me.depth--;
}

void *work(void *arg)
{
	me.rng = 99 + (uint64_t)(uintptr_t)arg;
	for (int i = 0; i < 2000; i++) {
		if (mode == THROW || mode == LONGJMP)
			guarded((int)chance(mode == THROW ? 9 : 8)); /* 8: a region, ended by its destructor */
		else
			inner((int)chance(10));
		raw_block();
	}
	return nullptr;
}
} // namespace

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "plain";
	int threads = strcmp(name, "threads") ? 1 : 4;
	pthread_t t[4];

	mode = !strcmp(name, "throw") ? THROW : !strcmp(name, "longjmp") ? LONGJMP
					      : !strcmp(name, "mixed")	 ? MIXED
									 : PLAIN;
	fake::body = body;
	for (int i = 0; i < 20; i++)
		keep(at::Tensor(500));
	fake::truth_start();
	for (intptr_t i = 1; i < threads; i++)
		if (pthread_create(&t[i], nullptr, work, (void *)i))
			return 1;
	work(nullptr);
	for (int i = 1; i < threads; i++)
		pthread_join(t[i], nullptr);
	fake::truth_tell();
	_exit(0); /* static destructors would free what the truth calls live */
}
