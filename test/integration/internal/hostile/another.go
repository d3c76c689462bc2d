package hostile

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// denied begins the names of Services that the other webhook refuses.
const denied = "denied-"

// StartAnotherWebhook starts a mutating webhook of another product that is asked after the
// operator's, and refuses some Services of some tenants: of these the operator never hears again.
// It ends with the calling node.
func StartAnotherWebhook(ctx context.Context, c *cluster.Cluster, tenants ...*Tenant) {
	GinkgoHelper()
	var namespaces []string
	for _, t := range tenants {
		namespaces = append(namespaces, t.Namespace)
	}
	config := cluster.StartWebhook(func(_ *http.Request, question *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
		if response.Allowed = !strings.HasPrefix(question.Name, denied); !response.Allowed {
			response.Result = &metav1.Status{Code: http.StatusForbidden, Message: "not here"}
		}
	})
	// API servers call mutating webhooks in the order of the names of their configurations.
	c.Consult(ctx, "Mutating", "zz-another-webhook", config, `timeoutSeconds: 10, rules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [services]}],
		namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+strings.Join(namespaces, ", ")+`]}]}`)
	for _, t := range tenants {
		Eventually(func() int { return t.DryRun(ctx, Denied("asked")).Code }).Should(Equal(http.StatusForbidden))
	}
}

// Denied is a sound Service of two addresses that the other webhook refuses once both are drawn.
func Denied(name string) Service {
	return named(denied+name, Fields{"ipFamilyPolicy": "RequireDualStack"})
}
