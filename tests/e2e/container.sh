#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# container.sh SCRATCH FROM AT COMMAND…: COMMAND as a container's first process: its own mounts and pids, an overlay of this
# machine's root (what it writes is in memory), and in it the folder FROM is also at AT, whatever AT is out here. The host's root is
# no part of it (pivot_root), so that paths of its mappings are told as they are inside. Run by unshare: see container() in test_containers.py.
set -eu
scratch=$1 from=$2 at=$3
shift 3
mount -t tmpfs none "$scratch"
mkdir "$scratch/up" "$scratch/work" "$scratch/root"
root=$scratch/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/up,workdir=$scratch/work" "$root"
mount --rbind /dev "$root/dev"
mkdir -p "$root$at"
mount --bind "$root$from" "$root$at"
mount -t proc proc "$root/proc"
cd "$root"
pivot_root . .
umount -l .
exec "$@"
