package bundle

import (
	"context"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
)

// options are those of the command line.
type options struct {
	namespace string // the operator's
	redact    bool
	tail      int64 // lines of each log
	agents    int   // of so many logs and dumps
}

// bundle is one archive while it is made.
type bundle struct {
	options
	s        *cli.Cluster
	log      io.Writer // where is said what is missing
	archive  *archive
	names    *names
	missing  []string
	chosen   map[string]bool // the labels by which policies select
	cidrs    []networkingv1.ServiceCIDR
	policies []v1alpha1.ServiceCIDRPolicy
	manager  *appsv1.Deployment
	sets     []appsv1.DaemonSet // of agents
	// managers and agentPods are the operator's pods.
	managers, agentPods []pod
}

// readme is the first file.
const readme = `Made by "kubectl clusterip bundle" %s, at %s.

versions.json          of the plugin, the API server, the operator and its agents
errors.txt             what could not be read, and what was left out; empty if nothing was
objects/               ServiceCIDRs, policies, the Lease, what the API server asks or enforces
namespaces/, services/, ipaddresses/, events/
                       a line of JSON for each object, the part that addresses depend on
check, status, ranges  what the commands say, as text and as JSON
logs/, agents/         the end of the log of each pod, and what "proxyagent dump" says

%s
`

const redacted = `Names of namespaces, Services, nodes, ServiceCIDRs, policies and reservations, labels by which policies select, the user and host names are pseudonyms: the
same name is the same pseudonym in all files of this bundle, and another one in the next. Addresses, UIDs, times, images and names of the operator's
own objects are as they are. In logs, a Service that does not exist any more has its name unless a known namespace is before it.`

const unredacted = `Names are as they are: --redact=false was given. Do not publish it.`

// write writes the archive. What cannot be read is said; its error is one of the archive, or that
// names cannot be covered.
func (b *bundle) write(ctx context.Context, w io.Writer) error {
	if err := b.learn(ctx); err != nil {
		return err
	}
	b.archive = newArchive(w, b.names, b.s.Clock.Now())
	kept := unredacted
	if b.redact {
		kept = redacted
	}
	if err := b.archive.write("README.txt", fmt.Appendf(nil, readme, version.String(), b.archive.at.UTC().Format("2006-01-02T15:04:05Z"), kept)); err != nil {
		return err
	}
	for _, one := range []struct {
		what string
		add  func(context.Context) error
	}{
		{"versions", b.versions},
		{"ServiceCIDRs and policies", b.rangesAndPolicies},
		{"the Lease", b.lease},
		{"webhook configurations", b.admission},
		{"namespaces", b.listNamespaces},
		{"Services", b.listServices},
		{"IPAddresses", b.listIPAddresses},
		{"events", b.events},
		{"check", b.check},
		{"status", b.status},
		{"ranges", b.ranges},
		{"logs of the manager", b.managerLogs},
		{"the agents", b.agentLogs},
	} {
		if err := one.add(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.say("%s: %v", one.what, err)
		}
	}
	if err := b.archive.text("errors.txt", strings.Join(append(b.missing, ""), "\n")); err != nil {
		return err
	}
	return b.archive.close()
}

// say tells the user, and the reader of the archive, what is missing. A broken archive shows when
// it is closed.
func (b *bundle) say(format string, args ...any) {
	text := plain.Text(fmt.Sprintf(format, args...))
	b.missing = append(b.missing, text)
	cli.Write(b.log, "Not in the bundle: %s\n", text)
}

// versions tells what runs.
func (b *bundle) versions(ctx context.Context) error {
	out := struct {
		Plugin    string   `json:"plugin"`
		APIServer any      `json:"apiServer,omitempty"`
		Cluster   string   `json:"cluster,omitempty"`
		Redacted  bool     `json:"redacted"`
		Manager   []string `json:"managerImages,omitempty"`
		Agents    []string `json:"agentImages,omitempty"`
	}{Plugin: version.String(), Redacted: b.redact}
	server, err := b.s.Discovery.ServerVersion()
	if err != nil {
		b.say("the version of the API server: %v", err)
	} else {
		out.APIServer = server
	}
	if uid, err := b.s.UID(ctx); err == nil {
		out.Cluster = string(uid)
	}
	if b.manager != nil {
		for _, c := range b.manager.Spec.Template.Spec.Containers {
			out.Manager = append(out.Manager, c.Image)
		}
	}
	for _, d := range b.sets {
		for _, c := range d.Spec.Template.Spec.Containers {
			out.Agents = append(out.Agents, c.Image)
		}
	}
	return b.archive.json("versions.json", out)
}

// check, status and ranges say what the commands do.
func (b *bundle) check(ctx context.Context) error {
	r, err := check.Look(ctx, b.s, b.namespace)
	if err != nil {
		return err
	}
	r.Sort()
	for _, unknown := range r.Unknown {
		b.say("check: %s", unknown.Why)
	}
	return b.said("check", r.Print)
}

func (b *bundle) status(ctx context.Context) error {
	now, err := health.Look(ctx, b.s, b.namespace)
	if err != nil {
		return err
	}
	return b.said("status", now.Print)
}
