// Package suite ties the control planes of package framework to Ginkgo: what its functions start ends with the node that
// called them (a spec, a BeforeEach, a BeforeSuite), and what does not start fails that node. Begin with
// [ControlPlane]. When a spec fails, the ends of the logs of what it started are in its report.
package suite
