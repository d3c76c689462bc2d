package socketlb

// Scope says whose connections are translated.
type Scope string

// The scopes. A pod with hostNetwork belongs to the pods and to the host.
const (
	// Off translates none.
	Off Scope = "off"
	// Pods are the processes in the kubelet's cgroup of pods.
	Pods Scope = "pods"
	// Host are the sockets of the network namespace in which the agent is: those of the node's own
	// processes, of kernel clients, and of pods with hostNetwork.
	Host Scope = "host"
	// All are all processes of the machine.
	All Scope = "all"
)

// Reason is why connections are translated or not, as a word for metrics.
type Reason string

const (
	// Attached means that connections are translated.
	Attached Reason = "Attached"
	// Starting means that the programs are not attached yet.
	Starting Reason = "Starting"
	// KernelTooOld means that the kernel lacks what it takes, by its version.
	KernelTooOld Reason = "KernelTooOld"
	// NotPermitted means that the agent may not use BPF.
	NotPermitted Reason = "NotPermitted"
	// KernelRefuses means that the kernel refused a map or a program.
	KernelRefuses Reason = "KernelRefuses"
	// NoCgroup2 means that there is no cgroup2 hierarchy.
	NoCgroup2 Reason = "NoCgroup2"
	// NoPodsCgroup means that the kubelet's cgroup of pods is not there.
	NoPodsCgroup Reason = "NoPodsCgroup"
	// OtherProgram means that another program translates connections already.
	OtherProgram Reason = "OtherProgram"
	// AttachFailed means that the kernel refused to attach the programs.
	AttachFailed Reason = "AttachFailed"
)

// Reasons are all of them.
var Reasons = []Reason{Attached, Starting, KernelTooOld, NotPermitted, KernelRefuses, NoCgroup2, NoPodsCgroup, OtherProgram, AttachFailed}

// Status is whether connections are translated, and why not.
type Status struct {
	Scope  Scope
	Reason Reason
	// Detail is a sentence for admins: where the programs are attached, or what is missing.
	Detail string
}

// Active reports whether connections are translated.
func (s Status) Active() bool { return s.Reason == Attached }

// unavailable is an error with the word for it.
type unavailable struct {
	reason Reason
	text   string
}

// Error implements error.
func (u unavailable) Error() string { return u.text }
