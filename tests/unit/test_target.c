/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* /proc texts, and a real process made for the purpose: its labels, its libraries, its end. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "target/jobs.h"
#include "target/container.h"
#include "target/proc_text.h"
#include "target/sideband.h"
#include "target/kin.h"
#include "target/target.h"
#include "target/torch_version.h"
#include "unit/fixture.h"

/* --- torch's version ------------------------------------------------------------------------------------- */

static void finds_torch_version(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "from typing import Optional\n__all__ = ['__version__', 'debug']\n__version__ = '2.13.0+cpu'\n"
		  "debug = False\n",
		  "2.13.0+cpu" },
		{ "__version__ = \"2.4.1\"", "2.4.1" },
		{ "__version__='1.13.0a0'\n", "1.13.0a0" },
		{ "__version__ = '2.13.0", NULL },
		{ "__version__ = '\x1b[31m2'\n", NULL },
		{ "__version__ = 'two'\n", NULL },
		{ "__version__ = ''\n", NULL },
		{ "__version__ = '1234567890123456789012345678901234567890'\n", NULL },
		{ "__version__", NULL },
		{ " __version__ = '2.4.1'\n", NULL },
		{ "", NULL },
	};
	char buf[TORCH_VERSION_BYTES], path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len = strlen(rows[i].text);
		char *copy = malloc(len + 1); /* without the NUL behind it: the sanitizer sees a byte too far */

		memcpy(copy, rows[i].text, len);
		copy = realloc(copy, len ? len : 1);
		assert_int_equal(torch_version_parse(copy, len, buf), rows[i].want ? 0 : -ENOENT);
		if (rows[i].want)
			assert_string_equal(buf, rows[i].want);
		free(copy);
	}
	assert_int_equal(torch_version_of_name("/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13", buf), 0);
	assert_string_equal(buf, "1.13");
	assert_int_equal(torch_version_of_name("/a/libtorch_cpu.so", buf), -ENOENT);
	assert_int_equal(torch_version_of_name("/a/libtorch_cpu.so.", buf), -ENOENT);
	assert_int_equal(torch_version_file("/v/torch/lib/libtorch_cpu.so", path, sizeof(path)), 0);
	assert_string_equal(path, "/v/torch/version.py");
	assert_true(is_torch_version_file(path));
	assert_int_equal(torch_version_file("/v/lib/libtorch_cpu.so", path, sizeof(path)), -ENOENT);
	assert_int_equal(torch_version_file("libtorch_cpu.so", path, sizeof(path)), -ENOENT);
	assert_int_equal(torch_version_file("/v/torch/lib/libtorch_cpu.so", path, 10), -ENOENT);
	assert_false(is_torch_version_file("/v/xtorch/version.py"));
	assert_false(is_torch_version_file("torch/version.py"));
	assert_false(is_torch_version_file("/etc/shadow"));
}

/* --- texts ------------------------------------------------------------------------------------------- */

static void reads_maps_lines(void **state)
{
	static const struct {
		const char *line;
		int r;
		struct maps_line want;
		const char *path;
	} lines[] = {
		{ "7f61a8400000-7f61bc9e5000 r-xp 00001000 fe:00 2197345                    "
		  "/usr/lib/libc.so.6",
		  0,
		  { 0x7f61a8400000, 0x7f61bc9e5000, 0x1000, 0, 2197345, .exec = 1 },
		  "/usr/lib/libc.so.6" },
		{ "1000-2000 rw-s 00000000 00:01 1024 /memfd:a b (deleted)",
		  0,
		  { 0x1000, 0x2000, 0, 0, 1024, .deleted = 1 },
		  "/memfd:a b" },
		{ "1000-2000 ---p 00000000 00:00 0 ", 0, { 0x1000, 0x2000, .is_closed = 1 }, "" },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
		  0,
		  { 0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, 1, 0 },
		  "[vsyscall]" },
		{ "1000-2000 rw-p 00000000 00:00 0 ", 0, { 0x1000, 0x2000, 0, 0, 0, 0, 0 }, "" },
		{ "1000-2000 rw-p 00000000 00:00 0", 0, { 0x1000, 0x2000, 0, 0, 0, 0, 0 }, "" },
		{ "2000-1000 rw-p 00000000 00:00 0", -EINVAL, { 0 }, NULL },
		{ "1000-1000 rw-p 00000000 00:00 0", -EINVAL, { 0 }, NULL },
		{ "1000-2000 rwxz 00000000 00:00 0", -EINVAL, { 0 }, NULL },
		{ "1000-2000 rw-p 00000000 00:00", -EINVAL, { 0 }, NULL },
		{ "1000-2000 rw-p 00000000 00:00 x", -EINVAL, { 0 }, NULL },
		{ "10000000000000000-2000 rw-p 0 0:0 0", -EINVAL, { 0 }, NULL },
		{ "1000-2000 rw-p 0 100000000:0 0", -EINVAL, { 0 }, NULL },
		{ "1000-2000 rw-p 0 0:0 99999999999999999999", -EINVAL, { 0 }, NULL },
		{ "1000 rw-p", -EINVAL, { 0 }, NULL },
		{ "", -EINVAL, { 0 }, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct maps_line m;
		int r = maps_line_parse(lines[i].line, strlen(lines[i].line), &m);

		if (r != lines[i].r)
			fail_msg("%s: %d", lines[i].line, r);
		if (r < 0)
			continue;
		if (m.start != lines[i].want.start || m.end != lines[i].want.end ||
		    m.off != lines[i].want.off || m.ino != lines[i].want.ino ||
		    m.exec != lines[i].want.exec || m.deleted != lines[i].want.deleted ||
		    m.path_len != strlen(lines[i].path) || memcmp(m.path, lines[i].path, m.path_len))
			fail_msg("%s", lines[i].line);
	}
}

static int count_line(void *ctx, const struct maps_line *m)
{
	(void)m;
	return ++*(int *)ctx == 3 ? 9 : 0;
}

static void walks_maps(void **state)
{
	static const char text[] = "1000-2000 rw-p 0 0:0 0\nrubbish\n2000-3000 r-xp 0 0:0 0\n3000-4000 r-x";
	size_t bad;
	int n = 0;

	(void)state;
	assert_int_equal(maps_each(text, sizeof(text) - 1, count_line, &n, &bad), 0);
	assert_int_equal(n, 2); /* the last line is cut: it does not count */
	assert_int_equal(bad, 1);
	n = 2;
	assert_int_equal(maps_each(text, sizeof(text) - 1, count_line, &n, NULL), 9);
}

static void unescapes_paths(void **state)
{
	char buf[32];

	(void)state;
	assert_int_equal(maps_path_unescape("/a\\012b", 7, buf, sizeof(buf)), 4);
	assert_string_equal(buf, "/a\nb");
	maps_path_unescape("/a\\01", 5, buf, sizeof(buf)); /* cut escape: as it is */
	assert_string_equal(buf, "/a\\01");
	maps_path_unescape("/a\\000b", 7, buf, sizeof(buf)); /* no NUL gets in */
	assert_string_equal(buf, "/a\\000b");
	assert_int_equal(maps_path_unescape("/abcdef", 7, buf, 4), 3);
	assert_string_equal(buf, "/ab");
}

static void reads_stat(void **state)
{
	static const char good[] =
		"12 (a) R 1 (b) S 7 12 12 0 -1 4194304 1 2 3 4 500 60 0 0 20 0 9 0 1234 5678 90 1 2";
	static const char negative[] = "12 (a) S 7 12 12 -1 -1 1 1 2 3 4 5 6 -7 -8 -20 -5 1 0 1 2 3";
	static const char huge[] = "12 (a) S 99999999999 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1";
	struct proc_stat st;

	(void)state;
	/* the name may hold what looks like the end of it */
	assert_int_equal(proc_stat_parse(good, sizeof(good) - 1, &st), 0);
	assert_string_equal(st.comm, "a) R 1 (b");
	assert_int_equal(st.state, 'S');
	assert_int_equal(st.ppid, 7);
	assert_int_equal(st.utime_ticks, 500);
	assert_int_equal(st.stime_ticks, 60);
	assert_int_equal(st.threads, 9);
	assert_int_equal(st.start_ticks, 1234);
	assert_int_equal(st.rss_pages, 90);
	assert_int_equal(proc_stat_parse(negative, sizeof(negative) - 1, &st), 0);
	assert_int_equal(proc_stat_parse(huge, sizeof(huge) - 1, &st), -EINVAL);
	for (size_t n = 0; n < sizeof(good) - 6; n++) /* cut before the last field used */
		assert_int_equal(proc_stat_parse(good, n, &st), -EINVAL);
}

static int keep_labels(void *ctx, const char *label)
{
	strcat(ctx, label);
	strcat(ctx, ";");
	return 0;
}

static void picks_labels(void **state)
{
	static const char env[] =
		"HOME=/root\0RANK=3\0XRANK=4\0RANKS=5\0SLURM_PROCID=1\0PASSWORD=x\0WORLD_SIZE=8";
	char got[256] = "", long_one[400];

	(void)state;
	/* without its NUL the last one may be cut */
	assert_int_equal(environ_labels(env, sizeof(env) - 1, keep_labels, got), 0);
	assert_string_equal(got, "RANK=3;SLURM_PROCID=1;");
	got[0] = '\0';
	environ_labels(env, sizeof(env), keep_labels, got);
	assert_string_equal(got, "RANK=3;SLURM_PROCID=1;WORLD_SIZE=8;");
	memset(long_one, 'a', sizeof(long_one));
	memcpy(long_one, "RANK=", 5);
	long_one[sizeof(long_one) - 1] = '\0';
	got[0] = '\0';
	environ_labels(long_one, sizeof(long_one), keep_labels, got);
	assert_string_equal(got, "");
}

#define UID "0ca3a2b3-1c2d-4e5f-8a9b-001122334455"
#define UID_ "0ca3a2b3_1c2d_4e5f_8a9b_001122334455"
#define STATIC_UID "0123456789abcdef0123456789abcdef"
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_ID "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void finds_containers(void **state)
{
	static const struct {
		const char *text, *pod, *id;
	} rows[] = {
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		  ".slice/cri-containerd-" ID ".scope\n",
		  UID, ID },
		{ "0::/../../kubepods-besteffort-pod" UID_ ".slice/crio-" ID ".scope\n", UID, ID },
		{ "9:name=systemd:/kubepods/besteffort/pod" UID "/" ID "\n0::/\n", UID, ID },
		{ "0::/kubelet/kubepods/burstable/pod" STATIC_UID "/" ID "\n", STATIC_UID, ID },
		{ "0::/kubepods-pod" UID_ ".slice:cri-containerd:" ID "\n", UID, ID },
		/* kind: nodes are containers */
		{ "12:cpu:/\n4:memory:/docker/" OTHER_ID "/kubepods/pod" UID "/" ID "\n", UID, ID },
		/* made in there */
		{ "0::/kubepods/pod" UID "/" ID "/pod11111111-1c2d-4e5f-8a9b-001122334455/" OTHER_ID "\n", UID, ID },
		{ "0::/system.slice/docker-" OTHER_ID ".scope\n1:memory:/kubepods/pod" UID "/" ID, UID, ID },
		{ "0::/kubepods/pod" UID "\n", UID, "" },
		{ "0::/system.slice/docker-" ID ".scope\n", "", ID },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", "", ID },
		{ "0::/user.slice/user-1000.slice/session-3.scope\n", "", "" },
		{ "0::/", "", "" },
		/* a digit more, names that only begin like one, a newline in a name */
		{ "0::/" ID "0\n", "", "" },
		{ "0::/kubepods/pod" UID "0/" ID "x\n", "", "" },
		{ "0::/kubepods/pod" UID_ "\n/" ID "\n", UID, "" },
		{ "0::/mypod" UID "/x-0" ID "\n", "", "" },
		{ ID "\n", "", "" },
		{ "", "", "" },
	};
	struct container c;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int is_one = container_of(rows[i].text, strlen(rows[i].text), &c);

		assert_string_equal(c.pod_uid, rows[i].pod);
		assert_string_equal(c.id, rows[i].id);
		assert_int_equal(is_one, rows[i].pod[0] || rows[i].id[0]);
	}
	for (size_t len = 0; len < strlen(rows[0].text) - 7; len++) { /* cut anywhere */
		(void)container_of(rows[0].text, len, &c);
		assert_string_equal(c.id, "");
	}
}

static void names_containers(void **state)
{
	static const char env[] = "HOSTNAME=train-0\0POD_NAMESPACE=ml.a\0POD_NAME=../../etc\0CONTAINER_NAME=a\nb\0POD_NAME=\0"
				  "CONTAINER_NAME=\"} 1\0XPOD_NAME=x\0POD_NAME=-x\0POD_NAME=train-0";
	const struct container pod = { .pod_uid = UID, .id = ID }, docker = { .id = ID };
	char got[512] = "", long_one[300] = "POD_NAME=";

	(void)state;
	/* without its NUL the last one may be cut */
	assert_int_equal(container_labels(&pod, env, sizeof(env) - 1, keep_labels, got), 0);
	assert_string_equal(got, "POD_UID=" UID ";CONTAINER_ID=" ID ";HOSTNAME=train-0;POD_NAMESPACE=ml.a;");
	got[0] = '\0';
	container_labels(&docker, env, sizeof(env), keep_labels, got);
	assert_string_equal(got, "CONTAINER_ID=" ID ";HOSTNAME=train-0;POD_NAMESPACE=ml.a;POD_NAME=train-0;");
	memset(long_one + 9, 'a', 254);
	got[0] = '\0';
	container_labels(&docker, long_one, sizeof(long_one), keep_labels, got);
	assert_string_equal(got, "CONTAINER_ID=" ID ";");
}

static void joins_arguments(void **state)
{
	char buf[8];

	(void)state;
	cmdline_join("a\0b\n\0c\0\0", 8, buf, sizeof(buf));
	assert_string_equal(buf, "a b? c");
	cmdline_join("", 0, buf, sizeof(buf));
	assert_string_equal(buf, "");
	cmdline_join("0123456789", 10, buf, sizeof(buf));
	assert_string_equal(buf, "0123456");
}

/* --- a process -----------------------------------------------------------------------------------------
 */

static pid_t start_waiting(char *const envp[])
{
	return fixture_start(fixture_build("waits", "", FIXTURE_WAITS("")), envp);
}

static const struct lib *find_lib(const struct target *t, const char *base)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(libs[i].base, base))
			return &libs[i];
	return NULL;
}

static void tells_who_it_is(void **state)
{
	char *envp[] = { "RANK=3", "HOME=/", "LOCAL_RANK=1", NULL };
	pid_t pid = start_waiting(envp), *kids;
	const char *const *labels;
	struct proc_kin *all;
	struct target *t;
	struct timespec now;
	uint64_t cpu, rss, now_ns;
	unsigned threads;
	int n, n_all, found = 0;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	assert_int_equal(target__pid(t), pid);
	assert_int_equal(target__ppid(t), getpid());
	assert_string_equal(target__comm(t), "waits");
	assert_non_null(strstr(target__cmdline(t), "waits two words ?[31m"));
	assert_true(target__labels(t, &labels) >= 2); /* these tests may run in a container */
	assert_string_equal(labels[0], "RANK=3");
	assert_string_equal(labels[1], "LOCAL_RANK=1");
	clock_gettime(CLOCK_BOOTTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000ull;
	assert_true(target__start_ns(t) < now_ns + 1000000000ull &&
		    target__start_ns(t) + 60000000000ull > now_ns);
	assert_int_equal(target__usage(t, &cpu, &rss, &threads), 0);
	assert_int_equal(threads, 1);
	assert_true(rss > 4096 && cpu < 10000000000ull);
	/* seen from its parent */
	n_all = processes_read(&all);
	assert_true(n_all > 0);
	n = processes_below(all, (size_t)n_all, getpid(), 0, &kids);
	for (int i = 0; i < n; i++)
		found += kids[i] == pid;
	assert_int_equal(found, 1);
	free(kids);
	assert_int_equal(processes_below(all, (size_t)n_all, pid, 1, &kids), 0);
	free(kids);
	assert_int_equal(processes_below(all, (size_t)n_all, getpid(), 0, &kids), 0); /* each is found once */
	free(kids);
	free(all);
	target__free(t);
	fixture_stop(pid);
}

static void notices_its_end(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = start_waiting(envp);
	struct target *t, *zombie = NULL;
	struct err err = { 0 };
	uint64_t cpu, rss;
	const struct lib *libs;
	unsigned threads;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	assert_int_equal(target__alive(t), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	/* a zombie is no process to trace */
	assert_int_equal(target__alive(t), 0);
	assert_int_equal(target__open(&zombie, pid, &err), -ESRCH);
	assert_null(zombie);
	waitpid(pid, NULL, 0);
	assert_int_equal(target__alive(t), 0);
	assert_int_equal(target__usage(t, &cpu, &rss, &threads), -ESRCH);
	assert_int_equal(target__refresh(t, &err), -ESRCH);
	assert_true(target__libs(t, &libs) > 0); /* what was known stays */
	assert_int_equal(target__open_lib(t, &libs[0], &err), -ESRCH);
	target__free(t);
	assert_int_equal(target__open(&t, pid, &err), -ESRCH);
	assert_true(strstr(err.msg, "no process") && err.hint[0]);
	assert_int_equal(target__open(&t, 0, NULL), -ESRCH);
	assert_int_equal(target__open(&t, -5, NULL), -ESRCH);
}

static void *other_thread(void *arg)
{
	struct target *t = NULL;
	struct err err = { 0 };

	(void)arg;
	assert_int_equal(target__open(&t, (pid_t)syscall(SYS_gettid), &err), -ESRCH);
	assert_non_null(strstr(err.msg, "is a thread"));
	return NULL;
}

static void refuses_threads(void **state)
{
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
}

/* --- libraries -------------------------------------------------------------------------------------------
 */

static void check_same_file(int fd, const struct lib *lib)
{
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_ino == lib->ino);
	close(fd);
}

static void knows_its_libraries(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = start_waiting(envp);
	const struct lib *libs, *exe, *libc;
	struct target *t;
	size_t cnt;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	cnt = target__libs(t, &libs);
	assert_true(cnt >= 3);
	exe = find_lib(t, "waits");
	libc = find_lib(t, "libc.so.6");
	assert_true(exe && libc && exe->is_exe && !libc->is_exe);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(libs[i].is_new && libs[i].path[0] == '/' &&
			    libs[i].exec_start < libs[i].exec_end);
		assert_true(libs[i].load_start <= libs[i].exec_start);
		for (size_t k = 0; k < i; k++)
			assert_true(libs[k].ino != libs[i].ino || libs[k].dev != libs[i].dev);
	}
	check_same_file(target__open_lib(t, libc, NULL), libc);
	assert_int_equal(target__refresh(t, NULL), 0); /* nothing new */
	target__libs(t, &libs);
	assert_false(libs[0].is_new);
	target__free(t);
	fixture_stop(pid);
}

/* What a forked child has of its parent is not new; whoever is found without a parent is looked at when there is time. */
static void is_opened_without_its_libraries(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = start_waiting(envp);
	struct target *parent, *t;
	const struct lib *libs;
	int cnt;

	(void)state;
	assert_int_equal(target__open_bare(&parent, pid, NULL, NULL), 0);
	assert_int_equal(target__libs(parent, &libs), 0);
	cnt = target__refresh(parent, NULL);
	assert_true(cnt >= 3 && (size_t)cnt == target__libs(parent, &libs));
	assert_int_equal(target__open_bare(&t, pid, parent, NULL), 0);
	assert_int_equal(target__libs(t, &libs), 0);
	assert_int_equal(target__refresh(t, NULL), 0);
	assert_int_equal(target__libs(t, &libs), cnt);
	target__free(t);
	target__free(parent);
	fixture_stop(pid);
}

/* Replaced on disk by another file of the same name: the mapped one is opened, or none. */
static void never_opens_an_impostor(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = start_waiting(envp);
	const struct lib *exe;
	struct target *t;
	struct err err = { 0 };
	int fd;

	(void)state;
	rename(fixture_path("waits"), fixture_path("moved-away"));
	unlink(fixture_path("moved-away"));
	fixture_build("waits", "", "int main(void) { return 0; }\n");
	assert_int_equal(target__open(&t, pid, NULL), 0);
	exe = find_lib(t, "moved-away");
	assert_true(exe && exe->deleted && exe->is_exe);
	fd = target__open_lib(t, exe, &err);
	if (fd >= 0)
		check_same_file(fd, exe);
	else
		assert_true(geteuid() != 0 && err.msg[0]);
	target__free(t);
	fixture_stop(pid);
}

static void sees_what_is_loaded_later(void **state)
{
	const char *path = fixture_build("late.so", "-shared -fPIC", "int late(void) { return 1; }\n");
	const struct lib *libs, *late;
	struct target *t;
	void *h;
	size_t cnt, new_cnt = 0;

	(void)state;
	assert_int_equal(target__open(&t, getpid(), NULL), 0);
	h = dlopen(path, RTLD_NOW);
	assert_non_null(h);
	assert_int_equal(target__refresh(t, NULL), 1);
	cnt = target__libs(t, &libs);
	for (size_t i = 0; i < cnt; i++)
		new_cnt += libs[i].is_new;
	late = find_lib(t, "late.so");
	assert_true(new_cnt == 1 && late && late->is_new);
	assert_true((uint64_t)dlsym(h, "late") >= late->exec_start &&
		    (uint64_t)dlsym(h, "late") < late->exec_end);
	/* unloaded and loaded again it is the same file, its probes are still there */
	dlclose(h);
	assert_int_equal(target__refresh(t, NULL), 0);
	h = dlopen(path, RTLD_NOW);
	assert_int_equal(target__refresh(t, NULL), 0);
	dlclose(h);
	target__free(t);
}

/* --- sideband
 * ---------------------------------------------------------------------------------------------- */

struct seen {
	pid_t pid;
	uint64_t begin_ns, last_ns, libc_ino;
	int fork, exec, exe, libc, exit, disorder;
};

static int see_record(void *ctx, const struct sb_record *r)
{
	struct seen *s = ctx;
	const char *base = strrchr(r->text, '/');

	if (r->pid != (uint32_t)s->pid)
		return 0;
	s->disorder += r->ts_ns < s->begin_ns;
	switch (r->kind) {
	case SB_FORK: s->fork += r->ppid == (uint32_t)getpid(); break;
	case SB_EXEC: s->exec += !strcmp(r->text, "ends"); break;
	case SB_EXIT: s->exit++; break;
	case SB_MMAP:
		s->exe += base && !strcmp(base, "/ends");
		s->libc += r->ino == s->libc_ino && r->len > 4096;
		break;
	}
	return 0;
}

static uint64_t now_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void follows_a_child(void **state)
{
	const char *path = fixture_build("ends", "", "int main(void) { return 0; }\n");
	struct seen s = { .begin_ns = now_mono_ns() };
	struct err err = { 0 };
	struct sideband *sb;
	struct target *self;
	int r;

	(void)state;
	assert_int_equal(sideband__open(&sb, 3, &err), -EINVAL);
	r = sideband__open(&sb, 64, &err);
	if (r == -EACCES || r == -EPERM) { /* needs root: then at least say so */
		assert_true(geteuid() != 0 && strstr(err.hint, "root"));
		skip();
	}
	assert_int_equal(r, 0);
	assert_int_equal(target__open(&self, getpid(), NULL), 0);
	s.libc_ino = find_lib(self, "libc.so.6")->ino;
	target__free(self);
	s.pid = fork();
	if (s.pid == 0) {
		execl(path, path, NULL);
		_exit(127);
	}
	waitpid(s.pid, NULL, 0);
	for (int i = 0; i < 100 && !s.exit; i++) {
		struct pollfd p = { .fd = sideband__fd(sb), .events = POLLIN };

		(void)poll(&p, 1, 100);
		assert_true(sideband__drain(sb, see_record, &s) >= 0);
	}
	sideband__free(sb);
	assert_int_equal(s.fork, 1);
	assert_int_equal(s.exec, 1);
	assert_true(s.exe >= 1 && s.libc >= 1);
	assert_int_equal(s.exit, 1);
	assert_int_equal(s.disorder, 0); /* all on CLOCK_MONOTONIC */
}

static int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

struct family {
	uint32_t last_parent;
	uint64_t last_ns;
	int forks, disorder;
};

static int see_family(void *ctx, const struct sb_record *r)
{
	struct family *f = ctx;

	f->disorder += r->ts_ns < f->last_ns;
	f->last_ns = r->ts_ns;
	if (r->kind == SB_FORK && r->ppid == f->last_parent && r->pid != r->ppid) {
		f->last_parent = r->pid;
		f->forks++;
	}
	return 0;
}

/* Each descendant is forked on another CPU than its parent was: whose child it is must be known when it is told. */
static void forks_come_in_order(void **state)
{
	enum { DEPTH = 8 };
	struct family f = { .last_parent = (uint32_t)getpid() };
	struct err err = { 0 };
	struct sideband *sb;
	cpu_set_t mine;
	pid_t pid = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || sideband__open(&sb, 64, &err) < 0)
		skip();
	for (int depth = 0; depth < DEPTH && !pid; depth++) {
		if (run_on(1 - depth % 2) < 0)
			break;
		pid = fork();
		if (pid && depth) {
			waitpid(pid, NULL, 0);
			_exit(0);
		}
	}
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
	assert_true(sideband__drain(sb, see_family, &f) >= 0);
	sideband__free(sb);
	assert_int_equal(f.disorder, 0);
	assert_int_equal(f.forks, DEPTH);
}

struct on_cpu {
	uint32_t ppid;
	int forks;
	uint64_t lost;
};

static int see_on_cpu(void *ctx, const struct sb_record *r)
{
	struct on_cpu *c = ctx;

	c->forks += r->kind == SB_FORK && r->ppid == c->ppid && r->pid != r->ppid;
	c->lost += r->kind == SB_LOST ? r->lost : 0;
	return 0;
}

static void fork_on(int cpu)
{
	pid_t pid;

	assert_int_equal(run_on(cpu), 0);
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

/* The kernel's word for which CPUs are online is injected: the machine's own stay as they are. */
static void follows_cpus_as_they_come_and_go(void **state)
{
	struct on_cpu c = { .ppid = (uint32_t)getpid() };
	struct err err = { 0 };
	struct sideband *sb;
	cpu_set_t mine;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || sideband__open(&sb, 64, &err) < 0)
		skip();
	assert_int_equal(sideband__look_at_cpus(sb), 0); /* all are there */
	assert_int_equal(sideband__set_cpus(sb, "0\n"), 0);
	fork_on(1);
	assert_true(sideband__drain(sb, see_on_cpu, &c) >= 0);
	assert_int_equal(c.forks, 0); /* nobody listens there */
	assert_int_equal(sideband__set_cpus(sb, "0-1\n"), 1);
	assert_int_equal(sideband__set_cpus(sb, "0,1"), 0);
	fork_on(1);
	fork_on(0);
	assert_true(sideband__drain(sb, see_on_cpu, &c) >= 0);
	assert_int_equal(c.forks, 2);
	assert_int_equal(sideband__set_cpus(sb, "no list"), 0);
	assert_int_equal(sideband__set_cpus(sb, ""), 0);
	assert_int_equal(sideband__drain(sb, see_on_cpu, &c), 0);
	assert_int_equal(sideband__look_at_cpus(sb), sysconf(_SC_NPROCESSORS_ONLN));
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
	sideband__free(sb);
}

static void says_when_records_are_lost(void **state)
{
	struct on_cpu c = { .ppid = (uint32_t)getpid() };
	struct err err = { 0 };
	struct sideband *sb;
	uint64_t lost;
	cpu_set_t mine;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	if (sideband__open(&sb, 1, &err) < 0)
		skip();
	for (int i = 0; i < 200; i++) /* 4 KiB have room for 60 */
		fork_on(0);
	assert_true(sideband__drain(sb, see_on_cpu, &c) >= 0); /* though nothing more happens */
	assert_true(c.forks < 200 && c.lost > 100);
	lost = c.lost;
	fork_on(0); /* with it comes the record that tells of them once more */
	assert_true(sideband__drain(sb, see_on_cpu, &c) >= 0);
	assert_true(c.lost < lost + lost / 2); /* but of others' */
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
	sideband__free(sb);
}

/* --- what a process has that is too much, or other than it was ---------------------------------------- */

static void counts_libraries_that_are_too_many(void **state)
{
	const size_t more = 100;
	const struct lib *libs;
	struct target *t;
	void **maps = calloc(TARGET_LIBS_MAX + more, sizeof(*maps));
	size_t cnt;

	(void)state;
	for (size_t i = 0; i < TARGET_LIBS_MAX + more; i++) {
		const char *path = fixture_path("many.so");
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0700);

		assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, 4096) == 0);
		maps[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		assert_true(maps[i] != MAP_FAILED);
		close(fd);
	}
	assert_int_equal(target__open(&t, getpid(), NULL), 0);
	cnt = target__libs(t, &libs);
	assert_int_equal(cnt, TARGET_LIBS_MAX);
	assert_true(target__unseen(t) >= more);
	for (size_t i = 0; i < TARGET_LIBS_MAX + more; i++)
		munmap(maps[i], 4096);
	assert_true(target__refresh(t, NULL) >= 0);
	assert_int_equal(target__unseen(t), 0);
	target__free(t);
	free(maps);
}

static void notices_an_exec_by_itself(void **state)
{
	static const char source[] = "#include <signal.h>\n#include <unistd.h>\n#include <stdlib.h>\nstatic char *me;\n"
				     "static void on(int s) { (void)s; execl(me, me, \"again\", (char *)0); }\n"
				     "int main(int c, char **v)\n{\n\tme = v[0];\n"
				     "\tsigset_t s;\n\tsigemptyset(&s);\n\tsigprocmask(SIG_SETMASK, &s, 0);\n"
				     "\tsignal(SIGUSR1, on);\n\tif (c != 2) write(1, \"x\", 1);\n\tfor (;;)\n\t\tpause();\n}\n";
	char *const env[] = { NULL };
	pid_t pid = fixture_start(fixture_build("execs", "", source), env);
	struct target *t;
	int noticed = 0;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	assert_int_equal(target__has_execed(t), 0);
	kill(pid, SIGUSR1);
	for (int i = 0; i < 500 && !noticed; i++) {
		usleep(10000);
		noticed = target__has_execed(t);
	}
	assert_int_equal(noticed, 1);
	target__free(t);
	fixture_stop(pid);
}

static void reads_of_this_process_alone(void **state)
{
	char *const env[] = { NULL };
	pid_t pid = fixture_start(fixture_build("read", "", FIXTURE_WAITS("")), env);
	const struct lib *libs;
	struct target *t;
	uint64_t word = 0;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	assert_true(target__libs(t, &libs) > 0);
	assert_int_equal(target__read(t, libs[0].load_start, &word, sizeof(word)), 0);
	assert_memory_equal(&word, "\177ELF", 4);
	assert_int_equal(target__read(t, 8, &word, sizeof(word)), -EFAULT);
	fixture_stop(pid);
	word = 1;
	assert_int_equal(target__read(t, libs[0].load_start, &word, sizeof(word)), -ESRCH);
	assert_int_equal(word, 0);
	target__free(t);
}

static int is_listed(pid_t pid)
{
	pid_t *pids = NULL;
	size_t cut;
	int n = jobs_list(&pids, &cut), found = 0;

	assert_true(n >= 0);
	for (int k = 0; k < n; k++)
		found |= pids[k] == pid;
	free(pids);
	return found;
}

/* A child that has a file of that name mapped, to be run. */
static void finds_jobs(void **state)
{
	char dir[] = "/tmp/mt-jobs-XXXXXX", path[64];
	int up[2], down[2], fd;
	pid_t pid;

	(void)state;
	assert_true(is_job_library("/x/libc10.so") && is_job_library("libcuda.so.535.1"));
	assert_true(is_job_library("/a/libtorch_cpu.so"));
	assert_false(is_job_library("/x/libc10.so/libm.so.6") || is_job_library("/x/libc.so.6") || is_job_library(""));
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/libc10.so", dir);
	fd = open(path, O_RDWR | O_CREAT, 0700);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(pipe(up) | pipe(down), 0);
	pid = fork();
	if (!pid) {
		char c = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED;

		_exit(write(up[1], &c, 1) != 1 || read(down[0], &c, 1) < 0);
	}
	char c = 1;

	assert_int_equal(read(up[0], &c, 1), 1);
	if (!c) /* else this file system runs nothing */
		assert_true(is_listed(pid));
	assert_false(is_listed(getpid()));
	close(down[1]);
	assert_int_equal(write(up[1], "x", 1), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(is_listed(pid));
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(fd);
	unlink(path);
	rmdir(dir);
}

static void finds_words_of_lines(void **state)
{
	static const char status[] = "Name:\tshstk\nTgid:\t7\nx86_Thread_features:\tshstk wrss \n"
				     "x86_Thread_features_locked:\t\n";

	(void)state;
	assert_true(proc_line_has_word(status, "x86_Thread_features:", "shstk"));
	assert_true(proc_line_has_word(status, "x86_Thread_features:", "wrss"));
	assert_false(proc_line_has_word(status, "x86_Thread_features:", "wrs"));
	assert_false(proc_line_has_word(status, "x86_Thread_features:", "wrsss"));
	assert_false(proc_line_has_word(status, "x86_Thread_features_locked:", "shstk"));
	assert_false(proc_line_has_word("x86_Thread_features:\t\nName: shstk\n", "x86_Thread_features:", "shstk"));
	assert_true(proc_line_has_word("flags\t\t: fpu user_shstk", "flags", "user_shstk"));
	assert_false(proc_line_has_word("flags", "flags", "user_shstk"));
	assert_false(proc_line_has_word("", "flags", "user_shstk"));
}

static void has_no_shadow_stack(void **state)
{
	struct target *t;

	(void)state;
	assert_int_equal(target__open(&t, getpid(), NULL), 0);
	assert_false(target__has_shadow_stack(t)); /* glibc 2.36 never asks for one */
	target__free(t);
}

/* A file whose owner has a lease on it: who opens it would wait for him, 45 s as kernels are set. */
static void waits_for_no_lease(void **state)
{
	char path[] = "/tmp/mt-leased-XXXXXX";
	int fd = mkstemp(path), r;
	struct timespec t0, t1;
	struct err err = { 0 };
	struct target *t;
	struct stat st;
	struct lib lib;
	void *at;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(at != MAP_FAILED && !fstat(fd, &st));
	lib = (struct lib){ .dev = st.st_dev, .ino = st.st_ino, .path = path, .base = path,
			    .exec_start = (uint64_t)(uintptr_t)at, .exec_end = (uint64_t)(uintptr_t)at + 4096 };
	signal(SIGIO, SIG_IGN);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	assert_int_equal(target__open(&t, getpid(), NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	r = target__open_lib(t, &lib, &err);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	assert_int_equal(r, -EWOULDBLOCK);
	assert_non_null(strstr(err.msg, "lease"));
	assert_true(t1.tv_sec - t0.tv_sec < 5);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
	r = target__open_lib(t, &lib, &err);
	assert_true(r >= 0);
	close(r);
	target__free(t);
	munmap(at, 4096);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_torch_version),
		cmocka_unit_test(finds_words_of_lines),
		cmocka_unit_test(has_no_shadow_stack),
		cmocka_unit_test(reads_maps_lines),
		cmocka_unit_test(walks_maps),
		cmocka_unit_test(unescapes_paths),
		cmocka_unit_test(reads_stat),
		cmocka_unit_test(picks_labels),
		cmocka_unit_test(finds_containers),
		cmocka_unit_test(names_containers),
		cmocka_unit_test(joins_arguments),
		cmocka_unit_test(tells_who_it_is),
		cmocka_unit_test(notices_its_end),
		cmocka_unit_test(refuses_threads),
		cmocka_unit_test(knows_its_libraries),
		cmocka_unit_test(is_opened_without_its_libraries),
		cmocka_unit_test(never_opens_an_impostor),
		cmocka_unit_test(waits_for_no_lease),
		cmocka_unit_test(sees_what_is_loaded_later),
		cmocka_unit_test(follows_a_child),
		cmocka_unit_test(forks_come_in_order),
		cmocka_unit_test(follows_cpus_as_they_come_and_go),
		cmocka_unit_test(says_when_records_are_lost),
		cmocka_unit_test(counts_libraries_that_are_too_many),
		cmocka_unit_test(notices_an_exec_by_itself),
		cmocka_unit_test(reads_of_this_process_alone),
		cmocka_unit_test(finds_jobs),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
