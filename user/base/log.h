/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * log: messages on stderr, by level. Library rooms use debug and info only; errors travel in struct err. Each .c file that logs
 * defines `LOG_MODULE "plan"`, or its own name, before including this.
 */
#ifndef MT_BASE_LOG_H
#define MT_BASE_LOG_H

enum log_level { LOG_QUIET = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_DEBUG = 3 };

#ifndef LOG_MODULE
#define LOG_MODULE "memtrace"
#endif

void log_set_level(enum log_level level); /* default LOG_WARN */
enum log_level log_get_level(void);
void log_write(enum log_level level, const char *module, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_warn(...) log_write(LOG_WARN, LOG_MODULE, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, LOG_MODULE, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_get_level() >= LOG_DEBUG)                                                  \
			log_write(LOG_DEBUG, LOG_MODULE, __VA_ARGS__);                             \
	} while (0)

#endif
