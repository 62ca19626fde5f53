/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * container: the container and pod of a process: from /proc/PID/cgroup, written by the kernel and the maker of the container,
 * and from its environment, which the process itself may change. No I/O; fuzzed (tests/fuzz/fuzz_maps.c).
 */
#ifndef MT_TARGET_CONTAINER_H
#define MT_TARGET_CONTAINER_H

#include <stddef.h>

#define CONTAINER_NAME_MAX 253 /* of a pod's name: RFC 1123 */
#define CONTAINER_LABEL_BYTES 80

struct container {
	char id[65];	  /* "": none */
	char pod_uid[37]; /* with dashes; "": none */
};

/* text: content of /proc/PID/cgroup. 1: it is in a container or a pod. */
int container_of(const char *text, size_t len, struct container *ret);
/*
 * "POD_UID=…", "CONTAINER_ID=…", and POD_NAME, POD_NAMESPACE, CONTAINER_NAME, HOSTNAME of its environment where their values
 * are valid Kubernetes names. fn != 0 stops and is returned.
 */
int container_labels(const struct container *c, const char *env, size_t len, int (*fn)(void *ctx, const char *label),
		     void *ctx);

#endif
