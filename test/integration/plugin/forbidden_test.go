package plugin_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = It("asks nothing that a user who may only look is not allowed", func(ctx SpecContext) {
	for _, command := range []string{
		"ranges -o wide", "addresses", "addresses show 10.96.0.1", "map kubernetes", "why service/default/kubernetes", "why namespace/default", "why range/kubernetes", "why 10.96.0.1",
		"check", "bundle -o -", "status", "status -o wide", "migrate check",
	} {
		n := reader.Answers()
		result := run(ctx, strings.Fields(command)...)
		Expect(result.ExitCode).To(BeNumerically("<", 2), command+": "+result.String())
		Expect(reader.Answers()).To(BeNumerically(">", n), command)
		Expect(reader.Refused()).To(BeEmpty(), command)
	}
})
