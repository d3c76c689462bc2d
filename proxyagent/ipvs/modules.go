//go:build linux

package ipvs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// locality are the schedulers that the kernel must not be asked for before their modules are there.
// It loads a module with the lock of IPVS held, and these two register with network namespaces
// meanwhile: when one goes at that time, each waits for the other, and IPVS with them.
var locality = []model.Scheduler{model.LocalityLeastConnection, model.LocalityLeastConnectionReplicas}

// unloaded are those whose modules are not there.
func unloaded() []model.Scheduler {
	modules, _ := os.ReadFile("/proc/modules") // a kernel without modules has no such file
	return slices.DeleteFunc(slices.Clone(locality), func(s model.Scheduler) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/sys/net/ipv4/vs/%s_expiration", s))
		return loaded(string(modules), "ip_vs_"+string(s), err == nil)
	})
}

// loaded reports whether a module has been loaded, by the text of /proc/modules, or is part of the
// kernel: then it is not listed there and its setting exists all the same. The files in
// /lib/modules, which list what is part of the kernel, are not in the agent's container.
func loaded(modules, name string, setting bool) bool {
	for line := range strings.Lines(modules) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] == name {
			return fields[4] == "Live"
		}
	}
	return setting
}
