#!/bin/sh -e
# machine.sh DIRECTORY COMMAND...: run COMMAND as process 1 of a small machine in this network
# namespace, with /run, /dev/shm, /etc/cni, /var/lib/cni and /opt/cni of its own. When process 1
# ends, everything in it is gone, mounts included.
directory=$1
shift
mkdir -p "$directory/etc-cni/net.d" "$directory/var-lib-cni" "$directory/opt-cni/bin"
mkdir -p /etc/cni /var/lib/cni /opt/cni
exec unshare --mount --propagation=private --pid --ipc --uts --fork --kill-child --mount-proc \
    sh -ec '
        directory=$1
        shift
        # Keep nobody else'"'"'s network namespace alive.
        for mounted in $(awk "\$2 ~ \"^/run/\" {print \$2}" /proc/mounts | tac); do
            # It may be gone by itself meanwhile.
            umount -l "$mounted" || true
        done
        mount -t tmpfs tmpfs /run
        mount -t tmpfs tmpfs /dev/shm
        mkdir /run/lock /run/netns
        mount --bind "$directory/etc-cni" /etc/cni
        mount --bind "$directory/var-lib-cni" /var/lib/cni
        mount --bind "$directory/opt-cni" /opt/cni
        exec "$@"' sh "$directory" "$@"
