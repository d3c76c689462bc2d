package check

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// InstallationName is the name of the operator's Lease and of its webhook configurations.
const InstallationName = "clusterip-operator"

// Component are the labels of a part of the operator: manager or proxyagent.
func Component(name string) client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/name": InstallationName, "app.kubernetes.io/component": name}
}

// Manager is the Deployment of the manager in a namespace, nil without one.
func Manager(ctx context.Context, s *cli.Cluster, namespace string) (*appsv1.Deployment, error) {
	managers := &appsv1.DeploymentList{}
	if err := s.ListNamed(ctx, managers, "Deployments", client.InNamespace(namespace), Component("manager")); err != nil || len(managers.Items) == 0 {
		return nil, err
	}
	return &managers.Items[0], nil
}

// ConfigFile reads the configuration that a pod mounts from a ConfigMap; empty if there is none, or
// the user may not read it.
func ConfigFile(ctx context.Context, r client.Reader, namespace string, pod corev1.PodSpec) (string, error) {
	for _, v := range pod.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		o := &corev1.ConfigMap{}
		switch err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.ConfigMap.Name}, o); {
		case apierrors.IsForbidden(err):
			return "", nil
		case client.IgnoreNotFound(err) != nil:
			return "", fmt.Errorf("reading ConfigMap %s: %w", v.ConfigMap.Name, err)
		case err == nil && o.Data["config.yaml"] != "":
			return o.Data["config.yaml"], nil
		}
	}
	return "", nil
}

// webhookSettings is what matters of ManagerConfiguration.
type webhookSettings struct {
	// bind is the address at which webhooks are served: "0" for none, empty if that is not known.
	bind, configuration, service string
}

// settings reads what a manager was started with: flags win over its file.
func settings(file string, pod corev1.PodSpec) webhookSettings {
	var config struct {
		Webhook struct{ BindAddress, Configuration, Service string }
	}
	_ = yaml.Unmarshal([]byte(file), &config) // the manager says what is wrong with its file
	out := webhookSettings{config.Webhook.BindAddress, config.Webhook.Configuration, config.Webhook.Service}
	for _, c := range pod.Containers {
		for n, arg := range c.Args {
			name, value, joined := strings.Cut(arg, "=")
			if !joined && n+1 < len(c.Args) {
				value = c.Args[n+1]
			}
			switch name {
			case "--webhook-bind-address":
				out.bind = value
			case "--webhook-configuration":
				out.configuration = value
			case "--webhook-service":
				out.service = value
			}
		}
	}
	return out
}

// released is the version of a release, which the tag of its images is.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// otherVersion is the version of a manager, by the tag of its image, if this one is another. It is
// empty where one of both is not known: in builds without a release, with images by digest alone.
func otherVersion(pod corev1.PodSpec, this string) string {
	if len(pod.Containers) == 0 {
		return ""
	}
	image, _, _ := strings.Cut(pod.Containers[0].Image, "@")
	_, tag, _ := strings.Cut(path.Base(image), ":")
	if tag == this || !released.MatchString(tag) || !released.MatchString(this) {
		return ""
	}
	return tag
}

// uncompared says that the plugin, of version this, has no manifests to compare what is there with.
func (a Admission) uncompared(this string) []Unknown {
	if a.Other == "" || len(a.hooks()) == 0 && a.Exclusive.Object == nil {
		return nil
	}
	why := fmt.Sprintf("whether webhooks and the ValidatingAdmissionPolicy are as the manifests of %s have them, which is the operator's version; this plugin is %s", a.Other, this)
	return []Unknown{{why, []string{"WebhooksChanged", "EnforcementChanged"}}}
}

// aboutWebhooks and aboutEnforcement are the checks of what the API server is to ask and enforce.
var (
	aboutWebhooks    = []string{"WebhooksMissing", "WebhooksChanged", "WebhooksUntrusted"}
	aboutEnforcement = []string{"EnforcementMissing", "EnforcementChanged"}
)

// checksOfKind are those that need an object of a kind.
var checksOfKind = map[string][]string{
	"MutatingWebhookConfiguration": aboutWebhooks, "ValidatingWebhookConfiguration": aboutWebhooks, "Service": {"WebhooksMissing"},
	"ValidatingAdmissionPolicy": aboutEnforcement, "ValidatingAdmissionPolicyBinding": {"EnforcementMissing"},
}

// nearlyFull is the share of free addresses, in percent, with which a manager with that
// configuration reports a band as nearly full.
func nearlyFull(file string) int {
	var config struct{ NearlyFull struct{ FreePercent int } }
	config.NearlyFull.FreePercent = v1alpha1.DefaultNearlyFullPercent
	_ = yaml.Unmarshal([]byte(file), &config) // the manager says what is wrong with its file
	return config.NearlyFull.FreePercent
}

// LookAtAdmission reads the webhook configurations, and what the API server enforces by itself.
// manager is what Manager returns for the namespace.
func LookAtAdmission(ctx context.Context, s *cli.Cluster, namespace string, manager *appsv1.Deployment) (a Admission, err error) {
	a = Admission{Namespace: namespace, Installed: manager != nil, Name: InstallationName, ServiceName: "clusterip-operator-webhook"}
	bind, file := "", ""
	if manager != nil {
		if file, err = ConfigFile(ctx, s, namespace, manager.Spec.Template.Spec); err != nil {
			return a, err
		}
		with := settings(file, manager.Spec.Template.Spec)
		bind, a.Name, a.ServiceName = with.bind, cmp.Or(with.configuration, a.Name), cmp.Or(with.service, a.ServiceName)
		a.Other = otherVersion(manager.Spec.Template.Spec, version.String())
	}
	a.freePercent = nearlyFull(file)
	for _, read := range []error{
		look(ctx, s, &a, "MutatingWebhookConfiguration", client.ObjectKey{Name: a.Name}, &a.Mutating),
		look(ctx, s, &a, "ValidatingWebhookConfiguration", client.ObjectKey{Name: a.Name}, &a.Validating),
		look(ctx, s, &a, "ValidatingAdmissionPolicy", client.ObjectKey{Name: v1alpha1.ExclusiveName}, &a.Exclusive),
		look(ctx, s, &a, "ValidatingAdmissionPolicyBinding", client.ObjectKey{Name: v1alpha1.ExclusiveName + "-keeper"}, &a.Keeper),
	} {
		if read != nil {
			return a, read
		}
	}
	if bind == "" && a.Mutating.missing() && a.Validating.missing() {
		why := "namespace " + namespace + " has no manager whose configuration tells whether there should be webhooks (--operator-namespace)"
		a.Unknown = append(a.Unknown, Unknown{why, aboutWebhooks})
	}
	a.Unknown = append(a.Unknown, a.uncompared(version.String())...)
	a.Serves = bind != "0" && (bind != "" || a.Mutating.Object != nil || a.Validating.Object != nil)
	if a.byService() {
		err = look(ctx, s, &a, "Service", client.ObjectKey{Namespace: namespace, Name: a.ServiceName}, &a.Service)
	}
	return a, err
}

// byService reports whether a webhook is called by the operator's Service.
func (a Admission) byService() bool {
	return slices.ContainsFunc(a.hooks(), func(h hook) bool {
		return h.client.Service != nil && h.client.Service.Namespace == a.Namespace && h.client.Service.Name == a.ServiceName
	})
}

// look reads one object. That the user may not, or the API server does not serve it, is noted.
func look[T any, P interface {
	*T
	client.Object
}](ctx context.Context, s *cli.Cluster, a *Admission, kind string, key client.ObjectKey, into *Seen[T]) error {
	o := P(new(T))
	switch err := s.Get(ctx, key, o); {
	case err == nil:
		*into = Seen[T]{Object: (*T)(o), Known: true}
	case apierrors.IsNotFound(err):
		into.Known = true
	case apierrors.IsForbidden(err):
		a.Unknown = append(a.Unknown, Unknown{fmt.Sprintf("the user may not get %s %s", kind, key.Name), checksOfKind[kind]})
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	}
	return nil
}
