package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestScratch(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log logr.Logger = zap.New(zap.ConsoleEncoder(), zap.WriteTo(os.Stderr))
	ctrl.SetLogger(log)
	cp, err := framework.Start(ctx, framework.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()
	ns := "clusterip-operator-system"
	cp.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	cp.InstallCRDs(ctx)
	var calls atomic.Int64
	run := func(port int) {
		s := runtime.NewScheme()
		corev1.AddToScheme(s)
		mgr, err := ctrl.NewManager(cp.AdminConfig(), manager.Options{Scheme: s, Logger: log.WithValues("port", port), Metrics: metricsserver.Options{BindAddress: "0"}})
		if err != nil {
			t.Fatal(err)
		}
		h := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			calls.Add(1)
			return admission.Allowed("")
		})}
		if err := SetupWithManager(mgr, Options{BindAddress: fmt.Sprintf("127.0.0.1:%d", port), Namespace: ns, Service: "clusterip-operator-webhook", DNSNames: []string{"localhost"}, Configuration: "clusterip-operator"},
			map[string]http.Handler{"/mutate-service": h, "/validate-ipaddress": h, "/validate-servicecidr": h}); err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := mgr.Start(ctx); err != nil {
				t.Error(err)
			}
			fmt.Println("manager ended", port)
		}()
	}
	defer func() { cancel(); time.Sleep(time.Second) }()
	shown := func(port int) string {
		c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		l := c.ConnectionState().PeerCertificates[0]
		return fmt.Sprint(l.NotAfter.Format(time.RFC3339), " ", c.ConnectionState().NegotiatedProtocol, " ", fmt.Sprintf("%x", l.Signature[:4]), l.DNSNames)
	}
	ports := []int{29443, 29444}
	began := time.Now()
	run(ports[0])
	run(ports[1])
	text, err := framework.Kubectl(ctx, "", "kustomize", "../../../config/webhook")
	if err != nil {
		t.Fatal(err)
	}
	// url
	var out []string
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.Contains(doc, "kind: Service\n") {
			continue
		}
		lines := strings.Split(doc, "\n")
		for i := 0; i < len(lines); i++ {
			if strings.TrimSpace(lines[i]) == "service:" {
				path := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines[i+3]), "path:"))
				out = append(out, strings.Replace(lines[i], "service:", fmt.Sprintf("url: https://localhost:%d%s", ports[0], path), 1))
				i += 4
				continue
			}
			out = append(out, lines[i])
		}
		out = append(out, "---")
	}
	if _, err := framework.KubectlWithInput(ctx, cp.Kubeconfig(), strings.Join(out, "\n"), "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(err, strings.Join(out, "\n"))
	}
	fails := func() string {
		b, _ := cp.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		var x []string
		for _, l := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(l, "apiserver_admission_webhook_fail_open_count") || strings.HasPrefix(l, "apiserver_admission_match_condition_evaluation_errors") {
				x = append(x, l)
			}
		}
		return strings.Join(x, " ")
	}
	create := func() bool {
		before := calls.Load()
		_, err := cp.Client().CoreV1().Services("default").Create(ctx, framework.NewService("default", "x"), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			fmt.Println("CREATE", err)
		}
		return calls.Load() > before
	}
	for !create() {
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("=== first call after", time.Since(began), shown(ports[0]), shown(ports[1]), fails())
	secrets := cp.Client().CoreV1().Secrets(ns)
	stop := make(chan struct{})
	var total, missed atomic.Int64
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				total.Add(1)
				before := fails()
				_ = before
				cp.Client().CoreV1().Services("default").Create(ctx, framework.NewService("default", "y"), metav1.CreateOptions{DryRun: []string{"All"}})
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	time.Sleep(time.Second)
	for round := range 3 {
		s, _ := secrets.Get(ctx, SecretName, metav1.GetOptions{})
		was := []string{shown(ports[0]), shown(ports[1])}
		at := time.Now()
		if round == 0 {
			s.Data["ca.key"] = nil // CA is invalid: a new one
			secrets.Update(ctx, s, metav1.UpdateOptions{})
		} else if round == 1 {
			secrets.Delete(ctx, SecretName, metav1.DeleteOptions{})
		} else {
			s.Data["tls.crt"] = nil
			secrets.Update(ctx, s, metav1.UpdateOptions{})
		}
		for shown(ports[0]) == was[0] || shown(ports[1]) == was[1] {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println("=== round", round, "switched after", time.Since(at), shown(ports[0]), shown(ports[1]))
		time.Sleep(3 * time.Second)
		fmt.Println("=== total", total.Load(), "calls", calls.Load(), "missed", missed.Load(), fails())
		m, _ := cp.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "clusterip-operator", metav1.GetOptions{})
		fmt.Println(strings.Count(string(m.Webhooks[0].ClientConfig.CABundle), "BEGIN"), m.ResourceVersion)
	}
	close(stop)
	m, _ := cp.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "clusterip-operator", metav1.GetOptions{})
	for _, f := range m.ManagedFields {
		b, _ := json.Marshal(f)
		fmt.Println(string(b))
	}
	if _, err := framework.KubectlWithInput(ctx, cp.Kubeconfig(), strings.Join(out, "\n"), "apply", "--server-side", "-f", "-"); err != nil {
		t.Error(err)
	}
	n, _ := cp.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "clusterip-operator", metav1.GetOptions{})
	fmt.Println("reapply", m.ResourceVersion, n.ResourceVersion)
}
