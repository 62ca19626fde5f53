/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The ring is bytes: an item is a head (its length and mark) and a frame, both may go round the end. Its parent puts at
 * `head`, the process takes at `tail`; both only ever grow. A socket wakes the other side, and ends with it.
 */
#include "event/recording_disk.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/outfile.h"

struct queued_frame {
	uint64_t len;
	struct rec_mark before;
};

struct shared {
	_Atomic uint64_t head, tail; /* bytes ever put and taken */
	_Atomic uint64_t file_bytes;
	_Atomic uint32_t sync_asked, sync_done; /* numbers */
	_Atomic int sync_error;
	/* A failure stands until the parent has seen it and set from where on frames are good again. */
	_Atomic uint32_t fail_no, seen_no;
	_Atomic uint64_t good_from;
	int fail_code;
	struct rec_mark fail_mark;
	size_t ring_bytes;
	uint8_t ring[];
};

struct rec_disk {
	struct shared *sh;
	size_t map_bytes;
	int sock;
	pid_t pid;
	uint32_t sync_no;
};

/* --- the process --------------------------------------------------------------------------------------- */

struct disk_worker {
	struct shared *sh;
	int sock, fd, dir_fd;
	int is_over;	 /* its parent is gone, or has closed */
	uint64_t bytes;	 /* whole frames */
	uint64_t synced; /* … of them, when it was last begun */
	uint64_t dirty_ns; /* since when something is not synced; 0: all is */
};

static void ring_out(const struct shared *sh, uint64_t at, void *to, size_t len)
{
	size_t from = at % sh->ring_bytes, first = sh->ring_bytes - from < len ? sh->ring_bytes - from : len;

	memcpy(to, sh->ring + from, first);
	memcpy((uint8_t *)to + first, sh->ring, len - first);
}

static void disk_worker__wake(const struct disk_worker *w)
{
	(void)send(w->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void disk_worker__fail(struct disk_worker *w, int code, const struct rec_mark *mark)
{
	struct shared *sh = w->sh;

	(void)!ftruncate(w->fd, (off_t)w->bytes); /* else the next frame overwrites what is torn */
	sh->fail_code = code;
	sh->fail_mark = *mark;
	atomic_store(&sh->fail_no, sh->fail_no + 1);
	disk_worker__wake(w);
}

static int disk_worker__has_failed(const struct disk_worker *w)
{
	return atomic_load(&w->sh->fail_no) != atomic_load(&w->sh->seen_no);
}

static void disk_worker__write(struct disk_worker *w)
{
	struct shared *sh = w->sh;
	uint64_t tail = atomic_load(&sh->tail), from = atomic_load(&sh->good_from);
	struct queued_frame it;
	size_t at, first;
	int r;

	if (tail < from) { /* put before the failure was seen */
		atomic_store(&sh->tail, from);
		return;
	}
	ring_out(sh, tail, &it, sizeof(it));
	at = (tail + sizeof(it)) % sh->ring_bytes;
	first = sh->ring_bytes - at < it.len ? sh->ring_bytes - at : it.len;
	r = outfile_write_at(w->fd, sh->ring + at, first, w->bytes);
	if (!r)
		r = outfile_write_at(w->fd, sh->ring, it.len - first, w->bytes + first);
	if (r < 0) {
		disk_worker__fail(w, r, &it.before);
		return;
	}
	w->bytes += it.len;
	w->dirty_ns = w->dirty_ns ? w->dirty_ns : now_ns();
	atomic_store(&sh->file_bytes, w->bytes);
	atomic_store(&sh->tail, tail + sizeof(it) + it.len);
}

/*
 * A sync may take any time, and no frame is taken meanwhile: where many wait, as after a disk has stalled, they are written
 * first. But no more of them than one full ring.
 */
static int disk_worker__is_sync_due(const struct disk_worker *w)
{
	const struct shared *sh = w->sh;
	uint64_t waits = atomic_load(&sh->head) - atomic_load(&sh->tail);

	if (!w->dirty_ns || now_ns() - w->dirty_ns < REC_DISK_SYNC_NS)
		return 0;
	return waits <= sh->ring_bytes / 8 || w->bytes - w->synced >= sh->ring_bytes || disk_worker__has_failed(w);
}

static void disk_worker__sync(struct disk_worker *w)
{
	w->synced = w->bytes;
	if (w->fd >= 0 && fdatasync(w->fd) < 0)
		atomic_store(&w->sh->sync_error, -errno);
	if (w->dir_fd >= 0) { /* once: it has its name from the beginning */
		(void)fsync(w->dir_fd);
		close(w->dir_fd);
		w->dir_fd = -1;
	}
	w->dirty_ns = 0;
}

static void disk_worker__take_fds(struct disk_worker *w, struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fds[2] = { -1, -1 };
	size_t len;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	len = c->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(c), len < sizeof(fds) ? len : sizeof(fds));
	w->fd = fds[0];
	w->dir_fd = fds[1];
}

static void disk_worker__listen(struct disk_worker *w, int timeout_ms)
{
	struct pollfd p = { .fd = w->sock, .events = POLLIN };
	char bytes[256], control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec io = { bytes, sizeof(bytes) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	ssize_t n;

	if (w->is_over || poll(&p, 1, timeout_ms) <= 0)
		return;
	n = recvmsg(w->sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		disk_worker__take_fds(w, &m);
	else if (!n || (errno != EAGAIN && errno != EINTR))
		w->is_over = 1;
}

static void disk_worker__answer(struct disk_worker *w, uint32_t asked)
{
	disk_worker__sync(w);
	atomic_store(&w->sh->sync_done, asked);
	disk_worker__wake(w);
}

static void disk_worker__run(struct disk_worker *w)
{
	struct shared *sh = w->sh;

	for (;;) {
		uint32_t asked = atomic_load(&sh->sync_asked);
		int has_failed = disk_worker__has_failed(w);
		int has_any = atomic_load(&sh->tail) != atomic_load(&sh->head);
		int has_more = has_any && !has_failed && w->fd >= 0;

		if (w->is_over && !has_more)
			break;
		if (has_more)
			disk_worker__write(w);
		else if (!has_any && asked != atomic_load(&sh->sync_done))
			disk_worker__answer(w, asked);
		if (disk_worker__is_sync_due(w))
			disk_worker__sync(w);
		disk_worker__listen(w, has_more ? 0 : w->dirty_ns ? (int)(REC_DISK_SYNC_NS / 1000000) : -1);
	}
	disk_worker__sync(w);
}

/* Closes all that its parent has open, above all probes, which would outlive it; drops all rights. */
static void disk_worker__main(struct shared *sh, int sock, const struct asker *asker, int (*confine)(void))
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGXFSZ, SIGTSTP };
	struct disk_worker w = { .sh = sh, .sock = 0, .fd = -1, .dir_fd = -1 };

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN); /* its parent ends it */
	(void)prctl(PR_SET_NAME, "memtrace-disk");
	if (dup2(sock, 0) < 0 || syscall(SYS_close_range, 1, ~0u, 0) < 0 || chdir("/") < 0)
		_exit(1);
	privs_drop_bounds(0); /* while we may */
	if ((asker && asker__become(asker, NULL) < 0) || (confine ? confine() : privs_drop()) < 0)
		_exit(1);
	disk_worker__run(&w);
	_exit(0);
}

/* --- its parent ---------------------------------------------------------------------------------------- */

int rec_disk__new(struct rec_disk **ret, size_t ring_bytes, const struct asker *asker, int (*confine)(void), struct err *err)
{
	struct rec_disk *d = calloc(1, sizeof(*d));
	int socks[2] = { -1, -1 };

	if (!d)
		return err_set(err, -ENOMEM, "out of memory");
	d->map_bytes = sizeof(struct shared) + ring_bytes;
	d->sh = mmap(NULL, d->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->sh != MAP_FAILED)
		d->sh->ring_bytes = ring_bytes;
	if (d->sh == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0 || (d->pid = fork()) < 0) {
		int e = errno;

		if (d->sh != MAP_FAILED)
			munmap(d->sh, d->map_bytes);
		if (socks[0] >= 0) {
			close(socks[0]);
			close(socks[1]);
		}
		free(d);
		return err_set(err, -e, "starting the process that writes the recording: %s", strerror(e));
	}
	if (!d->pid)
		disk_worker__main(d->sh, socks[1], asker, confine);
	close(socks[1]);
	d->sock = socks[0];
	*ret = d;
	return 0;
}

int rec_disk__begin(struct rec_disk *d, int fd, int dir_fd)
{
	char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	int fds[2] = { fd, dir_fd };
	size_t len = (dir_fd >= 0 ? 2 : 1) * sizeof(int);
	struct iovec io = { "", 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(len) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), fds, len);
	return sendmsg(d->sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static uint64_t ring_in(struct shared *sh, uint64_t at, const void *from, size_t len)
{
	size_t to = at % sh->ring_bytes, first = sh->ring_bytes - to < len ? sh->ring_bytes - to : len;

	if (len) {
		memcpy(sh->ring + to, from, first);
		memcpy(sh->ring, (const uint8_t *)from + first, len - first);
	}
	return at + len;
}

/* Full sockets have woken it before. */
static int rec_disk__wake(const struct rec_disk *d)
{
	return send(d->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN ? -EPIPE : 0;
}

int rec_disk__put(struct rec_disk *d, const void *head, size_t head_len, const void *data, size_t len,
		  const struct rec_mark *before)
{
	struct queued_frame it = { .len = head_len + len, .before = *before };
	struct shared *sh = d->sh;
	uint64_t at = atomic_load(&sh->head);

	if (sizeof(it) + it.len > sh->ring_bytes - (at - atomic_load(&sh->tail)))
		return rec_disk__wake(d) < 0 ? -EPIPE : -EAGAIN;
	at = ring_in(sh, at, &it, sizeof(it));
	at = ring_in(sh, at, head, head_len);
	at = ring_in(sh, at, data, len);
	atomic_store(&sh->head, at);
	return rec_disk__wake(d);
}

int rec_disk__failed(struct rec_disk *d, struct rec_mark *ret)
{
	struct shared *sh = d->sh;
	uint32_t no = atomic_load(&sh->fail_no);
	int code;

	if (no == atomic_load(&sh->seen_no))
		return 0;
	code = sh->fail_code;
	*ret = sh->fail_mark;
	atomic_store(&sh->good_from, atomic_load(&sh->head));
	atomic_store(&sh->seen_no, no);
	(void)rec_disk__wake(d);
	return code;
}

int rec_disk__wait(struct rec_disk *d, uint64_t wait_ns)
{
	uint64_t end = now_ns() + wait_ns, now;
	struct pollfd p = { .fd = d->sock, .events = POLLIN };
	struct shared *sh = d->sh;
	char bytes[256];

	atomic_store(&sh->sync_asked, ++d->sync_no);
	if (rec_disk__wake(d) < 0)
		return -EPIPE;
	while (atomic_load(&sh->sync_done) != d->sync_no) {
		if (atomic_load(&sh->fail_no) != atomic_load(&sh->seen_no))
			return sh->fail_code;
		now = now_ns();
		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((end - now) / 1000000 + 1)) > 0 && !recv(d->sock, bytes, sizeof(bytes), MSG_DONTWAIT))
			return -EPIPE;
	}
	return 0;
}

uint64_t rec_disk__bytes(const struct rec_disk *d)
{
	return atomic_load(&d->sh->file_bytes);
}

int rec_disk__sync_error(const struct rec_disk *d)
{
	return atomic_load(&d->sh->sync_error);
}

uint64_t rec_disk__cpu_ns(const struct rec_disk *d)
{
	struct timespec ts;
	clockid_t clock;

	if (!d || clock_getcpuclockid(d->pid, &clock) || clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

pid_t rec_disk__pid(const struct rec_disk *d)
{
	return d->pid;
}

void rec_disk__free(struct rec_disk *d)
{
	if (!d)
		return;
	close(d->sock);
	for (int i = 0; i < 100 && !waitpid(d->pid, NULL, WNOHANG); i++)
		usleep(1000); /* a process that waits for the disk is not waited for */
	munmap(d->sh, d->map_bytes);
	free(d);
}
