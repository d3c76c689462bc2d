package framework

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
)

// tokenLife is longer than a soak, and than `make run` is left running.
const tokenLife = 7 * 24 * time.Hour

// Access is how to connect to one API server, as any user. It stays good when the API server is
// started again, also with another version. Its methods may be called concurrently.
type Access struct {
	pki  *pki
	dir  string
	port int

	admin   *rest.Config
	clients atomic.Pointer[clients]
}

// clients are the administrator's, renewed with each start since the version may be another.
type clients struct {
	kubernetes kubernetes.Interface
	networking networkingv1client.NetworkingV1Interface
}

// use moves the access to another port and writes the kubeconfig.
func (a *Access) use(port int) (err error) {
	a.port = port
	if a.admin, err = a.ConfigForUser("admin", "system:masters"); err != nil {
		return err
	}
	return WriteKubeconfig(a.Kubeconfig(), a.admin)
}

// connect makes the clients for what a version serves.
func (a *Access) connect(version Version) error {
	client, err := kubernetes.NewForConfig(a.admin)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	networking, err := NetworkingFor(a.admin, version.NetworkingVersion)
	if err != nil {
		return err
	}
	a.clients.Store(&clients{kubernetes: client, networking: networking})
	return nil
}

// URL returns where clients reach the API server.
func (a *Access) URL() string { return fmt.Sprintf("https://%s:%d", loopback, a.port) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (a *Access) Kubeconfig() string { return filepath.Join(a.dir, "admin.kubeconfig") }

// AdminConfig returns how an administrator (system:masters) connects. Like every config of this
// package it limits no requests, and the caller may change it.
func (a *Access) AdminConfig() *rest.Config { return rest.CopyConfig(a.admin) }

// Client returns the administrator's client.
func (a *Access) Client() kubernetes.Interface { return a.clients.Load().kubernetes }

// Networking returns the administrator's client for IPAddresses and ServiceCIDRs in the served
// version; see [NetworkingFor].
func (a *Access) Networking() networkingv1client.NetworkingV1Interface {
	return a.clients.Load().networking
}

// ConfigForUser returns how a user with a client certificate connects, with only the rights that
// RBAC gives to the name or the groups.
func (a *Access) ConfigForUser(name string, groups ...string) (*rest.Config, error) {
	cert, key, err := a.pki.userCert(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate to %s: %w", name, err)
	}
	config := a.anonymous()
	config.CertData, config.KeyData = cert, key
	return config, nil
}

// ServerCert returns a server's certificate and key, for names and addresses. API clients trust it.
func (a *Access) ServerCert(names []string, addresses ...netip.Addr) (certPEM, keyPEM []byte, err error) {
	return a.pki.serverCert(names, addresses...)
}

// Port returns the port of the API server.
func (a *Access) Port() int { return a.port }

// CA returns the files of the CA's certificate and key, and of the ServiceAccount token key.
func (a *Access) CA() (cert, key, accounts string) {
	return a.pki.path(caCert), a.pki.path(caKey), a.pki.path(accountsKey)
}

// TokenFor returns a ServiceAccount's token, good for tokenLife on the control plane's API servers.
func (a *Access) TokenFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	request, err := a.Client().CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, serviceAccount, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	return request.Status.Token, nil
}

// ConfigForServiceAccount returns how an existing ServiceAccount connects: with only a token.
func (a *Access) ConfigForServiceAccount(ctx context.Context, namespace, serviceAccount string) (*rest.Config, error) {
	token, err := a.TokenFor(ctx, namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	config := a.anonymous()
	config.BearerToken = token
	return config, nil
}

// anonymous returns how a client without credentials connects.
func (a *Access) anonymous() *rest.Config {
	return &rest.Config{
		Host:            a.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: a.pki.pem},
		QPS:             -1,
	}
}
