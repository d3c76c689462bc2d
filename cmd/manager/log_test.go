package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestQuietLowersTheChattyOneAlone(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	log := uberzap.New(quiet{core}).With(uberzap.String("a", "b"))
	for _, name := range []string{chatty, "others"} {
		log.Named(name).Info("news of " + name)
		log.Named(name).Error("error of " + name)
	}
	var got []string
	for _, entry := range logs.All() {
		got = append(got, entry.Level.String()+": "+entry.Message)
	}
	want := []string{"info: error of " + chatty, "info: news of others", "error: error of others"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
