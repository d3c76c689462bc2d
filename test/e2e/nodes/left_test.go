//go:build linux

package nodes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// networkVariable has the number of the open file by which this program still reaches the network that it was started in.
const networkVariable = "NODES_TEST_NETWORK"

// rememberNetwork opens the network of the machine, for the program that network.Isolate makes of this one.
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

// machine is what a cluster could leave on the machine that it ran on: interfaces, addresses, routes, rules; settings; mounts.
type machine map[string]string

func lookAtMachine(ctx context.Context) machine {
	GinkgoHelper()
	m := machine{}
	for _, what := range []string{"link", "address", "rule", "-6 rule", "route show table all", "-6 route show table all"} {
		m["ip "+what] = inItsNetwork(ctx, append([]string{"ip", "-oneline"}, strings.Fields(what)...)...)
	}
	for _, what := range []string{"iptables-save", "ip6tables-save", "ipset save"} {
		m[what] = withoutCounters(inItsNetwork(ctx, strings.Fields(what)...))
	}
	m["sysctl"] = inItsNetwork(ctx, "sysctl", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.netfilter", "vm", "kernel.panic", "kernel.panic_on_oops", "kernel.keys")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	Expect(err).NotTo(HaveOccurred())
	m["mounts"] = string(mounts)
	return m
}

// cgroupsOf lists the cgroups of a cluster's nodes.
func cgroupsOf(ctx context.Context, dir string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "find", "/sys/fs/cgroup", "-name", filepath.Base(dir)+"-*").Output()
	Expect(err).NotTo(HaveOccurred())
	return string(out)
}

// inItsNetwork runs a program in the network of the machine.
func inItsNetwork(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/fd/%s", os.Getpid(), os.Getenv(networkVariable)), "--"}, args...)...).Output()
	Expect(err).NotTo(HaveOccurred(), strings.Join(args, " "))
	return string(out)
}

// withoutCounters leaves out the lines of a listing that say when it was made.
func withoutCounters(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
