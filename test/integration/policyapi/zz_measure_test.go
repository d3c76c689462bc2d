package policyapi_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = FIt("measure", func(ctx SpecContext) {
	for range 3 {
		for what, f := range map[string]func(i int) string{
			"v4": func(i int) string { return fmt.Sprintf("10.96.%d.%d", i/256, i%256) },
			"v4 range": func(i int) string { return fmt.Sprintf("10.96.%d.%d-10.96.%d.%d", i/256, i%256,i/256, i%256) },
			"v6":  func(i int) string { return fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%x", 0xf000+i) },
			"v6 range":  func(i int) string { return fmt.Sprintf("fd00:1111:2222:3333:4444:5555:6666:%x-fd00:1111:2222:3333:4444:5555:6666:%x", 0xf000+i, 0xf000+i) },
		} {
			p := drafted(most, f)
			t := time.Now()
			Expect(admin.Create(ctx, p)).To(Succeed())
			c := time.Since(t)
			t = time.Now()
			p.Status.ObservedGeneration = 1
			Expect(admin.Status().Update(ctx, p)).To(Succeed())
			s := time.Since(t)
			t = time.Now()
			p.Spec.Priority = 3
			Expect(admin.Update(ctx, p)).To(Succeed())
			u := time.Since(t)
			fmt.Println(what, "create", c, "status", s, "update", u)
			Expect(admin.Delete(ctx, p)).To(Succeed())
		}
	}
})
