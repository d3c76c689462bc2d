package webhook

import (
	"fmt"
	"net"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say where webhooks are served, and with which certificate.
type Options struct {
	// BindAddress to listen on, HOST:PORT or :PORT, with a number for a port.
	BindAddress string
	// CertDir holds tls.crt and tls.key, which somebody else renews. Empty: certificates of our own, kept in the Secret.
	CertDir string
	// Namespace and Service say how the API server finds us; the Secret lies in the same namespace.
	Namespace, Service string
	// DNSNames are further names in a certificate of our own.
	DNSNames []string
	// Configuration is the name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration.
	Configuration string
}

// SecretName is the Secret with our own certificates.
const SecretName = "clusterip-operator-webhook"

func (o Options) secret() client.ObjectKey {
	return client.ObjectKey{Namespace: o.Namespace, Name: SecretName}
}

// serverName is what the API server expects in a certificate when it calls a Service.
func (o Options) serverName() string { return o.Service + "." + o.Namespace + ".svc" }

// names are all that a certificate of our own must carry.
func (o Options) names() []string { return append([]string{o.serverName()}, o.DNSNames...) }

func (o Options) hostAndPort() (string, int, error) {
	host, text, err := net.SplitHostPort(o.BindAddress)
	if err != nil {
		return "", 0, fmt.Errorf("the address of the webhooks: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("the address of the webhooks: %q is no number of a port", text)
	}
	return host, int(port), nil
}
