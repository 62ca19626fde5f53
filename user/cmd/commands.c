/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* commands: name and explanation of each command (options_table.h). */
#include "cmd/options_table.h"

#include "trace/trace.h"

const struct command_def command_defs[CMD_CNT] = {
	[CMD_LIVE] = { "", "-p PID|--name WORD|-a [OPTIONS]", "watch a process live; Ctrl-C detaches and prints the report",
		       "Attaches to a running PyTorch process, which needs no preparation and is not stopped, and shows "
		       "how much memory its tensors hold, what for and whose, what was lost and what tracing costs. On a "
		       "terminal a full screen with tables and a chart (? lists the keys), in a pipe one line of key=value "
		       "fields a second. "
		       "Needs root, or " RIGHTS_NEEDED ".",
		       "memtrace ps\tlist the processes with PyTorch\n"
		       "memtrace -p 4242\twatch process 4242\n"
		       "memtrace --name train.py\twatch the one that runs train.py\n"
		       "memtrace -a\twatch all jobs of the machine\n"
		       "memtrace\ton a terminal: choose one from a list\n"
		       "memtrace record -p 4242 -d 30 -o job.mtr\trecord 30 seconds of it, for reports and exports\n" },
	[CMD_RECORD] = { "record", "-p PID|-a [-o F.mtr] [-d SECONDS] [OPTIONS]\n[-o F.mtr] [OPTIONS] -- COMMAND [ARGS…]",
			 "record a process, or a command from its start, to a file",
			 "Writes all events to a recording, a frame a second at least, synced to the disk a second later. When "
			 "memtrace is killed the last second or so is missing; when the machine crashes or loses power, what "
			 "came in the last two or three, and the time the disk took. On a full disk the recording is "
			 "cut back to its last whole frame and goes on when there is room; a disk that takes nothing holds "
			 "nobody up: 32 MiB wait for it, then events are lost (stalled). Ctrl-C waits for it about ten "
			 "seconds; what was put aside by then is written when the disk comes back (docs/losses.md). With "
			 "-- COMMAND starts a command and follows it from its first "
			 "instruction; otherwise attaches as the live view does. If COMMAND has failed by the time that record "
			 "ends, so does record, with its exit code. If record ends first, as with -d, COMMAND goes on, "
			 "untraced.",
			 "memtrace record -p 4242 -d 1m -o job.mtr\tone minute of process 4242\n"
			 "memtrace record -p 4242 --window 60s -o job.mtr\tthe minute before the end, or before kill -USR1\n"
			 "memtrace record -p 4242 --window 60s --on-new-peak 10 -o job.mtr\tand before each new high\n"
			 "memtrace record -o job.mtr -- python train.py\ta job from its start\n" },
	[CMD_REPORT] = { "report", "F.mtr [--json | --csv | --md | --tui] [--by WHAT] [--top N]\n"
			 "F.mtr --flow [--json] [--steps N]\nF.mtr --leaks [--top N]",
			 "what a recording shows, as text or JSON",
			 "Replays a recording. The numbers are those that the live view ended with. Needs no root. - in "
			 "place of F.mtr is standard input, here and wherever a recording is read.",
			 "memtrace report job.mtr\tits verdict and short tables; with -v all of them\n"
			 "memtrace report job.mtr --tui\tto look around in it\n"
			 "memtrace report job.mtr --json | jq .devices.cpu.peak\tone number\n"
			 "memtrace report job.mtr --leaks\twhat grows from step to step\n"
			 "memtrace report job.mtr --flow --steps 1\tthe data flow of the last whole step\n" },
	[CMD_EXPORT] = { "export",
			 "F.mtr --to FORMAT [-o OUT] [--labels WHICH] [--ops]\n"
			 "F.mtr --to torch-timeline [-o OUT] [--device DEVICE]",
			 "a recording's events for other programs",
			 "jsonl and csv: every decision about a block of memory (preexisting, create, version, destroy) with "
			 "its operator, region, thread and process, in time order, one a line. torch-timeline and torch-raw: "
			 "what torch.profiler's export_memory_timeline writes as .json and as .raw.json.gz. torch-snapshot: "
			 "for pytorch.org/memory_viz and python -m torch.cuda._memory_viz. perfetto and chrome: for "
			 "ui.perfetto.dev. pprof and folded: bytes by stack, for go tool pprof and flamegraph.pl. "
			 "openmetrics: how it ended, for Prometheus. sqlite: a database. html: one page for a "
			 "browser (docs/page.md). op-trace and trace-svg: memory after each operator, "
			 "trace-svg as a picture of the step that has the peak (--from 0s: of all). "
			 "docs/export.md says what is in each. An OUT that ends in .gz is compressed. "
			 "Categories are known with hindsight, so the recording "
			 "is read twice.",
			 "memtrace export job.mtr --to jsonl -o job.jsonl\tone JSON object a line\n"
			 "memtrace export job.mtr --to csv | head\tto stdout\n"
			 "memtrace export job.mtr --to torch-timeline -o job.json.gz\tbytes by category over time\n"
			 "memtrace export job.mtr --to torch-snapshot -o job.pickle\tto drop on pytorch.org/memory_viz\n"
			 "memtrace export job.mtr --to perfetto --ops -o job.pftrace\tto open in ui.perfetto.dev\n" },
	[CMD_DIFF] = { "diff", "A.mtr B.mtr [--by WHAT] [--json | --md] [--fail-if LIMIT]\nA.mtr B.mtr -o OUT.html [--by WHAT]",
		       "two recordings side by side: what grew",
		       "Replays both and compares, row by row, what lived on average over whole steps, at the peak and at the "
		       "end, and what was allocated a step, so that recordings of different length compare; without steps in "
		       "both, a second. The row that grew most comes first. Says what the two do not have in common: sources, "
		       "losses, steps. docs/leaks.md explains the numbers. Needs no root.",
		       "memtrace diff before.mtr after.mtr\tby operator\n"
		       "memtrace diff before.mtr after.mtr --by category\twhat the growth is for\n"
		       "memtrace diff before.mtr after.mtr --by module\twhich layer grew\n"
		       "memtrace diff before.mtr after.mtr -o diff.html\tboth runs in one chart, for a browser\n"
		       "memtrace diff before.mtr after.mtr --md --fail-if peak+5%\tfor a pull request; 5 when it grew by more\n"
		       "memtrace diff before.mtr after.mtr --pid 4242,5151\tof several jobs the one that had these pids\n"
		       "memtrace diff before.mtr after.mtr --json | jq '.rows[0]'\tthe worst one\n" },
	[CMD_ESTIMATE] = { "estimate",
			   "GRAPH.json [--device DEVICE] [--json] [--top N]\nF.mtr [--device DEVICE] [--json] [--top N]\n"
			   "F.mtr [--optimizer WHICH] [--dtype WHICH] [--shard N]\n"
			   "F.mtr [--checkpoint MODULE,…] [--budget SIZE]\n"
			   "F.mtr [B.mtr] --batches A[,B] [--batch N] [--budget SIZE]",
			   "the peak of a graph before it runs; what was kept for nothing",
			   "Reads a graph of torch.fx or AOTAutograd that python -m memtrace.graph wrote, and says how much "
			   "memory it takes over its execution, where the peak is, and who is alive then: the numbers of "
			   "torch's own estimator (torch/_inductor/fx_passes/memory_estimator.py), views and writes in place "
			   "counted once. With a forward and a backward graph also the peak of both, one after the other. No "
			   "GPU, no tensors and no root: the model is traced, not run. Of a recording: bytes that were kept "
			   "past their last use, by operator, module and line, the lowest peak that freeing them could have "
			   "reached, an order of operators with a lower peak if one is found, and how far torch's estimator is "
			   "off (docs/estimate.md).",
			   "python -m memtrace.graph train:make --device cuda:0 -o graph.json\twrite the graphs of a model\n"
			   "memtrace estimate graph.json\tits peak, and who is alive then\n"
			   "memtrace estimate graph.json --json | jq .forward_backward.peak\tone number\n"
			   "memtrace estimate job.mtr\twhat was kept past its last use\n"
			   "memtrace estimate job.mtr --optimizer sgd --dtype bf16\twhat its peak would be\n"
			   "memtrace estimate job.mtr --shard 8 --units 'layers.*'\tthat of a rank of eight\n"
			   "memtrace estimate b16.mtr b32.mtr --batches 16,32 --budget 80G\twhat fits\n" },
	[CMD_MERGE] = { "merge", "A.mtr B.mtr… -o C.mtr [--align WHICH]", "recordings of several machines or ranks as one",
			"Writes one recording with the events of all, by time: for report --by rank and every other view. "
			"Clocks of machines are brought together by the training steps that their ranks made together, or by "
			"their wall clocks; recordings of one boot share a clock. Processes of the second machine and further "
			"ones get numbers of their own (pid + machine × 4194304), so that no two are one. Says what each clock "
			"was off by (of more than six files in sum; -v: of each), and which ranks are in no file "
			"(docs/ranks.md). Needs no root.",
			"memtrace merge node0.mtr node1.mtr -o job.mtr\tthen memtrace report job.mtr --by rank\n" },
	[CMD_PLAN] = { "plan", "-p PID [--probes SOURCES] [--json | --all]", "every probe that would be set, and its cost",
		       "Shows what attaching would do, and does none of it: library, symbol, offset in the file, the "
		       "instruction that is probed, the way, and the expected cost of one hit.",
		       "memtrace plan -p 4242\ta summary on a terminal, all sites in a pipe\n"
		       "memtrace plan -p 4242 --probes host --json\tthe malloc family's sites, for a program\n" },
	[CMD_DOCTOR] = { "doctor", "", "what this kernel and machine allow, with hints",
			 "Looks at the kernel, its type information, rights, limits and the ways to set probes, and "
			 "tries on itself which instructions can be probed without harm, and what a hit costs.",
			 "memtrace doctor\tas yourself: what is missing\n"
			 "sudo memtrace doctor\twith a trial of the probes\n" },
	[CMD_PS] = { "ps", "[--all] [--json]", "processes with PyTorch: which there are, and which are traced",
		     "Lists the processes that have loaded PyTorch or a GPU's libraries, the largest first: the number for -p, "
		     "the rank, the memory that it has, torch's version, whether memtrace was tried with that version, whether "
		     "a memtrace traces it already. Children that run the same command as their parent (DataLoader workers) "
		     "are counted with it: they are traced with it, too. Without root only your own processes can be looked "
		     "at, and it says what it could not see.",
		     "memtrace ps\tyours\n"
		     "sudo memtrace ps\tthose of all users\n"
		     "sudo memtrace --name train.py\twatch one of them\n"
		     "memtrace ps --json | jq '.processes[0].pid'\tthe largest one\n" },
	[CMD_CHECK] = { "check", "F.mtr --max-peak SIZE [OPTIONS]",
			"fail when a recording's peak is above a limit: for CI",
			"Compares the peak of one device, or what one category had at that peak, with a limit: exit code 0 "
			"when it is within, 5 when it is above, 3 when events were lost, since then the peak may have been "
			"higher. Says what the peak was made of. Needs no root.",
			"memtrace check job.mtr --max-peak 20G\tthe GPU with the highest peak, else the CPU\n"
			"memtrace check job.mtr --max-peak 2G --category ACTIVATION\tactivations alone\n"
			"memtrace check all.mtr --max-peak 2G --pid 4242\tone of several jobs\n"
			"memtrace check job.mtr --max-peak 20G --md >>$GITHUB_STEP_SUMMARY\tas Markdown\n" },
	[CMD_MCP] = { "mcp", "F.mtr|DIRECTORY…", "answers for language models, over the Model Context Protocol",
		      "Reads requests from standard input and writes answers to standard output, a line each: what clients of "
		      "the Model Context Protocol (revisions 2024-11-05 to 2026-07-28) start and talk to. Its tools are "
		      "list_recordings, verdict, peak, top, at_moment and diff. They read the files that are named, and what "
		      "ends in .mtr in the directories that are named, also while it is being recorded; nothing else, and they "
		      "write nothing (docs/mcp.md). Needs no root.",
		      "memtrace mcp job.mtr\tas the command of a server, in a client's settings\n"
		      "memtrace mcp ~/recordings\tall that is in there, also what comes later\n" },
	[CMD_COMPLETION] = { "completion", "bash|zsh|fish", "what a shell needs to complete command lines",
			     "Prints a script that teaches a shell the commands, options and their values, made from the same "
			     "table as this help. make install puts them where the shells look for them.",
			     "source <(memtrace completion bash)\tfor this shell; in ~/.bashrc for all\n"
			     "memtrace completion zsh >~/.zfunc/_memtrace\twhere ~/.zfunc is in fpath\n"
			     "memtrace completion fish >~/.config/fish/completions/memtrace.fish\tfor fish\n" },
	[CMD_SERVE] = { "serve", "-p PID|-a [--listen ADDRESS] [-o F.mtr] [OPTIONS]",
			"metrics for Prometheus and a live page",
			"Attaches as the live view does and answers HTTP: /metrics in OpenMetrics 1.0 or in Prometheus' text "
			"format, / a page that shows the numbers as they come, /healthz 200 while a traced process is there "
			"and 503 when all have ended. Goes on with the last numbers then, until Ctrl-C, SIGTERM or the end "
			"of --duration. On this machine alone unless --listen says otherwise (docs/serve.md).",
			"memtrace serve -p 4242\thttp://127.0.0.1:9464/\n"
			"memtrace serve -a\tall jobs of the machine\n"
			"memtrace serve -p 4242 -p 4243 --listen 127.0.0.1:0 -o job.mtr\ttwo processes, a free port, and a "
			"recording\n"
			"memtrace serve -p 4242 --listen unix:job\tfor you alone: curl --unix-socket " LISTEN_DIR "/job "
			"http://localhost/metrics\n"
			"memtrace serve -p 4242 --listen 0.0.0.0:9464 --token-file token\tfor other machines\n" },
};

const char exit_codes[] = "0\tall went well\n"
			  "1\tit failed; a message says why and a hint what to do\n"
			  "2\tmistake in usage\n"
			  "3\tfinished, but more events were lost than --max-loss allows\n"
			  "4\tthe probes took more than --max-overhead allows, and could not go: detached\n"
			  "5\ta limit was exceeded: --max-peak of check, --fail-if of diff\n"
			  "N\trecord -- COMMAND: COMMAND has failed with N, or was killed by signal N - 128\n";

const char *command_name(enum command cmd)
{
	return command_defs[cmd].name;
}
