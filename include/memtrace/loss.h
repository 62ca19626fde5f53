/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR LGPL-2.1-only */
/*
 * loss: every way in which memtrace can lose or blur data, one number each.
 *
 * Shared by the BPF side (which counts the first group), the user side (which counts the rest),
 * recordings (MT_EV_LOSS carries these numbers) and every view. Append only: numbers are in files.
 */
#ifndef MT_LOSS_H
#define MT_LOSS_H

enum mt_loss {
	MT_LOSS_NONE = 0,
	/* kernel side */
	MT_LOSS_RING = 1,	  /* ring buffer full: the event is gone */
	MT_LOSS_THREAD_STATE = 2, /* no memory for a thread's state, or not now: the event goes without an op */
	MT_LOSS_STACK_DEEP = 3,	  /* more than MT_FRAMES_MAX open ops: the op is not on the stack */
	MT_LOSS_NAME_TABLE = 4,	  /* a run-time name could not be remembered as sent: it is sent again */
	MT_LOSS_READ_FAULT = 5,	  /* memory of the target could not be read (paged out, bad pointer) */
	MT_LOSS_PENDING = 6,	  /* a return without its entry, or the reverse (host allocator, syscalls) */
	MT_LOSS_LIVE_TABLE = 7,	  /* --min-size: table of live pointers full */
	MT_LOSS_ARGS = 8,	  /* flow: tensors of a call that did not fit into its record, or are not as expected */
	MT_LOSS_STACK_RATE = 9,	  /* --stacks: more allocations a second than native stacks are taken of */
	/* user side */
	MT_LOSS_DECODE = 16,	/* record of unknown kind or wrong length */
	MT_LOSS_ORDER = 17,	/* came later than the order window: kept, its time moved forward */
	MT_LOSS_FRAME = 18,	/* the op an event points at was itself lost: attribution unknown */
	MT_LOSS_BLOCKS = 19,	/* table of live blocks full: allocation not followed */
	MT_LOSS_NAMES = 20,	/* table of names full, or a process's share of it: shown as "?" */
	MT_LOSS_THREADS = 21,	/* table of threads or processes full */
	MT_LOSS_REUSE = 22,	/* allocation at an address that is live: its free was lost */
	MT_LOSS_SIDEBAND = 23,	/* perf sideband records lost: a library or child may be missed */
	MT_LOSS_RECORDING = 24, /* could not be written to the recording: an error (disk full) */
	MT_LOSS_SITES = 25,	/* probe sites that were found but could not be attached */
	MT_LOSS_STACKS = 26,	/* --stacks: table of stacks full, or its Python frames were lost */
	MT_LOSS_DAMAGED = 27,	/* in a damaged part of the recording */
	MT_LOSS_FILES = 28,	/* files of a process that were not looked at: changed meanwhile, or too much to read */
	MT_LOSS_STALLED = 29,	/* not in the recording: the disk took nothing, and the waiting events had filled their room */
	MT_LOSS_SHARE = 30,	/* left out so that others lose nothing: its process sent too much (kernel side too) */
	MT_LOSS_MAX = 32,
};

/* Field names under "lost" in report --json; NULL for unused numbers. */
#define MT_LOSS_NAMES_INIT                                                                         \
	{                                                                                          \
		[MT_LOSS_RING] = "ring", [MT_LOSS_THREAD_STATE] = "thread_state",                  \
		[MT_LOSS_STACK_DEEP] = "stack_deep", [MT_LOSS_NAME_TABLE] = "name_table",          \
		[MT_LOSS_READ_FAULT] = "read_fault", [MT_LOSS_PENDING] = "pending",                \
		[MT_LOSS_LIVE_TABLE] = "live_table", [MT_LOSS_ARGS] = "args", [MT_LOSS_DECODE] = "decode",                  \
		[MT_LOSS_ORDER] = "order", [MT_LOSS_FRAME] = "frame", [MT_LOSS_BLOCKS] = "blocks", \
		[MT_LOSS_NAMES] = "names", [MT_LOSS_THREADS] = "threads",                          \
		[MT_LOSS_REUSE] = "reuse", [MT_LOSS_SIDEBAND] = "sideband",                        \
		[MT_LOSS_RECORDING] = "recording", [MT_LOSS_SITES] = "sites",                      \
		[MT_LOSS_STACK_RATE] = "stack_rate", [MT_LOSS_STACKS] = "stacks",                  \
		[MT_LOSS_DAMAGED] = "damaged", [MT_LOSS_FILES] = "files",                          \
		[MT_LOSS_STALLED] = "stalled", [MT_LOSS_SHARE] = "share",                          \
	}

#endif
