/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Two recordings, whatever they say, merged, with their checksums right: what is written can be read to its end, its times
 * ascend, and its ranks make up the whole. The first byte says where the second file begins.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "event/merge.h"
#include "event/recording.h"
#include "fuzz/mtr_fix.h"
#include "model/model.h"
#include "model/ranks.h"
#include "timeline/ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static int file_of(const uint8_t *data, size_t size, char path[32])
{
	uint8_t *copy = malloc(size ? size : 1);
	int fd = memfd_create("recording", MFD_CLOEXEC);

	require(copy && fd >= 0);
	if (size)
		memcpy(copy, data, size);
	mtr_fix_checksums(copy, size);
	require(write(fd, copy, size) == (ssize_t)size);
	free(copy);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static void replay(const char *path)
{
	struct report_ranks *rep = NULL;
	const struct event *evs;
	struct rec_reader *r;
	struct ranks *ranks;
	struct model *whole;
	struct model_live live;
	uint64_t last_ns = 0, sum;
	size_t cnt;

	require(rec_reader__open(&r, path, NULL) == 0);
	ranks = ranks__new(rec_reader__names(r), CLASSES_COMPAT);
	whole = model__new(rec_reader__names(r), NULL);
	require(ranks && whole);
	while (rec_reader__next(r, &evs, &cnt, NULL) == 1)
		for (size_t i = 0; i < cnt; i++) {
			require(evs[i].ts_ns >= last_ns);
			last_ns = evs[i].ts_ns;
			require(!model__handle(whole, &evs[i]) && !ranks__handle(ranks, &evs[i]));
		}
	require(ranks__report(ranks, 5, &rep) == 0);
	live = model__live(whole);
	sum = rep->others_live;
	for (size_t i = 0; i < rep->cnt; i++)
		sum += rep->rows[i].live;
	if (rep->memory == RANK_MEM_CPU && !rep->not_listed)
		require(sum == live.cpu);
	report_ranks__free(rep);
	ranks__free(ranks);
	model__free(whole);
	rec_reader__free(r);
}

static int count_line(void *lines, const char *line)
{
	require(line[0] != '\0');
	(*(size_t *)lines)++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char a[32], b[32], out[48];
	const char *const paths[] = { a, b };
	struct merge_info info;
	size_t split, lines = 0;
	int fds[2];

	if (size < 1)
		return 0;
	split = (size - 1) * data[0] / 255;
	fds[0] = file_of(data + 1, split, a);
	fds[1] = file_of(data + 1 + split, size - 1 - split, b);
	snprintf(out, sizeof(out), "/dev/shm/mt-fuzz-merge-%d", (int)getpid());
	if (!merge_files(paths, 2, out, &(struct outfile_how){ .force = 1 }, MERGE_ALIGN_STEPS, 0, &info, NULL)) {
		require(!merge_info__words(&info, 0, count_line, &lines) && lines == 2);
		replay(out);
	}
	merge_info__done(&info);
	(void)unlink(out);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
