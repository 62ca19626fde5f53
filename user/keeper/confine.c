/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "keeper"
#include "keeper/confine.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/capabilities.h"
#include "base/err.h"
#include "base/log.h"
#include "keeper/filter.h"


#define BIT(cap) (1ull << (cap))

/* What follows holds only for one thread, and those that it starts. */
static int check_one_thread(struct err *err)
{
	struct stat st;

	if (stat("/proc/self/task", &st) < 0) {
		err_set(err, -errno, "looking at ourselves in /proc: %s", strerror(errno));
		return err_hint(err, "mount -t proc proc /proc");
	}
	return st.st_nlink == 3 ? 0 : /* ".", "..", and one thread */
				  err_set(err, -EBUSY, "giving rights away: there are threads already");
}

static int drop_and_confine(const char *const *writes, size_t writes_cnt)
{
	int r = privs_drop();

	if (!r)
		r = filter_writes(writes, writes_cnt);
	if (r != -EOPNOTSUPP)
		return r;
	log_info("this kernel has no Landlock: files may be written wherever user %u may", (unsigned)geteuid());
	return 0;
}

int confine_self(const struct asker *as, const char *writes, struct err *err)
{
	int r = check_one_thread(err);

	if (r < 0)
		return r;
	privs_drop_bounds(0); /* while we still may */
	r = asker__become(as, err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_set(err, -errno, "hiding from debuggers: %s", strerror(errno));
	r = drop_and_confine(&writes, writes != NULL);
	if (!r)
		r = filter_self();
	return r < 0 ? err_set(err, r, "giving rights away: %s", strerror(-r)) : 0;
}

int confine_reader(const char *const *writes, size_t writes_cnt, struct err *err)
{
	int r = drop_and_confine(writes, writes_cnt);

	if (!r)
		r = filter_self();
	if (r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP) {
		log_info("this kernel has no filter of system calls: %s", strerror(-r));
		r = 0;
	}
	return r < 0 ? err_set(err, r, "giving rights away: %s", strerror(-r)) : 0;
}

int confine_starter(const char *const *writes, size_t writes_cnt, struct err *err)
{
	int r = drop_and_confine(writes, writes_cnt);

	return r < 0 ? err_set(err, r, "giving rights away: %s", strerror(-r)) : 0;
}

/*
 * SYS_ADMIN: uprobes, map_files on kernels before 5.9. SYS_RESOURCE: locked memory before 5.11. IPC_LOCK: perf's rings.
 * SYS_NICE: the job waits while probes are set (base/urgent.h).
 */
#define KEPT (BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYS_RESOURCE) | \
	      BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_NICE) | BIT(CAP_PERFMON) | BIT(CAP_BPF) | BIT(CAP_CHECKPOINT_RESTORE))

int confine_keeper(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	privs_drop_bounds(KEPT);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, caps) < 0)
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t kept = (uint32_t)(KEPT >> 32 * i);

		caps[i].permitted &= kept;
		caps[i].effective &= kept;
		caps[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, caps) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	return filter_keeper();
}
