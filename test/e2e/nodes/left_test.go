package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// networkVariable has the descriptor by which this program still reaches the network it began in.
const networkVariable = "NODES_TEST_NETWORK"

// rememberNetwork opens the machine's network, for the program that network.Isolate makes of this.
func rememberNetwork() error {
	if os.Getenv(networkVariable) != "" {
		return nil
	}
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY, 0) // stays open in what is executed
	if err != nil {
		return err
	}
	return os.Setenv(networkVariable, strconv.Itoa(fd))
}

// machine is what clusters could leave: interfaces, addresses, routes, rules, settings, mounts.
type machine map[string]string

// settings are those that a node changes.
var settings = []string{
	"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv6.conf.all.disable_ipv6", "net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_tcp_timeout_established",
	"net.netfilter.nf_conntrack_tcp_timeout_close_wait", "net.netfilter.nf_conntrack_tcp_be_liberal", "vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
	"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes",
}

func observeMachine(ctx context.Context) machine {
	GinkgoHelper()
	m := machine{}
	for _, what := range []string{"link", "address", "rule", "-6 rule", "route show table all", "-6 route show table all"} {
		m["ip "+what] = inItsNetwork(ctx, append([]string{"ip", "-oneline"}, strings.Fields(what)...)...)
	}
	for _, what := range []string{"iptables-save", "ip6tables-save", "ipset save"} {
		m[what] = lines(inItsNetwork(ctx, strings.Fields(what)...), func(line string) bool { return !strings.HasPrefix(line, "#") })
	}
	m["sysctl"] = inItsNetwork(ctx, append([]string{"sysctl"}, settings...)...)
	mounts := suite.Must(os.ReadFile("/proc/self/mountinfo"))
	m["mounts"] = linesWith(string(mounts), "cgroup", "kubelet", "containerd", "clusterip-operator-", " /var/", " /run ", " /proc/sys") // others mount, too
	return m
}

// cgroupsOf lists the cgroups of a cluster's nodes.
func cgroupsOf(ctx context.Context, dir string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "find", "/sys/fs/cgroup", "-name", filepath.Base(dir)+"-*").Output()
	if !errors.As(err, new(*exec.ExitError)) { // find fails if a cgroup of another program goes while it looks
		Expect(err).NotTo(HaveOccurred())
	}
	return string(out)
}

// machineNetwork is the flag of nsenter for the network of the machine.
func machineNetwork() string {
	return fmt.Sprintf("--net=/proc/%d/fd/%s", os.Getpid(), os.Getenv(networkVariable))
}

// inItsNetwork runs a program in the network of the machine.
func inItsNetwork(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "nsenter", append([]string{machineNetwork(), "--"}, args...)...).Output()
	Expect(err).NotTo(HaveOccurred(), strings.Join(args, " "))
	return string(out)
}

// linesWith are the lines with any of these words.
func linesWith(text string, words ...string) string {
	return lines(text, func(line string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
	})
}

func lines(text string, that func(line string) bool) string {
	return strings.Join(slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool { return !that(line) }), "")
}
