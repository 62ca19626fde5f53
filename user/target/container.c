/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Kubernetes and the runtimes name a container's cgroup in one of these ways (systemd's and cgroupfs' drivers; containerd,
 * CRI-O, Docker, Podman; cgroup v1 has a line for each controller, v2 one):
 *
 *	0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0ca3_..._9d.slice/cri-containerd-<64 hex>.scope
 *	4:memory:/kubepods/besteffort/pod0ca3-...-9d/<64 hex>
 *	0::/system.slice/docker-<64 hex>.scope
 *
 * Seen from a container the path begins with "/../..". The first pod counts, and the first container in it: cgroups further
 * down are made by what runs in there, under names of its choice.
 */
#include "target/container.h"

#include <stdio.h>
#include <string.h>

#define ID_LEN 64

struct path_word {
	const char *at;
	size_t len;
};

static int is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* A pod's uid: 8-4-4-4-12 hex digits, with _ where systemd gives - a meaning; of a static pod 32 digits. */
static int take_uid(struct path_word w, char *ret)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t n = w.len >= 9 && w.at[8] != '-' && w.at[8] != '_' ? 32 : sizeof(form) - 1;

	if (w.len < n || (w.len > n && w.at[n] != '.' && w.at[n] != ':'))
		return 0;
	for (size_t i = 0; i < n; i++) {
		int is_dash = n > 32 && form[i] == '-';

		if (is_dash ? w.at[i] != '-' && w.at[i] != '_' : !is_hex(w.at[i]))
			return 0;
		ret[i] = is_dash ? '-' : w.at[i];
	}
	ret[n] = '\0';
	return 1;
}

/* "pod<uid>", or that after "kubepods-" and a class of service. */
static int find_pod(struct path_word w, char *ret)
{
	if (w.len > 3 && !memcmp(w.at, "pod", 3) && take_uid((struct path_word){ w.at + 3, w.len - 3 }, ret))
		return 1;
	if (w.len < 8 || memcmp(w.at, "kubepods", 8))
		return 0;
	for (size_t i = 8; i + 4 < w.len; i++)
		if (!memcmp(w.at + i, "-pod", 4) && take_uid((struct path_word){ w.at + i + 4, w.len - i - 4 }, ret))
			return 1;
	return 0;
}

/* 64 digits, alone or between a runtime's name and ".scope". */
static int find_id(struct path_word w, char *ret)
{
	size_t from = 0;

	for (size_t i = 0; i <= w.len; i++) {
		if (i < w.len && is_hex(w.at[i]))
			continue;
		if (i - from == ID_LEN && (i == w.len || w.at[i] == '.') && (!from || strchr("-:", w.at[from - 1]))) {
			memcpy(ret, w.at + from, ID_LEN);
			ret[ID_LEN] = '\0';
			return 1;
		}
		from = i + 1;
	}
	return 0;
}

static void read_path(struct container *c, const char *at, const char *end)
{
	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		struct path_word w = { at, (size_t)((slash ? slash : end) - at) };

		if (!c->pod_uid[0] && find_pod(w, c->pod_uid))
			c->id[0] = '\0'; /* what came before is a container that the machine itself runs in */
		if (!c->id[0])
			(void)find_id(w, c->id);
		at = slash ? slash + 1 : end;
	}
}

int container_of(const char *text, size_t len, struct container *ret)
{
	const char *at = text, *end = text + len;

	*ret = (struct container){ 0 };
	while (at < end) {
		const char *nl = memchr(at, '\n', (size_t)(end - at)), *stop = nl ? nl : end;
		struct container c = { 0 };

		for (int i = 0; i < 2 && at; i++) { /* skips the number and the controllers, which contain no colon */
			at = memchr(at, ':', (size_t)(stop - at));
			at = at ? at + 1 : NULL;
		}
		if (at)
			read_path(&c, at, stop);
		if (c.pod_uid[0] ? !ret->pod_uid[0] || (c.id[0] && !ret->id[0]) : c.id[0] && !ret->pod_uid[0] && !ret->id[0])
			*ret = c;
		at = stop + 1;
	}
	return ret->id[0] || ret->pod_uid[0];
}

/* Usual names for values of the downward API; HOSTNAME is a pod's name unless set otherwise. */
static const char *const names[] = { "POD_NAME", "POD_NAMESPACE", "CONTAINER_NAME", "HOSTNAME" };

/* Names of Kubernetes: RFC 1123. No other value is taken from an environment. */
static int is_name(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	return len && len <= CONTAINER_NAME_MAX && !text[len] && text[0] != '.' && text[0] != '-';
}

static int tell_environ(const char *text, size_t len, int (*fn)(void *ctx, const char *label), void *ctx)
{
	const char *at = text, *end = text + len;
	int r = 0;

	while (at < end && !r) {
		const char *nul = memchr(at, '\0', (size_t)(end - at));

		if (!nul)
			break;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !r; i++) {
			size_t n = strlen(names[i]);

			if (!strncmp(at, names[i], n) && at[n] == '=' && is_name(at + n + 1))
				r = fn(ctx, at);
		}
		at = nul + 1;
	}
	return r;
}

int container_labels(const struct container *c, const char *env, size_t len, int (*fn)(void *ctx, const char *label),
		     void *ctx)
{
	char label[CONTAINER_LABEL_BYTES];
	int r = 0;

	if (c->pod_uid[0]) {
		snprintf(label, sizeof(label), "POD_UID=%s", c->pod_uid);
		r = fn(ctx, label);
	}
	if (!r && c->id[0]) {
		snprintf(label, sizeof(label), "CONTAINER_ID=%s", c->id);
		r = fn(ctx, label);
	}
	return r ? r : tell_environ(env, len, fn, ctx);
}
