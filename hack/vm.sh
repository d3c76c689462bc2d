#!/usr/bin/env bash
# Runs a command in a virtual machine with Debian's own kernel: hack/vm.sh [COMMAND [ARGUMENT...]]. Without a command it fetches what that takes.
#
# There are cgroups of version 2, and the modules that this machine's kernel may lack. The machine has the files of this one, its environment and the folder where it was called, but no network. What it writes
# is gone afterwards, except in the folder bin/vm, where its status is. It needs no KVM: it is emulated, and takes some twenty times as long.
# Packages are unpacked into the cache and not installed. RELEASE has the kernel of another release of Debian, such as trixie. MEMORY is what it has, in MiB; the modules MODULES are loaded first, others when they are asked for.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${CLUSTERIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/clusterip-operator}/debian-vm
booted=$cache${RELEASE:+-$RELEASE} # the folder with the kernel
out=$repository/bin/vm

# release prints the release of the kernel in a folder.
release() { find "$1/boot" -name 'vmlinuz-*' -printf '%f\n' | cut -d- -f2-; }

# unpack fetches the emulator, the kernel, and what the first program of the machine needs.
unpack() {
	[ ! -d "$cache" ] || return 0
	[ "$(uname -m)" = x86_64 ] || { echo "vm.sh: the machine is an amd64, which is not emulated on $(uname -m)" >&2; exit 1; }
	mkdir -p "$(dirname "$cache")"
	local work
	work=$(mktemp -d "$cache.XXXX")
	"$repository/hack/packages.sh" amd64 "$work" qemu-system-x86 linux-image-amd64 busybox-static
	"$work/bin/busybox" depmod -b "$work" "$(release "$work")" # as the installation of the package would
	mv "$work" "$cache"
}

# unpackKernel fetches the kernel of another release. The emulator stays that of Debian 12, whose libraries this machine has.
unpackKernel() {
	[ ! -d "$booted" ] || return 0
	local work
	work=$(mktemp -d "$booted.XXXX")
	"$repository/hack/packages.sh" amd64 "$work" linux-image-amd64
	[ -d "$work/lib/modules" ] || ln -s usr/lib "$work/lib"
	find -L "$work/lib/modules" -name '*.ko.xz' -exec "$cache/bin/busybox" unxz {} + # busybox loads none that are compressed
	"$cache/bin/busybox" depmod -b "$work" "$(release "$work")"
	mv "$work" "$booted"
}

# initramfs prints an archive with what it takes to reach the files of this machine.
initramfs() {
	local root=$work/root modules=$work/root/lib/modules/$kernel
	mkdir -p "$root"/{bin,proc,sys,dev,files,written,merged} "$modules/kernel"
	cp "$cache/bin/busybox" "$root/bin/"
	(cd "$booted/lib/modules/$kernel" && shopt -s nullglob && cp --parents -r kernel/{net/9p,fs/9p,fs/netf[s],fs/fscach[e],fs/overlayfs,drivers/virtio} modules.{order,builtin,builtin.modinfo} "$modules/")
	"$cache/bin/busybox" depmod -b "$root" "$kernel"
	cat >"$root/init" <<-'INIT'
		#!/bin/busybox sh
		/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
		/bin/busybox --install -s
		mount -t proc proc /proc; mount -t devtmpfs dev /dev
		for module in virtio_pci 9pnet_virtio 9p overlay; do modprobe $module; done
		options=trans=virtio,version=9p2000.L,msize=512000
		mount -t 9p -o ro,cache=loose,$options files /files
		mount -t tmpfs written /written; mkdir /written/upper /written/work
		mount -t overlay -o lowerdir=/files,upperdir=/written/upper,workdir=/written/work merged /merged
		cd /merged
		mount -t proc proc proc; mount -t sysfs sys sys; mount -t devtmpfs dev dev; mount -t tmpfs tmp mnt; mount -t tmpfs run run
		mount -t cgroup2 cgroup2 sys/fs/cgroup; mkdir -p dev/pts dev/shm; mount -t devpts pts dev/pts; mount -t tmpfs shm dev/shm
		mkdir /merged/run/vm
		mount -t 9p -o rw,$options out run/vm
		exec switch_root /merged /bin/bash /run/vm/start
	INIT
	chmod +x "$root/init"
	(cd "$root" && find . | "$cache/bin/busybox" cpio -o -H newc | gzip -1) 2>/dev/null
}

# start prints what the machine runs after that: the command, in this environment.
start() {
	printf 'mkdir -p /lib/modules; mount --bind %q /lib/modules\n' "$booted/lib/modules"
	printf 'ln -s %q /run/modprobe; echo /run/modprobe >/proc/sys/kernel/modprobe\n' "$cache/bin/busybox"
	[ -z "${MODULES:-}" ] || echo "/run/modprobe -a $MODULES"
	export -p
	echo "export TMPDIR=/mnt; hostname machine; ip link set lo up; cd $(printf %q "$PWD")"
	printf '%q ' "$@"
	# shellcheck disable=SC2016 # the machine expands it
	echo '; echo $? >/run/vm/status; sync; echo o >/proc/sysrq-trigger; sleep 9'
}

RELEASE='' unpack
unpackKernel
[ $# -gt 0 ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work" "$out/start"' EXIT # where the environment is
kernel=$(release "$booted")
rm -rf "$out"
mkdir -p "$out"
initramfs >"$work/initramfs"
start "$@" >"$out/start"
libraries=$cache/usr/lib/x86_64-linux-gnu:$cache/lib/x86_64-linux-gnu
# It ends with this script, however that ends.
setpriv --pdeathsig KILL env "LD_LIBRARY_PATH=$libraries" "$cache/usr/bin/qemu-system-x86_64" -M q35 -cpu max -smp 2 -m "${MEMORY:-6144}" -nographic -nic none -no-reboot \
	-L "$cache/usr/share/qemu" -L "$cache/usr/share/seabios" -kernel "$booted/boot/vmlinuz-$kernel" -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" \
	-fsdev "local,id=files,path=/,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=files,mount_tag=files \
	-fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out </dev/null
[ -e "$out/status" ] || { echo "vm.sh: the machine ended before the command did; what it printed says why" >&2; exit 1; }
exit "$(cat "$out/status")"
