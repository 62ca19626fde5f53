/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A process through /proc.
 *
 * It is read through one descriptor of /proc/PID, or checked by it, which stays bound to that very process: when
 * it dies and its number is given to another, reads fail with ESRCH instead of telling about a
 * stranger. Only the paths handed to the kernel name the number.
 *
 * Libraries are known by (device, inode), not by path: the path in maps may be deleted, lie in
 * another mount namespace, or be chosen by the process. Only files with an executable mapping count;
 * a job may map thousands of data files. What ever was seen stays in a sorted list, so that a
 * library that is unloaded and loaded again is not taken for a new one: probes sit on the inode.
 *
 * Cannot see: the mappings of a process whose first thread has ended while others run (the kernel
 * shows none); files of a kernel without CONFIG_CHECKPOINT_RESTORE that are deleted (no map_files).
 */
#include "target/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/err.h"
#include "memtrace/event.h"
#include "target/door.h"
#include "target/proc_io.h"
#include "target/proc_text.h"

#define ENVIRON_BYTES_MAX DOOR_TEXT_MAX
#define CMDLINE_BYTES_MAX 4096
#define AUXV_BYTES_MAX	  1024
#define SEEN_MAX	  (4u * TARGET_LIBS_MAX)

struct file_id {
	uint64_t dev, ino;
};

struct target {
	pid_t pid;
	int dirfd, pidfd;
	uint8_t auxv[AUXV_BYTES_MAX]; /* as of open */
	size_t auxv_len;
	struct proc_stat stat; /* as of open */
	char cmdline[CMDLINE_BYTES_MAX];
	char *labels[TARGET_LABELS_MAX];
	size_t labels_cnt;
	int is_early;
	unsigned holders; /* besides the one who opened it */
	struct lib *libs; /* in order of address */
	size_t libs_cnt;
	size_t unseen;
	struct file_id *seen; /* sorted */
	size_t seen_cnt;
};

/* --- identity ------------------------------------------------------------------------------------ */

static int no_such(pid_t pid, struct err *err)
{
	err_set(err, -ESRCH, "no process %d", (int)pid);
	return err_hint(err, "it may have ended; list candidates with: pgrep -af python"), -ESRCH;
}

static int target__fail(const struct target *t, int r, const char *what, struct err *err)
{
	if (r == -ESRCH || r == -ENOENT)
		return no_such(t->pid, err);
	err_set(err, r, "reading /proc/%d/%s: %s", (int)t->pid, what, strerror(-r));
	if ((r == -EACCES || r == -EPERM) && geteuid())
		err_hint(err, "run memtrace as root (sudo)");
	else if (r == -EACCES || r == -EPERM)
		err_hint(err, "this process is protected even from root (a security module, or more rights than ours)");
	return r;
}

/* Is it not the descriptor's any more, its number may be another's. */
static int target__is_other(const struct target *t)
{
	return t->dirfd >= 0 && faccessat(t->dirfd, "stat", F_OK, 0) < 0;
}

static int target__read_text(const struct target *t, enum door_file which, size_t cap, char **ret, size_t *ret_len)
{
	char *text = malloc(cap + 1);
	size_t len;
	int r = text ? door_text(t->pid, which, text, cap, &len) : -ENOMEM;

	if (!r && target__is_other(t))
		r = -ESRCH;
	if (r < 0) {
		free(text);
		return r;
	}
	text[len] = '\0';
	*ret = text;
	*ret_len = len;
	return 0;
}

/*
 * A file of the process, through our descriptor of /proc/PID where everybody may, else through the door, by its number: if the
 * descriptor still leads to a process afterwards, the number was its own all the while. Where /proc hides the process from
 * us there is no descriptor: target__alive tells by the time of its start.
 */
static int target__read_file(const struct target *t, enum door_file which, size_t cap, char **ret, size_t *ret_len)
{
	int fd, r;

	if (DOOR_IS_TEXT(which))
		return target__read_text(t, which, cap, ret, ret_len);
	if (t->dirfd >= 0 && DOOR_OPEN_TO_ALL(which))
		return proc_read(t->dirfd, door_file_name(which), cap, ret, ret_len);
	fd = door_file(t->pid, which);
	if (fd < 0)
		return fd;
	if (target__is_other(t))
		r = -ESRCH;
	else
		r = proc_read_fd(fd, cap, ret, ret_len);
	close(fd);
	return r;
}

static int target__stat(const struct target *t, struct proc_stat *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_STAT, 4096, &text, &len);

	if (r == 0) {
		r = proc_stat_parse(text, len, ret);
		free(text);
	}
	if (r == 0 && (ret->state == 'Z' || ret->state == 'X') && ret->threads <= 1)
		r = -ESRCH;
	return r == -ENOENT ? -ESRCH : r;
}

/* /proc/TID exists for every thread, but is not a process of its own. */
static int target__check_leader(const struct target *t, struct err *err)
{
	char *text, *at;
	size_t len;
	int r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);
	long tgid;

	if (r < 0)
		return target__fail(t, r, "status", err);
	at = strstr(text, "\nTgid:");
	tgid = at ? strtol(at + 6, NULL, 10) : t->pid;
	free(text);
	if (tgid == t->pid)
		return 0;
	err_set(err, -ESRCH, "%d is a thread, not a process", (int)t->pid);
	return err_hint(err, "it belongs to process %ld: -p %ld", tgid, tgid), -ESRCH;
}

static int label_add(void *ctx, const char *label)
{
	struct target *t = ctx;

	if (t->labels_cnt == TARGET_LABELS_MAX)
		return 1;
	t->labels[t->labels_cnt] = strdup(label);
	if (!t->labels[t->labels_cnt])
		return -ENOMEM;
	t->labels_cnt++;
	return 0;
}

/* What a process holds back of itself ("?", no labels) is no reason not to follow it. */
static int target__read_strings(struct target *t, struct err *err)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_CMDLINE, CMDLINE_BYTES_MAX, &text, &len);

	if (r < 0 && r != -ETIMEDOUT)
		return target__fail(t, r, "cmdline", err);
	snprintf(t->cmdline, sizeof(t->cmdline), "?");
	if (!r) {
		cmdline_join(text, len, t->cmdline, sizeof(t->cmdline));
		free(text);
	}
	r = target__read_file(t, DOOR_ENVIRON, ENVIRON_BYTES_MAX, &text, &len);
	if (r == -ETIMEDOUT)
		return 0;
	if (r < 0)
		return target__fail(t, r, "environ", err);
	t->is_early = !len && !t->cmdline[0];
	r = environ_labels(text, len, label_add, t);
	free(text);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

/* "\nRssAnon:    1234 kB" → bytes; 0 if the line is not there (kernel threads). */
int target__has_shadow_stack(const struct target *t)
{
	char *text;
	size_t len;
	int r = proc_read(t->dirfd, "status", 64 << 10, &text, &len);

	if (r < 0)
		return 0; /* it has ended */
	r = arch.shadow_status[0] && proc_line_has_word(text, arch.shadow_status[0], arch.shadow_status[1]);
	free(text);
	return r;
}

int machine_has_shadow_stacks(void)
{
	char *text;
	size_t len;
	int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), r;

	if (dir < 0)
		return 0;
	r = proc_read(dir, "cpuinfo", 64 << 10, &text, &len);
	close(dir);
	if (r < 0)
		return 0;
	r = arch.shadow_cpuinfo[0] && proc_line_has_word(text, arch.shadow_cpuinfo[0], arch.shadow_cpuinfo[1]);
	free(text);
	return r;
}

static uint64_t status_bytes(const char *text, const char *line)
{
	const char *at = strstr(text, line);
	unsigned long long kb = at ? strtoull(at + strlen(line), NULL, 10) : 0;

	return kb > UINT64_MAX >> 10 ? UINT64_MAX : (uint64_t)kb << 10;
}

/* The process of the pidfd has not ended: its number is no other's. */
static int target__has_pid(const struct target *t)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int target__read_ranges(const struct target *t, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	int r = door_read(t->pid, ranges, cnt, buf, len);

	if (target__has_pid(t)) /* then it had it while we read, too */
		return r;
	memset(buf, 0, len);
	return -ESRCH;
}

int target__read(const struct target *t, uint64_t addr, void *buf, size_t len)
{
	struct iovec there = { (void *)(uintptr_t)addr, len };

	return target__read_ranges(t, &there, 1, buf, len);
}

/* Where the kernel has put things for this program: other places after each exec. */
static int target__read_auxv(const struct target *t, uint8_t *ret, size_t *ret_len)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_AUXV, AUXV_BYTES_MAX, &text, &len);

	if (r < 0)
		return r;
	memcpy(ret, text, len);
	*ret_len = len;
	free(text);
	return 0;
}

int target__has_execed(const struct target *t)
{
	uint8_t now[AUXV_BYTES_MAX];
	size_t len;

	return t->auxv_len && target__read_auxv(t, now, &len) == 0 && len &&
	       (len != t->auxv_len || memcmp(now, t->auxv, len));
}

int target__rss(const struct target *t, struct target_rss *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret = (struct target_rss){
		.anon = status_bytes(text, "\nRssAnon:"),
		.file = status_bytes(text, "\nRssFile:"),
		.shmem = status_bytes(text, "\nRssShmem:"),
		.swap = status_bytes(text, "\nVmSwap:"),
		.high = status_bytes(text, "\nVmHWM:"),
	};
	free(text);
	return 0;
}

static uint64_t use_sum(const char *text, const char *a, const char *b)
{
	uint64_t x = status_bytes(text, a), y = b ? status_bytes(text, b) : 0;

	return x + y < x ? UINT64_MAX : x + y;
}

int target__use(const struct target *t, uint64_t *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_SMAPS_ROLLUP, 64 << 10, &text, &len);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (!len) {
		free(text);
		return -ESRCH; /* a corpse */
	}
	ret[MT_USE_RSS] = use_sum(text, "\nRss:", NULL);
	ret[MT_USE_PSS] = use_sum(text, "\nPss:", NULL);
	ret[MT_USE_PRIVATE] = use_sum(text, "\nPrivate_Clean:", "\nPrivate_Dirty:");
	ret[MT_USE_SHARED] = use_sum(text, "\nShared_Clean:", "\nShared_Dirty:");
	ret[MT_USE_ANON] = use_sum(text, "\nAnonymous:", NULL);
	ret[MT_USE_PSS_ANON] = use_sum(text, "\nPss_Anon:", NULL);
	ret[MT_USE_PSS_FILE] = use_sum(text, "\nPss_File:", NULL);
	ret[MT_USE_PSS_SHMEM] = use_sum(text, "\nPss_Shmem:", NULL);
	ret[MT_USE_HUGE] = use_sum(text, "\nAnonHugePages:", NULL);
	ret[MT_USE_HUGETLB] = use_sum(text, "\nShared_Hugetlb:", "\nPrivate_Hugetlb:");
	ret[MT_USE_SWAP] = use_sum(text, "\nSwapPss:", NULL);
	free(text);
	r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	ret[MT_USE_LOCKED] = use_sum(text, "\nVmLck:", NULL);
	ret[MT_USE_PINNED] = use_sum(text, "\nVmPin:", NULL);
	free(text);
	return 0;
}

/* No library that the parent has is new to its child. */
static int target__see(struct target *t, const struct target *parent)
{
	size_t bytes = parent->seen_cnt * sizeof(*t->seen);

	t->seen = malloc(bytes + 1);
	if (!t->seen)
		return -ENOMEM;
	memcpy(t->seen, parent->seen, bytes);
	t->seen_cnt = parent->seen_cnt;
	return 0;
}

int target__open_bare(struct target **ret, pid_t pid, const struct target *parent, struct err *err)
{
	struct target *t;
	char path[32];
	int r;

	if (pid <= 0)
		return no_such(pid, err);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	t->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Read after both are open: then they are of one process. No directory: it is not there, or hidden from us. */
	r = target__stat(t, &t->stat);
	if (r == 0)
		r = target__check_leader(t, err);
	else
		r = target__fail(t, r, "stat", err);
	if (r == 0 && t->pidfd < 0)
		r = err_set(err, -ESRCH, "process %d has just ended", (int)pid);
	if (r == 0)
		r = target__read_strings(t, err);
	if (r == 0 && parent && target__see(t, parent) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		(void)target__read_auxv(t, t->auxv, &t->auxv_len); /* else an exec that nobody told of is not noticed */
	if (r < 0) {
		target__free(t);
		return r;
	}
	*ret = t;
	return 0;
}

int target__open(struct target **ret, pid_t pid, struct err *err)
{
	struct target *t;
	int r = target__open_bare(&t, pid, NULL, err);

	if (r < 0)
		return r;
	r = target__refresh(t, err);
	if (r < 0) {
		target__free(t);
		return r;
	}
	*ret = t;
	return 0;
}

static void libs_free(struct lib *libs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		free((char *)libs[i].path);
	free(libs);
}

void target__hold(struct target *t)
{
	t->holders++;
}

void target__free(struct target *t)
{
	if (!t || t->holders) {
		if (t)
			t->holders--;
		return;
	}
	if (t->dirfd >= 0)
		close(t->dirfd);
	if (t->pidfd >= 0)
		close(t->pidfd);
	for (size_t i = 0; i < t->labels_cnt; i++)
		free(t->labels[i]);
	libs_free(t->libs, t->libs_cnt);
	free(t->seen);
	free(t);
}

pid_t target__pid(const struct target *t)
{
	return t->pid;
}

pid_t target__ppid(const struct target *t)
{
	return t->stat.ppid;
}

const char *target__comm(const struct target *t)
{
	return t->stat.comm;
}

const char *target__cmdline(const struct target *t)
{
	return t->cmdline;
}

static uint64_t ticks_ns(uint64_t ticks)
{
	long hz = sysconf(_SC_CLK_TCK);
	uint64_t per = 1000000000ull / (uint64_t)(hz > 0 ? hz : 100);

	return ticks > UINT64_MAX / per ? UINT64_MAX : ticks * per;
}

uint64_t target__start_ns(const struct target *t)
{
	return ticks_ns(t->stat.start_ticks);
}

int target__is_early(const struct target *t)
{
	return t->is_early;
}

size_t target__labels(const struct target *t, const char *const **ret)
{
	*ret = (const char *const *)t->labels;
	return t->labels_cnt;
}

int target__alive(const struct target *t)
{
	struct proc_stat st;

	return target__stat(t, &st) == 0 && st.start_ticks == t->stat.start_ticks;
}

int target__usage(const struct target *t, uint64_t *ret_cpu_ns, uint64_t *ret_rss, unsigned *ret_threads)
{
	struct proc_stat st;
	int r = target__stat(t, &st);
	uint64_t cpu, rss;

	if (r < 0)
		return r;
	if (__builtin_add_overflow(ticks_ns(st.utime_ticks), ticks_ns(st.stime_ticks), &cpu) ||
	    __builtin_mul_overflow(st.rss_pages, (uint64_t)sysconf(_SC_PAGESIZE), &rss) ||
	    st.threads > UINT_MAX)
		return -ERANGE;
	*ret_cpu_ns = cpu;
	*ret_rss = rss;
	*ret_threads = (unsigned)st.threads;
	return 0;
}

/* --- children ------------------------------------------------------------------------------------ */

int process_origin(pid_t pid, pid_t *ret_ppid, uint64_t *ret_start_ns)
{
	char path[32], *text;
	struct proc_stat st;
	size_t len;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = proc_read(AT_FDCWD, path, 4096, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	r = proc_stat_parse(text, len, &st);
	free(text);
	if (r < 0)
		return r;
	*ret_ppid = st.ppid;
	*ret_start_ns = ticks_ns(st.start_ticks);
	return 0;
}

int processes_read(struct proc_kin **ret)
{
	DIR *d = opendir("/proc");
	struct proc_kin *all = NULL;
	size_t cnt = 0, cap = 0;
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		uint64_t start_ns;
		pid_t ppid;

		if (pid <= 0 || pid > INT_MAX || *end || process_origin((pid_t)pid, &ppid, &start_ns) < 0)
			continue; /* ended since */
		if (cnt == cap) {
			struct proc_kin *p = realloc(all, (cap = cap ? cap * 2 : 256) * sizeof(*p));

			if (!p) {
				free(all);
				closedir(d);
				return -ENOMEM;
			}
			all = p;
		}
		all[cnt++] = (struct proc_kin){ (pid_t)pid, ppid };
	}
	closedir(d);
	*ret = all;
	return (int)cnt;
}

int processes_below(struct proc_kin *all, size_t all_cnt, pid_t pid, int deep, pid_t **ret)
{
	pid_t parent = pid, *found = malloc((all_cnt + 1) * sizeof(*found));
	size_t cnt = 0, at = 0;

	if (!found)
		return -ENOMEM;
	do {
		for (size_t i = 0; i < all_cnt; i++) {
			if (all[i].ppid != parent || all[i].pid == pid)
				continue;
			found[cnt++] = all[i].pid;
			all[i].ppid = 0; /* once, whatever the table says */
		}
		parent = at < cnt ? found[at] : 0;
	} while (deep && at++ < cnt);
	*ret = found;
	return (int)cnt;
}

/* --- libraries ------------------------------------------------------------------------------------- */

static int file_id_cmp(const void *a, const void *b)
{
	const struct file_id *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

struct scan {
	struct lib *libs;
	size_t cnt, cap;
	size_t unseen; /* mappings of files that there was no room for */
};

static struct lib *scan__find(struct scan *s, uint64_t dev, uint64_t ino)
{
	/* neighbours in maps are mostly of the same file: look from the last one backwards */
	for (size_t i = s->cnt; i--;)
		if (s->libs[i].ino == ino && s->libs[i].dev == dev)
			return &s->libs[i];
	return NULL;
}

/* First pass: files with an executable mapping. */
static int scan_exec(void *ctx, const struct maps_line *m)
{
	struct scan *s = ctx;
	char path[PATH_MAX];
	struct lib *l;

	if (!m->exec || !m->ino || !m->path_len || m->path[0] != '/' || scan__find(s, m->dev, m->ino))
		return 0;
	if (s->cnt == TARGET_LIBS_MAX) {
		s->unseen++;
		return 0;
	}
	if (s->cnt == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;

		l = realloc(s->libs, cap * sizeof(*l));
		if (!l)
			return -ENOMEM;
		s->libs = l;
		s->cap = cap;
	}
	maps_path_unescape(m->path, m->path_len, path, sizeof(path));
	l = &s->libs[s->cnt];
	*l = (struct lib){ .dev = m->dev, .ino = m->ino, .deleted = m->deleted };
	l->exec_start = m->start;
	l->exec_end = m->end;
	l->exec_off = m->off;
	l->load_start = UINT64_MAX;
	l->path = strdup(path);
	if (!l->path)
		return -ENOMEM;
	l->base = strrchr(l->path, '/') + 1;
	s->cnt++;
	return 0;
}

/* Second pass: where each of them begins. */
static int scan_load(void *ctx, const struct maps_line *m)
{
	struct lib *l = m->ino ? scan__find(ctx, m->dev, m->ino) : NULL;

	if (l && m->start < l->load_start) {
		l->load_start = m->start;
		l->load_off = m->off;
	}
	return 0;
}

/* Marks what is new and remembers it. Returns how many, or -ENOMEM. */
static int target__mark_new(struct target *t, struct lib *libs, size_t cnt)
{
	size_t old = t->seen_cnt, n = old;
	struct file_id *seen = realloc(t->seen, (old + cnt + 1) * sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	t->seen = seen;
	for (size_t i = 0; i < cnt; i++) {
		struct file_id id = { libs[i].dev, libs[i].ino };

		if (bsearch(&id, seen, old, sizeof(id), file_id_cmp))
			continue;
		libs[i].is_new = 1;
		seen[n++] = id;
	}
	qsort(seen, n, sizeof(*seen), file_id_cmp);
	t->seen_cnt = n < SEEN_MAX ? n : SEEN_MAX;
	return (int)(n - old);
}

/* The program among the libraries. By inode, and by path where stat tells another device than maps. */
static void target__mark_exe(const struct target *t, struct lib *libs, size_t cnt)
{
	struct door_exe exe;

	if (door_exe(t->pid, &exe) < 0)
		return;
	for (size_t i = 0; i < cnt; i++)
		libs[i].is_exe = libs[i].ino == exe.ino && (libs[i].dev == exe.dev || !strcmp(libs[i].path, exe.path));
}

int target__refresh(struct target *t, struct err *err)
{
	struct scan s = { 0 };
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_MAPS, DOOR_MAPS_BYTES_MAX, &text, &len);

	if (r < 0)
		return target__fail(t, r, "maps", err);
	r = maps_each(text, len, scan_exec, &s, NULL);
	if (r >= 0)
		r = maps_each(text, len, scan_load, &s, NULL);
	free(text);
	if (r >= 0 && !s.cnt && !target__alive(t))
		r = -ESRCH;
	if (r >= 0)
		r = target__mark_new(t, s.libs, s.cnt);
	if (r < 0) {
		libs_free(s.libs, s.cnt);
		return r == -ESRCH ? no_such(t->pid, err) : err_set(err, r, "out of memory");
	}
	target__mark_exe(t, s.libs, s.cnt);
	libs_free(t->libs, t->libs_cnt);
	t->libs = s.libs;
	t->libs_cnt = s.cnt;
	t->unseen = s.unseen + (len >= DOOR_MAPS_BYTES_MAX);
	return r;
}

size_t target__unseen(const struct target *t)
{
	return t->unseen;
}

size_t target__libs(const struct target *t, const struct lib **ret)
{
	*ret = t->libs;
	return t->libs_cnt;
}

/* --- opening them ---------------------------------------------------------------------------------- */

struct range {
	const struct lib *lib;
	uint64_t start, end;
};

static int find_range(void *ctx, const struct maps_line *m)
{
	struct range *f = ctx;

	if (m->ino != f->lib->ino || m->dev != f->lib->dev)
		return 0;
	f->start = m->start;
	f->end = m->end;
	return 1;
}

/* A mapping that the file has right now: the one we knew may have been split or merged since. */
static int target__range_now(const struct target *t, const struct lib *l, struct range *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_MAPS, DOOR_MAPS_BYTES_MAX, &text, &len);

	if (r < 0)
		return r;
	ret->lib = l;
	r = maps_each(text, len, find_range, ret, NULL);
	free(text);
	return r ? 0 : -ENOENT;
}

int target__open_lib(const struct target *t, const struct lib *lib, struct err *err)
{
	struct range at = { lib, lib->exec_start, lib->exec_end };
	struct door_lib l = { lib->dev, lib->ino, at.start, at.end, lib->path };
	int r = door_lib(t->pid, &l);

	if (r < 0 && !target__range_now(t, lib, &at)) {
		l.start = at.start;
		l.end = at.end;
		r = door_lib(t->pid, &l);
	}
	if (r >= 0)
		return r;
	if (!target__alive(t))
		return no_such(t->pid, err);
	err_set(err, r, "opening %s as process %d has it mapped: %s", lib->path, (int)t->pid,
		r == -ESTALE	  ? "another file has its name now" :
		r == -EWOULDBLOCK ? "its owner has a lease on it, and would have to be waited for" :
				    strerror(-r));
	if (r == -EPERM || r == -EACCES)
		err_hint(err, "run memtrace as root (sudo): replaced and deleted files can be reached only "
			      "through map_files");
	return r;
}
