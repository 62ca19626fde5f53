/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mhd: libmicrohttpd, opened when a server is started. Linked, it and the TLS library that it brings along took a third of
 * the start of every command, and only serve needs them.
 */
#ifndef MT_SERVE_MHD_H
#define MT_SERVE_MHD_H

#include <microhttpd.h>

struct err;

#define MHD_CALLS(X) \
	X(add_response_header) X(create_response_from_buffer) X(create_response_from_callback) \
	X(destroy_response) X(get_connection_info) X(get_daemon_info) X(get_timeout) \
	X(lookup_connection_value) X(queue_response) X(resume_connection) X(run) X(start_daemon) \
	X(stop_daemon) X(suspend_connection)

struct mhd {
#define MHD_CALL(name) __typeof__(MHD_##name) *name;
	MHD_CALLS(MHD_CALL)
#undef MHD_CALL
};

extern struct mhd mhd; /* MHD_run is mhd.run, once mhd_open has been called */
/* 0, or -ENOPKG with a hint. Stays open. */
int mhd_open(struct err *err);

#endif
