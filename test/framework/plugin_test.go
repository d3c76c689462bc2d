package framework

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// scripted makes the shell play the plugin.
func scripted(script string) PluginOptions { return PluginOptions{Args: []string{"-c", script}} }

// standInPlugin starts a plugin that the shell plays.
func standInPlugin(t *testing.T, script string) *Plugin {
	t.Helper()
	p := newPlugin("sh", filepath.Join(t.TempDir(), "plugin.log"), []string{"WHO=me"}, scripted(script))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestPluginIsWaitedForByWhatItPrints(t *testing.T) {
	p := standInPlugin(t, "sleep 0.1; echo in step; exec sleep 600")
	if err := p.WaitPrinted(t.Context(), "in step"); err != nil || !p.Running() {
		t.Errorf("got %v, running %t", err, p.Running())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.WaitPrinted(ctx, "out of step"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of time: %v", err)
	}

	p = standInPlugin(t, "echo goodbye; exit 5")
	if err := p.WaitPrinted(t.Context(), "goodbye"); err != nil {
		t.Errorf("the last words were not heard: %v", err)
	}
	wantErrorWith(t, p.WaitPrinted(t.Context(), "in step"), `print "in step"`, "exit code 5", "goodbye")
}

func TestPluginEnvironment(t *testing.T) {
	c := &ControlPlane{Access: &Access{dir: "/api"}, folder: folder{path: "/cluster"}}
	for kubeconfig, want := range map[string]string{"": "/api/admin.kubeconfig", "/mine": "/mine", NoKubeconfig: "/dev/null"} {
		result, err := runPlugin(t.Context(), "sh",
			c.pluginEnv(PluginOptions{Kubeconfig: kubeconfig, Env: []string{"KUBECACHEDIR=/elsewhere"}}),
			scripted("echo $KUBECONFIG $KUBECACHEDIR$KUBERNETES_SERVICE_HOST"))
		if err != nil {
			t.Fatal(err)
		}
		if result.Stdout != want+" /elsewhere\n" {
			t.Errorf("with kubeconfig %q: %q", kubeconfig, result.Stdout)
		}
	}
}
