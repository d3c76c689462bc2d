#!/usr/bin/env bash
# Makes the root filesystem of the node agent's image, without the agent, in a folder that is not there: hack/rootfs.sh ARCH FOLDER
set -euo pipefail

root=$2
# The package iptables (1.8.9, with which the agent is tested) holds both variants; the agent chooses the one that the node uses.
"$(dirname "${BASH_SOURCE[0]}")/packages.sh" "$1" "$root" iptables ipset nftables

# The scripts of packages do not run, so what update-alternatives would link is linked here.
for family in iptables ip6tables; do
	for program in "" -save -restore; do
		ln -s xtables-nft-multi "$root/usr/sbin/$family$program"
	done
done
mkdir -p "$root/run" # for xtables.lock

# What programs do not need. Licences stay.
rm -rf "$root"/usr/share/{man,locale,lintian,bug,bash-completion,info} "$root"/usr/lib/*/gconv "$root/etc/init.d" "$root/usr/lib/systemd"
find "$root/usr/share/doc" ! -type d ! -name copyright -delete
find "$root/usr/share" -type d -empty -delete
