/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/err.h"
#include "memtrace/shared.h"
#include "keeper/channel.h"
#include "keeper/confine.h"
#include "keeper/serve.h"
#include "keeper/wire_plan.h"
#include "target/door.h"
#include "trace/taps.h"

#define END_WAIT_MS 5000
#define KEEPER_FILES (1u << 20) /* the default of fs.nr_open */
#define HELD_UP_MAX 64
#define GIVE_BACK_BYTES (1u << 20) /* pages of the area beyond this are released */

struct kin {
	pid_t pid, tree;
};

/* Processes that hold us up; protected by the channel of looks. */
struct held_up {
	uint64_t cnt;		 /* looks without an answer */
	pid_t pids[HELD_UP_MAX]; /* the last ones, in a ring */
	uint64_t pids_cnt, reported; /* ever held up; reported of those */
};

struct keeper {
	pid_t pid;
	struct channel probes, looks;
	struct kin *trees; /* … as given to keeper__tree */
	size_t trees_cnt;
	struct held_up held_up;
	struct taps *taps; /* NULL: nothing is traced */
	struct door door;
};

/* --- asking ---------------------------------------------------------------------------------------- */

int keeper_gone(struct err *err)
{
	err_set(err, -EPIPE, "the privileged half of memtrace has ended");
	return err_hint(err, "it was killed, or ran out of memory: see dmesg; all probes are gone with it");
}

/* A request on the channel of probes. Returns the reply's r; *reply may be NULL. */
static int keeper__ask(struct keeper *k, const struct keep_request *q, struct keep_reply *reply, int *fds, size_t fds_max,
		       struct err *err)
{
	struct keep_reply own;
	struct keep_reply *p = reply ? reply : &own;
	int r = channel__ask(&k->probes, q, p, fds, fds_max);

	if (r == -EPIPE)
		return keeper_gone(err);
	if (r < 0)
		return err_set(err, r, "asking the privileged half of memtrace: %s", strerror(-r));
	if (p->r < 0 && err) {
		*err = p->err;
		err->msg[sizeof(err->msg) - 1] = err->hint[sizeof(err->hint) - 1] = '\0';
		if (!err->msg[0])
			err_set(err, p->r, "%s", strerror(-p->r));
	}
	return p->r;
}

/* Sends a request with a struct, or with nothing. */
static int keeper__tell(struct keeper *k, uint32_t op, pid_t pid, const void *v, size_t bytes, struct err *err)
{
	if (v)
		memcpy(k->probes.area, v, bytes);
	return keeper__ask(k, &(struct keep_request){ .op = op, .pid = pid, .len = v ? bytes : 0 }, NULL, NULL, 0, err);
}

/* --- probes ---------------------------------------------------------------------------------------- */

int keeper__trace(struct keeper *k, const struct tracer_opts *opts, struct err *err)
{
	struct keep_request q = { .op = KEEP_TRACE, .len = sizeof(*opts) };
	struct keep_reply reply;
	struct taps_desc desc;
	int fds[TAPS_FDS_MAX], r;

	memcpy(k->probes.area, opts, sizeof(*opts));
	r = keeper__ask(k, &q, &reply, fds, TAPS_FDS_MAX, err);
	if (r < 0)
		return r;
	memcpy(&desc, k->probes.area, sizeof(desc));
	return taps__new(&k->taps, &desc, fds, reply.fds_cnt, err);
}

/* Writes the state of an earlier call and a plan into the area. Returns their bytes, or -E2BIG. */
static int64_t keeper__put_plan(struct keeper *k, const void *head, size_t head_bytes, const struct plan *plan,
				const uint8_t *wanted, struct err *err)
{
	int64_t n = wire_plan_write(k->probes.area + head_bytes, k->probes.area_bytes - head_bytes, plan, wanted);

	memcpy(k->probes.area, head, head_bytes);
	return n < 0 ? err_set(err, (int)n, "a plan of %zu probes is too large", plan->sites_cnt) : n + (int64_t)head_bytes;
}

static void keeper__give_back(struct keeper *k, int64_t used)
{
	if (used > GIVE_BACK_BYTES)
		(void)madvise(k->probes.area, ((size_t)used + 4095) & ~4095ul, MADV_REMOVE);
}

int keeper__attach(struct keeper *k, pid_t pid, const struct plan *plan, struct attach_stats *ret, struct err *err)
{
	int64_t n = keeper__put_plan(k, ret, sizeof(*ret), plan, ret->wanted, err);
	struct keep_request q = { .op = KEEP_ATTACH, .pid = pid, .len = (uint64_t)n };
	uint8_t *failed = ret->site_failed;
	const uint8_t *wanted = ret->wanted;
	struct keep_attached a;
	struct keep_reply reply = { 0 };
	int r;

	if (n < 0)
		return (int)n;
	r = keeper__ask(k, &q, &reply, NULL, 0, err);
	if (reply.len == sizeof(a) + plan->sites_cnt) {
		memcpy(&a, k->probes.area, sizeof(a));
		*ret = a.st;
		for (size_t i = 0; failed && i < plan->sites_cnt; i++)
			failed[i] |= k->probes.area[sizeof(a) + i] != 0; /* an earlier call may have reported some */
		taps__set_progs(k->taps, &a.progs);
	}
	ret->site_failed = failed;
	ret->wanted = wanted;
	keeper__give_back(k, n);
	return r;
}

int keeper__retire(struct keeper *k, pid_t pid, const struct plan *plan, const uint8_t *wanted, struct retire_stats *ret)
{
	int64_t n = keeper__put_plan(k, ret, sizeof(*ret), plan, wanted, NULL);
	struct keep_request q = { .op = KEEP_RETIRE, .pid = pid, .len = (uint64_t)n };
	struct keep_retired a;
	struct keep_reply reply = { 0 };
	int r;

	if (n < 0)
		return (int)n;
	r = keeper__ask(k, &q, &reply, NULL, 0, NULL);
	if (r >= 0 && reply.len == sizeof(a)) {
		memcpy(&a, k->probes.area, sizeof(a));
		*ret = a.st;
		taps__set_progs(k->taps, &a.progs);
	}
	keeper__give_back(k, n);
	return r;
}

int keeper__lower(struct keeper *k, pid_t pid, enum mt_level level, uint64_t *ret_taken)
{
	struct keep_request q = { .op = KEEP_LOWER, .pid = pid, .arg = { (uint64_t)level } };
	struct keep_reply reply = { 0 };
	int r = keeper__ask(k, &q, &reply, NULL, 0, NULL);

	*ret_taken = r < 0 ? 0 : reply.val[0];
	return r;
}

void keeper__detach(struct keeper *k, pid_t pid)
{
	(void)keeper__tell(k, KEEP_DETACH, pid, NULL, 0, NULL);
}

int keeper__follow(struct keeper *k, pid_t pid, struct err *err)
{
	return keeper__tell(k, KEEP_FOLLOW, pid, NULL, 0, err);
}

int keeper__python(struct keeper *k, pid_t pid, const struct mt_py_proc *how)
{
	return keeper__tell(k, KEEP_PYTHON, pid, how, sizeof(*how), NULL);
}

int keeper__catch(struct keeper *k, pid_t pid, const struct mt_catch *what)
{
	return keeper__tell(k, KEEP_CATCH, pid, what, sizeof(*what), NULL);
}

int keeper__modules(struct keeper *k, pid_t pid, const struct mt_module_proc *how)
{
	return keeper__tell(k, KEEP_MODULES, pid, how, sizeof(*how), NULL);
}

int keeper__module(struct keeper *k, pid_t pid, uint64_t obj, int has_name)
{
	struct keep_request q = { .op = KEEP_MODULE, .pid = pid, .arg = { obj, has_name != 0 } };

	return keeper__ask(k, &q, NULL, NULL, 0, NULL);
}

int keeper__plain_place(struct keeper *k, pid_t pid, uint64_t hash)
{
	struct keep_request q = { .op = KEEP_PLAIN_PLACE, .pid = pid, .arg = { hash } };

	return keeper__ask(k, &q, NULL, NULL, 0, NULL);
}

pid_t keeper__next_live_over(struct keeper *k)
{
	return taps__next_live_over(k->taps);
}

uint64_t keeper__looked_up(const struct keeper *k)
{
	return taps__looked_up(k->taps);
}

int keeper__usage(struct keeper *k, uint64_t *ret_cpu_ns, uint64_t *ret_rss)
{
	struct keep_reply reply;
	int r = keeper__ask(k, &(struct keep_request){ .op = KEEP_USAGE }, &reply, NULL, 0, NULL);

	if (r < 0)
		return r;
	*ret_cpu_ns = reply.val[0];
	*ret_rss = reply.val[1];
	return 0;
}

int keeper__each_fired(struct keeper *k, void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx)
{
	struct keep_request q = { .op = KEEP_FIRED };
	const struct keep_fired *f = (const struct keep_fired *)(const void *)k->probes.area;
	struct keep_reply reply;
	int r = keeper__ask(k, &q, &reply, NULL, 0, NULL);

	for (size_t i = 0; r >= 0 && i < reply.len / sizeof(*f) && i < KEEP_FIRED_MAX; i++)
		fn(ctx, f[i].sym, f[i].cnt);
	return r;
}

const struct insn_classes *keeper__insn_classes(const struct keeper *k)
{
	return taps__insn_classes(k->taps);
}

int keeper__tells_victims(const struct keeper *k)
{
	return taps__tells_victims(k->taps);
}

int keeper__ring_fd(const struct keeper *k)
{
	return taps__fd(k->taps);
}

int keeper__drain(struct keeper *k, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret)
{
	return taps__drain(k->taps, budget_ns, fn, ctx, ret);
}

void keeper__counters(const struct keeper *k, struct trace_counters *ret)
{
	taps__counters(k->taps, ret);
}

const struct mt_shares *keeper__shares(const struct keeper *k, size_t *ret_cnt)
{
	return taps__shares(k->taps, ret_cnt);
}

/* --- looks: the door, from any thread --------------------------------------------------------------- */

static struct kin *keeper__kin(const struct keeper *k, pid_t pid)
{
	for (size_t i = 0; i < k->trees_cnt; i++)
		if (k->trees[i].pid == pid)
			return &k->trees[i];
	return NULL;
}

static void keeper__is_held_up(struct keeper *k, pid_t pid)
{
	struct held_up *h = &k->held_up;

	h->cnt++;
	for (uint64_t i = 0; i < h->pids_cnt && i < HELD_UP_MAX; i++)
		if (h->pids[i] == pid)
			return;
	h->pids[h->pids_cnt++ % HELD_UP_MAX] = pid;
}

/* The caller has taken the channel: the content of the area belongs to the request. */
static int keeper__look(struct keeper *k, struct keep_request q, struct keep_reply *reply, int *ret_fd)
{
	const struct kin *kin = keeper__kin(k, q.pid);
	struct keep_reply own;
	struct keep_reply *p = reply ? reply : &own;
	int r;

	q.tree = kin ? kin->tree : q.pid;
	r = channel__ask(&k->looks, &q, p, ret_fd, ret_fd ? 1 : 0);
	if (!r)
		r = p->r;
	if (r == -ETIMEDOUT)
		keeper__is_held_up(k, q.pid);
	if (!r && ret_fd && p->fds_cnt != 1)
		r = -EPROTO;
	return r;
}

static int keeper__look_fd(struct keeper *k, struct keep_request q)
{
	int fd = -1, r;

	channel__take(&k->looks);
	r = keeper__look(k, q, NULL, &fd);
	channel__give(&k->looks);
	return r < 0 ? r : fd;
}

static int at_door_file(void *ctx, pid_t pid, enum door_file which)
{
	return keeper__look_fd(ctx, (struct keep_request){ .op = KEEP_FILE, .pid = pid, .arg = { which } });
}

static int at_door_sideband(void *ctx, int cpu, size_t map_len)
{
	return keeper__look_fd(ctx, (struct keep_request){ .op = KEEP_SIDEBAND, .arg = { (uint64_t)cpu, map_len } });
}

static int at_door_text(void *ctx, pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len)
{
	struct keeper *k = ctx;
	struct keep_reply reply;
	int r;

	channel__take(&k->looks);
	r = keeper__look(k, (struct keep_request){ .op = KEEP_TEXT, .pid = pid, .arg = { which, cap } }, &reply, NULL);
	if (!r && reply.len > cap)
		r = -EPROTO;
	if (!r)
		memcpy(buf, k->looks.area + KEEP_ANSWER, reply.len);
	channel__give(&k->looks);
	*ret_len = r ? 0 : reply.len;
	return r;
}

static int at_door_pages(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	struct keep_request q = { .op = KEEP_PAGES, .pid = pid, .len = cnt * sizeof(*ranges) };
	struct keeper *k = ctx;
	struct keep_reply reply;
	int r;

	if (!door_pages_are_fine(ranges, cnt))
		return -EINVAL;
	channel__take(&k->looks);
	memcpy(k->looks.area, ranges, q.len);
	r = keeper__look(k, q, &reply, NULL);
	channel__give(&k->looks);
	*ret_own = r ? 0 : reply.val[0];
	return r;
}

static int at_door_exe(void *ctx, pid_t pid, struct door_exe *ret)
{
	struct keeper *k = ctx;
	int r;

	channel__take(&k->looks);
	r = keeper__look(k, (struct keep_request){ .op = KEEP_EXE, .pid = pid }, NULL, NULL);
	if (!r) {
		memcpy(ret, k->looks.area + KEEP_ANSWER, sizeof(*ret));
		ret->path[sizeof(ret->path) - 1] = '\0';
	}
	channel__give(&k->looks);
	return r;
}

static int at_door_lib(void *ctx, pid_t pid, const struct door_lib *l)
{
	struct keep_request q = { .op = KEEP_LIB, .pid = pid, .arg = { l->dev, l->ino, l->start, l->end },
				  .len = strlen(l->path) + 1 };
	struct keeper *k = ctx;
	int fd = -1, r;

	if (q.len > PATH_MAX)
		return -ENAMETOOLONG;
	channel__take(&k->looks);
	memcpy(k->looks.area, l->path, q.len);
	r = keeper__look(k, q, NULL, &fd);
	channel__give(&k->looks);
	return r < 0 ? r : fd;
}

static int at_door_script(void *ctx, pid_t pid, const char *path, uint64_t off, char *buf, size_t cap, struct door_script *ret)
{
	struct keep_request q = { .op = KEEP_SCRIPT, .pid = pid, .arg = { off, cap }, .len = strlen(path) + 1 };
	struct keeper *k = ctx;
	struct keep_reply reply;
	int r;

	if (q.len > PATH_MAX)
		return -ENAMETOOLONG;
	channel__take(&k->looks);
	memcpy(k->looks.area, path, q.len);
	r = keeper__look(k, q, &reply, NULL);
	if (!r && (reply.len < sizeof(*ret) || reply.len - sizeof(*ret) > cap))
		r = -EPROTO;
	if (!r) {
		memcpy(ret, k->looks.area + KEEP_ANSWER, sizeof(*ret));
		r = (int)(reply.len - sizeof(*ret));
		if (r)
			memcpy(buf, k->looks.area + KEEP_ANSWER + sizeof(*ret), (size_t)r);
	}
	channel__give(&k->looks);
	return r;
}

/* As much as fits in the area. */
static int keeper__read_some(struct keeper *k, pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	struct keep_request q = { .op = KEEP_READ, .pid = pid, .arg = { len }, .len = cnt * sizeof(*ranges) };
	int r;

	channel__take(&k->looks);
	memcpy(k->looks.area, ranges, q.len);
	r = keeper__look(k, q, NULL, NULL);
	if (!r)
		memcpy(buf, k->looks.area + KEEP_ANSWER, len);
	channel__give(&k->looks);
	return r;
}

static int at_door_read(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	char *to = buf;

	if (cnt > DOOR_RANGES_MAX)
		return -EINVAL;
	if (len <= KEEP_READ_MAX)
		return keeper__read_some(ctx, pid, ranges, cnt, buf, len);
	for (size_t i = 0; i < cnt; i++) {
		for (size_t at = 0; at < ranges[i].iov_len;) {
			size_t n = ranges[i].iov_len - at > KEEP_READ_MAX ? KEEP_READ_MAX : ranges[i].iov_len - at;
			struct iovec part = { (char *)ranges[i].iov_base + at, n };
			int r = keeper__read_some(ctx, pid, &part, 1, to, n);

			if (r < 0)
				return r;
			at += n;
			to += n;
		}
	}
	return 0;
}

int keeper__tree(struct keeper *k, pid_t pid, pid_t tree)
{
	struct kin *at;
	int r = 0;

	channel__take(&k->looks);
	at = keeper__kin(k, pid);
	if (at && !tree) {
		*at = k->trees[--k->trees_cnt];
	} else if (at) {
		at->tree = tree;
	} else if (tree) {
		if (array_has_one_more(k->trees, k->trees_cnt))
			k->trees[k->trees_cnt++] = (struct kin){ pid, tree };
		else
			r = -ENOMEM;
	}
	channel__give(&k->looks);
	return r;
}

uint64_t keeper__held_up_cnt(struct keeper *k)
{
	uint64_t cnt;

	channel__take(&k->looks);
	cnt = k->held_up.cnt;
	channel__give(&k->looks);
	return cnt;
}

pid_t keeper__next_held_up(struct keeper *k)
{
	struct held_up *h = &k->held_up;
	pid_t pid = 0;

	channel__take(&k->looks);
	if (h->pids_cnt - h->reported > HELD_UP_MAX)
		h->reported = h->pids_cnt - HELD_UP_MAX;
	if (h->reported < h->pids_cnt)
		pid = h->pids[h->reported++ % HELD_UP_MAX];
	channel__give(&k->looks);
	return pid;
}

int keeper__lock(struct keeper *k, pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err)
{
	struct keep_request q = { .op = KEEP_LOCK, .pid = pid, .arg = { start_ns, wait_ns } };
	struct keep_reply reply = { 0 };
	int fd = -1, r;

	channel__take(&k->looks);
	r = channel__ask(&k->looks, &q, &reply, &fd, 1);
	channel__give(&k->looks);
	r = r ? r : reply.r;
	if (!r)
		*ret_fd = reply.fds_cnt ? fd : -1;
	if (r == -EPIPE)
		return keeper_gone(err);
	if (r < 0 && err) {
		*err = reply.err;
		err->msg[sizeof(err->msg) - 1] = err->hint[sizeof(err->hint) - 1] = '\0';
		if (!err->msg[0])
			keep_refused(err, pid, r);
	}
	return r;
}

/* --- life -------------------------------------------------------------------------------------------- */

/* Both halves hold many descriptors: probes, files of plans. */
static void raise_limit(int which)
{
	struct rlimit rl;

	if (getrlimit(which, &rl))
		return;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(which, &rl);
}

/* Of all descriptors opened before, the keeper keeps the two channels and stderr. */
static void close_others(const struct keep *keep)
{
	unsigned a = (unsigned)keep->probes.fd, b = (unsigned)keep->looks.fd, low = a < b ? a : b, high = a < b ? b : a;

	if (low > 3)
		(void)close_range(3, low - 1, 0);
	if (high > low + 1)
		(void)close_range(low + 1, high - 1, 0);
	(void)close_range(high + 1, ~0u, 0);
}

/* Each file with probes needs one, before kernel 6.6 each probe two: the caller's limit was for other purposes. */
static void have_many_files(void)
{
	const struct rlimit many = { KEEPER_FILES, KEEPER_FILES };
	struct rlimit rl;

	if (!getrlimit(RLIMIT_NOFILE, &rl) && rl.rlim_max < KEEPER_FILES)
		(void)setrlimit(RLIMIT_NOFILE, &many);
}

static void run_keeper(struct keep *keep)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ };
	int null;

	close_others(keep);
	have_many_files(); /* while we still may */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)prctl(PR_SET_NAME, "memtrace-keeper");
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0 || confine_keeper() < 0)
		_exit(1);
	keep__serve(keep);
}

static int keeper__fork(struct keeper *k, const struct keeper_opts *o)
{
	struct keep *keep = calloc(1, sizeof(*keep));
	int r;

	if (!keep)
		return -ENOMEM;
	/* An ambient CAP_SYS_PTRACE (systemd) was given to the caller; a file's capability was not. */
	keep->checks = getuid() != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SYS_PTRACE, 0, 0) != 1;
	keep->who = o->wards;
	keep->lock = o->lock;
	keep->at_end = o->at_end;
	keep->end_ctx = o->end_ctx;
	r = channel_pair(&k->probes, &keep->probes, KEEP_PROBES_AREA);
	if (!r)
		r = channel_pair(&k->looks, &keep->looks, KEEP_LOOKS_AREA);
	if (!r) {
		k->pid = fork();
		r = k->pid < 0 ? -errno : 0;
	}
	if (!r && !k->pid) {
		run_keeper(keep);
	}
	if (keep->probes.fd >= 0)
		close(keep->probes.fd);
	if (keep->looks.fd >= 0)
		close(keep->looks.fd);
	free(keep);
	return r;
}

int keeper__start(struct keeper **ret, const struct keeper_opts *opts, struct err *err)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "out of memory");
	if (getuid() != geteuid()) {
		free(k);
		err_set(err, -EPERM, "memtrace is no program for set-user-ID");
		return err_hint(err, "chmod u-s it, and run it with sudo");
	}
	k->probes.fd = k->looks.fd = -1;
	raise_limit(RLIMIT_NOFILE);
	raise_limit(RLIMIT_NPROC); /* threads count as the user's, whose limit was for other purposes */
	r = keeper__fork(k, opts);
	if (r < 0)
		err_set(err, r, "starting the privileged half of memtrace: %s", strerror(-r));
	else
		r = confine_self(opts->as, opts->writes, err);
	if (r < 0) {
		keeper__free(k);
		return r;
	}
	k->door = (struct door){ at_door_file, at_door_text,   at_door_exe,	 at_door_lib,
				 at_door_read, at_door_script, at_door_pages,	 at_door_sideband, k };
	door_use(&k->door);
	*ret = k;
	return 0;
}

/* Its probes are gone; a thread stuck in a look at a process may still keep it from ending. */
static void await_end(pid_t pid)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < END_WAIT_MS && !waitpid(pid, NULL, WNOHANG); i++)
		nanosleep(&pause, NULL);
}

void keeper__untrace(struct keeper *k)
{
	if (!k)
		return;
	if (k->taps)
		(void)keeper__tell(k, KEEP_UNTRACE, 0, NULL, 0, NULL);
	taps__free(k->taps);
	k->taps = NULL;
	door_use(&door_own);
}

void keeper__free(struct keeper *k)
{
	if (!k)
		return;
	keeper__untrace(k);
	channel__done(&k->probes);
	channel__done(&k->looks);
	if (k->pid > 0)
		await_end(k->pid);
	free(k->trees);
	free(k);
}

int keeper__fd(const struct keeper *k)
{
	return k->probes.fd;
}

pid_t keeper__pid(const struct keeper *k)
{
	return k->pid;
}
