/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * report_words: answers that several views need from a report, in one place, so that text, JSON and
 * the live table never disagree.
 */
#ifndef MT_VIEW_REPORT_WORDS_H
#define MT_VIEW_REPORT_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#include "event/rank_label.h"

struct report;
struct report_dev;

/* Sum of the peaks of the layer that operators count (struct report_op): at_peak is a share of it. */
uint64_t report_peak_sum(const struct report *r);
/* The GPU with the highest peak, else the CPU's tensors, else malloc's; NULL: there is none. */
const struct report_dev *report_dev_main(const struct report *r);
/* Did this source have probes ("host", "kernel")? */
int report_has_source(const struct report *r, const char *source);
uint64_t report_events_sum(const struct report *r);
/* By design, and no loss: allocations beyond the rate of native stacks (--stacks), which have only their Python frames. */
uint64_t report_sampled(const struct report *r);
/* RSS of all live processes, and the most that all had together. */
uint64_t report_rss(const struct report *r, uint64_t *ret_peak);
/* Bytes of the framework's CPU blocks: the most of the RSS that is accounted for. */
uint64_t report_framework_live(const struct report *r);
/* Has any framework device a known category? */
int report_has_cats(const struct report *r);
/* Do torch.profiler's words differ from the use of a part (a hundredth at least) of a device's peak? */
int report_has_use(const struct report *r);
/* The note on the column "by use", below a table. */
extern const char report_words_use[];
/* "fw_new", "op" …: key in JSON; "tensor alloc", "operator" …: for people. By enum mt_prog; "?" unknown. */
const char *prog_key(unsigned prog);
const char *prog_words(unsigned prog);
/* "file", "anon" …: keys of enum mt_rss; "pss", "private" …: of enum mt_use. */
const char *rss_word(unsigned kind);
const char *use_word(unsigned kind);
/* "parameter", "buffer" …: by enum ev_tensor, for people and as keys; "?" unknown. */
const char *tensor_kind_words(unsigned kind);
const char *tensor_kind_key(unsigned kind);
/* "detached", "target gone", "failed", or "cut" when no end was seen. */
const char *report_end_word(const struct report *r);
/* "8.43 s traced", or "4.03 s of 8.43 s traced": the rest was before probes were set, or between windows. */
#define TRACED_MAX 64
const char *report_words_traced(char buf[TRACED_MAX], const struct report *r);
/* "199 steps (27/s), 3 traced": of a recording of some steps all steps seen; "" where there were none. */
#define STEPS_WORDS_MAX 96
const char *report_words_steps(char buf[STEPS_WORDS_MAX], const struct report *r);
/* "running", "exited 0", "signal 9", "detached"; buf at least 32 bytes. */
struct report_proc;
const char *proc_state(char *buf, const struct report_proc *p);
/* A process of a job for people: "rank 3", or its pid. */
const char *proc_words(char *buf, size_t size, const struct report *r, uint32_t pid);

/* A command line without the interpreter, its options and directories; as it is where it does not fit. */
const char *words_of_command(char buf[TEXT_BYTES_MAX], const char *cmdline);

/* The number of jobs that the verdict is about. */
size_t report_words_jobs(const struct report *r);

#endif
