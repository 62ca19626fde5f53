/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * seccomp's filter sees numbers, not names: it cannot decide which files may be opened. Landlock's rules see files. What is
 * refused gives EPERM and does not end the process: a library that tries something new goes on without it.
 */
#include "keeper/filter.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- system calls ------------------------------------------------------------------------------------- */

static const int allowed[] = {
	/* files */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(pwrite64),
	SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(lseek), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(close),
	SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe2), SCMP_SYS(fcntl),
	SCMP_SYS(flock), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
	SCMP_SYS(sync_file_range), SCMP_SYS(fadvise64), SCMP_SYS(stat), SCMP_SYS(fstat), SCMP_SYS(lstat),
	SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd),
	SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(link),
	SCMP_SYS(linkat), SCMP_SYS(umask), SCMP_SYS(memfd_create),
	/* memory, threads, time */
	SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(brk),
	SCMP_SYS(msync), SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(restart_syscall),
	/* waiting */
	SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd2), SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime), SCMP_SYS(signalfd4), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigpending),
	SCMP_SYS(sigaltstack), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(pidfd_open),
	/* sockets that are open: the keeper's, those of serve */
	SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg),
	SCMP_SYS(sendfile), SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	/* our identity and environment */
	SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
	SCMP_SYS(getegid), SCMP_SYS(getgroups), SCMP_SYS(getresuid), SCMP_SYS(getresgid), SCMP_SYS(getpgrp),
	SCMP_SYS(getpgid), SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage), SCMP_SYS(times),
};

/* A terminal's, without those that type into it or take it; and all of NVIDIA's driver. */
static const unsigned long terminal[] = {
	TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCGWINSZ, TIOCGPGRP, TIOCOUTQ, TCFLSH, TCXONC, TCSBRK, FIONREAD, FIONBIO, FIOCLEX,
};

#define NVIDIA_IOCTL 'F'

static int allow_ioctls(scmp_filter_ctx c)
{
	int r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff00, NVIDIA_IOCTL << 8));

	for (size_t i = 0; i < COUNT(terminal) && !r; i++)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, terminal[i]));
	return r;
}

/* Calls of which only some arguments are allowed. */
static int allow_some(scmp_filter_ctx c)
{
	uint64_t self = (uint64_t)getpid();
	int r = allow_ioctls(c);

	/* Threads, no processes. Flags of clone3 are in memory, so it is left out: glibc uses clone then. */
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_NEWUSER, CLONE_THREAD));
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* abort() */
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, self));
	/* For the launched command, which was traced before: it is detached, or ended. */
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ptrace), 1, SCMP_A0(SCMP_CMP_EQ, PTRACE_DETACH));
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(ptrace), 1, SCMP_A0(SCMP_CMP_EQ, PTRACE_CONT));
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
				     SCMP_A2(SCMP_CMP_EQ, 0));
	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	return r;
}

static int load(scmp_filter_ctx c)
{
	int r = seccomp_attr_set(c, SCMP_FLTATR_CTL_NNP, 0); /* set already */

	if (!r)
		r = seccomp_attr_set(c, SCMP_FLTATR_CTL_TSYNC, 1);
	return r ? r : seccomp_load(c);
}

int filter_self(void)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = c ? allow_some(c) : -ENOMEM;

	for (size_t i = 0; i < COUNT(allowed) && !r; i++)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
	if (!r)
		r = load(c);
	seccomp_release(c);
	return r;
}

/* For the keeper, a list of forbidden calls: libbpf's needs change with kernels. */
static const int refused[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_getfd), SCMP_SYS(mount), SCMP_SYS(umount2),
	SCMP_SYS(move_mount), SCMP_SYS(fsopen), SCMP_SYS(open_tree), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns),
	SCMP_SYS(unshare), SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(sethostname),
	SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(connect), SCMP_SYS(listen), SCMP_SYS(keyctl),
	SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(rename), SCMP_SYS(renameat),
	SCMP_SYS(renameat2), SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(mknod),
	SCMP_SYS(mknodat), SCMP_SYS(chmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(lchown), SCMP_SYS(fchownat),
	SCMP_SYS(truncate), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(open_by_handle_at), SCMP_SYS(io_uring_setup),
	SCMP_SYS(userfaultfd),
};

static int refuse(scmp_filter_ctx c, const int *calls, size_t cnt)
{
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++)
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
	if (!r)
		r = load(c);
	seccomp_release(c);
	return r;
}

int filter_keeper(void)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

	return c ? refuse(c, refused, COUNT(refused)) : -ENOMEM;
}

int filter_keeper_more(void)
{
	static const int calls[] = { SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(kill), SCMP_SYS(tkill) };
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
	int r = c ? seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) : -ENOMEM;

	if (!r)
		r = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (!r)
		return refuse(c, calls, COUNT(calls));
	seccomp_release(c);
	return r;
}

/* --- where files may be written -------------------------------------------------------------------------- */

/* Of ABI 3 (kernel 6.2); the headers of older distributions lack it. */
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)
#define FILE_RIGHTS (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define DIR_RIGHTS (FILE_RIGHTS | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_REFER)
#define ALL_RIGHTS (DIR_RIGHTS | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR | \
		    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
		    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* What the kernel's version supports. */
static uint64_t known_rights(long abi)
{
	return ALL_RIGHTS & ~(abi < 2 ? FS_REFER : 0) & ~(abi < 3 ? FS_TRUNCATE : 0);
}

static int allow_below(int rules, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr a = { .allowed_access = rights };
	struct stat st;
	long r;

	a.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (a.parent_fd < 0)
		return -errno;
	if (!fstat(a.parent_fd, &st) && !S_ISDIR(st.st_mode))
		a.allowed_access &= FILE_RIGHTS;
	r = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
	r = r < 0 ? -errno : 0;
	close(a.parent_fd);
	return (int)r;
}

/* Devices that are written to: the terminal, NVIDIA's. Missing ones are not needed. */
static void allow_devices(int rules, uint64_t rights)
{
	static const char *const patterns[] = { "/dev/null", "/dev/tty", "/dev/nvidia*" };
	glob_t g = { 0 };

	for (size_t i = 0; i < COUNT(patterns); i++)
		if (glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &g) == GLOB_NOSPACE)
			break;
	for (size_t i = 0; i < g.gl_pathc; i++)
		(void)allow_below(rules, g.gl_pathv[i], rights);
	globfree(&g);
}

int filter_writes(const char *const *names, size_t cnt)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr a = { .handled_access_fs = known_rights(abi) };
	int rules, r = 0;

	if (abi < 1)
		return -EOPNOTSUPP;
	rules = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof(a), 0);
	if (rules < 0)
		return -errno;
	allow_devices(rules, FILE_RIGHTS & a.handled_access_fs);
	for (size_t i = 0; i < cnt && !r; i++) {
		r = allow_below(rules, names[i], DIR_RIGHTS & a.handled_access_fs);
		if (r == -ENOENT || r == -EACCES || r == -ENOTDIR)
			r = 0; /* no file can be made there: reported when it is tried */
	}
	if (!r && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		r = -errno;
	close(rules);
	return r;
}
