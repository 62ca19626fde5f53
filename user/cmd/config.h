/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * config: defaults for options, from /etc/memtrace.conf and then $XDG_CONFIG_HOME/memtrace/config (~/.config without it): lines
 * of "option = value", with options of the table by their long names; what begins with # is a comment. The command line comes
 * after both, and wins.
 *
 * A file that somebody else could have written is not used: it must be a regular file of the user who reads it or of root (for
 * root only of root), not writable for group or others. Else it is passed over with a warning.
 */
#ifndef MT_CMD_CONFIG_H
#define MT_CMD_CONFIG_H

#include "cmd/options.h"

#define CONFIG_SYSTEM "/etc/memtrace.conf"
#define CONFIG_BYTES_MAX 65536

/* Reads options that this command has. 0, or -EINVAL: an invalid line, with file and line; the text lives until the end. */
int config_read(struct options *o, struct err *err);

#endif
