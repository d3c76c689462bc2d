package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
)

func TestParseRanges(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "10.96.0.0/16": "10.96.0.0/16", "10.96.7.8/16": "10.96.0.0/16", // as kube-apiserver reads it
		"10.96.0.0/16,fd00:10::/112":  "10.96.0.0/16 fd00:10::/112",
		"fd00:10::/112,10.96.0.0/16":  "fd00:10::/112 10.96.0.0/16",
		" 10.96.0.0/16 , fd00::/112 ": "10.96.0.0/16 fd00::/112",
	} {
		got, err := parseRanges(text)
		var texts []string
		for _, p := range got {
			texts = append(texts, p.String())
		}
		if err != nil || strings.Join(texts, " ") != want {
			t.Errorf("%q is %v, %v; want %s", text, got, err, want)
		}
		if text == "" && got != nil {
			t.Error("nothing that was said is something")
		}
	}
	for text, want := range map[string]string{
		"10.96.0.0":                            "IP prefix",
		"10.96.0.0/16,":                        "IP prefix",
		"10.96.0.0/16;fd00::/112":              "IP prefix",
		"10.96.0.0/16,10.97.0.0/16":            "two of different families",
		"fd00::/112,fd01::/112":                "two of different families",
		"10.96.0.0/16,fd00::/112,10.97.0.0/16": "give one range, or two",
		"0.0.0.0/0":                            "whole of IPv4",
		"fd00::/48":                            "too large",
	} {
		if got, err := parseRanges(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--service-cluster-ip-range") {
			t.Errorf("%q is %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestValidateConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		args, want string
		needs      []need
	}{
		"an API server":                  {},
		"an API server is needed":        {needs: []need{needAPI}},
		"etcd as well":                   {args: "--etcd-servers=http://a:2379,http://b:2379", needs: []need{needAPI, needEtcd}},
		"etcd alone":                     {args: "--offline --etcd-servers=http://a:2379", needs: []need{needEtcd}},
		"etcd is needed":                 {needs: []need{needEtcd}, want: "give --etcd-servers"},
		"etcd is needed, offline":        {args: "--offline", needs: []need{needEtcd}, want: "this command works on etcd"},
		"offline from nowhere":           {args: "--offline", want: "--offline reads everything from etcd"},
		"an API server is needed, alone": {args: "--offline --etcd-servers=http://a:2379", needs: []need{needAPI}, want: "leave out --offline"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Connection
			f := pflag.NewFlagSet("", pflag.ContinueOnError)
			c.addFlags(f)
			if err := f.Parse(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			err := c.validate(tc.needs)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if c.etcd.Prefix != "/registry" {
				t.Errorf("the prefix is %q", c.etcd.Prefix)
			}
		})
	}
}

func TestServes(t *testing.T) {
	l := &Link{}
	if err := l.serves(); !errors.Is(err, kube.ErrNotServed) || !strings.Contains(err.Error(), "server version unknown") || !strings.Contains(err.Error(), "seed --etcd") {
		t.Errorf("not served: %v", err)
	}
	l.Version = &apiversion.Info{GitVersion: "v1.32.2"}
	if err := l.serves(); !strings.Contains(err.Error(), "v1.32.2") {
		t.Errorf("not served: %v", err)
	}
	l.Sources = migration.Sources{Served: true}
	if err := l.serves(); err != nil {
		t.Errorf("served: %v", err)
	}
}
