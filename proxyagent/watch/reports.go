package watch

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// repeatAfter is when the same failure is worth another line: an outage of hours should show up to date, not in every retry.
const repeatAfter = 5 * time.Minute

// reports logs what goes wrong, and each thing once. Its methods may be called concurrently.
type reports struct {
	log logr.Logger

	mu       sync.Mutex
	junk     map[subject]string
	failures map[string]failure
}

type subject struct{ kind, key string }

type failure struct {
	text string
	at   time.Time
}

func newReports(log logr.Logger) *reports {
	return &reports{log: log, junk: map[subject]string{}, failures: map[string]failure{}}
}

// found tells what of an object cannot be used, unless that was told already. It remembers only objects that have some.
func (r *reports) found(kind, key string, j junk) {
	text := j.String()
	r.mu.Lock()
	known := r.junk[subject{kind, key}] == text
	if text == "" {
		delete(r.junk, subject{kind, key})
	} else {
		r.junk[subject{kind, key}] = text
	}
	r.mu.Unlock()
	if !known && text != "" {
		r.log.Info("Part of an object cannot be used and is left out", "kind", kind, "object", key, "left out", text)
	}
}

// gone forgets an object.
func (r *reports) gone(kind, key string) { r.found(kind, key, junk{}) }

// failed tells that something cannot be read at the moment. That a watch ends and begins anew is no failure.
func (r *reports) failed(what string, err error) {
	if err == nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if r.isNews(what, err.Error()) {
		r.log.Error(err, "The API server cannot be followed, trying again", "what", what)
	} else {
		r.log.V(1).Info("The API server still cannot be followed", "what", what, "error", err.Error())
	}
}

func (r *reports) isNews(what, text string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last, told := r.failures[what]
	if told && last.text == text && now.Sub(last.at) < repeatAfter {
		return false
	}
	r.failures[what] = failure{text: text, at: now}
	return true
}
