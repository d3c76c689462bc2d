package cluster

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// StartAgain starts an API server that has ended, and once more if it gives up, as a kubelet does.
// Its first full look at addresses writes an IPAddress for a Service without one, and ends for good
// if the operator, or another API server, was faster. After a minute without that look, the API
// server ends, too. StartAgain returns how often that was.
func StartAgain(ctx context.Context, api *framework.APIServer) (givenUp int) {
	GinkgoHelper()
	for ; ; givenUp++ {
		before := len(suite.Must(os.ReadFile(api.LogFile())))
		err := api.Start(ctx)
		if err == nil {
			return givenUp
		}
		Expect(string(suite.Must(os.ReadFile(api.LogFile()))[before:])).To(MatchRegexp(`repair failed with not retryable error.*already exists`), err.Error())
	}
}
