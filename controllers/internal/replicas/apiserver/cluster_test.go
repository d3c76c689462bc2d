package apiserver_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// installed makes the operator's namespace, and a user who may there what its replicas may.
func installed(ctx context.Context, cp *framework.ControlPlane) *rest.Config {
	GinkgoHelper()
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := cp.Client().CoreV1().Namespaces().Create(ctx, home, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile("../../../../config/rbac/replicas_role.yaml")
	Expect(err).NotTo(HaveOccurred())
	first, _, _ := strings.Cut(string(content), "\n---\n")
	var role rbacv1.Role
	Expect(yaml.UnmarshalStrict([]byte(first), &role)).To(Succeed())
	role.Namespace = namespace
	_, err = cp.Client().RbacV1().Roles(namespace).Create(ctx, &role, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Client().RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "operator"}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config, err := cp.ConfigForUser("operator")
	Expect(err).NotTo(HaveOccurred())
	return config
}

// leases returns the Leases of replicas by the identity of their holders, as something to poll.
func leases(cp *framework.ControlPlane) func() map[string]coordinationv1.Lease {
	return func() map[string]coordinationv1.Lease {
		ctx, cancel := context.WithTimeout(context.Background(), duration)
		defer cancel()
		list, err := cp.Client().CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: replicas.Label + "=true"})
		if err != nil {
			return nil
		}
		byHolder := map[string]coordinationv1.Lease{}
		for _, l := range list.Items {
			byHolder[*l.Spec.HolderIdentity] = l
		}
		return byHolder
	}
}

// some are addresses of a range, enough to belong to all.
var some = func() (all []netip.Addr) {
	a := netip.MustParseAddr("10.96.1.0")
	for range 512 {
		all, a = append(all, a), a.Next()
	}
	return all
}()

// auditor looks again and again whether two replicas own one address, until it is stopped.
type auditor struct {
	stop    func()
	mu      sync.Mutex
	members []*replica
	doubles int
	// unsure counts the looks at which a replica was not sure.
	unsure map[*replica]int
}

func audit() *auditor {
	a := &auditor{unsure: map[*replica]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			a.look()
			time.Sleep(5 * time.Millisecond)
		}
	})
	a.stop = func() {
		cancel()
		running.Wait()
	}
	return a
}

func (a *auditor) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.members {
		if !r.sure() {
			a.unsure[r]++
		}
	}
	for _, address := range some {
		if owners(address, a.members) > 1 {
			a.doubles++
		}
	}
}

func (a *auditor) add(r *replica) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members = append(a.members, r)
}

// found returns the addresses that were seen with two owners, and how often the replica was not sure since it was asked last.
func (a *auditor) found(r *replica) (doubles, unsure int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	unsure = a.unsure[r]
	delete(a.unsure, r)
	return a.doubles, unsure
}

func owners(address netip.Addr, all []*replica) (n int) {
	for _, r := range all {
		if owns, _ := r.owns(address); owns {
			n++
		}
	}
	return n
}

// owned counts the addresses that the replicas own together, as something to poll.
func owned(all ...*replica) func() int {
	return func() (n int) {
		for _, address := range some {
			n += owners(address, all)
		}
		return n
	}
}

// ownedBy returns the addresses that a replica would draw without asking.
func ownedBy(r *replica) (all []netip.Addr) {
	for _, address := range some {
		if owns, _ := r.owns(address); owns {
			all = append(all, address)
		}
	}
	return all
}
