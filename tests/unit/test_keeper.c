/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the two halves say to each other survives the way, nonsense is refused, and what was given away is gone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "keeper/channel.h"
#include "keeper/confine.h"
#include "keeper/filter.h"
#include "keeper/keeper.h"
#include "keeper/lookers.h"
#include "keeper/serve.h"
#include "keeper/wire_plan.h"
#include "target/door.h"
#include "target/script_read.h"

#define SITES 3

struct sample {
	struct plan_lib libs[2];
	struct site sites[SITES];
	struct mt_usdt_spec specs[1];
	struct flow_vtable vtables[2];
	struct plan plan;
};

static void sample__init(struct sample *s)
{
	memset(s, 0, sizeof(*s));
	s->libs[0] = (struct plan_lib){ .dev = 7, .ino = 8, .path = (char *)"/a", .fd = 5 };
	s->libs[1] = (struct plan_lib){ .dev = 9, .ino = 10, .path = (char *)"/b", .fd = 6 };
	for (unsigned i = 0; i < SITES; i++)
		s->sites[i] = (struct site){ .lib = i & 1, .prog = MT_PROG_OP, .offset = 100 + i, .cookie = i, .sym = { i + 1 },
					     .source = SRC_OPS, .insn_class = INSN_PUSH };
	s->specs[0].kind = 3;
	s->vtables[1].addr = 77;
	s->plan = (struct plan){ .libs = s->libs, .libs_cnt = 2, .sites = s->sites, .sites_cnt = SITES, .specs = s->specs,
				 .specs_cnt = 1, .flow_vtables = s->vtables, .flow_vtables_cnt = 2, .comm_start = 1,
				 .comm_end = 2, .flow_layout = { .torch = "2.0" } };
}

static void plans_travel(void **state)
{
	static _Alignas(8) char bytes[4096];
	const uint8_t wanted[SITES] = { 1, 0, 1 };
	struct wire_plan w;
	struct sample s;
	int64_t n;

	(void)state;
	sample__init(&s);
	n = wire_plan_write(bytes, sizeof(bytes), &s.plan, wanted);
	assert_true(n > 0);
	assert_int_equal(wire_plan__read(&w, bytes, (size_t)n), 0);
	assert_int_equal(w.plan.libs_cnt, 2);
	assert_int_equal(w.plan.libs[1].ino, 10);
	assert_int_equal(w.plan.libs[1].fd, -1);
	assert_int_equal(w.plan.sites_cnt, SITES);
	assert_memory_equal(w.plan.sites, s.sites, sizeof(s.sites));
	assert_int_equal(w.plan.specs[0].kind, 3);
	assert_int_equal(w.plan.flow_vtables[1].addr, 77);
	assert_int_equal(w.plan.comm_end, 2);
	assert_non_null(w.plan.flow_layout.torch);
	assert_memory_equal(w.wanted, wanted, SITES);
	wire_plan__done(&w);
	assert_int_equal(wire_plan_write(bytes, (size_t)n - 1, &s.plan, wanted), -E2BIG);
	for (size_t len = 0; len < (size_t)n; len++)
		assert_int_equal(wire_plan__read(&w, bytes, len), -EINVAL);
}

static int reads_as(struct sample *s)
{
	static _Alignas(8) char bytes[4096];
	int64_t n = wire_plan_write(bytes, sizeof(bytes), &s->plan, NULL);
	struct wire_plan w;
	int r = wire_plan__read(&w, bytes, (size_t)n);

	if (!r)
		wire_plan__done(&w);
	return r;
}

static void nonsense_is_refused(void **state)
{
	struct sample s;

	(void)state;
	sample__init(&s);
	assert_int_equal(reads_as(&s), 0);
	s.sites[1].lib = 2;
	assert_int_equal(reads_as(&s), -EINVAL);
	sample__init(&s);
	s.sites[2].prog = MT_PROG_MAX;
	assert_int_equal(reads_as(&s), -EINVAL);
	sample__init(&s);
	s.sites[0].source = SRC_OPS | SRC_HOST;
	assert_int_equal(reads_as(&s), -EINVAL);
	sample__init(&s);
	s.sites[0].source = 1u << SRC_CNT;
	assert_int_equal(reads_as(&s), -EINVAL);
	sample__init(&s);
	s.sites[0].insn_class = INSN_CLASSES;
	assert_int_equal(reads_as(&s), -EINVAL);
	sample__init(&s);
	s.sites[0].is_ret = 2;
	assert_int_equal(reads_as(&s), -EINVAL);
}

/* Any bytes: an error, or a plan whose every index is in its array. */
static void any_bytes_are_survived(void **state)
{
	static _Alignas(8) char good[4096], bad[4096];
	struct sample s;
	size_t n;

	(void)state;
	sample__init(&s);
	n = (size_t)wire_plan_write(good, sizeof(good), &s.plan, NULL);
	srand(4711);
	for (int i = 0; i < 100000; i++) {
		char *exact = malloc(n);
		struct wire_plan w;

		memcpy(bad, good, n);
		for (int k = rand() % 4; k >= 0; k--)
			bad[(size_t)rand() % (i & 1 ? 64 : n)] = (char)rand();
		assert_non_null(exact);
		memcpy(exact, bad, n); /* where a byte too many is seen */
		if (!wire_plan__read(&w, exact, n)) {
			for (size_t k = 0; k < w.plan.sites_cnt; k++)
				assert_true(w.plan.sites[k].lib < w.plan.libs_cnt);
			wire_plan__done(&w);
		}
		free(exact);
	}
}

/* --- requests ----------------------------------------------------------------------------------------- */

static int child_says(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A keeper without a process of its own, for that one. */
static struct keep *keep_for(pid_t pid, struct channel *other)
{
	struct keep *k = calloc(1, sizeof(*k));

	assert_non_null(k);
	assert_int_equal(channel_pair(&k->looks, other, KEEP_LOOKS_AREA), 0);
	assert_int_equal(wards__new(&k->wards, &(struct wards_opts){ .pids = &pid, .pids_cnt = 1 }), 0);
	pthread_mutex_init(&k->libs.lock, NULL);
	return k;
}

static void keep__free(struct keep *k, struct channel *other)
{
	for (size_t i = 0; i < k->libs.cnt; i++)
		close(k->libs.v[i].fd);
	wards__free(k->wards);
	close(other->fd);
	channel__done(&k->looks);
	free(k);
}

#define TURNS 20

struct asker_now_and_then {
	struct channel *c;
	int had_its_turn;
};

static void *ask_once(void *arg)
{
	struct asker_now_and_then *a = arg;

	channel__take(a->c);
	a->had_its_turn = 1;
	channel__give(a->c);
	return NULL;
}

static uint64_t came(struct channel *c)
{
	uint64_t cnt;

	pthread_mutex_lock(&c->lock);
	cnt = c->came;
	pthread_mutex_unlock(&c->lock);
	return cnt;
}

/* Who reads a whole Python asks again at once: the loop, which has waited since, is first. */
static void turns_are_taken(void **state)
{
	struct channel ours, theirs;

	(void)state;
	assert_int_equal(channel_pair(&ours, &theirs, 4096), 0);
	for (unsigned i = 0; i < TURNS; i++) {
		struct asker_now_and_then a = { &ours, 0 };
		uint64_t before = came(&ours);
		pthread_t thread;

		channel__take(&ours);
		assert_int_equal(pthread_create(&thread, NULL, ask_once, &a), 0);
		while (came(&ours) < before + 2)
			usleep(100);
		channel__give(&ours);
		channel__take(&ours);
		assert_true(a.had_its_turn);
		channel__give(&ours);
		pthread_join(thread, NULL);
	}
	channel__done(&ours);
	close(theirs.fd);
}

static void looks_are_checked(void **state)
{
	struct keep_reply reply = { 0 };
	struct channel other;
	struct keep *k = keep_for(getpid(), &other);
	char here[64] = "what is to be read", *path, *answer = malloc(KEEP_READ_MAX);
	int fds[TAPS_FDS_MAX];
	struct iovec range = { here, sizeof(here) };

	(void)state;
	assert_non_null(answer);
	memcpy(k->looks.area, &range, sizeof(range));
	keep__looks(k, &(struct keep_request){ KEEP_READ, getpid(), { sizeof(here) }, sizeof(range) }, answer, &reply, fds);
	assert_int_equal(reply.r, 0);
	assert_int_equal(reply.len, sizeof(here));
	assert_string_equal(answer, here);
	/* sums that do not fit, half a range, too much */
	const struct keep_request wrong[] = {
		{ KEEP_READ, getpid(), { sizeof(here) - 1 }, sizeof(range) },
		{ KEEP_READ, getpid(), { KEEP_READ_MAX + 1 }, sizeof(range) },
		{ KEEP_READ, getpid(), { sizeof(here) }, sizeof(range) - 1 },
		{ KEEP_READ, getpid(), { sizeof(here) }, KEEP_ANSWER },
		{ KEEP_READ, getpid(), { 0 }, 0 },
		{ KEEP_FILE, getpid(), { DOOR_FILES }, 0 },
		{ KEEP_TEXT, getpid(), { DOOR_FILES, 8 }, 0 },
		{ KEEP_TEXT, getpid(), { DOOR_MAPS, 8 }, 0 },
		{ KEEP_TEXT, getpid(), { DOOR_CMDLINE, KEEP_READ_MAX + 1 }, 0 },
		{ KEEP_PAGES, getpid(), { 0 }, 0 },
		{ KEEP_PAGES, getpid(), { 0 }, sizeof(range) - 1 },
		{ KEEP_PAGES, getpid(), { 0 }, (DOOR_PAGE_RANGES_MAX + 1) * sizeof(range) },
		{ KEEP_SIDEBAND, 0, { 0, 1ull << 40 }, 0 },
		{ KEEP_LIB, getpid(), { 1, 2, 3, 4 }, PATH_MAX + 1 },
		{ KEEP_LIB, getpid(), { 1, 2, 3, 4 }, 8 },
		{ KEEP_SCRIPT, getpid(), { 0, 8 }, PATH_MAX + 1 },
		{ KEEP_SCRIPT, getpid(), { 0, 8 }, 0 },
		{ KEEP_SCRIPT, getpid(), { 0, DOOR_SCRIPT_PART + 1 }, 12 },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		reply = (struct keep_reply){ 0 };
		keep__looks(k, &wrong[i], answer, &reply, fds);
		assert_int_equal(reply.r, -EINVAL);
		assert_int_equal(reply.fds_cnt, 0);
	}
	path = k->looks.area;
	strcpy(path, "/etc/passwd"); /* a file, but none that is mapped */
	reply = (struct keep_reply){ 0 };
	keep__looks(k, &(struct keep_request){ KEEP_LIB, getpid(), { 1, 2, 3, 4 }, strlen(path) + 1 }, answer, &reply, fds);
	assert_true(reply.r < 0);
	reply = (struct keep_reply){ 0 };
	keep__looks(k, &(struct keep_request){ KEEP_SCRIPT, getpid(), { 0, 8 }, strlen(path) + 1 }, answer, &reply, fds);
	assert_int_equal(reply.r, -EPERM); /* not called as inductor calls files */
	assert_int_equal(reply.len, 0);
	reply = (struct keep_reply){ 0 };
	keep__looks(k, &(struct keep_request){ 99, getpid(), { 0 }, 0 }, answer, &reply, fds);
	assert_int_equal(reply.r, -ENOSYS);
	free(answer);
	keep__free(k, &other);
}

/* Until its end of the pipe is closed. */
static pid_t start_waiting(int *ret_hold)
{
	int hold[2];
	pid_t pid;

	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		char byte;

		alarm(120); /* whatever fails, not for good */
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	assert_true(pid > 0);
	close(hold[0]);
	*ret_hold = hold[1];
	return pid;
}

/* Whatever is asked about a process that nobody named: of it nothing is told, and nothing is set in it. */
static void strangers_are_not_served(void **state)
{
	int hold, fds[TAPS_FDS_MAX], to_close;
	pid_t stranger = start_waiting(&hold);
	struct channel other;
	struct keep *k = keep_for(getpid(), &other);
	char here[16] = "", *answer = calloc(1, KEEP_READ_MAX);
	const struct iovec range = { here, sizeof(here) };

	(void)state;
	assert_non_null(answer);
	k->probes = k->looks;
	k->tracer = (struct tracer *)(void *)answer; /* there is one, which is not come to */
	for (uint32_t op = KEEP_ATTACH; op <= KEEP_LOCK; op++) {
		struct keep_request q = { op, stranger, { sizeof(here), 1 }, sizeof(range) };
		struct keep_reply reply = { 0 };

		if (op == KEEP_DETACH || op == KEEP_FIRED || op == KEEP_SIDEBAND)
			continue;
		q.arg[0] = op == KEEP_FILE ? DOOR_MAPS : q.arg[0];
		memcpy(k->looks.area, &range, sizeof(range));
		if (op < KEEP_FIRED)
			keep__probes(k, &q, &reply, fds, &to_close);
		else
			keep__looks(k, &q, answer, &reply, fds);
		assert_int_equal(reply.r, -EPERM);
		assert_int_equal(reply.fds_cnt, 0);
		assert_int_equal(reply.len, 0);
	}
	free(answer);
	keep__free(k, &other);
	close(hold);
	assert_int_equal(child_says(stranger), 0);
}

static int32_t ask_for_lib(struct keep *k, const char *path, const struct door_lib *l)
{
	struct keep_request q = { KEEP_LIB, getpid(), { l->dev, l->ino, l->start, l->end }, strlen(path) + 1 };
	struct keep_reply reply = { 0 };
	int fds[TAPS_FDS_MAX];

	strcpy(k->looks.area, path);
	keep__looks(k, &q, NULL, &reply, fds);
	if (!reply.r)
		close(fds[0]);
	return reply.r;
}

/* A file that everybody may read is opened as one that the process has mapped, or not at all. */
static void files_are_mapped_ones(void **state)
{
	char path[] = "/tmp/mt-keeper-file-XXXXXX";
	int file = mkstemp(path);
	struct channel other;
	struct keep *k = keep_for(getpid(), &other);
	struct door_lib l = { 0 };
	struct stat st;
	void *at;

	(void)state;
	assert_true(file >= 0 && !fchmod(file, 0644) && write(file, "some", 4) == 4 && !fstat(file, &st));
	l = (struct door_lib){ st.st_dev, st.st_ino, 0x1000, 0x2000, NULL };
	assert_int_equal(ask_for_lib(k, path, &l), -ESTALE);
	assert_int_equal(k->libs.cnt, 0);
	at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(ask_for_lib(k, path, &l), 0); /* by its name: the range is nobody's */
	assert_int_equal(k->libs.cnt, 1);
	munmap(at, 4096);
	assert_int_equal(ask_for_lib(k, path, &l), -ESTALE);
	assert_int_equal(stat("/proc/self/maps", &st), 0);
	l = (struct door_lib){ st.st_dev, st.st_ino, 0x1000, 0x2000, NULL };
	assert_int_equal(ask_for_lib(k, "/proc/self/maps", &l), -ESTALE);
	close(file);
	unlink(path);
	keep__free(k, &other);
}

/* A file of the kernel's that can be mapped: no look at it, though it is. */
static void files_are_on_disks(void **state)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct channel other;
	struct keep *k = keep_for(getpid(), &other);
	struct door_lib l = { 0 };
	struct stat st;
	void *at;
	int r;

	(void)state;
	at = fd < 0 || fstat(fd, &st) ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED) {
		keep__free(k, &other);
		skip(); /* mapped since 6.16 */
	}
	l = (struct door_lib){ st.st_dev, st.st_ino, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4096, NULL };
	r = ask_for_lib(k, path, &l);
	assert_true(r == -EACCES || (r == -EPERM && getuid())); /* who is not root has no map_files */
	munmap(at, 4096);
	close(fd);
	keep__free(k, &other);
}

/* Who called may look at it when he asks; by the time of the answer it is protected from him, as a setuid program is. */
static void what_it_became_meanwhile_counts(void **state)
{
	struct keep_request q = { .op = KEEP_FILE };
	int was, go[2], said[2];
	struct keep_hold h;
	struct channel other;
	struct keep *k;
	char byte = 'x';
	pid_t pid;

	(void)state;
	assert_true(!pipe(go) && !pipe(said));
	pid = fork();
	if (!pid) {
		alarm(120);
		if (!privs_drop() && write(said[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1 &&
		    !prctl(PR_SET_DUMPABLE, 0) && write(said[1], &byte, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	k = keep_for(pid, &other);
	k->checks = 1;
	q.pid = pid;
	assert_int_equal(read(said[0], &byte, 1), 1);
	assert_int_equal(keep__hold(k, &q, &h), 0);
	assert_int_equal(keep__release(k, &h, 0), 0);
	assert_int_equal(keep__hold(k, &q, &h), 0);
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(read(said[0], &byte, 1), 1);
	was = h.fd;
	assert_int_equal(keep__release(k, &h, 0), -EPERM);
	assert_true(h.fd == -1 && fcntl(was, F_GETFD) < 0);
	assert_int_equal(keep__hold(k, &q, &h), -EPERM);
	q.op = KEEP_READ;
	assert_int_equal(keep__hold(k, &q, &h), -EPERM);
	k->checks = 0;
	assert_int_equal(keep__hold(k, &q, &h), 0);
	k->checks = 1;
	assert_int_equal(keep__release(k, &h, 0), -EPERM);
	k->checks = 0;
	q.op = KEEP_FILE;
	assert_int_equal(keep__hold(k, &q, &h), 0);
	kill(pid, SIGKILL);
	assert_int_equal(child_says(pid), -1);
	assert_int_equal(keep__release(k, &h, 0), -ESRCH);
	keep__free(k, &other);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
}

static int maps_of_events(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "[perf_event]") != NULL;
	if (f)
		fclose(f);
	return n;
}

/* However often it is asked for, a CPU has one ring: they are locked memory. */
static void a_cpu_has_one_ring(void **state)
{
	struct keep_request q = { KEEP_SIDEBAND, 0, { 0, 3 * 4096 }, 0 };
	struct keep *k = calloc(1, sizeof(*k));
	struct keep_reply reply;
	int fds[TAPS_FDS_MAX];

	(void)state;
	assert_non_null(k);
	for (int i = 0; i < 5; i++) {
		reply = (struct keep_reply){ 0 };
		keep__looks(k, &q, NULL, &reply, fds);
		if (reply.r == -EACCES || reply.r == -EPERM)
			skip(); /* needs root */
		assert_int_equal(reply.r, 0);
		assert_int_equal(maps_of_events(), 1);
		close(fds[0]);
	}
	munmap(k->rings[0].at, k->rings[0].len);
	q.arg[0] = KEEP_CPUS_MAX;
	keep__looks(k, &q, NULL, &reply, fds);
	assert_int_equal(reply.r, -EINVAL);
	free(k);
}

static void files_are_those_handed_out(void **state)
{
	struct kept_libs *l = calloc(1, sizeof(*l));
	struct stat a, b;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), got;

	(void)state;
	assert_true(l && fd >= 0);
	pthread_mutex_init(&l->lock, NULL);
	assert_int_equal(kept_libs__get(l, 1, 2), -ESTALE);
	kept_libs__add(l, 1, 2, fd);
	got = kept_libs__get(l, 1, 2);
	assert_true(got >= 0 && !fstat(fd, &a) && !fstat(got, &b) && a.st_ino == b.st_ino);
	close(got);
	for (uint64_t i = 0; i < 3; i++)
		kept_libs__add(l, 5, i, fd);
	assert_int_equal(l->cnt, 4);
	kept_libs__add(l, 5, 1, fd);
	assert_int_equal(l->cnt, 4);
	for (size_t i = 0; i < l->cnt; i++)
		close(l->v[i].fd);
	close(fd);
	free(l);
}

/* --- rights ------------------------------------------------------------------------------------------- */

static void *nothing(void *arg)
{
	return arg;
}

/* In a child, after the filters: 0, or the number of what should not be. */
static int after_filters(const char *dir)
{
	char path[128], *const argv[] = { (char *)"true", NULL };
	pthread_t thread;
	int fd, writes;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 1;
	writes = filter_writes(&dir, 1);
	if ((writes && writes != -EOPNOTSUPP) || filter_self())
		return 1;
	if (fork() >= 0 || errno != EPERM)
		return 2;
	if (execv("/bin/true", argv) >= 0 || errno != EPERM)
		return 3;
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 4;
	if (syscall(SYS_bpf, 0, NULL, 0) >= 0 || errno != EPERM)
		return 5;
	if (kill(getppid(), 0) >= 0 || errno != EPERM)
		return 6;
	if (syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) >= 0 || errno != EPERM)
		return 7;
	if (setuid(getuid()) >= 0 || errno != EPERM)
		return 8;
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		return 9;
	if (!writes && (open("/tmp/memtrace-must-not-be", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES))
		return 10;
	snprintf(path, sizeof(path), "%s/a", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, "a", 1) != 1 || ftruncate(fd, 0) < 0 || unlink(path) < 0)
		return 11;
	fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd >= 0) {
		char self[40];

		snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 || unlink(path) < 0)
			return 12;
	}
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 13;
}

static void in_child_with_folder(int (*fn)(const char *dir))
{
	char dir[] = "/tmp/mt-keeper-XXXXXX";
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	pid = fork();
	if (!pid)
		_exit(fn(dir));
	assert_int_equal(child_says(pid), 0);
	rmdir(dir);
}

static void what_was_given_away_is_gone(void **state)
{
	(void)state;
	in_child_with_folder(after_filters);
}

/* A command that reads files, in a child: 0, or the number of what should not be. */
static int after_confine(const char *dir)
{
	const char *const writes[] = { "/nonexistent/folder", "/dev/full", dir };
	char path[128];
	int fd;

	if (confine_reader(writes, 3, NULL))
		return 1;
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM || fork() >= 0)
		return 2;
	snprintf(path, sizeof(path), "%s/a", dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || unlink(path) < 0) /* one that is missing hides no other */
		return 3;
	if (open("/dev/full", O_WRONLY | O_CLOEXEC) < 0) /* a name may be a file's */
		return 4;
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
		return 0;
	return open("/tmp/memtrace-must-not-be", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EACCES ? 0 : 5;
}

static void readers_are_confined(void **state)
{
	(void)state;
	in_child_with_folder(after_confine);
}

static int read_one(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct iovec there = { (void *)(uintptr_t)addr, len };

	return door_read(pid, &there, 1, buf, len);
}

/* A file of the target's, called as inductor would call it, larger than one answer. */
static int reads_scripts(pid_t target)
{
	static const char path[] = "/tmp/cmemtracetestmemtracetestmemtracetestmemtracetestme2.py";
	char *text = NULL;
	size_t len = 0;
	int r;
	FILE *f = fopen(path, "w");

	if (!f || fseek(f, 3 << 20, SEEK_SET) || fputs("its end", f) < 0 || fclose(f))
		return -1;
	r = script_read(target, path, &text, &len);
	unlink(path);
	if (!r && (len != (3 << 20) + 7 || strcmp(text + (3 << 20), "its end")))
		r = -1;
	free(text);
	r |= script_read(target, path, &text, &len) != -ENOENT;
	return r | (script_read(target, "/etc/passwd", &text, &len) != -EPERM);
}

/* A whole keeper, without root: it may do what we may, and ends with us. */
static int with_keeper(pid_t target, const char *text)
{
	struct asker self = { .uid = getuid(), .gid = getgid() };
	struct err err = { 0 };
	struct door_exe exe;
	struct keeper *k;
	uint64_t cpu, rss;
	char got[16] = "";
	int fd;

	if (keeper__start(&k, &(struct keeper_opts){ .as = &self, .writes = "/tmp", .wards = { &target, 1, 0, 0 } }, &err) < 0)
		return 1;
	if (read_one(target, (uint64_t)(uintptr_t)text, got, strlen(text)) || strcmp(got, text))
		return 2;
	fd = door_file(target, DOOR_MAPS);
	if (fd < 0 || read(fd, got, sizeof(got)) != sizeof(got))
		return 3;
	if (door_exe(target, &exe) || exe.path[0] != '/' || keeper__usage(k, &cpu, &rss) || !rss)
		return 4;
	if (reads_scripts(target))
		return 8;
	if (read_one(target, 16, got, 8) != -EFAULT || door_file(target, DOOR_FILES) != -EINVAL)
		return 5;
	if (read_one(getpid(), (uint64_t)(uintptr_t)text, got, 8) != -EPERM || door_file(1, DOOR_STAT) != -EPERM)
		return 7; /* nobody has named these */
	kill(keeper__pid(k), SIGTERM); /* not allowed: no signal can be sent */
	if (keeper__usage(k, &cpu, &rss))
		return 6;
	keeper__free(k);
	return 0;
}

static void a_keeper_looks_for_us(void **state)
{
	static const char text[] = "in the target";
	int hold;
	pid_t target, pid;

	(void)state;
	target = start_waiting(&hold);
	pid = fork();
	if (!pid)
		_exit(with_keeper(target, text));
	assert_int_equal(child_says(pid), 0);
	close(hold);
	assert_int_equal(child_says(target), 0);
}

/* A page of which somebody has to say what is in it; NULL: we may not have one that holds up the kernel. */
static char *page_on_demand(int *ret_fd)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uint64_t)(uintptr_t)page, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &reg) < 0)
		return NULL;
	*ret_fd = fd;
	return page;
}

/* Nobody ever does. */
static char *page_that_never_comes(void)
{
	int fd;

	return page_on_demand(&fd);
}

/* In the target: it protects itself while somebody reads it, and lets him go on. */
static void protect_while_read(int say_fd)
{
	static _Alignas(4096) char secret[4096] = "a secret";
	struct uffd_msg msg;
	int fd;
	char *page = page_on_demand(&fd);
	struct uffdio_copy copy = { .dst = (uint64_t)(uintptr_t)page, .src = (uint64_t)(uintptr_t)secret, .len = 4096 };

	alarm(120);
	if (privs_drop() || write(say_fd, &page, sizeof(page)) != sizeof(page) || !page)
		_exit(1);
	if (read(fd, &msg, sizeof(msg)) != sizeof(msg) || prctl(PR_SET_DUMPABLE, 0) || ioctl(fd, UFFDIO_COPY, &copy))
		_exit(1);
	for (;;)
		pause();
}

/* What was read of a process that is protected by now is thrown away. */
static void bytes_are_thrown_away(void **state)
{
	char *page = NULL, *answer = calloc(1, KEEP_READ_MAX);
	struct keep_reply reply = { 0 };
	struct channel other;
	struct keep *k;
	struct iovec range;
	int say[2], fds[TAPS_FDS_MAX];
	pid_t pid;

	(void)state;
	assert_true(answer && !pipe(say));
	pid = fork();
	if (!pid)
		protect_while_read(say[1]);
	assert_int_equal(read(say[0], &page, sizeof(page)), sizeof(page));
	k = keep_for(pid, &other);
	k->checks = 1;
	range = (struct iovec){ page, 64 };
	memcpy(k->looks.area, &range, sizeof(range));
	if (page) {
		keep__looks(k, &(struct keep_request){ KEEP_READ, pid, { 64 }, sizeof(range) }, answer, &reply, fds);
		assert_string_equal(answer, "a secret"); /* it was read … */
		assert_int_equal(reply.r, -EPERM);
		assert_int_equal(reply.len, 0); /* … and goes nowhere */
	}
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	keep__free(k, &other);
	free(answer);
	close(say[0]);
	close(say[1]);
	if (!page)
		skip(); /* needs root: vm.unprivileged_userfaultfd is 0 */
}

#define REFUSED 10

/* Refused at once: ten reads that are tried and given up take ten times LOOK_READ_NS, on any machine. */
static int is_refused(pid_t pid, uint64_t addr)
{
	uint64_t t0 = now_ns();
	char got[8];

	for (int i = 0; i < REFUSED; i++)
		if (read_one(pid, addr, got, sizeof(got)) != -ETIMEDOUT)
			return 0;
	return now_ns() - t0 < REFUSED / 2 * LOOK_READ_NS;
}

/* 0, or the number of what should not be. */
static int with_held_up_keeper(pid_t target, const char *page, pid_t other, const char *text)
{
	struct asker self = { .uid = getuid(), .gid = getgid() };
	struct keeper *k;
	uint64_t t0 = now_ns();
	char got[32];

	if (keeper__start(&k, &(struct keeper_opts){ .as = &self, .wards = { (pid_t[]){ target, other }, 2, 0, 0 } }, NULL) < 0)
		return 1;
	if (read_one(target, (uint64_t)(uintptr_t)page, got, 8) != -ETIMEDOUT || now_ns() - t0 > 5000000000ull)
		return 2;
	if (read_one(other, (uint64_t)(uintptr_t)text, got, strlen(text)) || memcmp(got, text, strlen(text)) != 0)
		return 3;
	t0 = now_ns();
	if (!is_refused(target, (uint64_t)(uintptr_t)text))
		return 4; /* it is not tried again and again */
	keeper__free(k);
	return now_ns() - t0 < 3000000000ull ? 0 : 5;
}

static void nobody_holds_up_the_keeper(void **state)
{
	static const char text[] = "of another";
	char *page = page_that_never_comes();
	pid_t other, pid;

	(void)state;
	if (!page)
		skip(); /* needs root: vm.unprivileged_userfaultfd is 0 */
	other = fork();
	if (!other)
		for (;;)
			pause();
	pid = fork();
	if (!pid)
		_exit(with_held_up_keeper(getppid(), page, other, text));
	assert_int_equal(child_says(pid), 0);
	kill(other, SIGKILL);
	assert_int_equal(child_says(other), -1);
}

#define NEVER_OPENS "/tmp/cmemtracetestmemtracetestmemtracetestmemtracetestneo.py"

/* A file whose opening waits for our word; -1: we may not have one. */
static int file_that_never_opens(void)
{
	int at = open(NEVER_OPENS, O_RDWR | O_CREAT | O_TRUNC, 0600), fd;

	assert_true(at >= 0 && write(at, "text", 4) == 4);
	close(at);
	fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
	if (fd >= 0 && fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, NEVER_OPENS) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* 0, or the number of what should not be. */
static int with_held_up_script(pid_t target, pid_t other, const char *text)
{
	struct asker self = { .uid = getuid(), .gid = getgid() };
	struct keeper *k;
	uint64_t t0 = now_ns();
	char got[32], *script;
	size_t len;

	if (keeper__start(&k, &(struct keeper_opts){ .as = &self, .wards = { (pid_t[]){ target, other }, 2, 0, 0 } }, NULL) < 0)
		return 1;
	if (script_read(target, NEVER_OPENS, &script, &len) != -ETIMEDOUT || now_ns() - t0 > 2 * LOOK_NS)
		return 2;
	if (read_one(other, (uint64_t)(uintptr_t)text, got, strlen(text)) || memcmp(got, text, strlen(text)) != 0)
		return 3;
	t0 = now_ns();
	if (script_read(target, NEVER_OPENS, &script, &len) != -ETIMEDOUT || now_ns() - t0 > LOOK_READ_NS)
		return 4; /* it is not tried again and again */
	keeper__free(k);
	return now_ns() - t0 < 3000000000ull ? 0 : 5;
}

static void no_file_holds_up_the_keeper(void **state)
{
	static const char text[] = "of another";
	int fd = file_that_never_opens();
	pid_t other, pid;

	(void)state;
	if (fd < 0) {
		unlink(NEVER_OPENS);
		skip(); /* needs root: fanotify's permissions */
	}
	other = fork();
	if (!other)
		for (;;)
			pause();
	pid = fork();
	if (!pid)
		_exit(with_held_up_script(getppid(), other, text));
	assert_int_equal(child_says(pid), 0);
	kill(other, SIGKILL);
	assert_int_equal(child_says(other), -1);
	close(fd);
	unlink(NEVER_OPENS);
}

static int wait_pipe[2];
static _Atomic pid_t waiting_tid;

static void *wait_for_line(void *arg)
{
	char byte;

	(void)arg;
	if (!pipe(wait_pipe))
		waiting_tid = gettid();
	return read(wait_pipe[0], &byte, 1) == 1 ? wait_pipe : NULL;
}

static _Atomic pid_t busy_tid;
static _Atomic int busy_end;

static void *be_busy(void *arg)
{
	(void)arg;
	busy_tid = gettid();
	while (!busy_end)
		;
	return NULL;
}

/* Who has no CPU on a busy machine is not held up by the process that he looks at. */
static void who_wants_a_cpu_is_not_held_up(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, be_busy, NULL), 0);
	while (!busy_tid)
		usleep(1000);
	for (int i = 0; i < 100; i++)
		assert_int_equal(thread_is_runnable(busy_tid), 1);
	busy_end = 1;
	pthread_join(thread, NULL);
	assert_int_equal(thread_is_runnable(busy_tid), 0); /* gone */
	assert_int_equal(pthread_create(&thread, NULL, wait_for_line, NULL), 0);
	while (!waiting_tid || thread_is_runnable(waiting_tid))
		usleep(1000);
	assert_int_equal(write(wait_pipe[1], "\n", 1), 1);
	pthread_join(thread, NULL);
}

/* A process with a page that never comes; its address. 0: we may not have such. */
static pid_t start_holder(uint64_t *ret_page)
{
	int ready[2], r = pipe(ready);
	pid_t pid = r ? -1 : fork();

	assert_true(pid >= 0);
	if (!pid) {
		uint64_t page = (uint64_t)(uintptr_t)page_that_never_comes();

		if (write(ready[1], &page, sizeof(page)) != sizeof(page))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], ret_page, sizeof(*ret_page)), sizeof(*ret_page));
	close(ready[0]);
	close(ready[1]);
	return pid;
}

struct holder {
	pid_t pid;
	uint64_t page;
};

#define OF_A_TREE (LOOK_LEFT_MAX / LOOK_LEFT_PART)

/* Is the read held up? */
static int holds_up(const struct holder *h)
{
	uint64_t t0 = now_ns();
	char got[8];

	if (read_one(h->pid, h->page, got, sizeof(got)) != -ETIMEDOUT)
		return -1;
	return now_ns() - t0 > LOOK_READ_NS;
}

/* 0, or the number of what should not be. The last holder is of another tree. */
static int with_many_holders(const struct holder *h, pid_t other, const char *text)
{
	struct asker self = { .uid = getuid(), .gid = getgid() };
	pid_t wards[OF_A_TREE + 3];
	struct keeper *k;
	size_t len = 1;
	char got[64];

	for (int i = 0; i < OF_A_TREE + 2; i++)
		wards[i] = h[i].pid;
	wards[OF_A_TREE + 2] = other;
	if (keeper__start(&k, &(struct keeper_opts){ .as = &self, .wards = { wards, OF_A_TREE + 3, 0, 0 } }, NULL) < 0)
		return 1;
	for (int i = 0; i <= OF_A_TREE; i++)
		if (keeper__tree(k, h[i].pid, h[0].pid))
			return 2;
	if (holds_up(&h[0]) != 1 || !is_refused(h[0].pid, h[0].page))
		return 3;
	if (door_text(h[0].pid, DOOR_CMDLINE, got, sizeof(got), &len) != -ETIMEDOUT || len)
		return 4;
	if (door_text(other, DOOR_CMDLINE, got, sizeof(got), &len) || !len)
		return 5;
	for (int i = 1; i < OF_A_TREE; i++)
		if (holds_up(&h[i]) != 1)
			return 6;
	if (!is_refused(h[OF_A_TREE].pid, h[OF_A_TREE].page) || holds_up(&h[OF_A_TREE + 1]) != 1)
		return 7; /* its tree has had its share; others have theirs */
	if (read_one(other, (uint64_t)(uintptr_t)text, got, strlen(text)) || memcmp(got, text, strlen(text)) != 0)
		return 8;
	if (keeper__held_up_cnt(k) != OF_A_TREE + 2 + 2 * REFUSED)
		return 9;
	for (int i = 0; i <= OF_A_TREE + 1; i++)
		if (keeper__next_held_up(k) != h[i].pid)
			return 10;
	return keeper__next_held_up(k) ? 11 : (keeper__free(k), 0);
}

/* Nor do many together; those of one tree have a share of the places that are lost to such. */
static void many_do_not_hold_up_the_keeper(void **state)
{
	static const char text[] = "of another";
	struct holder h[OF_A_TREE + 2];
	int may = 1, said = -1;
	pid_t other, pid;

	(void)state;
	for (int i = 0; i < OF_A_TREE + 2; i++) {
		h[i].pid = start_holder(&h[i].page);
		may &= h[i].page != 0;
	}
	other = fork();
	if (!other)
		for (;;)
			pause();
	pid = may ? fork() : -1;
	if (!pid)
		_exit(with_many_holders(h, other, text));
	if (may)
		said = child_says(pid);
	kill(other, SIGKILL);
	assert_int_equal(child_says(other), -1);
	for (int i = 0; i < OF_A_TREE + 2; i++) {
		kill(h[i].pid, SIGKILL);
		assert_int_equal(child_says(h[i].pid), -1);
	}
	if (!may)
		skip(); /* needs root */
	assert_int_equal(said, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_travel),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(any_bytes_are_survived),
		cmocka_unit_test(turns_are_taken),
		cmocka_unit_test(looks_are_checked),
		cmocka_unit_test(strangers_are_not_served),
		cmocka_unit_test(files_are_mapped_ones),
		cmocka_unit_test(files_are_on_disks),
		cmocka_unit_test(what_it_became_meanwhile_counts),
		cmocka_unit_test(a_cpu_has_one_ring),
		cmocka_unit_test(files_are_those_handed_out),
		cmocka_unit_test(what_was_given_away_is_gone),
		cmocka_unit_test(readers_are_confined),
		cmocka_unit_test(a_keeper_looks_for_us),
		cmocka_unit_test(bytes_are_thrown_away),
		cmocka_unit_test(nobody_holds_up_the_keeper),
		cmocka_unit_test(no_file_holds_up_the_keeper),
		cmocka_unit_test(who_wants_a_cpu_is_not_held_up),
		cmocka_unit_test(many_do_not_hold_up_the_keeper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
