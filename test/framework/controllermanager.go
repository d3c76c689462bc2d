package framework

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// ServiceCIDRController is kube-controller-manager's counterpart of our ServiceCIDR controller.
const ServiceCIDRController = "service-cidr-controller"

// ControllerManager is a kube-controller-manager 1.37 with chosen controllers, no leader election.
type ControllerManager struct {
	Process

	access      *Access
	controllers []string
	port        int
}

// StartControllerManager starts a kube-controller-manager with only the named controllers.
func (c *ControlPlane) StartControllerManager(ctx context.Context, controllers ...string) (*ControllerManager, error) {
	const name = "kube-controller-manager"
	path, err := program(module137, name)
	if err != nil {
		return nil, err
	}
	m := &ControllerManager{access: c.Access, controllers: controllers}
	m.name, m.program, m.log = name, path, c.logFor(name)
	m.Process.args, m.ports, m.ready = m.args, m.pickPorts, m.healthz
	return m, c.run(ctx, m)
}

func (m *ControllerManager) pickPorts() (err error) {
	m.port, err = FreePort()
	return err
}

func (m *ControllerManager) args() []string {
	return []string{
		"--kubeconfig=" + m.access.Kubeconfig(),
		"--authentication-kubeconfig=" + m.access.Kubeconfig(),
		"--authorization-kubeconfig=" + m.access.Kubeconfig(),
		"--controllers=" + strings.Join(m.controllers, ","),
		"--leader-elect=false",
		"--bind-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", m.port),
		"--tls-cert-file=" + m.access.pki.path(serverCert),
		"--tls-private-key-file=" + m.access.pki.path(serverKey),
	}
}

func (m *ControllerManager) healthz(ctx context.Context) error {
	client, err := rest.HTTPClientFor(m.access.anonymous())
	if err != nil {
		return err
	}
	return askOK(ctx, client, fmt.Sprintf("https://%s:%d/healthz", loopback, m.port))
}
