package history

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
)

// NewLog makes a log for the calling node, and returns the flags by which an API server writes it.
// It also has what [Requests] needs after that API server was killed.
func NewLog() (log audit.Log, flags []string) {
	GinkgoHelper()
	return audit.NewWithBeginnings(Rules)
}

// Requests are those that API servers have logged, without dry runs, in the order of their answers.
// Those without an answer come first.
func Requests(logs ...audit.Log) (all []Request) {
	GinkgoHelper()
	for _, log := range logs {
		all = append(all, requests(audit.Read[record](log))...)
	}
	return byAnswer(all)
}

// End is the state of a cluster that no client changes any more. The operator may: [Requests] have
// to be read later, or they lack what it did before.
func End(ctx context.Context, api *framework.Access) *Final {
	GinkgoHelper()
	end := &Final{From: time.Now()}
	end.Services = suite.Must(api.Client().CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})).Items
	end.Addresses = suite.Must(api.Client().NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})).Items
	end.To = time.Now()
	return end
}
