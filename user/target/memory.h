/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * memory: reads another process's memory and changes nothing about it.
 *
 * process_vm_readv(2) does more than read: it pins the pages, and since Linux 5.19 an anonymous page that the process shares
 * with its parent or child since a fork is copied first, so that the pin is on a page of its own (gup_must_unshare() in
 * mm/internal.h). One look at a loader's objects made 90 MiB of copies in each of three processes. /proc/PID/mem copies none,
 * but where a page has to come from a disk or a FUSE server it keeps the process from mapping memory until that is there
 * (__access_remote_vm() retries no fault), and it can ask a driver for its device's memory, or read what the process itself may
 * not. So each page is looked up first (/proc/PID/pagemap): pages that are present, anonymous and also mapped elsewhere are
 * read through /proc/PID/mem, all others with process_vm_readv.
 */
#ifndef MT_TARGET_MEMORY_H
#define MT_TARGET_MEMORY_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst, Linux 6.18). */
#define PAGE_IS_OWN (1ull << 56)   /* mapped by no other process */
#define PAGE_IS_FILES (1ull << 61) /* or shared memory */
#define PAGE_IS_THERE (1ull << 63)

/*
 * All ranges into buf, one after the other, `len` bytes in all. 0; -EFAULT, -ESRCH, or open(2)'s errors: then a part of buf may
 * have been written.
 */
int memory_read(pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len);
/* Frees this thread's cache of unreadable mappings, which is of the process that it read last. */
void memory_done(void);

#endif
