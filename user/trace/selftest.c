/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Linux 6.18 replaces a probed five-byte nop by a call into a page of its own: harmless at a function's entry, but the call
 * overwrites a red zone anywhere else, and in children forked afterwards that page is missing (6.18.44; fixed upstream in
 * 2026). Version numbers do not show such things, since distributions backport fixes as they please. So memtrace tries it.
 *
 * A child reports when it has run all pieces without probes; we set the probes in it; it runs them again and compares. Its
 * progress is in shared memory, so the piece that ends it is known, and another child goes on without it.
 */
#include "trace/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "trace/calib.h"
#include "arch/arch.h"

#define SITES_MAX 32
#define INPUTS 4
#define CALLS 16	/* at least, for each site */
#define SIGNALS 3	/* during those */
#define CALLS_MAX 20000 /* if no signal comes */
#define SIGNAL_US 25
#define TIME_CALLS 64
#define CHILD_NS 10000000000ull /* the slowest emulator needs one second */

/* Shared by parent, child and its children. */
struct board {
	uint32_t at;	   /* the site that is being run */
	struct {
		uint8_t verdict; /* enum insn_verdict */
		uint8_t is_set;
		uint32_t ns;
	} site[SITES_MAX];
};

/* --- the child ------------------------------------------------------------------------------------- */

/* For the only thread of the child; signal handlers use it. */
static struct trial {
	struct board *board;
	struct try_state in[INPUTS], bare[SITES_MAX][INPUTS];
	uint8_t first[SITES_MAX]; /* byte at each site without a probe */
	volatile unsigned signals, harm; /* during the present site */
} trial;

static void deadly(int sig)
{
	(void)sig;
	_exit(2); /* without a core file and a line in the kernel's log */
}

/* Runs a site once and returns enum insn_verdict. */
static unsigned run_once(size_t site, size_t input)
{
	static const unsigned verdicts[] = { INSN_FINE, INSN_CHANGES_STACK, INSN_CHANGES_REGS };
	struct try_state out;

	memset(&out, 0, sizeof(out));
	try_run(&trial.in[input], &out, try_sites[site].code);
	return verdicts[try_differs(&try_sites[site], &trial.bare[site][input], &out)];
}

static void worsen(volatile unsigned *harm, unsigned verdict)
{
	if (verdict > *harm)
		*harm = verdict;
}

/* One signal; the handler requests the next, since with an interval a slow site would never finish. */
static void set_timer(long us)
{
	struct itimerval t = { .it_value = { 0, us } };

	(void)setitimer(ITIMER_REAL, &t, NULL);
}

static void on_alarm(int sig)
{
	(void)sig;
	worsen(&trial.harm, run_once(trial.board->at, trial.signals % INPUTS));
	if (++trial.signals < SIGNALS)
		set_timer(SIGNAL_US);
}

static void catch_signals(void)
{
	static const int deaths[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS };
	static char stack[16384];
	struct sigaction death = { .sa_handler = deadly, .sa_flags = SA_ONSTACK }, alarms = { .sa_handler = on_alarm };
	sigset_t none;

	(void)sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof(stack) }, NULL);
	for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++)
		(void)sigaction(deaths[i], &death, NULL);
	(void)sigaction(SIGALRM, &alarms, NULL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void run_with_signals(size_t site)
{
	trial.harm = INSN_FINE;
	trial.signals = 0;
	set_timer(SIGNAL_US);
	for (unsigned i = 0; i < CALLS || (trial.signals < SIGNALS && i < CALLS_MAX); i++)
		worsen(&trial.harm, run_once(site, i % INPUTS));
	set_timer(0);
}

static int by_ns(const void *pa, const void *pb)
{
	return cmp_up(*(const int64_t *)pa, *(const int64_t *)pb);
}

static int64_t time_call(const void *code, size_t input)
{
	struct try_state out;
	uint64_t t0;

	calib_pollute();
	t0 = now_ns();
	try_run(&trial.in[input], &out, code);
	return (int64_t)(now_ns() - t0);
}

/*
 * What a probed site takes longer than nothing, with cold caches as in calib.c, but for making them cold. Both are called in
 * turns, and the median counts: timed one after the other, on an emulated machine beside other work, a jump took 1 ns.
 */
static uint32_t time_site(size_t site)
{
	int64_t longer[TIME_CALLS];

	for (unsigned i = 0; i < TIME_CALLS; i++) {
		int64_t bare = time_call(try_nothing, i % INPUTS);

		longer[i] = time_call(try_sites[site].code, i % INPUTS) - bare;
	}
	qsort(longer, TIME_CALLS, sizeof(*longer), by_ns);
	return longer[TIME_CALLS / 2] > 1 ? (uint32_t)longer[TIME_CALLS / 2] : 1;
}

static void trial__bare(void)
{
	for (size_t k = 0; k < INPUTS; k++)
		try_state_fill(&trial.in[k], 1 + k * 1000);
	memset(trial.bare, 0, sizeof(trial.bare));
	for (size_t i = 0; i < try_sites_cnt; i++) {
		trial.first[i] = *(const volatile uint8_t *)try_sites[i].at;
		for (size_t k = 0; k < INPUTS; k++)
			try_run(&trial.in[k], &trial.bare[i][k], try_sites[i].code);
	}
}

static int is_first_of_class(size_t site)
{
	return !site || try_sites[site].class != try_sites[site - 1].class;
}

static void trial__probed(void)
{
	struct board *b = trial.board;

	for (size_t i = 0; i < try_sites_cnt; i++) {
		if (!b->site[i].is_set)
			continue;
		b->at = (uint32_t)i;
		run_with_signals(i);
		if (trial.harm == INSN_FINE && !try_is_probed(&try_sites[i], trial.first[i]) &&
		    trial.first[i] != try_breakpoint)
			trial.harm = INSN_NOT_SET; /* nothing was proved; if it was there before, another tool probes us */
		if (is_first_of_class(i))
			b->site[i].ns = time_site(i);
		b->site[i].verdict = (uint8_t)trial.harm;
	}
}

/* A child of the child runs, from `at` on, what was harmless in its parent. */
static void grandchild(size_t at)
{
	struct board *b = trial.board;

	for (size_t i = at; i < try_sites_cnt; i++) {
		if (b->site[i].verdict != INSN_FINE)
			continue;
		b->at = (uint32_t)i;
		for (size_t k = 0; k < INPUTS; k++)
			if (run_once(i, k) != INSN_FINE)
				b->site[i].verdict = INSN_CHANGES_CHILD;
	}
	_exit(0);
}

/* Each grandchild that is killed decides its site's verdict; the next begins after it. */
static int trial__forked(void)
{
	struct board *b = trial.board;
	int status = 1;

	b->at = 0;
	for (size_t at = 0; status && at < try_sites_cnt; at = b->at + 1u) {
		pid_t pid = fork();

		if (!pid)
			grandchild(at);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return -ECHILD;
		if (status)
			b->site[b->at].verdict = INSN_ENDS_CHILD;
	}
	return 0;
}

static void child(struct board *b, int sock)
{
	char c = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	catch_signals();
	trial.board = b;
	trial__bare();
	if (write(sock, &c, 1) != 1 || read(sock, &c, 1) != 1)
		_exit(1);
	trial__probed();
	_exit(trial__forked() < 0 ? 1 : 0);
}

/* --- the parent ------------------------------------------------------------------------------------ */

static int is_decided(unsigned verdict)
{
	return verdict != INSN_UNTRIED && verdict != INSN_FINE;
}

/* Sites that share one link, which takes milliseconds; if one of them is refused, each gets its own. */
static int set_sites(const struct selftest_ops *ops, pid_t pid, const uint32_t *sites, size_t cnt, int is_ret)
{
	uint64_t offsets[SITES_MAX];
	char path[64];
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++)
		r = calib_offset_of(try_sites[sites[i]].at, &offsets[i], path);
	return r || !cnt ? r : ops->attach(ops->ctx, pid, path, offsets, cnt, is_ret);
}

static void board__set(struct board *b, const struct selftest_ops *ops, pid_t pid, const uint32_t *sites, size_t cnt)
{
	int r = set_sites(ops, pid, sites, cnt, 0);

	for (size_t i = 0; i < cnt && (!r || cnt == 1); i++) {
		b->site[sites[i]].is_set = !r;
		if (r)
			b->site[sites[i]].verdict = INSN_NOT_SET;
	}
	for (size_t i = 0; i < cnt && r && cnt > 1; i++)
		board__set(b, ops, pid, &sites[i], 1);
}

static void board__set_probes(struct board *b, pid_t pid, const struct selftest_ops *ops)
{
	uint32_t most[SITES_MAX];
	size_t cnt = 0;

	for (uint32_t i = 0; i < try_sites_cnt; i++) {
		b->site[i].is_set = 0;
		if (is_decided(b->site[i].verdict))
			continue;
		if (try_sites[i].class == INSN_RETURN && set_sites(ops, pid, &i, 1, 1) < 0)
			b->site[i].verdict = INSN_NOT_SET;
		else
			most[cnt++] = i;
	}
	board__set(b, ops, pid, most, cnt);
}

/* Until the child has sent a byte (1) or has ended (0); or -ETIMEDOUT. */
static int await(int sock, uint64_t deadline, const struct selftest_ops *ops)
{
	while (now_ns() < deadline) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		char c;

		if (poll(&p, 1, 1) > 0)
			return read(sock, &c, 1) == 1;
		ops->discard(ops->ctx);
	}
	return -ETIMEDOUT;
}

/* 1: it reached the end; 0: the site in the shared memory killed it; or -errno. */
static int board__try(struct board *b, const struct selftest_ops *ops)
{
	uint64_t deadline = now_ns() + CHILD_NS;
	int socks[2], status = 0, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0)
		return -errno;
	pid = fork();
	if (!pid) {
		close(socks[0]);
		child(b, socks[1]);
	}
	r = pid < 0 ? -errno : 0;
	close(socks[1]);
	if (!r && await(socks[0], deadline, ops) == 1) {
		board__set_probes(b, pid, ops);
		if (write(socks[0], "", 1) != 1 || await(socks[0], deadline, ops) < 0)
			(void)kill(pid, SIGKILL);
	} else if (!r) {
		(void)kill(pid, SIGKILL);
		r = -ECHILD;
	}
	close(socks[0]);
	if (pid > 0) {
		(void)waitpid(pid, &status, 0);
		ops->detach(ops->ctx, pid);
	}
	if (!r && WIFEXITED(status) && WEXITSTATUS(status) == 1)
		r = -ECHILD; /* for instance, it could not fork: no verdict */
	return r < 0 ? r : status == 0;
}

static uint16_t fits(uint32_t ns)
{
	return ns > UINT16_MAX ? UINT16_MAX : (uint16_t)ns;
}

/* A class gets the worst verdict of its sites; the first site was timed. */
static void classes_from(struct insn_classes *ret, const struct board *b)
{
	uint32_t pair = 0;

	*ret = (struct insn_classes){ .is_tried = 1 };
	for (size_t i = 0; i < try_sites_cnt; i++) {
		struct insn_class_fact *f = &ret->of[try_sites[i].class];

		if (is_first_of_class(i))
			f->hit_ns = fits(b->site[i].ns);
		if (b->site[i].verdict > f->verdict)
			f->verdict = b->site[i].verdict;
		f->is_usable = f->verdict == INSN_FINE;
	}
	if (ret->of[INSN_RETURN].hit_ns > ret->of[INSN_OWN].hit_ns)
		pair = ret->of[INSN_RETURN].hit_ns - ret->of[INSN_OWN].hit_ns;
	for (int c = INSN_NOP5; c < INSN_CLASSES; c++)
		ret->of[c].pair_ns = c == INSN_RETURN ? ret->of[c].hit_ns : fits(ret->of[c].hit_ns + pair);
}

int selftest_run(struct insn_classes *ret, const struct selftest_ops *ops)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r = 0;

	if (b == MAP_FAILED)
		return -errno;
	for (size_t i = 0; !r && i <= try_sites_cnt; i++) {
		b->at = 0;
		r = board__try(b, ops);
		if (!r && b->at < try_sites_cnt)
			b->site[b->at].verdict = INSN_ENDS_PROCESS;
	}
	if (r > 0)
		classes_from(ret, b);
	munmap(b, sizeof(*b));
	return r > 0 ? 0 : r ? r : -ECHILD;
}
